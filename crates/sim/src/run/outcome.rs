//! What came out of a run.
//!
//! # Limits
//! Bytes count when the stage that moved them ends.

use super::{Histogram, Options};
use crate::machine::Machine;

/// What is counted while a run goes on.
#[derive(Debug)]
pub(super) struct Tally {
    began_ns: Option<u64>,
    nodes: usize,
    slots: usize,
    latency: Histogram,
    by_kind: Vec<Histogram>,
    items: f64,
    tasks: u64,
    stolen: u64,
    stolen_far: u64,
    pairs: Vec<f64>,
    busy_ns: Vec<u64>,
    computed_ns: f64,
    phases_ns: Vec<u64>,
    checks: u64,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOutcome {
    /// Bytes that its memory delivered, to whomever.
    pub controller_bytes: f64,
    /// Bytes of its own memory that its cpus moved.
    pub local_bytes: f64,
    /// Bytes of other nodes that its cpus moved.
    pub remote_bytes: f64,
    /// Share of the time that its cpus ran tasks.
    pub busy: f64,
    /// Bytes its memory delivered per second, of what it can.
    pub load: f64,
}

/// What came out, over the measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The machine's name.
    pub machine: String,
    /// The seed.
    pub seed: u64,
    /// Virtual time measured.
    pub measured_ns: u64,
    /// Statements that ended.
    pub statements: u64,
    /// What they got done, as their graphs count it.
    pub items: f64,
    /// From issue to end, of all statements.
    pub latency: Histogram,
    /// Of each kind of statement ([`crate::Graph::kind`]).
    pub latency_by_kind: Vec<Histogram>,
    /// Tasks run.
    pub tasks: u64,
    /// Tasks taken from another thread group.
    pub stolen: u64,
    /// Tasks taken from another node.
    pub stolen_across_nodes: u64,
    /// Bytes moved, `[cpu's node][memory's node]`, by place.
    pub pair_bytes: Vec<Vec<f64>>,
    /// Per node, by place.
    pub nodes: Vec<NodeOutcome>,
    /// Bytes that crossed links as data, headers and all the links on the way counted.
    pub link_data_bytes: f64,
    /// Bytes that crossed links to keep caches coherent.
    pub link_snoop_bytes: f64,
    /// Bytes per link, of machines that have links, in their order.
    pub link_bytes: Vec<f64>,
    /// Share of the time that slots ran tasks.
    pub busy: f64,
    /// Of that time, the share in which cpus computed instead of waiting for memory or for the other hardware thread.
    pub computing: f64,
    /// Nanoseconds that cpus spent in each phase ([`crate::TaskStage::phase`]).
    pub phases_ns: Vec<u64>,
    /// Checks made; 0 where none were asked for.
    pub checks: u64,
    /// Events handled and solutions of rates, warm-up included.
    pub events: u64,
    /// How often rates were worked out.
    pub solutions: u64,
}

impl Outcome {
    /// Virtual seconds measured.
    pub fn seconds(&self) -> f64 {
        self.measured_ns as f64 * 1e-9
    }

    /// Statements per second.
    pub fn statements_per_second(&self) -> f64 {
        self.statements as f64 / self.seconds()
    }

    /// Items per second.
    pub fn items_per_second(&self) -> f64 {
        self.items / self.seconds()
    }

    /// Bytes moved per second, of all memory.
    pub fn bytes_per_second(&self) -> f64 {
        (self.local_bytes() + self.remote_bytes()) / self.seconds()
    }

    /// Bytes that cpus moved of their own node's memory.
    fn local_bytes(&self) -> f64 {
        self.nodes.iter().map(|node| node.local_bytes).sum()
    }

    /// Bytes that cpus moved of other nodes' memory.
    pub fn remote_bytes(&self) -> f64 {
        self.nodes.iter().map(|node| node.remote_bytes).sum()
    }

    /// The share of bytes that were remote.
    pub fn remote_share(&self) -> f64 {
        let all = self.local_bytes() + self.remote_bytes();
        if all > 0.0 { self.remote_bytes() / all } else { 0.0 }
    }

    /// Bytes per second over links, data and coherence.
    pub fn link_bytes_per_second(&self) -> f64 {
        (self.link_data_bytes + self.link_snoop_bytes) / self.seconds()
    }
}

impl Tally {
    pub(super) fn new(machine: &Machine, slots: usize) -> Tally {
        let nodes = machine.node_count();
        Tally {
            began_ns: None,
            nodes,
            slots,
            latency: Histogram::default(),
            by_kind: Vec::new(),
            items: 0.0,
            tasks: 0,
            stolen: 0,
            stolen_far: 0,
            pairs: vec![0.0; nodes * nodes],
            busy_ns: vec![0; nodes],
            computed_ns: 0.0,
            phases_ns: Vec::new(),
            checks: 0,
        }
    }

    /// Counting begins; what was counted before is forgotten.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.latency = Histogram::default();
        self.by_kind.clear();
        self.phases_ns.clear();
        (self.items, self.tasks, self.stolen, self.stolen_far, self.computed_ns) = (0.0, 0, 0, 0, 0.0);
        self.pairs.fill(0.0);
        self.busy_ns.fill(0);
        self.began_ns = Some(now_ns);
    }

    /// Statements counted.
    pub(super) fn statements(&self) -> u64 {
        if self.began_ns.is_some() { self.latency.count() } else { 0 }
    }

    pub(super) fn statement(&mut self, latency_ns: u64, items: f64, kind: usize) {
        self.latency.record(latency_ns);
        if self.by_kind.len() <= kind {
            self.by_kind.resize(kind + 1, Histogram::default());
        }
        self.by_kind[kind].record(latency_ns);
        self.items += items;
    }

    pub(super) fn task(&mut self, stolen: bool, far: bool) {
        self.tasks += 1;
        self.stolen += u64::from(stolen);
        self.stolen_far += u64::from(far);
    }

    pub(super) fn moved(&mut self, node: usize, memory: usize, bytes: f64) {
        self.pairs[node * self.nodes + memory] += bytes;
    }

    pub(super) fn busy(&mut self, node: usize, ns: u64) {
        self.busy_ns[node] += ns;
    }

    pub(super) fn computed(&mut self, ns: f64) {
        self.computed_ns += ns;
    }

    pub(super) fn phase(&mut self, phase: usize, ns: u64) {
        if self.phases_ns.len() <= phase {
            self.phases_ns.resize(phase + 1, 0);
        }
        self.phases_ns[phase] += ns;
    }

    pub(super) fn checks(&mut self, checks: u64) {
        self.checks = checks;
    }

    pub(super) fn outcome(
        self,
        machine: &Machine,
        options: &Options,
        now_ns: u64,
        (events, solutions): (u64, u64),
    ) -> Outcome {
        // A run that ended before the warm-up did counts from its start.
        let measured_ns = (now_ns - self.began_ns.unwrap_or(0)).max(1);
        let seconds = measured_ns as f64 * 1e-9;
        let pair = |from: usize, to: usize| self.pairs[from * self.nodes + to];
        let node = |node: usize| {
            let facts = &machine.nodes()[node];
            let controller: f64 = (0..self.nodes).map(|from| pair(from, node)).sum();
            let all: f64 = (0..self.nodes).map(|to| pair(node, to)).sum();
            NodeOutcome {
                controller_bytes: controller,
                local_bytes: pair(node, node),
                remote_bytes: all - pair(node, node),
                busy: self.busy_ns[node] as f64 / (measured_ns as f64 * facts.cpus.max(1) as f64),
                load: controller / seconds / facts.controller_bytes_per_second,
            }
        };
        let mut data = 0.0;
        let mut snoops = 0.0;
        let mut links = vec![0.0; machine.links().len()];
        for from in 0..self.nodes {
            for to in 0..self.nodes {
                if pair(from, to) == 0.0 {
                    continue;
                }
                let (snoop, of_data) = machine.link_bytes(from, to, &options.constants);
                data += pair(from, to) * of_data;
                snoops += pair(from, to) * snoop;
                machine.route(from, to).iter().for_each(|link| links[*link] += pair(from, to));
            }
        }
        let busy_ns: f64 = self.busy_ns.iter().map(|ns| *ns as f64).sum();
        Outcome {
            machine: machine.name().to_owned(),
            seed: options.seed,
            measured_ns,
            statements: self.latency.count(),
            items: self.items,
            tasks: self.tasks,
            stolen: self.stolen,
            stolen_across_nodes: self.stolen_far,
            pair_bytes: (0..self.nodes).map(|from| (0..self.nodes).map(|to| pair(from, to)).collect()).collect(),
            nodes: (0..self.nodes).map(node).collect(),
            link_data_bytes: data,
            link_snoop_bytes: snoops,
            link_bytes: links,
            busy: busy_ns / (measured_ns as f64 * self.slots as f64),
            computing: if busy_ns > 0.0 { (self.computed_ns / busy_ns).min(1.0) } else { 0.0 },
            phases_ns: self.phases_ns,
            checks: self.checks,
            events,
            solutions,
            latency: self.latency,
            latency_by_kind: self.by_kind,
        }
    }
}
