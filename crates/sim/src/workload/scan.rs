//! Range scans over dictionary-encoded columns, as VLDB 2015 issues them and the product runs them.
//!
//! A statement reads one column's codes (or looks its index up), keeps the qualifying positions and materialises the
//! values: a task per range in as many as [`sched::policy::concurrency`] allows, each near its data; the second phase
//! begins when the first is done, its tasks where the output's equal regions have their data.
//!
//! # What it costs
//! Codes: bits per row, streamed. Results: positions of four bytes written, read again; codes of the positions, as a
//! stream where half of the lines or more are touched and at random otherwise; an entry of the dictionary at random, of
//! which a cpu's share of the last-level cache holds what fits; four bytes written.
//!
//! Invariant: with parallelism within statements off, a statement is one task, near the first partition.
//!
//! # Limits
//! Rows are spread evenly over ranges and partitions. An output vector lies where its task's data lies: recycled
//! vectors, whose pages are anywhere, are not told apart.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.1, 5.2 and 6.

use std::collections::BTreeMap;
use std::sync::Arc;

use sched::Affinity;
use sched::policy::concurrency::{Pieces, hint, rotated};

use super::{At, Graph, LINE_BYTES, Task, TaskStage, Workload, ids, migration, near};
use crate::machine::Machine;

/// The phase of scanning codes.
pub const FIND: usize = 1;
/// The phase of looking an index up.
pub const LOOK_UP: usize = 2;
/// The phase of making values.
pub const MATERIALISE: usize = 3;

const POSITION_BYTES: f64 = 4.0;
/// An INTEGER, as the paper's columns are.
const VALUE_BYTES: f64 = 4.0;
/// From this share of touched lines on, gathering codes is a stream.
const STREAM_FROM: f64 = 0.5;

/// Where columns lie (VLDB 2015, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each column on one node, in turn.
    RoundRobin,
    /// Each column on one node, neighbours together: the first columns on the first node.
    Blocks,
    /// The codes of each column in `n` partitions, dealt out over the nodes in turn; dictionary and index interleaved
    /// over these nodes.
    Ivp(usize),
    /// The table in `n` parts with dictionaries and indexes of their own, dealt out over the nodes in turn.
    Pp(usize),
}

/// Some columns are asked for more often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hot {
    /// How many, the last ones of the table.
    pub columns: usize,
    /// The share of statements that ask for one of them.
    pub share: f64,
}

/// Clients that scan random columns of a table.
#[derive(Clone, Debug)]
pub struct Scans {
    /// In a closed loop.
    pub clients: usize,
    /// Of the table.
    pub rows: f64,
    /// How many columns there are.
    pub columns: usize,
    /// Bits per code: those of column 0, 1, .., from the start again where there are more columns.
    pub bits: Vec<u32>,
    /// Where the columns lie.
    pub placement: Placement,
    /// The share of rows that qualifies.
    pub selectivity: f64,
    /// Whether indexes may be used.
    pub index: bool,
    /// Skew; `None`: every column alike.
    pub hot: Option<Hot>,
    /// Whether scans of one column that run on a node at the same time read it from memory once: those behind the first
    /// find it in the cache, are faster for that and catch up.
    pub shares_cache: bool,
}

impl Scans {
    /// The workload of section 6.1: 100 million rows, 160 columns of 17 to 26 bits, selectivity 0.001%, no index, 1024
    /// clients.
    pub fn vldb(placement: Placement) -> Scans {
        Scans {
            clients: 1024,
            rows: 1e8,
            columns: 160,
            bits: (17..=26).collect(),
            placement,
            selectivity: 1e-5,
            index: false,
            hot: None,
            shares_cache: false,
        }
    }

    /// The clients.
    pub fn workload(self) -> ScanClients {
        ScanClients { scans: self, graphs: BTreeMap::new() }
    }

    /// Bits per code of a column.
    fn bits_of(&self, column: usize) -> u32 {
        self.bits.get(column % self.bits.len().max(1)).copied().unwrap_or(32)
    }

    /// Distinct values among `n` rows of a column: uniform draws from all codes.
    fn distinct(&self, column: usize, rows: f64) -> f64 {
        let codes = 2f64.powi(self.bits_of(column) as i32);
        codes * -(-rows / codes).exp_m1()
    }

    /// Bytes of codes and dictionaries of the whole table under its placement; with indexes also those.
    pub fn memory_bytes(&self) -> f64 {
        let parts = if let Placement::Pp(parts) = self.placement { parts.max(1) } else { 1 };
        let column = |column: usize| {
            let rows = self.rows / parts as f64;
            let distinct = self.distinct(column, rows);
            let codes = rows * distinct.log2().ceil().max(1.0).min(f64::from(self.bits_of(column))) / 8.0;
            let index = if self.index { (rows + distinct) * POSITION_BYTES } else { 0.0 };
            parts as f64 * (codes + distinct * VALUE_BYTES + index)
        };
        (0..self.columns).map(column).sum()
    }

    /// The nodes of a column's partitions, by place.
    pub fn nodes_of(&self, column: usize, nodes: usize) -> Vec<usize> {
        match self.placement {
            Placement::RoundRobin => vec![column % nodes],
            Placement::Blocks => vec![(column * nodes / self.columns.max(1)).min(nodes - 1)],
            Placement::Ivp(partitions) => {
                let partitions = partitions.max(1);
                // Dealt out in turn; a column that would begin where another one did begins one node further.
                let first = column * partitions + column * partitions / nodes;
                (0..partitions).map(|partition| (first + partition) % nodes).collect()
            }
            Placement::Pp(parts) => (0..parts.max(1)).map(|part| part % nodes).collect(),
        }
    }

    /// Whether a statement looks its index up, by the product's rule: a row that an index names costs as much as
    /// [`crate::Constants::index_row_cost`] rows that are scanned.
    pub fn uses_index(&self, constants: &crate::Constants) -> bool {
        self.index && self.selectivity * constants.index_row_cost() < 1.0
    }

    /// Placing the table anew, as one statement with a task per column, all at the same time, as the product does it
    /// (`storage/src/place.rs`; whether the kernel copies pages of one process as fast for many callers is not known):
    /// its codes, dictionaries and indexes are moved (round-robin, IVP), or all values are read, encoded and written
    /// anew (PP). Where columns were is not known: they are taken to have been on the node after.
    pub fn placing(&self, machine: &Machine, constants: &crate::Constants) -> Graph {
        let nodes = machine.node_count();
        let bytes = self.memory_bytes() / self.columns.max(1) as f64;
        let mut graph = Graph::new(self.columns as f64);
        for column in 0..self.columns {
            let from = (column + 1) % nodes;
            let to = self.nodes_of(column, nodes);
            let mut task = migration(from, &to, bytes, constants);
            if let Placement::Pp(_) = self.placement {
                task.stages[0].cpu_ns = self.rows * constants.encode_ns_per_value();
            }
            graph.add(Task { affinity: near(machine, from), ..task });
        }
        graph
    }

    /// A statement over a column, in at most `n` tasks per phase (per part of PP).
    pub fn graph(&self, column: usize, tasks: usize, at: &At<'_>) -> Graph {
        Builder { scans: self, column, at, pieces: self.nodes_of(column, at.machine.node_count()) }.graph(tasks.max(1))
    }

    /// How many tasks the concurrency hint allows a statement over a column.
    fn tasks(&self, column: usize, at: &At<'_>) -> usize {
        let nodes = ids(at.machine, &self.nodes_of(column, at.machine.node_count()));
        let pieces = match self.placement {
            Placement::RoundRobin | Placement::Blocks => Pieces::Whole,
            Placement::Ivp(partitions) => Pieces::Partitions(partitions),
            Placement::Pp(parts) => Pieces::Parts(parts),
        };
        hint(at.layout, &nodes, at.active, at.settings.parallelism, pieces)
    }
}

/// Clients with the statements that they have issued before.
#[derive(Clone, Debug)]
pub struct ScanClients {
    scans: Scans,
    graphs: BTreeMap<(usize, usize), Arc<Graph>>,
}

impl Workload for ScanClients {
    fn clients(&self) -> usize {
        self.scans.clients
    }

    fn next(&mut self, _: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        let columns = self.scans.columns;
        let column = match self.scans.hot {
            Some(hot) => {
                let hot_columns = hot.columns.min(columns);
                let is_hot = at.random.unit() < hot.share;
                if is_hot {
                    columns - hot_columns + at.random.below(hot_columns)
                } else {
                    at.random.below(columns - hot_columns)
                }
            }
            None => at.random.below(columns),
        };
        let tasks = self.scans.tasks(column, at);
        let scans = &self.scans;
        let graph = self.graphs.entry((column, tasks)).or_insert_with(|| Arc::new(scans.graph(column, tasks, at)));
        Some(Arc::clone(graph))
    }
}

/// One statement.
struct Builder<'a, 'b> {
    scans: &'a Scans,
    column: usize,
    at: &'a At<'b>,
    /// The node of each partition or part.
    pieces: Vec<usize>,
}

impl Builder<'_, '_> {
    fn graph(&self, tasks: usize) -> Graph {
        let mut graph = Graph::new(1.0);
        let pieces = self.pieces.len();
        let index = self.scans.uses_index(self.at.constants);
        if self.at.settings.parallelism == 1 {
            // All tables have their parts on the same nodes: statements begin with them in turn.
            let first = if let Placement::Pp(_) = self.scans.placement { self.column as u64 } else { 0 };
            let order: Vec<usize> = rotated(first, pieces).collect();
            let find = match index {
                true => vec![self.lookup(self.pieces.clone())],
                false => order.iter().map(|piece| self.find(*piece, 1)).collect(),
            };
            let stages = find.into_iter().chain(order.iter().map(|piece| self.materialise(*piece, 1))).collect();
            let mut task = Task::new(self.near(order[0]), TaskStage::default());
            task.stages = stages;
            graph.add(with_hint(task));
            return graph;
        }
        let per_piece = match self.scans.placement {
            Placement::Pp(_) => tasks,
            _ => tasks.div_ceil(pieces),
        };
        let found: Vec<usize> = match (index, self.scans.placement) {
            (true, Placement::Pp(_)) => {
                // An index per part.
                (0..pieces)
                    .map(|piece| graph.add(Task::new(self.near(piece), self.lookup(vec![self.pieces[piece]]))))
                    .collect()
            }
            (true, _) => {
                // One that is interleaved has no place to be near to.
                let affinity = if pieces == 1 { self.near(0) } else { Affinity::Anywhere };
                vec![graph.add(Task::new(affinity, self.lookup(self.pieces.clone())))]
            }
            (false, _) => self.add_phase(&mut graph, per_piece, &[], |piece| self.find(piece, per_piece)),
        };
        self.add_phase(&mut graph, per_piece, &found, |piece| self.materialise(piece, per_piece));
        graph
    }

    /// `n` tasks for each piece, the pieces in turn, as a rotated start would have it.
    fn add_phase(
        &self,
        graph: &mut Graph,
        per_piece: usize,
        after: &[usize],
        stage: impl Fn(usize) -> TaskStage,
    ) -> Vec<usize> {
        let mut places = Vec::new();
        for piece in 0..self.pieces.len() {
            for _ in 0..per_piece {
                places.push(graph.add(Task::new(self.near(piece), stage(piece)).after(after.iter().copied())));
            }
        }
        places
    }

    fn near(&self, piece: usize) -> Affinity {
        near(self.at.machine, self.pieces[piece])
    }

    /// Rows of one of `tasks` ranges of a piece.
    fn rows(&self, tasks: usize) -> f64 {
        self.scans.rows / (self.pieces.len() * tasks) as f64
    }

    fn codes_bytes(&self, rows: f64) -> f64 {
        rows * f64::from(self.scans.bits_of(self.column)) / 8.0
    }

    /// How many scans of a column run on a node at the same time, 1 at least: its cpus are dealt to the columns of
    /// which it has a piece, as far as there are statements for them.
    fn scans_at_once(&self, node: usize) -> f64 {
        let pieces = self.pieces.len() as f64;
        let nodes = self.at.machine.node_count() as f64;
        let running = (self.scans.clients as f64 * pieces / nodes).min(self.at.machine.nodes()[node].cpus as f64);
        let columns = self.scans.columns as f64;
        // Of a skewed workload, the hot columns' share.
        let (columns, share) = match self.scans.hot {
            Some(hot) if self.column >= self.scans.columns - hot.columns => (hot.columns as f64, hot.share),
            Some(hot) => (columns - hot.columns as f64, 1.0 - hot.share),
            None => (columns, 1.0),
        };
        (running * share / (columns * pieces / nodes).max(1.0)).max(1.0)
    }

    /// The first phase on a range: read codes, write positions.
    fn find(&self, piece: usize, tasks: usize) -> TaskStage {
        let rows = self.rows(tasks);
        let constants = self.at.constants;
        let node = self.pieces[piece];
        let positions = rows * self.scans.selectivity * POSITION_BYTES;
        let readers = if self.scans.shares_cache { self.scans_at_once(node) } else { 1.0 };
        TaskStage::cpu(rows * constants.scan_ns_per_row())
            .read(node, self.codes_bytes(rows) / readers)
            .write(node, positions, constants)
            .in_phase(FIND)
    }

    /// The first phase by index, whose pages lie on these nodes.
    fn lookup(&self, nodes: Vec<usize>) -> TaskStage {
        let constants = self.at.constants;
        let share = match self.scans.placement {
            Placement::Pp(_) => nodes.len() as f64 / self.pieces.len() as f64,
            _ => 1.0,
        };
        let found = self.scans.rows * self.scans.selectivity * share;
        let values = self.scans.distinct(self.column, self.scans.rows * share) * self.scans.selectivity;
        // The entry of the first value is somewhere, those of the others follow; so do their positions.
        TaskStage::cpu(values * constants.lookup_ns() + found * constants.random_access_ns())
            .random_over(&nodes, 2.0)
            .read_over(&nodes, (values + found) * POSITION_BYTES)
            .write(nodes[0], found * POSITION_BYTES, constants)
            .in_phase(LOOK_UP)
    }

    /// The second phase on a region: positions, codes and dictionary in, values out.
    fn materialise(&self, piece: usize, tasks: usize) -> TaskStage {
        let constants = self.at.constants;
        let node = self.pieces[piece];
        let rows = self.rows(tasks);
        let found = rows * self.scans.selectivity;
        let lines = self.codes_bytes(rows) / LINE_BYTES;
        let per_line = LINE_BYTES * 8.0 / f64::from(self.scans.bits_of(self.column).max(1));
        let touched = 1.0 - (1.0 - self.scans.selectivity.min(1.0)).powf(per_line);
        let mut stage = TaskStage::cpu(0.0).read(node, found * POSITION_BYTES);
        stage = if touched >= STREAM_FROM {
            stage.read(node, touched * lines * LINE_BYTES)
        } else {
            stage.random_over(&[node], (touched * lines).min(found))
        };
        let dictionary = match self.scans.placement {
            Placement::Pp(_) => vec![node],
            _ => self.pieces.clone(),
        };
        let of_rows = if dictionary.len() == 1 { self.scans.rows / self.pieces.len() as f64 } else { self.scans.rows };
        let missed = self.missed(node, self.scans.distinct(self.column, of_rows) * VALUE_BYTES, found);
        let held = found - missed;
        let cached = if held > 0.0 { held * constants.llc_ns() / constants.lines_random() } else { 0.0 };
        stage.cpu_ns = found * constants.result_ns_per_row() + cached;
        stage.random_over(&dictionary, missed).write(node, found * VALUE_BYTES, constants).in_phase(MATERIALISE)
    }

    /// How many of `n` accesses to a dictionary miss: a cpu's share of the last-level cache holds what fits, and no
    /// more lines are fetched than are asked for.
    fn missed(&self, node: usize, dictionary_bytes: f64, accesses: f64) -> f64 {
        let facts = &self.at.machine.nodes()[node];
        let cache = facts.llc_bytes as f64 / facts.cpus.max(1) as f64;
        accesses * (1.0 - cache / dictionary_bytes.max(1.0)).max(0.0)
    }
}

/// The hint of a task of several stages.
fn with_hint(mut task: Task) -> Task {
    task.hint.bytes = task.stages.iter().map(TaskStage::bytes).sum::<f64>() as u64;
    task.hint.cpu_ns = task.stages.iter().map(|stage| stage.cpu_ns).sum::<f64>() as u64;
    task
}
