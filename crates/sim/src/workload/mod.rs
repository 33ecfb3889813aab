//! What runs: statements as graphs of tasks, and the clients that issue them.
//!
//! A [`Graph`] is a statement: tasks, each with an affinity, a hint and [`TaskStage`]s, and which tasks come after
//! which. A [`Workload`] hands out graphs to clients in a closed loop: a client issues its next statement when the last
//! one is done. Builders for the papers' statements are in [`scan`], [`stream`], [`lookup`], [`query`] and [`dealt`];
//! [`shifting`] has units that balance themselves meanwhile, [`placed`] columns that the placer moves, whose statements
//! are in [`columns`].
//!
//! Invariants: a task depends on tasks before it only, so a graph has no cycle; amounts are finite and not negative.
//!
//! # Limits
//! The stages of a task run one after the other; within a stage cpu and memory overlap as its kind says.

pub mod columns;
pub mod dealt;
pub mod lookup;
pub mod placed;
pub mod query;
pub mod scan;
pub mod shifting;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod watched;

use std::sync::Arc;

use numa::NodeId;
use sched::policy::Layout;
use sched::{Affinity, Hint, Settings};

use crate::constants::Constants;
use crate::machine::Machine;
use random::Random;

/// A line of memory.
pub const LINE_BYTES: f64 = 64.0;

/// A piece of a task: cpu time and memory, at the same time.
///
/// Streamed bytes are prefetched, so they overlap with the cpu time; random lines are waited for, as many at a time as
/// a cpu can have in flight, besides the cpu time. A stage without memory is cpu time alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskStage {
    /// Cpu time, ns, of a cpu whose core is its own.
    pub cpu_ns: f64,
    /// Bytes streamed, per node of the memory, by place.
    pub streamed: Vec<(usize, f64)>,
    /// Lines at random places that miss all caches, per node, by place.
    pub lines: Vec<(usize, f64)>,
    /// How many of the lines a core has on their way at once.
    pub under_way: UnderWay,
    /// Which part of its statement it is, such as [`scan::FIND`]; outcomes tell the time spent in each. 0 where nobody
    /// asks.
    pub phase: usize,
}

/// How many lines at random places a core waits for at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnderWay {
    /// As many as it can: each is known beforehand.
    #[default]
    Lines,
    /// As many as it has look-ups: each line of one is known by the line before only.
    Lookups,
    /// One: atomic instructions wait for each other.
    One,
}

impl TaskStage {
    /// A stage of cpu time.
    pub fn cpu(cpu_ns: f64) -> TaskStage {
        TaskStage { cpu_ns, ..TaskStage::default() }
    }

    /// Reads bytes of one node in sequence.
    #[must_use]
    pub fn read(mut self, node: usize, bytes: f64) -> TaskStage {
        self.streamed.push((node, bytes));
        self
    }

    /// Reads bytes that lie evenly on several nodes.
    #[must_use]
    pub fn read_over(mut self, nodes: &[usize], bytes: f64) -> TaskStage {
        self.streamed.extend(nodes.iter().map(|node| (*node, bytes / nodes.len() as f64)));
        self
    }

    /// Writes bytes of one node in sequence: each line is read and written back.
    #[must_use]
    pub fn write(self, node: usize, bytes: f64, constants: &Constants) -> TaskStage {
        if bytes == 0.0 { self } else { self.read(node, bytes * constants.write_factor()) }
    }

    /// Reads lines at random places of nodes, evenly.
    #[must_use]
    pub fn random_over(mut self, nodes: &[usize], lines: f64) -> TaskStage {
        self.lines.extend(nodes.iter().map(|node| (*node, lines / nodes.len() as f64)));
        self
    }

    /// Counts it as this part of its statement.
    #[must_use]
    pub fn in_phase(mut self, phase: usize) -> TaskStage {
        self.phase = phase;
        self
    }

    /// Has so many of its lines on their way at once.
    #[must_use]
    pub fn waiting(mut self, under_way: UnderWay) -> TaskStage {
        self.under_way = under_way;
        self
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> f64 {
        let streamed: f64 = self.streamed.iter().map(|(_, bytes)| bytes).sum();
        streamed + self.lines.iter().map(|(_, lines)| lines * LINE_BYTES).sum::<f64>()
    }
}

/// A task of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Where it asks to run.
    pub affinity: Affinity,
    /// What it says that it costs.
    pub hint: Hint,
    /// What it does, one after the other.
    pub stages: Vec<TaskStage>,
    /// The tasks of its graph that come before it.
    pub after: Vec<usize>,
}

impl Task {
    /// A task of one stage, whose hint is what the stage costs.
    pub fn new(affinity: Affinity, stage: TaskStage) -> Task {
        let hint = Hint { bytes: stage.bytes() as u64, cpu_ns: stage.cpu_ns as u64 };
        Task { affinity, hint, stages: vec![stage], after: Vec::new() }
    }

    /// The task, to run after these.
    #[must_use]
    pub fn after(mut self, tasks: impl IntoIterator<Item = usize>) -> Task {
        self.after.extend(tasks);
        self
    }
}

/// A statement: its tasks in an order in which each comes after those it depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// What it gets done, in whatever the workload counts (rows, look-ups, bytes): summed up in the outcome.
    pub items: f64,
    /// What kind of statement it is; outcomes keep latencies per kind.
    pub kind: usize,
    /// Whether its tasks go before those of statements that are not urgent, however old.
    pub urgent: bool,
}

impl Graph {
    /// An empty graph that gets `n` items done.
    pub fn new(items: f64) -> Graph {
        Graph { items, ..Graph::default() }
    }

    /// Adds a task; its place.
    pub fn add(&mut self, task: Task) -> usize {
        self.tasks.push(task);
        self.tasks.len() - 1
    }

    /// What is wrong with it for this machine, if anything.
    pub fn fault(&self, machine: &Machine) -> Option<String> {
        if self.tasks.is_empty() {
            return Some("a statement without tasks never ends".to_owned());
        }
        let nodes = machine.node_count();
        for (place, task) in self.tasks.iter().enumerate() {
            if let Some(later) = task.after.iter().find(|before| **before >= place) {
                return Some(format!(
                    "task {place} comes after task {later}: a task can only depend on tasks before it"
                ));
            }
            for stage in &task.stages {
                let memory = stage.streamed.iter().chain(&stage.lines);
                let good = |amount: f64| amount.is_finite() && amount >= 0.0;
                if let Some((node, amount)) = memory.clone().find(|(node, amount)| *node >= nodes || !good(*amount)) {
                    return Some(format!(
                        "task {place} asks for {amount} of node {node}; amounts are finite, nodes 0 to {}",
                        nodes - 1
                    ));
                }
                if !good(stage.cpu_ns) {
                    return Some(format!("task {place} takes {} ns of cpu time", stage.cpu_ns));
                }
            }
        }
        None
    }
}

/// What a workload may look at when it makes a statement.
pub struct At<'a> {
    /// Virtual time.
    pub now_ns: u64,
    /// Statements that are alive, the one to be made included.
    pub active: usize,
    /// The turn of this statement, from 0.
    pub turn: u64,
    /// The machine.
    pub machine: &'a Machine,
    /// Its slots and groups.
    pub layout: &'a Layout,
    /// The settings of the run.
    pub settings: Settings,
    /// The costs.
    pub constants: &'a Constants,
    /// How long cpus had each task of the client's last statement, waits for memory included; empty unless the workload
    /// [wants it](Workload::wants_times).
    pub took_ns: &'a [u64],
    /// Random numbers of the run.
    pub random: &'a mut Random,
}

/// Clients in a closed loop.
pub trait Workload {
    /// How many clients there are.
    fn clients(&self) -> usize;

    /// The next statement of a client, or `None` when it is done for good. The same statement should be the same `Arc`:
    /// what a graph costs is worked out once for each.
    fn next(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>>;

    /// Whether [`At::took_ns`] is to be kept.
    fn wants_times(&self) -> bool {
        false
    }

    /// When a client that had no next statement asks again, in virtual time; `None` if it is done for good.
    fn asks_again_ns(&self, client: usize) -> Option<u64> {
        let _ = client;
        None
    }
}

/// The affinity for data of a node, by place.
pub fn near(machine: &Machine, node: usize) -> Affinity {
    Affinity::near(machine.node_id(node))
}

/// The kernel's numbers of nodes given by place.
pub(crate) fn ids(machine: &Machine, nodes: &[usize]) -> Vec<NodeId> {
    nodes.iter().map(|node| machine.node_id(*node)).collect()
}

/// Pages that move from one node to others, as one task: the kernel copies them on the cpu that asks.
pub fn migration(from: usize, to: &[usize], bytes: f64, constants: &Constants) -> Task {
    let copied = TaskStage::cpu(bytes * constants.move_ns_per_byte()).read(from, bytes);
    Task::new(Affinity::Anywhere, copied.read_over(to, bytes * constants.write_factor()))
}

/// Every client issues the same statement, `n` times or without end.
#[derive(Clone, Debug)]
pub struct RepeatedStatement {
    graph: Arc<Graph>,
    left: Vec<u64>,
}

impl RepeatedStatement {
    /// `clients` clients with a statement, each `times` times.
    pub fn new(graph: Graph, clients: usize, times: u64) -> RepeatedStatement {
        RepeatedStatement { graph: Arc::new(graph), left: vec![times; clients] }
    }
}

impl Workload for RepeatedStatement {
    fn clients(&self) -> usize {
        self.left.len()
    }

    fn next(&mut self, client: usize, _: &mut At<'_>) -> Option<Arc<Graph>> {
        let left = self.left.get_mut(client)?;
        *left = left.checked_sub(1)?;
        Some(Arc::clone(&self.graph))
    }
}
