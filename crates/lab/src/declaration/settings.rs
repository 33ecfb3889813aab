//! What an experiment can set, typed: the machine and how much of it is used, and one family of settings per kind of work.
//!
//! Invariants: every family has defaults, those of its paper's set-up; an unknown name, a value of the wrong type, a share
//! outside 0 to 1 or a result cache that is on are refused with a sentence that says what would be right.
//!
//! Sources: Psaroudakis et al., VLDB 2015, section 6; Kissinger et al., ADMS 2014, section 4; Greinsmark 2020, section 5.1;
//! Seidel 2011, chapters 2, 4 and 5.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

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
    /// Queries over one or two tables on the sub-domains of a package.
    SubDomains(SubDomains),
    /// Loops over striped or first-touch memory.
    Loops(Loops),
    /// The bandwidth-sharing model.
    Modelled(Modelled),
}

/// Names of the families, as `kind` has them.
const FAMILIES: [&str; 7] = ["columns", "aggregate", "placing", "store", "sub-domains", "loops", "model"];

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
    /// The first so many nodes; 0 for all.
    pub nodes: u32,
    /// The first so many cpus of each node, cores before their second threads; 0 for all.
    pub cpus_per_node: u32,
    /// All cores, or half of them.
    pub cores: Cores,
    /// The kernel's automatic NUMA balancing. Only measured runs can have it.
    pub numa_balancing: bool,
}

impl Default for MachineUse {
    fn default() -> MachineUse {
        MachineUse { machine: String::new(), nodes: 0, cpus_per_node: 0, cores: Cores::All, numa_balancing: false }
    }
}

/// Where the columns of a table lie (VLDB 2015, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each column on one node, in turn.
    Rr,
    /// The codes of each column in equal ranges over the nodes; dictionary and index interleaved.
    Ivp,
    /// The table in parts, each with dictionaries of its own, one part per node.
    Pp,
}

/// How tasks find a worker (VLDB 2015, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// No affinity, nothing bound.
    Os,
    /// Affinities; tasks may be stolen.
    Target,
    /// Hard affinities: tasks are not stolen by other nodes.
    Bound,
}

/// How columns are dealt to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutOrder {
    /// Column after column, each on the next node.
    InTurn,
    /// The first columns on the first node, the next on the second: the hot half then lies on half of the nodes.
    Blocks,
}

/// Range queries over the columns of one table (VLDB 2015, section 6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Rows of the table.
    pub rows: u64,
    /// Columns that are queried.
    pub columns: u32,
    /// The narrowest column, in bits.
    pub bits_min: u32,
    /// The widest column, in bits; widths in between come in turn.
    pub bits_max: u32,
    /// Clients, each with one query on its way.
    pub clients: u32,
    /// The share of rows that qualify, 0 to 1.
    pub selectivity: f64,
    /// Whether a query may use the index.
    pub index: bool,
    /// Whether a query is several tasks.
    pub parallel: bool,
    /// Whether summaries skip blocks that cannot match; uniform values never let them.
    pub pruning: bool,
    /// Kept results: always off.
    pub result_cache: bool,
    /// The share of columns that are hot, the last ones of the table.
    pub hot_columns: f64,
    /// The share of queries that go to them.
    pub hot_queries: f64,
    /// How columns are dealt to nodes.
    pub order: LayoutOrder,
    /// Where columns lie.
    pub placement: Placement,
    /// Parts or ranges of each column under `ivp` and `pp`; 0 for one per node.
    pub partitions: u32,
    /// How tasks find a worker.
    pub strategy: Strategy,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns {
            rows: 100_000_000,
            columns: 160,
            bits_min: 17,
            bits_max: 26,
            clients: 1024,
            selectivity: 1e-5,
            index: false,
            parallel: true,
            pruning: false,
            result_cache: false,
            hot_columns: 0.5,
            hot_queries: 0.5,
            order: LayoutOrder::InTurn,
            placement: Placement::Rr,
            partitions: 0,
            strategy: Strategy::Bound,
        }
    }
}

/// Aggregations over whole tables (VLDB 2015, section 6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aggregate {
    /// Tables of equal size, queried in turn at random.
    pub tables: u32,
    /// Rows of each.
    pub rows: u64,
    /// Bytes read of each row.
    pub row_bytes: f64,
    /// Computation for each row, in ns of one cpu, beside what reading costs.
    pub row_ns: f64,
    /// Clients, each with one query on its way.
    pub clients: u32,
    /// Parts of each table.
    pub partitions: u32,
    /// How tasks find a worker.
    pub strategy: Strategy,
}

impl Default for Aggregate {
    fn default() -> Aggregate {
        Aggregate {
            tables: 1,
            rows: 600_000_000,
            row_bytes: 14.0,
            row_ns: 10.0,
            clients: 32,
            partitions: 1,
            strategy: Strategy::Bound,
        }
    }
}

/// Placing a table anew (VLDB 2015, section 6.2.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Placing {
    /// Rows of the table.
    pub rows: u64,
    /// Its columns.
    pub columns: u32,
    /// The narrowest column, in bits.
    pub bits_min: u32,
    /// The widest column, in bits.
    pub bits_max: u32,
    /// What it becomes: `ivp` or `pp`.
    pub placement: Placement,
}

impl Default for Placing {
    fn default() -> Placing {
        Placing { rows: 100_000_000, columns: 160, bits_min: 17, bits_max: 26, placement: Placement::Ivp }
    }
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Scans of the whole column.
    Scan,
    /// Lookups of random keys.
    Lookup,
    /// Commands of lookups that are routed and not run.
    Route,
}

/// Where a store's memory lies and who reads it (ERIS, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDesign {
    /// All on one node, read by every cpu.
    SingleRam,
    /// Interleaved over all nodes, read by every cpu: for lookups, the shared index.
    Interleaved,
    /// In partitions, each read by the one unit that owns it.
    Units,
}

/// A store of entries or keys (ERIS, section 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// What it is asked for.
    pub operation: Operation,
    /// Where its memory lies and who reads it.
    pub design: StoreDesign,
    /// Entries of the column, or keys of the index.
    pub keys: u64,
    /// Bytes of an entry of the column.
    pub entry_bytes: u32,
    /// Commands in an outgoing buffer before it is sent.
    pub batch: u32,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            operation: Operation::Scan,
            design: StoreDesign::Units,
            keys: 8_000_000_000,
            entry_bytes: 8,
            batch: 128,
        }
    }
}

/// What is asked of the tables on sub-domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKind {
    /// One row by its primary key.
    Row,
    /// How many rows fulfil one of six predicates.
    Count,
    /// Rows of the first table that have a partner in the second.
    Join,
}

/// Sub-domains of the first package, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Its first sub-domain.
    A,
    /// Its second sub-domain.
    B,
    /// All its sub-domains.
    Both,
    /// All sub-domains of all packages.
    All,
}

/// Where tables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The first table on the first sub-domain, the second on the second.
    Apart,
    /// Each table interleaved by software over the sub-domains, page by page.
    Interleaved,
}

/// Stealing modes (Greinsmark 2020, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stealing {
    /// None beyond the node.
    Off,
    /// Within the package.
    Neighbour,
    /// From everywhere.
    Any,
}

/// How many predicates each table gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Predicates {
    /// Columns scanned of the first table.
    pub first: u32,
    /// Columns scanned of the second table.
    pub second: u32,
}

impl TryFrom<String> for Predicates {
    type Error = String;

    fn try_from(text: String) -> Result<Predicates, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n <= 1000);
        match text.split_once('+').map(|(a, b)| (number(a), number(b))) {
            Some((Some(first), Some(second))) if first + second > 0 => Ok(Predicates { first, second }),
            _ => Err(format!("predicates are written as \"4+2\" (first table + second table), not '{text}'")),
        }
    }
}

impl From<Predicates> for String {
    fn from(p: Predicates) -> String {
        format!("{}+{}", p.first, p.second)
    }
}

/// Queries over tables on sub-domains (Greinsmark 2020, section 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubDomains {
    /// What is asked.
    pub query: QueryKind,
    /// Rows of each table.
    pub rows: u64,
    /// Bits of each column that is scanned.
    pub bits: u32,
    /// Connections, each with one query on its way.
    pub connections: u32,
    /// Columns scanned of the first and of the second table.
    pub predicates: Predicates,
    /// Values below this qualify, of as many values as there are rows.
    pub range_pred: u64,
    /// The sub-domains whose cpus work.
    pub workers: Where,
    /// Where the tables lie.
    pub memory: Memory,
    /// What may be stolen.
    pub stealing: Stealing,
}

impl Default for SubDomains {
    fn default() -> SubDomains {
        SubDomains {
            query: QueryKind::Count,
            rows: 50_000_000,
            bits: 26,
            connections: 56,
            predicates: Predicates { first: 3, second: 3 },
            range_pred: 10_000,
            workers: Where::Both,
            memory: Memory::Apart,
            stealing: Stealing::Off,
        }
    }
}

/// The task of a loop (Seidel 2011, sections 2.1 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NbbTask {
    /// STREAM's triad.
    Stream,
    /// A query of TPC-H at scale 100, as a scan of its bytes with its computation.
    Query,
}

/// Loops over memory that lies somewhere (Seidel 2011).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loops {
    /// What the loop does.
    pub task: NbbTask,
    /// The query of TPC-H, where it does one.
    pub query: u32,
    /// Whether memory is striped over the nodes; else it lies where it was first touched.
    pub striped: bool,
    /// Whether the scheduler knows where memory lies.
    pub aware: bool,
    /// Whether the grain adapts to the loop; else it is fixed.
    pub adaptive_grain: bool,
}

impl Default for Loops {
    fn default() -> Loops {
        Loops { task: NbbTask::Stream, query: 5, striped: true, aware: true, adaptive_grain: true }
    }
}

/// What of the bandwidth-sharing model is computed (Seidel 2011, chapter 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Computed {
    /// The bandwidth that a demand of `k` gets.
    Bandwidth,
    /// time(p, q, k, t).
    Time,
    /// The same, with another job on the other cpus of each node in place of `k`.
    Beside,
    /// The efficiency gained by two jobs side by side, each on half of `p` cpus per node.
    Pair,
    /// q and t, fitted to run times that the model makes of them.
    Fit,
}

/// How measured bandwidths are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joined {
    /// By a cubic spline, extended beyond its ends.
    Spline,
    /// By straight lines, level beyond the last point.
    Lines,
}

/// The bandwidth-sharing model (Seidel 2011, chapter 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Modelled {
    /// What is computed.
    pub what: Computed,
    /// How measured bandwidths are joined.
    pub interpolation: Joined,
    /// Cpus of the job, per node.
    pub p: f64,
    /// Bandwidth that others ask for, in that of one thread.
    pub k: f64,
    /// The share of time spent waiting for memory, where no query is named.
    pub q: f64,
    /// Seconds on one cpu per node, where no query is named.
    pub t: f64,
    /// The query of Table 5.1 that is the job; 0 for `q` and `t`.
    pub query: u32,
    /// The query of Table 5.1 beside it; 0 for `q_beside`.
    pub beside: u32,
    /// The share of memory waits of the job beside it.
    pub q_beside: f64,
}

impl Default for Modelled {
    fn default() -> Modelled {
        Modelled {
            what: Computed::Time,
            interpolation: Joined::Spline,
            p: 1.0,
            k: 0.0,
            q: 0.5,
            t: 1.0,
            query: 0,
            beside: 0,
            q_beside: 0.0,
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
            "sub-domains" => Workload::SubDomains(read(rest)?),
            "loops" => Workload::Loops(read(rest)?),
            "model" => Workload::Modelled(read(rest)?),
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
            Workload::SubDomains(s) => ("sub-domains", Table::try_from(s)),
            Workload::Loops(l) => ("loops", Table::try_from(l)),
            Workload::Modelled(m) => ("model", Table::try_from(m)),
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
            "sub-domains" => names_of(&SubDomains::default()),
            "loops" => names_of(&Loops::default()),
            "model" => names_of(&Modelled::default()),
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
                not_negative("row_bytes", a.row_bytes)?;
                not_negative("row_ns", a.row_ns)
            }
            Workload::Placing(p) => {
                positive("rows", p.rows)?;
                positive("columns", u64::from(p.columns))?;
                bits(p.bits_min, p.bits_max)?;
                if p.placement == Placement::Rr {
                    return Err("placing is measured for ivp and pp".to_string());
                }
                Ok(())
            }
            Workload::Store(s) => {
                positive("keys", s.keys)?;
                positive("entry_bytes", u64::from(s.entry_bytes))?;
                positive("batch", u64::from(s.batch))
            }
            Workload::SubDomains(s) => {
                positive("rows", s.rows)?;
                positive("connections", u64::from(s.connections))?;
                bits(s.bits, s.bits)?;
                if s.range_pred > s.rows {
                    return Err(format!("range_pred = {} is above rows = {}", s.range_pred, s.rows));
                }
                Ok(())
            }
            Workload::Loops(l) => match l.query {
                1..=22 => Ok(()),
                other => Err(format!("query = {other}: TPC-H has queries 1 to 22")),
            },
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
