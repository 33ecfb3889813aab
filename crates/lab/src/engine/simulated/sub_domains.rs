//! Queries over tables on the sub-domains of a package (Greinsmark 2020, section 5).
//!
//! The first table lies on the first node, its copy on the second where the package has two; without sub-domains both
//! lie on the package's one node.
//!
//! - A count scans each column of a predicate, each by tasks of its own, and writes the positions that qualify, four
//!   bytes each, beside the worker; then, where rows are united by lists, a task per table merges and counts them.
//!   Tasks wait in the queue of their table's sub-domain. Where workers are on one sub-domain only, the other has a
//!   queue but nobody who works there: workers take their own queue's tasks first and steal the others' when it is
//!   empty (section 2.6), so that they read one table after the other rather than both at a time.
//! - A row is found by binary search in the sorted key column, then read from another column; the upper steps of the
//!   search are in the last-level cache of the node where the table lies.
//! - A join builds a hash table of the first table's keys and looks the second one's up in it.
//!
//! Workers that look rows up or join are bound to a sub-domain by hard affinities: nobody else may take the tasks.
//!
//! # Limits
//! The scheduler's own placement of connections is not simulated; neither is what evicts what from a cache.

use sched::policy::Layout;
use sched::policy::concurrency::{Pieces, hint};
use sched::{Affinities, Affinity, Place, Settings, Stealing as Steal};
use sim::workload::{Graph, LINE_BYTES, RepeatedStatement, Task, TaskStage, UnderWay, near};

use super::{Bench, RunError, metrics};
use crate::declaration::{Memory, QueryKind, Stealing, SubDomains, Unions, Where};
use crate::result::Outcome;

const POSITION_BYTES: f64 = 4.0;
/// A key of the sorted column that rows are found by: 32-bit integers, as the thesis' table has them.
const KEY_BYTES: f64 = 4.0;
/// A key with its position in a hash table that is half full.
const ENTRY_BYTES: f64 = 16.0;
const ALWAYS: u64 = u64::MAX;

pub(super) fn run(mut bench: Bench, s: &SubDomains) -> Result<Outcome, RunError> {
    let places = Places::of(&bench, s)?;
    bench.options.settings = settings_of(s);
    bench.options.resting = places.resting(&bench, s);
    let found = match s.query {
        QueryKind::Count => {
            bench.run(&mut RepeatedStatement::new(count(&bench, s, &places), s.connections as usize, ALWAYS))?
        }
        QueryKind::Row => {
            bench.run(&mut RepeatedStatement::new(row(&bench, s, &places), s.connections as usize, ALWAYS))?
        }
        QueryKind::Join => {
            bench.run(&mut RepeatedStatement::new(join(&bench, s, &places), s.connections as usize, ALWAYS))?
        }
    };
    Ok(metrics(&found))
}

/// Where tables lie and who works, by place of the node.
struct Places {
    /// The nodes of the first table and of the second.
    tables: [Vec<usize>; 2],
    /// The nodes whose cpus work.
    workers: Vec<usize>,
}

impl Places {
    fn of(bench: &Bench, s: &SubDomains) -> Result<Places, RunError> {
        let topology = bench.machine.topology();
        let package = |node: &numa::Node| node.package;
        let first = topology.nodes().first().and_then(package);
        let all = bench.nodes();
        let domains: Vec<usize> = all.iter().copied().filter(|n| package(&topology.nodes()[*n]) == first).collect();
        let a = domains[0];
        let b = domains.get(1).copied().unwrap_or(a);
        let workers = match s.workers {
            Where::A => vec![a],
            Where::B if domains.len() < 2 => {
                let reason = format!("workers = \"b\": a package of {} has no second sub-domain", bench.machine.name());
                return Err(RunError::Refused(reason));
            }
            Where::B => vec![b],
            Where::Both => domains.clone(),
            Where::All => all.clone(),
        };
        let over = if s.workers == Where::All { all } else { domains };
        let tables = match s.memory {
            Memory::Apart => [vec![a], vec![if s.workers == Where::All { over[over.len() / 2] } else { b }]],
            Memory::Interleaved => [over.clone(), over],
        };
        Ok(Places { tables, workers })
    }

    /// The nodes that have queues although nobody works there.
    fn resting(&self, bench: &Bench, s: &SubDomains) -> Vec<usize> {
        match (s.workers, s.query) {
            (Where::A | Where::B, QueryKind::Count) => {
                bench.nodes().into_iter().filter(|node| !self.workers.contains(node)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where the tasks of a table ask to run: beside it where workers are there, else on all workers' nodes.
    fn near(&self, table: usize) -> Vec<usize> {
        let beside: Vec<usize> = self.tables[table].iter().copied().filter(|n| self.workers.contains(n)).collect();
        if beside.is_empty() { self.workers.clone() } else { beside }
    }
}

fn settings_of(s: &SubDomains) -> Settings {
    let bound = matches!(s.workers, Where::A | Where::B);
    // Tasks of a table beside which nobody works are stolen by who works, whatever else may be.
    let counts = s.query == QueryKind::Count;
    Settings {
        affinities: if bound && !counts { Affinities::Hard } else { Affinities::Soft },
        stealing: match s.stealing {
            Stealing::Off if bound && counts => Steal::Neighbour,
            Stealing::Off => Steal::Off,
            Stealing::Neighbour => Steal::Neighbour,
            Stealing::Any => Steal::Any,
        },
        ..Settings::default()
    }
}

/// Scans of as many columns as each table has predicates, a task or more for each, and per table a task that unites
/// what they found and counts it.
///
/// Tasks ask for the node of their table, whether anybody works there or not.
fn count(bench: &Bench, s: &SubDomains, places: &Places) -> Graph {
    let constants = &bench.options.constants;
    let layout: Layout = bench.options.layout(&bench.machine);
    let rows = s.rows as f64;
    let found = s.range_pred as f64;
    let mut graph = Graph::new(1.0);
    for (table, predicates) in [(0, s.predicates.first), (1, s.predicates.second)] {
        if predicates == 0 {
            continue;
        }
        let nodes = &places.tables[table];
        let ids: Vec<_> = nodes.iter().map(|node| bench.machine.node_id(*node)).collect();
        let tasks = hint(&layout, &ids, s.connections as usize, 0, Pieces::Parts(predicates as usize)).max(1);
        let tasks = tasks.next_multiple_of(nodes.len());
        // Fresh memory lies where the cpu is that writes it.
        let beside = |node: usize| if places.workers.contains(&node) { node } else { places.workers[0] };
        let share = 1.0 / tasks as f64;
        let mut scans = Vec::new();
        for task in 0..predicates as usize * tasks {
            let node = nodes[task % nodes.len()];
            let stage =
                TaskStage::cpu(share * (rows * constants.scan_ns_per_row() + found * constants.result_ns_per_row()))
                    .read(node, share * rows * f64::from(s.bits) / 8.0)
                    .write(beside(node), share * found * POSITION_BYTES, constants);
            scans.push(graph.add(Task::new(near(&bench.machine, node), stage)));
        }
        // Lists of what predicates found, in what they are united, in lists of one predicate.
        let united = match s.unions {
            Unions::AtOnce if predicates > 1 => f64::from(predicates),
            Unions::Bitmap | Unions::AtOnce => 0.0,
            Unions::InTurn => (2..=predicates).map(f64::from).sum(),
        };
        if s.unions != Unions::Bitmap {
            let node = nodes[0];
            // Each is read where it is united; the last is read once more, to be counted.
            let stage = TaskStage::cpu(united * found * constants.unite_ns_per_row())
                .read(beside(node), (united + f64::from(predicates)) * found * POSITION_BYTES)
                .write(beside(node), united * found * POSITION_BYTES, constants);
            graph.add(Task::new(near(&bench.machine, node), stage).after(scans));
        }
    }
    graph
}

/// One row: a task without a node that it prefers, as the thesis has it, that follows lines one after the other.
fn row(bench: &Bench, s: &SubDomains, places: &Places) -> Graph {
    let constants = &bench.options.constants;
    let node = &places.tables[0];
    let cache: f64 = node.iter().map(|n| bench.machine.nodes()[*n].llc_bytes as f64).sum();
    // A step of a binary search touches a line of its own until what is left fits into one.
    let steps = ((s.rows as f64 * KEY_BYTES / LINE_BYTES).log2()).max(1.0);
    let cached = (cache / LINE_BYTES).log2().clamp(0.0, steps);
    // Then the position's code and its value in the other column.
    let missed = steps - cached + 2.0;
    // No cpu of another package works, whatever may be stolen.
    let home = bench.machine.topology().nodes()[places.workers[0]].package;
    let affinity = match (places.workers.as_slice(), home) {
        ([one], _) => near(&bench.machine, *one),
        (_, Some(package)) if s.workers == Where::Both => Affinity::Near { place: Place::Package(package), hard: true },
        _ => Affinity::Anywhere,
    };
    let stage = TaskStage::cpu(constants.lookup_ns() + cached * constants.llc_ns())
        .random_over(node, missed)
        .waiting(UnderWay::Lookups);
    let mut graph = Graph::new(1.0);
    graph.add(Task::new(affinity, stage));
    graph
}

/// Build, then probe, each in as many tasks as the scheduler's hint allows `n` connections.
fn join(bench: &Bench, s: &SubDomains, places: &Places) -> Graph {
    let constants = &bench.options.constants;
    let layout: Layout = bench.options.layout(&bench.machine);
    let ids: Vec<_> = places.workers.iter().map(|node| bench.machine.node_id(*node)).collect();
    let tasks = hint(&layout, &ids, s.connections as usize, 0, Pieces::Whole);
    let mut graph = Graph::new(1.0);
    let mut phase = |table: usize, after: &[usize]| -> Vec<usize> {
        let rows = s.rows as f64 / tasks as f64;
        let near_to = places.near(table);
        let hashed: Vec<usize> = places.near(0);
        let table_bytes = s.rows as f64 * ENTRY_BYTES;
        let cache: f64 = hashed.iter().map(|n| bench.machine.nodes()[*n].llc_bytes as f64).sum();
        let missed = rows * (1.0 - cache / table_bytes / f64::from(s.connections)).max(0.0);
        let one = |task: usize| {
            let stage = TaskStage::cpu(rows * (constants.scan_ns_per_row() + constants.random_access_ns()))
                .read_over(&places.tables[table], rows * f64::from(s.bits) / 8.0)
                .random_over(&hashed, missed);
            Task::new(near(&bench.machine, near_to[task % near_to.len()]), stage).after(after.iter().copied())
        };
        (0..tasks).map(|task| graph.add(one(task))).collect()
    };
    let built = phase(0, &[]);
    phase(1, &built);
    graph
}
