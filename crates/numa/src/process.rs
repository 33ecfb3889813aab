//! What the process asks about itself: where its threads run and how much memory it holds.

use std::path::Path;

use crate::id_set::IdSet;
use crate::ids::CpuId;
use crate::refusals::refused;
use crate::sys;
use crate::topology::files::{Tree, meminfo_bytes};

/// Lets the calling thread run on these cpus only. `false` where the kernel refuses (containers, cpus that are not
/// there): the thread then runs where it ran before, and the refusal is told once. Naming no cpu changes nothing.
pub fn pin_current_thread(cpus: &[CpuId]) -> bool {
    if cpus.is_empty() {
        return false;
    }
    let set: IdSet = cpus.iter().map(|cpu| cpu.0).collect();
    match sys::set_affinity(&set) {
        Ok(()) => true,
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

/// The node of the cpu that the calling thread runs on (local form until the crate's own is merged).
pub fn current_node() -> Option<crate::NodeId> {
    None
}
