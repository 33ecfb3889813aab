//! What the machine is and where memory lies: topology, cpusets and cgroups, memory regions and policies, page map.
//! All OS calls of Nearside live here.
//!
//! Invariants: `unsafe` stands in `numa::sys` only; a machine of one node pays nothing for being asked; what a kernel
//! or a container refuses is lived without and told once ([`refusals()`]).
//!
//! # Limits
//! Linux. What is left is listed in `docs/design/numa.md`.
//!
//! ```
//! use numa::{Allocator, Budget, PageMap, Policy, Topology};
//!
//! let machine = Topology::discover()?;
//! let node = machine.usable_memory_nodes()[0];
//! let budget = Budget::new("example", 1 << 20);
//! let mut region = Allocator::new(Policy::Node(node), budget).region(100_000)?;
//! region.words_mut::<u32>()[0] = 7;
//! assert!(PageMap::of(&region).bytes_per_node().len() <= machine.nodes().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attributes;
mod budget;
pub mod counters;
mod error;
#[cfg(test)]
mod fixture;
mod id_set;
mod ids;
mod machine;
mod machines;
mod moving;
mod page_map;
mod policy;
mod pool;
pub mod probe;
mod process;
mod recycle;
mod refusals;
mod region;
pub mod svg;
mod sys;
mod topology;
mod usage;

pub use attributes::{Attributes, AttributesError, ByThreads, Latency, LoadedLatency, Stream, TransferKind};
pub use budget::{Budget, Reservation};
pub use error::{MemoryError, TopologyError};
pub use ids::{CpuId, NodeId, PackageId};
pub use machines::{Coherence, MachineDescription, MachineError, PublishedMachine, published_machines};
pub use moving::{MoveError, MoveReport};
pub use page_map::{Interleaving, PageMap, PageRange, Pattern};
pub use policy::Policy;
pub use process::{
    current_cpu, current_node, keep_freed_memory, nearest_node, online_nodes, peak_resident_bytes, pin_current_thread,
    resident_bytes,
};
pub use refusals::{Refusal, refusals};
pub use region::{Allocator, AtomicRegion, Region, RegionPlacement};
pub use sys::memory::Word;
pub use topology::{
    Access, Cache, CacheKind, Core, CpuGroup, CpuQuota, HopClass, HopKind, MemoryKind, Node, Package, Pages, SideCache,
    SubDomains, Tier, Topology,
};
pub use usage::{Usage, UsageKind, usage};
