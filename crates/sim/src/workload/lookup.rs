//! Look-ups of keys in an index: one that all cpus share, or the units' own.
//!
//! The index is a prefix tree of eight bits per level over dense keys, with a record of 16 bytes per key: 24 GB for a
//! billion keys (the paper: about 25). A look-up follows a line per level and one of the record; the last-level cache
//! of a node holds the upper levels first. Shared, it is interleaved over all nodes, and every node's cache holds the
//! same levels; with units a node's cache holds those of its own part.
//!
//! A unit also routes: for each look-up that it runs it finds a key's owner and sends the key out, in a
//! buffer per unit. A full buffer is copied to where the
//! other unit reads it and announced there.
//!
//! # Limits
//! Keys are uniform. What is cached is what would be cached in the long run; there is no warming up.
//!
//! Source: Kissinger et al., ADMS 2014, sections 3.2, 4.1 and 4.2.

use sched::policy::Layout;
use sched::{Affinity, SlotId};

use super::{Graph, Task, TaskStage};
use crate::constants::Constants;
use crate::machine::Machine;

const FANOUT: f64 = 256.0;
const POINTER_BYTES: f64 = 8.0;
const RECORD_BYTES: f64 = 16.0;
/// Ranges in a line of the table that tells whose key it is: keys of eight bytes.
const RANGES_PER_LINE: f64 = 8.0;
/// Lines that announcing a buffer touches at the other unit: its descriptor, and the counter of the bytes in it.
const ANNOUNCE_LINES: f64 = 2.0;

/// Who looks up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Index {
    /// All cpus in one index, interleaved over all nodes.
    Shared,
    /// Units, each in its own part.
    Units {
        /// Commands that an outgoing buffer holds.
        buffer: f64,
        /// Whether the commands are also run, or only routed.
        processing: bool,
    },
}

/// Look-ups.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookups {
    /// Of the whole index.
    pub keys: f64,
    /// Who.
    pub index: Index,
    /// Look-ups per task.
    pub per_task: f64,
}

impl Lookups {
    /// Look-ups in an index of `n` keys, in tasks of 10,000.
    pub fn new(keys: f64, index: Index) -> Lookups {
        Lookups { keys, index, per_task: 10_000.0 }
    }

    /// Bytes of each level, the root first, the records last.
    pub fn level_bytes(&self) -> Vec<f64> {
        let levels = (self.keys.max(2.0).log2() / FANOUT.log2()).ceil().max(1.0) as i32;
        let nodes = |level: i32| (self.keys / FANOUT.powi(levels - level)).ceil().max(1.0);
        let mut bytes: Vec<f64> = (0..levels).map(|level| nodes(level) * FANOUT * POINTER_BYTES).collect();
        // The last level has a pointer per key.
        bytes.push(self.keys * RECORD_BYTES);
        bytes
    }

    /// Per level, the share of accesses that find it in the last-level cache of a node.
    pub fn hits(&self, machine: &Machine) -> Vec<f64> {
        let nodes = machine.node_count() as f64;
        let cache = machine.nodes().iter().map(|node| node.llc_bytes as f64).sum::<f64>() / nodes;
        let part = if self.index == Index::Shared { 1.0 } else { 1.0 / nodes };
        let mut left = cache;
        let hit = |bytes: f64| {
            let bytes = bytes * part;
            let held = left.min(bytes);
            left -= held;
            held / bytes
        };
        self.level_bytes().into_iter().map(hit).collect()
    }

    /// Lines that a look-up misses in all caches.
    pub fn misses(&self, machine: &Machine) -> f64 {
        self.hits(machine).iter().map(|hit| 1.0 - hit).sum()
    }

    /// Of the accesses to the last-level cache (the root is nearer), the share that misses.
    pub fn miss_ratio(&self, machine: &Machine) -> f64 {
        let accesses = self.level_bytes().len().saturating_sub(1).max(1) as f64;
        self.misses(machine) / accesses
    }

    /// Of the hits in the last-level cache, the share on lines that another node's cache holds too.
    pub fn shared_hits(&self, machine: &Machine) -> f64 {
        if self.index != Index::Shared {
            return 0.0;
        }
        let others = machine.node_count() as i32 - 1;
        let hits = self.hits(machine);
        // The root stays in nearer caches.
        let hits = hits.get(1..).unwrap_or_default();
        let all: f64 = hits.iter().sum();
        let shared: f64 = hits.iter().map(|hit| hit * (1.0 - (1.0 - hit).powi(others))).sum();
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// A round of all cpus: a task per slot. Items are look-ups (or commands routed).
    pub fn graph(&self, machine: &Machine, layout: &Layout, constants: &Constants) -> Graph {
        let slots = layout.slots().len();
        let mut graph = Graph::new(self.per_task * slots as f64);
        for slot in 0..slots as u32 {
            let home = machine.place_of(layout.group(layout.slot(SlotId(slot)).group).node).unwrap_or(0);
            let mut task = Task::new(Affinity::Slot(SlotId(slot)), TaskStage::default());
            task.stages = self.stages(machine, (home, slots as f64), constants);
            graph.add(task);
        }
        graph
    }

    fn stages(&self, machine: &Machine, (home, units): (usize, f64), constants: &Constants) -> Vec<TaskStage> {
        let everywhere: Vec<usize> = (0..machine.node_count()).filter(|node| machine.nodes()[*node].cpus > 0).collect();
        let look = |nodes: &[usize], more_ns: f64| {
            let missed = self.misses(machine);
            let held = self.level_bytes().len() as f64 - missed;
            let cached = held * constants.llc_ns() / constants.lookups_in_flight();
            let cpu_ns = constants.lookup_ns() + cached + more_ns;
            TaskStage::cpu(self.per_task * cpu_ns).random_over(nodes, self.per_task * missed).chained()
        };
        match self.index {
            Index::Shared => vec![look(&everywhere, 0.0)],
            Index::Units { buffer, processing } => {
                // Written to other units' buffers, read from the own one.
                let bytes = self.per_task * constants.command_bytes();
                let out = bytes * constants.write_factor();
                let announced = self.per_task / buffer.max(1.0) * ANNOUNCE_LINES;
                // Whose key it is: a tree over the units' ranges with a line per node (the paper's CSB+-Tree, section
                // 4), which every cache holds.
                let levels = (units.max(2.0).ln() / RANGES_PER_LINE.ln()).ceil();
                let search_ns = levels * constants.random_access_ns();
                let route = TaskStage::cpu(self.per_task * (constants.batched_ns() + search_ns))
                    .read_over(&everywhere, out)
                    .random_over(&everywhere, announced)
                    .chained();
                let receive = TaskStage::cpu(0.0).read(home, bytes);
                if processing {
                    vec![route, receive, look(&[home], constants.batched_ns())]
                } else {
                    vec![route, receive]
                }
            }
        }
    }
}
