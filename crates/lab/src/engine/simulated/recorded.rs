//! Statements recorded from a running database, on another machine.
//!
//! Statements come in a fixed order in which each kind is as often as it was recorded, evenly spread. A statement is
//! one phase: its bytes are read beside its cpu time, in as many tasks as the concurrency hint allows there, each near
//! its range or part (`ivp`, `pp`) or near the column that it reads most of (`rr`).
//!
//! Invariants: the same statements come in the same order under every placement and strategy, so that these alone make
//! a difference; all ranges and parts of a table are cut at the same rows, so a task reads its share of every column of
//! a table in one place.
//!
//! # Limits
//! Phases are not recorded: a join's two sides are read at once. Cpu time has the recording machine's waits for memory
//! in it, and no account is taken of a cpu that is faster or slower. Results, indexes and caches are not simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use numa::NodeId;
use sched::Affinity;
use sched::policy::concurrency::{Pieces, hint};
use sim::Workload as Clients;
use sim::workload::columns::{Column, Pass, Read, Statement, Static};
use sim::workload::placed::{Phase, Placed};
use sim::workload::{At, Graph, Task, TaskStage, near};

use super::{Bench, NS, RunError, metrics, run_placed, settings_of};
use crate::declaration::{Placement, RecordedStatement, RecordedWorkload};
use crate::result::Outcome;

/// Runs clients over the recorded statements.
pub(super) fn run(mut bench: Bench, recorded: &RecordedWorkload) -> Result<Outcome, RunError> {
    bench.options.settings = settings_of(recorded.strategy);
    let nodes = bench.nodes();
    if recorded.placement == Placement::Placer {
        return run_placed(bench, placed(recorded, &nodes));
    }
    let found = bench.run(&mut Statements::new(recorded, nodes))?;
    Ok(metrics(&found))
}

/// The statements as passes over their tables, each with its share of the cpu time by bytes, drawn as often as they
/// were recorded.
fn placed(recorded: &RecordedWorkload, nodes: &[usize]) -> Placed {
    let tables = tables_of(recorded);
    // What a statement reads of a column at most is taken to be all of it.
    let bytes = |column: usize| {
        let reads = recorded.statements.iter().flat_map(|statement| &statement.reads);
        reads.filter(|read| read.column == column).map(|read| read.bytes).fold(0.0, f64::max)
    };
    let column = |column: usize| {
        let bytes = bytes(column);
        Column { table: tables[column], rows: bytes.max(1.0), bytes, dictionary_bytes: 0.0 }
    };
    let columns: Vec<Column> = (0..recorded.columns.len()).map(column).collect();
    let statement = |of: &RecordedStatement| {
        let all: f64 = of.reads.iter().map(|read| read.bytes).sum();
        let mut passes: BTreeMap<usize, Pass> = BTreeMap::new();
        for read in &of.reads {
            let none = || Pass { reads: Vec::new(), cpu_ns: 0.0, tasks_max: None };
            let pass = passes.entry(tables[read.column]).or_insert_with(none);
            pass.reads.push(Read::scan(read.column, read.bytes));
            pass.cpu_ns += of.cpu_seconds * NS * read.bytes / all.max(f64::MIN_POSITIVE);
        }
        Statement { passes: passes.into_values().collect() }
    };
    // What reads nothing is nobody's to place.
    let read = || recorded.statements.iter().filter(|of| of.reads.iter().any(|read| read.bytes > 0.0));
    Placed {
        clients: recorded.clients as usize,
        statements: read().map(statement).collect(),
        phases: vec![Phase { until_ns: u64::MAX, weights: read().map(|of| of.count as f64).collect() }],
        lies: Static::RrColumns.ranges(&columns, nodes),
        columns,
        memory_bytes: None,
        period_ns: None,
        tick_ns: 1_000_000_000,
    }
}

/// For each column the number of its table.
fn tables_of(recorded: &RecordedWorkload) -> Vec<usize> {
    let mut names: Vec<&str> = recorded.columns.iter().map(|column| column.table.as_str()).collect();
    names.dedup();
    let number = |table: &str| names.iter().position(|name| *name == table).unwrap_or(0);
    recorded.columns.iter().map(|column| number(&column.table)).collect()
}

/// Clients with the statements that they have issued before.
struct Statements<'a> {
    recorded: &'a RecordedWorkload,
    /// Places of the nodes that data lie on.
    nodes: Vec<usize>,
    /// For each column the number of its table.
    tables: Vec<usize>,
    /// For each kind how many statements there were of it and of those before.
    upto: Vec<u64>,
    graphs: BTreeMap<(usize, usize), Arc<Graph>>,
}

impl<'a> Statements<'a> {
    fn new(recorded: &'a RecordedWorkload, nodes: Vec<usize>) -> Statements<'a> {
        let tables = tables_of(recorded);
        let counts = recorded.statements.iter().map(|statement| statement.count);
        let upto = counts.scan(0_u64, |sum, count| {
            *sum = sum.saturating_add(count);
            Some(*sum)
        });
        Statements { recorded, nodes, tables, upto: upto.collect(), graphs: BTreeMap::new() }
    }

    /// The kind of the statement of this turn: multiples of the golden section are spread evenly however many are
    /// taken.
    fn kind(&self, turn: u64) -> Option<usize> {
        /// The golden section of 2^64.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let all = self.upto.last().copied()?;
        let at = (u128::from(turn.wrapping_mul(GOLDEN)) * u128::from(all)) >> 64;
        Some(self.upto.partition_point(|upto| u128::from(*upto) <= at))
    }

    /// The places of a column's ranges or parts; one for a column that is whole.
    fn pieces(&self, column: usize) -> Vec<usize> {
        let nodes = self.nodes.len();
        match self.recorded.placement {
            Placement::Rr | Placement::Placer => vec![self.nodes[column % nodes]],
            Placement::Ivp | Placement::Pp => {
                let partitions = if self.recorded.partitions == 0 { nodes } else { self.recorded.partitions as usize };
                let first = self.tables[column] * partitions;
                (first..first + partitions).map(|piece| self.nodes[piece % nodes]).collect()
            }
        }
    }

    /// The pieces of the column that a statement reads most of; none where it reads nothing.
    fn main_pieces(&self, statement: &RecordedStatement) -> Vec<usize> {
        let most = statement.reads.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
        most.map_or_else(Vec::new, |read| self.pieces(read.column))
    }

    fn tasks(&self, statement: &RecordedStatement, at: &At<'_>) -> usize {
        let places = self.main_pieces(statement);
        let nodes: Vec<NodeId> = places.iter().map(|place| at.machine.node_id(*place)).collect();
        let pieces = match self.recorded.placement {
            _ if places.is_empty() => return 1,
            Placement::Rr | Placement::Placer => Pieces::Whole,
            Placement::Ivp => Pieces::Partitions(places.len()),
            Placement::Pp => Pieces::Parts(places.len()),
        };
        let allowed = hint(at.layout, &nodes, at.active, at.settings.parallelism, pieces);
        let per_piece = match self.recorded.placement {
            Placement::Pp => allowed,
            _ => allowed.div_ceil(places.len()),
        };
        per_piece.max(1) * places.len()
    }

    fn graph(&self, statement: &RecordedStatement, tasks: usize, at: &At<'_>) -> Graph {
        let main = self.main_pieces(statement);
        let mut graph = Graph::new(1.0);
        let share = 1.0 / tasks as f64;
        for task in 0..tasks {
            let mut stage = TaskStage::cpu(statement.cpu_seconds * NS * share);
            for read in &statement.reads {
                let pieces = self.pieces(read.column);
                // Tasks come piece by piece; another table's pieces are met in the same order.
                stage = stage.read(pieces[task * pieces.len() / tasks], read.bytes * share);
            }
            let affinity = match main.get(task * main.len() / tasks) {
                Some(place) => near(at.machine, *place),
                None => Affinity::Anywhere,
            };
            graph.add(Task::new(affinity, stage));
        }
        graph
    }
}

impl Clients for Statements<'_> {
    fn clients(&self) -> usize {
        self.recorded.clients as usize
    }

    fn next(&mut self, _: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        let kind = self.kind(at.turn)?;
        let statement = &self.recorded.statements[kind];
        let tasks = self.tasks(statement, at);
        if let Some(graph) = self.graphs.get(&(kind, tasks)) {
            return Some(Arc::clone(graph));
        }
        let graph = Arc::new(self.graph(statement, tasks, at));
        self.graphs.insert((kind, tasks), Arc::clone(&graph));
        Some(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_as_often_as_it_was_recorded() {
        let statement = |count| RecordedStatement {
            sql: String::new(),
            count,
            tasks: 1.0,
            cpu_seconds: 1.0,
            seconds: 1.0,
            reads: Vec::new(),
        };
        let recorded =
            RecordedWorkload { statements: [30, 0, 10, 1].map(statement).to_vec(), ..RecordedWorkload::default() };
        let statements = Statements::new(&recorded, vec![0]);
        for turns in [41, 410, 4100] {
            let kinds: Vec<usize> = (0..turns).map(|turn| statements.kind(turn).unwrap()).collect();
            for (kind, share) in [30.0, 0.0, 10.0, 1.0].into_iter().enumerate() {
                let count = kinds.iter().filter(|met| **met == kind).count() as f64;
                let expected = share / 41.0 * turns as f64;
                assert!(
                    (count - expected).abs() <= 2.0,
                    "{count} of kind {kind} in {turns} turns, {expected} expected"
                );
            }
        }
        let none = RecordedWorkload::default();
        assert_eq!(Statements::new(&none, vec![0]).kind(0), None);
    }
}
