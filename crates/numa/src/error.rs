//! What can go wrong, one error per operation. Kernels that lie or refuse are not errors: see `Topology::warnings` and
//! [`refusals`](crate::refusals()).

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::ids::NodeId;

/// Why no topology could be read.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// The root is missing or not a folder.
    #[error("cannot read a machine from '{}': {reason}; give the folder that holds sys/ and proc/", root.display())]
    Root {
        /// What was given.
        root: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// Nothing under the root tells of a cpu.
    #[error("no cpus are described under '{}'; expected sys/devices/system/cpu or proc/cpuinfo there", root.display())]
    NoCpus {
        /// What was given.
        root: PathBuf,
    },
}

/// Why memory could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// A budget has not enough left.
    #[error(
        "the memory budget of {budget} is used up: {} of {} in use, {} more needed; raise its limit, or let the \
         statement touch less at a time",
        size(*used_bytes), size(*limit_bytes), size(*requested_bytes)
    )]
    OverBudget {
        /// The budget's name.
        budget: String,
        /// Its limit.
        limit_bytes: u64,
        /// What was in use.
        used_bytes: u64,
        /// What was asked for on top.
        requested_bytes: u64,
    },
    /// A node has not enough free memory.
    #[error(
        "memory node {node} is full: {} free, {} needed; choose another node or placement, or free memory there",
        size(*available_bytes), size(*requested_bytes)
    )]
    NodeFull {
        /// The node.
        node: NodeId,
        /// What was asked for on it.
        requested_bytes: u64,
        /// What the kernel could still give there.
        available_bytes: u64,
    },
    /// All nodes together have not enough free memory.
    #[error(
        "the machine is out of memory: {} free, {} needed; free memory or lower the memory limit",
        size(*available_bytes), size(*requested_bytes)
    )]
    MachineFull {
        /// What was asked for.
        requested_bytes: u64,
        /// What the kernel could still give.
        available_bytes: u64,
    },
    /// The kernel gave no memory for another reason.
    #[error("the operating system gave no {} of memory: {reason}", size(*requested_bytes))]
    System {
        /// What was asked for.
        requested_bytes: u64,
        /// What the kernel said.
        reason: String,
    },
}

impl MemoryError {
    /// What a failed system call for `requested_bytes` means.
    pub(crate) fn system(requested_bytes: u64, error: io::Error) -> MemoryError {
        MemoryError::System { requested_bytes, reason: error.to_string() }
    }
}

/// A byte count a person can read: `512 B`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}
