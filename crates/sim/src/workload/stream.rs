//! Arrays read in one pass by every cpu: by the units that own them, interleaved over all nodes, or on one node.
//!
//! A pass is a statement with one task per slot, in the slot's private queue, as a unit runs.
//!
//! # Limits
//! The units' commands of a scan are one per pass and unit, so routing costs a task each.
//!
//! Source: Kissinger et al., ADMS 2014, sections 4.1 and 4.2 (single RAM, interleaved, ERIS); Seidel 2011, section 2.1
//! (STREAM).

use sched::policy::Layout;
use sched::{Affinity, SlotId};

use super::{Graph, Task, TaskStage};
use crate::constants::Constants;
use crate::machine::Machine;

/// Where an array lies.
#[derive(Clone, Debug, PartialEq)]
pub enum Lies {
    /// The part that a cpu reads lies on its own node (units; first touch).
    Owned,
    /// Evenly on all nodes that have cpus, page by page (interleaved, striped).
    Interleaved,
    /// On the node at this place (single RAM).
    On(usize),
}

/// An array and what is done with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// All cpus' bytes together.
    pub bytes: f64,
    /// Bytes of an entry, for the cpu time.
    pub entry_bytes: f64,
    /// Cpu time per entry, ns.
    pub entry_ns: f64,
    /// Where the bytes lie.
    pub lies: Lies,
    /// Bytes that go back to memory for each byte read. They load controllers; over links they go the other way than
    /// what is read, which is more, so they are not what links run out of.
    pub back: f64,
}

impl Pass {
    /// A column scan: entries of eight bytes, compared with a constant (ERIS Figure 9).
    pub fn scan(bytes: f64, lies: Lies, constants: &Constants) -> Pass {
        Pass { bytes, entry_bytes: 8.0, entry_ns: constants.scan_ns_per_row(), lies, back: 0.0 }
    }

    /// The statement: items are bytes.
    pub fn graph(&self, machine: &Machine, layout: &Layout) -> Graph {
        let slots = layout.slots().len();
        let share = self.bytes / slots as f64;
        let everywhere: Vec<usize> = (0..machine.node_count()).filter(|node| machine.nodes()[*node].cpus > 0).collect();
        let mut graph = Graph::new(self.bytes);
        for slot in 0..slots as u32 {
            let home = machine.place_of(layout.group(layout.slot(SlotId(slot)).group).node).unwrap_or(0);
            let cpu = TaskStage::cpu(share / self.entry_bytes * self.entry_ns);
            let stage = match self.lies {
                Lies::Owned => cpu.read(home, share * (1.0 + self.back)),
                // What others write back to this node is as much as this node writes back to all.
                Lies::Interleaved => cpu.read_over(&everywhere, share).read(home, share * self.back),
                Lies::On(node) => cpu.read(node, share * (1.0 + self.back)),
            };
            graph.add(Task::new(Affinity::Slot(SlotId(slot)), stage));
        }
        graph
    }
}
