//! What the process asks about itself: where its threads run and how much memory it holds.
//!
//! # Limits
//! The node of a thread that [`pin_current_thread`] pinned is taken as known from then on: an affinity that somebody
//! else sets later (`taskset`, a smaller cpuset) is not noticed by [`current_node`] on that thread.

use std::cell::Cell;
use std::path::Path;

use crate::id_set::IdSet;
use crate::ids::{CpuId, NodeId};
use crate::machine::Machine;
use crate::refusals::refused;
use crate::sys;
use crate::topology::files::{Tree, meminfo_bytes};

thread_local! {
    /// The node that all cpus of a pinned thread belong to.
    static PINNED: Cell<Option<NodeId>> = const { Cell::new(None) };
}

/// Lets the calling thread run on these cpus only. `false` where the kernel refuses (containers, cpus that are not
/// there): the thread then runs where it ran before, and the refusal is told once. Naming no cpu changes nothing.
pub fn pin_current_thread(cpus: &[CpuId]) -> bool {
    if cpus.is_empty() {
        return false;
    }
    let set: IdSet = cpus.iter().map(|cpu| cpu.0).collect();
    match sys::set_affinity(&set) {
        Ok(()) => {
            let machine = Machine::this();
            let node = cpus.first().and_then(|cpu| machine.node_of_cpu(*cpu));
            PINNED.set(node.filter(|node| cpus.iter().all(|cpu| machine.node_of_cpu(*cpu) == Some(*node))));
            true
        }
        Err(error) => {
            refused("sched_setaffinity", &error, "threads are not pinned to the cpus of their node");
            false
        }
    }
}

/// The cpu that the calling thread runs on at this moment.
pub fn current_cpu() -> Option<CpuId> {
    sys::current_cpu().ok().map(CpuId)
}

/// The node of the cpu that the calling thread runs on at this moment; `None` where the kernel does not tell. Takes a
/// nanosecond on a machine of one node and on a thread that is pinned to one node's cpus, a few otherwise: cheap enough
/// to ask for every granule.
pub fn current_node() -> Option<NodeId> {
    let machine = Machine::this();
    machine.only_node().or_else(|| PINNED.get()).or_else(|| machine.node_of_cpu(current_cpu()?))
}

/// The place, among some nodes, of the one whose memory is nearest to the cpus of `from` on this machine: that node
/// itself if it is among them, of equally near ones the first. `None` where there is none.
pub fn nearest_node(from: NodeId, among: &[NodeId]) -> Option<usize> {
    Machine::this().nearest_of(from, among)
}

/// The nodes that are online on this machine, ascending.
pub fn online_nodes() -> Vec<NodeId> {
    Machine::this().nodes().collect()
}

/// Asks the C library to keep up to 512 MiB of freed memory instead of giving it back to the kernel, which would have
/// to clear it again for the next query. For programs that do nothing else; a library does not decide this for its
/// process. False where the C library has no such setting.
pub fn keep_freed_memory() -> bool {
    crate::sys::heap::keep_freed()
}

/// Bytes of physical memory that the process holds now; 0 where `/proc` is not mounted.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS")
}

/// The most bytes of physical memory that the process ever held; 0 where `/proc` is not mounted.
pub fn peak_resident_bytes() -> u64 {
    status_bytes("VmHWM")
}

fn status_bytes(key: &str) -> u64 {
    let status = Tree::new(Path::new("/")).text("proc/self/status");
    status.and_then(|text| meminfo_bytes(&text, key)).unwrap_or(0)
}
