//! The pieces of a machine as plain data, as they stand in the JSON of `nearside topology`.
//!
//! # Limits
//! Latencies and bandwidths here are what the firmware declares; what was measured stands in `Attributes`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CpuId, NodeId, PackageId};

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: NodeId,
    /// The package of all its cpus; `None` when it has no cpus, they lie in several packages, or the kernel names none.
    pub package: Option<PackageId>,
    /// Its online cpus, ascending; none for nodes of memory only.
    pub cpus: Vec<CpuId>,
    /// Its memory in bytes, used or not; 0 where the kernel does not tell or it has none.
    pub memory_bytes: u64,
    /// How far it is to the memory of every online node, 10 to itself; may be asymmetric.
    pub distances: BTreeMap<NodeId, u32>,
    /// What its memory is made of, as far as can be told.
    #[serde(default)]
    pub memory_kind: MemoryKind,
    /// Free bytes when the machine was read; `None` where the kernel does not tell.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Its memory per page size, the base page first; empty where the kernel does not tell.
    #[serde(default)]
    pub pages: Vec<Pages>,
    /// Memory that caches this node's memory, such as HBM before DRAM; by level.
    #[serde(default)]
    pub side_caches: Vec<SideCache>,
    /// What the firmware declares of reaching its memory, by access class.
    #[serde(default)]
    pub access: Vec<Access>,
    /// The kernel's number of its memory tier, a smaller one is faster; `None` where the kernel has none.
    #[serde(default)]
    pub kernel_tier: Option<u32>,
}

impl Node {
    /// A node of which nothing but the number is known.
    pub(crate) fn bare(id: NodeId) -> Node {
        Node {
            id,
            package: None,
            cpus: Vec::new(),
            memory_bytes: 0,
            distances: BTreeMap::new(),
            memory_kind: MemoryKind::default(),
            free_bytes: None,
            pages: Vec::new(),
            side_caches: Vec::new(),
            access: Vec::new(),
            kernel_tier: None,
        }
    }
}

/// What the memory of a node is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// The ordinary memory of a package. Also what is assumed where nothing speaks against it.
    #[default]
    Dram,
    /// High-bandwidth memory beside the package's ordinary one.
    Hbm,
    /// Memory behind a CXL link or another expander: farther than any package's own.
    Cxl,
    /// Memory of an accelerator that the kernel offers as a node.
    Gpu,
    /// Persistent memory used as ordinary memory.
    Pmem,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryKind::Dram => "DRAM",
            MemoryKind::Hbm => "HBM",
            MemoryKind::Cxl => "CXL",
            MemoryKind::Gpu => "GPU memory",
            MemoryKind::Pmem => "persistent memory",
        })
    }
}

/// The pages of one size on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// Bytes of one page.
    pub size_bytes: u64,
    /// How many there are. Huge pages are those set aside in the kernel's pool, not those made on demand.
    pub total: u64,
    /// How many of them are free.
    pub free: u64,
}

/// A memory-side cache: memory that the hardware uses as a cache of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideCache {
    /// 1 is the nearest to the memory.
    pub level: u32,
    /// Its size in bytes; 0 where the kernel does not tell.
    pub size_bytes: u64,
    /// Bytes of one line; 0 where the kernel does not tell.
    pub line_bytes: u64,
}

/// What the firmware declares (ACPI HMAT) of reaching a node's memory from the best initiators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// 0: from any initiator, cpu or device; 1: from cpus only.
    pub class: u32,
    /// The nodes that reach it best, ascending.
    pub initiators: Vec<NodeId>,
    /// Nanoseconds to read a line.
    pub read_latency_ns: Option<u64>,
    /// Nanoseconds to write a line.
    pub write_latency_ns: Option<u64>,
    /// Bytes per second reading.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes per second writing.
    pub write_bytes_per_second: Option<u64>,
}

/// A package (physical socket) with an online cpu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The kernel's number, or the next free one where the kernel gives one number to several packages.
    pub id: PackageId,
    /// The nodes that have a cpu in it, ascending; more than one are sub-domains.
    pub nodes: Vec<NodeId>,
    /// Its online cpus, ascending.
    pub cpus: Vec<CpuId>,
}

/// A set of cpus between the package and the core, or above the package: a die, cluster, book or drawer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuGroup {
    /// The kernel's number; unique within a package at most. `None` where the kernel names the cpus only.
    pub id: Option<u32>,
    /// The package of all its cpus; `None` when it spans several.
    pub package: Option<PackageId>,
    /// The nodes that have a cpu in it, ascending.
    pub nodes: Vec<NodeId>,
    /// Its online cpus, ascending.
    pub cpus: Vec<CpuId>,
}

/// Cpus that share L1 and L2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its online cpus (SMT siblings), ascending.
    pub cpus: Vec<CpuId>,
    /// The node of its first cpu.
    pub node: Option<NodeId>,
    /// The package of its first cpu.
    pub package: Option<PackageId>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One cache of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is the nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size in bytes; 0 where the kernel does not tell.
    pub size_bytes: u64,
    /// The online cpus that share it, ascending.
    pub cpus: Vec<CpuId>,
}

/// How much of the cpus' time the control group may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// Microseconds of cpu time in each period.
    pub quota_us: u64,
    /// Microseconds of a period; never 0.
    pub period_us: u64,
}

impl CpuQuota {
    /// How many cpus that keeps busy, rounded up: at least 1.
    pub fn cpus(&self) -> usize {
        usize::try_from(self.quota_us.div_ceil(self.period_us.max(1))).unwrap_or(usize::MAX).max(1)
    }
}

/// Nodes whose memory is about equally near to the cpus beside it. Tier 0 is the fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// 0 for the fastest, then 1, 2, ...
    pub tier: u32,
    /// The kinds of memory in it, ascending.
    pub kinds: Vec<MemoryKind>,
    /// Its nodes, ascending.
    pub nodes: Vec<NodeId>,
    /// The memory of its nodes.
    pub memory_bytes: u64,
}

/// Nodes that share a package (SNC, COD, NPS).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubDomains {
    /// The package they share.
    pub package: PackageId,
    /// The nodes with cpus that lie in it whole, ascending; two at least.
    pub nodes: Vec<NodeId>,
}

/// How a node lies to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopKind {
    /// The node itself.
    Local,
    /// Another node of the same package: a sub-domain, or memory without cpus that lies nearest to the package.
    Package,
    /// Beyond the package.
    Remote,
}

/// A set of pairs of nodes that are alike in how far they are apart. Pairs lead from nodes with cpus to all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopClass {
    /// 0 for the nearest class, then 1, 2, ...
    pub class: u32,
    /// How the nodes of a pair lie to each other.
    pub kind: HopKind,
    /// What a person calls it: `local`, `same package`, `attached memory` (of nodes without cpus), `1 hop`, `2 hops`,
    /// ... Hops are counted in distances that occur, not in links.
    pub name: String,
    /// The distance of all its pairs.
    pub distance: u32,
    /// How many ordered pairs of nodes are in it.
    pub pairs: u64,
}
