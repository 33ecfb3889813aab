//! What an experiment can set, typed: the machine and how much of it is used, and one family of settings per kind of
//! work (`families.rs`).
//!
//! Invariant: an unknown name, a value of the wrong type, a share outside 0 to 1 or a result cache that is on are
//! refused with a sentence that says what would be right.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::families::*;
use super::recorded::{self, RecordedWorkload};
use super::shifting::{self, Shifting};

/// All settings of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The machine and how much of it is used.
    pub machine: MachineUse,
    /// The work.
    pub workload: Workload,
}

/// The work of a point, by family.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Range queries over the columns of one large table.
    Columns(Columns),
    /// Aggregations over whole tables.
    Aggregate(Aggregate),
    /// Placing a table anew.
    Placing(Placing),
    /// Scans and lookups of a store whose memory lies in one of four ways.
    Store(Store),
    /// Units that balance themselves while what is looked up changes.
    Shifting(Shifting),
    /// Queries over one or two tables on the sub-domains of a package.
    SubDomains(SubDomains),
    /// Loops over striped or first-touch memory.
    Loops(Loops),
    /// The bandwidth-sharing model.
    Modelled(ModelPoint),
    /// Statements recorded from a running database.
    Recorded(RecordedWorkload),
}

/// Names of the families, as `kind` has them.
const FAMILIES: [&str; 9] =
    ["columns", "aggregate", "placing", "store", "shifting", "sub-domains", "loops", "model", "recorded"];

/// Which cores of a node are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cores {
    /// All of them.
    #[default]
    All,
    /// Half of them: is the work bound by cpus or by memory?
    Half,
}

/// The machine, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineUse {
    /// A published machine, a specification, or a probe's file.
    pub machine: String,
    /// The first `n` nodes; 0 for all.
    pub nodes: u32,
    /// The first `n` cpus of each node, cores before their second threads; 0 for all.
    pub cpus_per_node: u32,
    /// All cores, or half of them.
    pub cores: Cores,
    /// The kernel's automatic NUMA balancing. Only measured runs can have it.
    pub numa_balancing: bool,
    /// Whose system is simulated on it, for what is assumed of that system (`data/assumptions.toml`); empty: this
    /// product, of which nothing is. What is measured is this product, whatever stands here.
    pub system: String,
}

impl Default for MachineUse {
    fn default() -> MachineUse {
        MachineUse {
            machine: String::new(),
            nodes: 0,
            cpus_per_node: 0,
            cores: Cores::All,
            numa_balancing: false,
            system: String::new(),
        }
    }
}

impl Settings {
    /// Types a table of settings and checks them.
    ///
    /// # Errors
    /// One sentence that names the setting.
    pub fn from_named(named: &Table) -> Result<Settings, String> {
        let mut rest = named.clone();
        let kind = match rest.remove("kind") {
            Some(Value::String(kind)) => kind,
            _ => return Err(format!("the workload needs a kind: one of {}", FAMILIES.join(", "))),
        };
        let mut of_machine = Table::new();
        for name in names_of(&MachineUse::default()) {
            if let Some(value) = rest.remove(&name) {
                of_machine.insert(name, value);
            }
        }
        let machine: MachineUse = read(of_machine)?;
        let workload = match kind.as_str() {
            "columns" => Workload::Columns(read(rest)?),
            "aggregate" => Workload::Aggregate(read(rest)?),
            "placing" => Workload::Placing(read(rest)?),
            "store" => Workload::Store(read(rest)?),
            "shifting" => Workload::Shifting(read(rest)?),
            "sub-domains" => Workload::SubDomains(read(rest)?),
            "loops" => Workload::Loops(read(rest)?),
            "model" => Workload::Modelled(read(rest)?),
            "recorded" => Workload::Recorded(read(rest)?),
            other => return Err(format!("there is no workload of kind '{other}'; there are {}", FAMILIES.join(", "))),
        };
        let settings = Settings { machine, workload };
        settings.check()?;
        Ok(settings)
    }

    /// All settings by name, those that were left to their defaults included.
    pub(super) fn named(&self) -> Result<Table, String> {
        let table = |of: Result<Table, toml::ser::Error>| of.map_err(|e| e.to_string());
        let (kind, work) = match &self.workload {
            Workload::Columns(c) => ("columns", Table::try_from(c)),
            Workload::Aggregate(a) => ("aggregate", Table::try_from(a)),
            Workload::Placing(p) => ("placing", Table::try_from(p)),
            Workload::Store(s) => ("store", Table::try_from(s)),
            Workload::Shifting(s) => ("shifting", Table::try_from(s)),
            Workload::SubDomains(s) => ("sub-domains", Table::try_from(s)),
            Workload::Loops(l) => ("loops", Table::try_from(l)),
            Workload::Modelled(m) => ("model", Table::try_from(m)),
            Workload::Recorded(r) => ("recorded", Table::try_from(r)),
        };
        let mut named = table(work)?;
        named.extend(table(Table::try_from(&self.machine))?);
        named.insert("kind".to_string(), Value::from(kind));
        Ok(named)
    }

    /// The names that a table of this kind may have beside those that it has.
    pub(super) fn names(named: &Table) -> Vec<String> {
        let kind = named.get("kind").and_then(Value::as_str).unwrap_or_default();
        let mut names = match kind {
            "columns" => names_of(&Columns::default()),
            "aggregate" => names_of(&Aggregate::default()),
            "placing" => names_of(&Placing::default()),
            "store" => names_of(&Store::default()),
            "shifting" => names_of(&Shifting::default()),
            "sub-domains" => names_of(&SubDomains::default()),
            "loops" => names_of(&Loops::default()),
            "model" => names_of(&ModelPoint::default()),
            "recorded" => names_of(&RecordedWorkload::default()),
            _ => Vec::new(),
        };
        names.extend(names_of(&MachineUse::default()));
        names
    }

    fn check(&self) -> Result<(), String> {
        if self.machine.machine.is_empty() {
            return Err("no machine is named".to_string());
        }
        match &self.workload {
            Workload::Columns(c) => check_columns(c),
            Workload::Aggregate(a) => {
                positive("tables", u64::from(a.tables))?;
                positive("rows", a.rows)?;
                positive("clients", u64::from(a.clients))?;
                positive("partitions", u64::from(a.partitions))?;
                not_negative("dispatch_us", a.dispatch_us)?;
                not_negative("row_bytes", a.row_bytes)?;
                not_negative("row_ns", a.row_ns)
            }
            Workload::Placing(p) => {
                positive("rows", p.rows)?;
                positive("columns", u64::from(p.columns))?;
                bits(p.bits_min, p.bits_max)?;
                if matches!(p.placement, Placement::Rr | Placement::Placer) {
                    return Err("placing is measured for ivp and pp".to_string());
                }
                Ok(())
            }
            Workload::Store(s) => {
                positive("keys", s.keys)?;
                positive("entry_bytes", u64::from(s.entry_bytes))?;
                positive("batch", u64::from(s.batch))?;
                positive("page_kib", u64::from(s.page_kib))?;
                positive("round", u64::from(s.round))
            }
            Workload::Shifting(s) => shifting::check(s),
            Workload::SubDomains(s) => {
                positive("rows", s.rows)?;
                positive("connections", u64::from(s.connections))?;
                bits(s.bits, s.bits)?;
                if s.range_pred > s.rows {
                    return Err(format!("range_pred = {} is above rows = {}", s.range_pred, s.rows));
                }
                Ok(())
            }
            Workload::Loops(l) => check_loops(l),
            Workload::Recorded(r) => recorded::check(r),
            Workload::Modelled(m) => {
                for (name, value) in [("p", m.p), ("k", m.k), ("t", m.t)] {
                    not_negative(name, value)?;
                }
                let share = |q: f64| q.is_finite() && q <= 1.0;
                if m.p == 0.0 || m.t == 0.0 || !share(m.q) || !share(m.q_beside) {
                    return Err("the model needs p and t above 0, and q and q_beside of at most 1".to_string());
                }
                Ok(())
            }
        }
    }
}

fn check_columns(c: &Columns) -> Result<(), String> {
    positive("rows", c.rows)?;
    positive("columns", u64::from(c.columns))?;
    positive("clients", u64::from(c.clients))?;
    not_negative("dispatch_us", c.dispatch_us)?;
    bits(c.bits_min, c.bits_max)?;
    for (name, value) in
        [("selectivity", c.selectivity), ("hot_columns", c.hot_columns), ("hot_queries", c.hot_queries)]
    {
        if !(0.0..=1.0).contains(&value) {
            return Err(format!("{name} = {value}: it is a share, from 0 to 1"));
        }
    }
    if c.result_cache {
        return Err("result_cache = true: results are never kept in the lab, or nothing would be executed".to_string());
    }
    Ok(())
}

fn check_loops(l: &Loops) -> Result<(), String> {
    positive("columns", u64::from(l.columns))?;
    positive("grain_kib", u64::from(l.grain_kib))?;
    if l.query > 22 {
        return Err(format!("query = {}: TPC-H has queries 1 to 22; 0 is one with your own q and t", l.query));
    }
    if !((0.0..=1.0).contains(&l.q) && l.t.is_finite() && l.t > 0.0) {
        return Err(format!("q = {} and t = {}: q is a share, from 0 to 1, and t above 0 seconds", l.q, l.t));
    }
    if !(0.0..=1.0).contains(&l.hidden) {
        return Err(format!("hidden = {}: it is a share, from 0 to 1", l.hidden));
    }
    Ok(())
}

fn bits(min: u32, max: u32) -> Result<(), String> {
    if min == 0 || min > max || max > 32 {
        return Err(format!("columns have 1 to 32 bits, the narrowest first, not {min} to {max}"));
    }
    Ok(())
}

fn positive(name: &str, value: u64) -> Result<(), String> {
    if value == 0 { Err(format!("{name} must be above 0")) } else { Ok(()) }
}

fn not_negative(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(format!("{name} = {value}: it must be 0 or more")) }
}

fn read<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    T::deserialize(Value::Table(table)).map_err(|e| e.to_string().trim_end().replace('\n', " "))
}

fn names_of<T: Serialize>(of: &T) -> Vec<String> {
    Table::try_from(of).map(|table| table.keys().cloned().collect()).unwrap_or_default()
}
