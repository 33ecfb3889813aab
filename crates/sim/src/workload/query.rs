//! Statements over tables that are told by what they read, compute and write: queries, predicates, aggregations.
//!
//! A [`Query`] reads inputs (bytes and cpu time of a piece of a table, where it lies) and writes results. Inputs are
//! cut into as many tasks as the concurrency hint allows, at least one per input; a merge follows if it takes time.
//!
//! # Limits
//! Tasks of an input are alike.
//!
//! Source: Seidel 2011, chapter 4; Greinsmark 2020, section 5.4; Psaroudakis et al., VLDB 2015, section 6.3.

use std::collections::BTreeMap;
use std::sync::Arc;

use sched::Affinity;
use sched::policy::concurrency::{Pieces, hint};

use super::{At, Graph, Task, TaskStage, Workload, ids};
use crate::machine::Machine;

/// What a query reads of one piece of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The nodes that it lies on, evenly, by place.
    pub nodes: Vec<usize>,
    /// Bytes streamed.
    pub bytes: f64,
    /// Lines read at random places of it (hash tables, dictionaries), beyond what caches hold.
    pub lines: f64,
    /// Cpu time, ns.
    pub cpu_ns: f64,
    /// Bytes of results written.
    pub result_bytes: f64,
    /// Where they are written; `None`: on the node of the cpu that writes them, as fresh memory is, which is taken to
    /// be the first of `near`, or else of `nodes`.
    pub result_node: Option<usize>,
    /// Where its tasks ask to run: evenly on these nodes; empty is anywhere.
    pub near: Vec<usize>,
}

impl Input {
    /// A piece on one node, read where it lies.
    pub fn local(node: usize, bytes: f64, cpu_ns: f64) -> Input {
        Input { nodes: vec![node], bytes, cpu_ns, lines: 0.0, result_bytes: 0.0, result_node: None, near: vec![node] }
    }

    /// A piece spread evenly over nodes, read by tasks that run anywhere.
    pub fn anywhere(nodes: Vec<usize>, bytes: f64, cpu_ns: f64) -> Input {
        Input { nodes, bytes, cpu_ns, lines: 0.0, result_bytes: 0.0, result_node: None, near: Vec::new() }
    }
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What it reads, all at once.
    pub inputs: Vec<Input>,
    /// Cpu time of the merge at the end, ns; 0 is none.
    pub merge_ns: f64,
    /// Cut each input into `n` tasks; `None`: as many as the concurrency hint allows.
    pub tasks: Option<usize>,
    /// What it counts as.
    pub kind: usize,
}

impl Query {
    /// The statement in `n` tasks per input.
    pub fn graph(&self, machine: &Machine, tasks: usize, constants: &crate::Constants) -> Graph {
        let mut graph = Graph { kind: self.kind, ..Graph::new(1.0) };
        for input in &self.inputs {
            let tasks = tasks.max(1).next_multiple_of(input.near.len().max(1));
            for task in 0..tasks {
                let node = input.near.get(task % input.near.len().max(1)).copied();
                let affinity = node.map_or(Affinity::Anywhere, |node| super::near(machine, node));
                graph.add(Task::new(affinity, input.stage(tasks as f64, node, constants)));
            }
        }
        if self.merge_ns > 0.0 {
            let all = 0..graph.tasks.len();
            graph.add(Task::new(Affinity::Anywhere, TaskStage::cpu(self.merge_ns)).after(all));
        }
        graph
    }
}

impl Input {
    fn stage(&self, tasks: f64, node: Option<usize>, constants: &crate::Constants) -> TaskStage {
        let mut stage = TaskStage::cpu(self.cpu_ns / tasks);
        // A task near one of several nodes reads the share that lies there.
        let from: Vec<usize> = match node {
            Some(node) if self.near.len() > 1 && self.nodes.contains(&node) => vec![node],
            _ => self.nodes.clone(),
        };
        if self.bytes > 0.0 {
            stage = stage.read_over(&from, self.bytes / tasks);
        }
        if self.lines > 0.0 {
            stage = stage.random_over(&from, self.lines / tasks);
        }
        let result = self.result_node.or(node).or(from.first().copied());
        match result.filter(|_| self.result_bytes > 0.0) {
            Some(node) => stage.write(node, self.result_bytes / tasks, constants),
            None => stage,
        }
    }
}

/// Clients that issue queries at random.
#[derive(Clone, Debug)]
pub struct QueryClients {
    clients: usize,
    queries: Vec<Query>,
    graphs: BTreeMap<(usize, usize), Arc<Graph>>,
}

impl QueryClients {
    /// `n` clients, each with one of the queries after the other, drawn evenly.
    pub fn new(clients: usize, queries: Vec<Query>) -> QueryClients {
        QueryClients { clients, queries, graphs: BTreeMap::new() }
    }
}

impl Workload for QueryClients {
    fn clients(&self) -> usize {
        self.clients
    }

    fn next(&mut self, _: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        let number = at.random.below(self.queries.len());
        let query = self.queries.get(number)?;
        let mut nodes: Vec<usize> = query.inputs.iter().flat_map(|input| input.near.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let parts = Pieces::Parts(query.inputs.len().max(1));
        let allowed = || hint(at.layout, &ids(at.machine, &nodes), at.active, at.settings.parallelism, parts);
        let tasks = query.tasks.unwrap_or_else(allowed);
        let build = || Arc::new(query.graph(at.machine, tasks, at.constants));
        Some(Arc::clone(self.graphs.entry((number, tasks)).or_insert_with(build)))
    }
}
