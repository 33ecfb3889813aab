//! Queries over tables on the sub-domains of a package (Greinsmark 2020, section 5), measured.
//!
//! The first table lies on the first sub-domain, its copy on the second, as in the simulated workload; where the
//! package has none, both lie on its node: that is the machine with sub-domains off. Workers of one sub-domain are all
//! there are: the database runs on its cpus alone.
//!
//! - A count counts the rows of both tables of which one of the predicates is true.
//! - A row is looked up by its key, and another column is read.
//! - A join counts the rows of the first table whose key is in the second.
//!
//! # Limits
//! Keys are the rows' numbers, and a few hundred of them are asked for again and again. A union of counts is one
//! statement of two scans.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lab::declaration::{MachineUse, Memory, QueryKind, Stealing, SubDomains, Where};
use lab::engine::RunError;
use lab::result::Outcome;
use numa::{MachineDescription, NodeId, Topology};

use super::columns::outcome;
use super::cpus::{Portion, portion_of};
use super::{Bench, failed};
use crate::bench::clients::{Load, Query, WARM_UP, mixed, run_load};
use crate::bench::uniform::Uniform;
use crate::size::thousands;

/// The share of the memory that both tables together take at most.
const TABLES_SHARE: f64 = 0.2;
/// Bytes of a key per row, about.
const KEY_BYTES: f64 = 4.0;
/// Predicates of each table at most: so many columns it has.
const COLUMNS_MAX: u32 = 6;
/// Keys that clients ask for.
const KEYS: u64 = 256;
/// The widest column, and the most rows that have keys: INTEGER.
const BITS_MAX: u32 = 31;

/// The part of the machine whose cpus work.
///
/// # Errors
/// [`RunError::Refused`]: the machine has sub-domains and the one that is named has none, or the other way round; it
/// has no second one.
pub fn workers(topology: &Topology, used: &MachineUse, asked: &SubDomains) -> Result<Portion, RunError> {
    let named = MachineDescription::parse(&used.machine).map_err(|error| RunError::Refused(error.to_string()))?;
    let has = |topology: &Topology| !topology.sub_domains().is_empty();
    match (has(&named.topology), has(topology)) {
        (true, false) => Err(RunError::Refused(format!(
            "machine = \"{}\" has sub-domains and this machine has none; name a machine without, such as \
             skylake-2-snc-off",
            used.machine
        ))),
        (false, true) => Err(RunError::Refused(format!(
            "machine = \"{}\" has no sub-domains and this machine has some; switch them off, or name a machine that \
             has them",
            used.machine
        ))),
        _ => {
            let working = working(topology, asked.workers)?;
            portion_of(topology, used, &|node| working.contains(&node))
        }
    }
}

/// The sub-domains of the first package, or its one node.
fn domains(topology: &Topology) -> Vec<NodeId> {
    let usable = |node: &&numa::Node| {
        node.cpus.iter().any(|cpu| topology.usable_cpus().contains(cpu))
            && topology.usable_memory_nodes().contains(&node.id)
    };
    let nodes: Vec<&numa::Node> = topology.nodes().iter().filter(usable).collect();
    let Some(first) = nodes.first() else { return Vec::new() };
    // Nodes of no known package are packages of their own.
    let of_first =
        |node: &&&numa::Node| node.id == first.id || (first.package.is_some() && node.package == first.package);
    nodes.iter().filter(of_first).map(|node| node.id).collect()
}

fn working(topology: &Topology, asked: Where) -> Result<Vec<NodeId>, RunError> {
    let domains = domains(topology);
    match (asked, domains.as_slice()) {
        (_, []) => {
            Err(RunError::Refused("no node of this machine has both cpus and memory that may be used".to_string()))
        }
        (Where::A, [a, ..]) => Ok(vec![*a]),
        (Where::B, [_, b, ..]) => Ok(vec![*b]),
        (Where::B, [_]) => Err(RunError::Refused(
            "workers = \"b\": the first package of this machine has no second sub-domain".to_string(),
        )),
        (Where::Both, all) => Ok(all.to_vec()),
        (Where::All, _) => Ok(topology.nodes().iter().map(|node| node.id).collect()),
    }
}

/// Where the first and the second table lie.
fn placements(topology: &Topology, asked: &SubDomains) -> [String; 2] {
    let all: Vec<NodeId> = topology.usable_memory_nodes().to_vec();
    let domains = domains(topology);
    let over = if asked.workers == Where::All { all } else { domains };
    let listed = over.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (asked.memory, over.as_slice()) {
        (Memory::Interleaved, _) | (_, []) => [(); 2].map(|()| format!("interleaved(nodes {listed})")),
        (Memory::Apart, [first, ..]) => {
            let second = match asked.workers {
                Where::All => over[over.len() / 2],
                _ => over.get(1).copied().unwrap_or(*first),
            };
            [*first, second].map(|node| format!("node({node})"))
        }
    }
}

/// Runs clients over the tables.
pub fn run(bench: Bench<'_>, topology: &Topology, asked: &SubDomains) -> Result<Outcome, RunError> {
    if asked.bits > BITS_MAX || asked.predicates.first.max(asked.predicates.second) > COLUMNS_MAX {
        let reason = format!("tables have {COLUMNS_MAX} columns of {BITS_MAX} bits at most");
        return Err(RunError::Refused(reason));
    }
    let row_bytes = f64::from(COLUMNS_MAX * asked.bits) / 8.0 + KEY_BYTES;
    let room = bench.memory_bytes as f64 * TABLES_SHARE / 2.0 / row_bytes;
    let rows = asked.rows.min(room as u64).clamp(1, 1 << BITS_MAX);
    let seed = bench.conditions.seed;
    let stop = bench.conditions.stop;
    let bits = vec![asked.bits; COLUMNS_MAX as usize];
    let table = Uniform { table: String::new(), rows, bits, seed, keyed: true };
    let [first, second] = placements(topology, asked);
    let other = Uniform { seed: seed ^ 1, ..table.clone() };
    let names = [bench.stored.loaded(&table, &first)?.to_string(), bench.stored.loaded(&other, &second)?.to_string()];
    if asked.query == QueryKind::Row {
        let index = format!("CREATE UNIQUE INDEX IF NOT EXISTS {0}_key ON {0} (k)", names[0]);
        bench.stored.database().session().execute(&index).map_err(failed)?;
    }
    let queries = queries(asked, rows, [&names[0], &names[1]]);
    let session = bench.stored.session_with(&settings(asked))?;
    for query in &queries {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        session.query(&query.sql).and_then(|rows| rows.collect_all()).map_err(failed)?;
    }
    let (own, pick) = (|| session.clone(), |random: u64| &queries[(mixed(random) % queries.len() as u64) as usize]);
    let length = Duration::from_secs_f64(bench.conditions.seconds / (1.0 - WARM_UP));
    let clients = asked.connections as usize;
    let database = bench.stored.database();
    let load = Load { session: &own, pick: &pick, clients, length, seed, stop };
    let window = run_load(database, &load).map_err(failed)?;
    let mut outcome = outcome(&window, clients, database.scheduler().threads());
    if rows < asked.rows {
        let some = thousands(rows);
        let all = thousands(asked.rows);
        outcome.notes.push(format!("scaled to this machine's memory: {some} rows of {all}"));
    }
    Ok(outcome)
}

/// The statements that clients choose from.
fn queries(asked: &SubDomains, rows: u64, [first, second]: [&str; 2]) -> Vec<Query> {
    let one = |sql: String| vec![Query { sql, rows: 1 }];
    match asked.query {
        QueryKind::Row => {
            let row =
                |key: u64| Query { sql: format!("SELECT c0 FROM {first} WHERE k = {}", mixed(key) % rows), rows: 1 };
            (0..KEYS).map(row).collect()
        }
        QueryKind::Join => one(format!("SELECT count(*) FROM {first} a JOIN {second} b ON a.k = b.k")),
        QueryKind::Count => {
            // As large a share of the values as was asked for, whatever became of the rows.
            let below = (asked.range_pred as f64 / asked.rows as f64 * f64::from(1_u32 << asked.bits)).round() as u64;
            let of = |table: &str, predicates: u32| {
                let all: Vec<String> = (0..predicates).map(|column| format!("c{column} < {below}")).collect();
                (predicates > 0).then(|| format!("SELECT k FROM {table} WHERE {}", all.join(" OR ")))
            };
            let both = [of(first, asked.predicates.first), of(second, asked.predicates.second)];
            let both: Vec<String> = both.into_iter().flatten().collect();
            one(format!("SELECT count(*) FROM ({}) found", both.join(" UNION ALL ")))
        }
    }
}

/// The settings of a session: workers of one sub-domain take what lies elsewhere too, as hard tasks of theirs.
fn settings(asked: &SubDomains) -> String {
    let affinities = if matches!(asked.workers, Where::A | Where::B) { "hard" } else { "soft" };
    let stealing = match asked.stealing {
        Stealing::Off => "off",
        Stealing::Neighbour => "neighbour",
        Stealing::Any => "any",
    };
    format!("SET nearside.affinities = '{affinities}'; SET nearside.stealing = '{stealing}'")
}

#[cfg(test)]
mod tests {
    use lab::declaration::Predicates;

    use super::*;

    fn asked(query: QueryKind, workers: Where, memory: Memory) -> SubDomains {
        SubDomains { query, workers, memory, rows: 1000, bits: 10, range_pred: 100, ..SubDomains::default() }
    }

    #[test]
    fn workers_and_tables_are_on_the_sub_domains_that_are_asked_for() {
        let machine = Topology::synthetic(2, 2, 1, 1);
        let used = |name: &str| MachineUse { machine: name.into(), ..MachineUse::default() };
        let nodes = |at| {
            let asked = asked(QueryKind::Count, at, Memory::Apart);
            let ids = workers(&machine, &used("skylake-2-snc-on"), &asked).unwrap().nodes;
            (ids.iter().map(|node| node.0).collect::<Vec<_>>(), placements(&machine, &asked))
        };
        let at = |first: &str, second: &str| [first.to_string(), second.to_string()];
        assert_eq!(nodes(Where::A), (vec![0], at("node(0)", "node(1)")));
        assert_eq!(nodes(Where::B), (vec![1], at("node(0)", "node(1)")));
        assert_eq!(nodes(Where::Both), (vec![0, 1], at("node(0)", "node(1)")));
        assert_eq!(nodes(Where::All), (vec![0, 1, 2, 3], at("node(0)", "node(2)")));
        let spread = placements(&machine, &asked(QueryKind::Count, Where::Both, Memory::Interleaved));
        assert_eq!(spread, at("interleaved(nodes 0, 1)", "interleaved(nodes 0, 1)"));
        let off = workers(&machine, &used("skylake-2-snc-off"), &asked(QueryKind::Row, Where::A, Memory::Apart));
        assert!(off.unwrap_err().to_string().contains("switch them off"));
        let plain = Topology::synthetic(1, 1, 2, 1);
        let reason = |name: &str, at| {
            workers(&plain, &used(name), &asked(QueryKind::Row, at, Memory::Apart)).unwrap_err().to_string()
        };
        assert!(reason("skylake-2-snc-on", Where::A).contains("this machine has none"));
        assert!(reason("skylake-2-snc-off", Where::B).contains("no second sub-domain"));
        let whole = asked(QueryKind::Row, Where::A, Memory::Apart);
        assert!(workers(&plain, &used("skylake-2-snc-off"), &whole).unwrap().is_all);
        assert_eq!(placements(&plain, &whole), at("node(0)", "node(0)"));
    }

    #[test]
    fn counts_are_over_as_many_columns_as_predicates() {
        let sql = |first, second| {
            let predicates = Predicates { first, second };
            let asked = SubDomains { predicates, ..asked(QueryKind::Count, Where::A, Memory::Apart) };
            queries(&asked, 1000, ["a", "b"]).remove(0).sql
        };
        assert_eq!(
            sql(2, 1),
            "SELECT count(*) FROM (SELECT k FROM a WHERE c0 < 102 OR c1 < 102 UNION ALL SELECT k FROM b WHERE c0 < \
             102) found"
        );
        assert_eq!(sql(0, 1), "SELECT count(*) FROM (SELECT k FROM b WHERE c0 < 102) found");
    }
}
