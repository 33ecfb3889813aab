//! What the machine is and what this process may use of it.
//!
//! Invariants: nodes, packages and cpu lists ascend by id, ids may be sparse; every cpu named anywhere is online; usable
//! cpus are a subset of the online ones and usable memory nodes of the nodes, and neither is empty; every node knows a
//! distance to every node, 10 to itself. A kernel that lies or leaves something out yields a warning and a defensible
//! value, never an error.
//!
//! # Limits
//! An online cpu may belong to no node (its node is offline): it is usable, `node_of_cpu` is `None`, a warning tells.
//! Dies, clusters, memory tiers and hop classes are not read yet.

pub(crate) mod files;
mod nodes;
mod read;
mod render;
mod synthetic;
mod usable;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::error::TopologyError;
use crate::ids::{CpuId, NodeId, PackageId};

/// Distance of a node to itself, by the ACPI SLIT and so by the kernel.
pub(crate) const DISTANCE_SELF: u32 = 10;
/// Distance between nodes of which the kernel tells none: the kernel's own default.
pub(crate) const DISTANCE_REMOTE: u32 = 20;

/// A machine; see the module's invariants. Serializes to the JSON of `nearside topology`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    nodes: Vec<Node>,
    packages: Vec<Package>,
    cores: Vec<Core>,
    caches: Vec<Cache>,
    online_cpus: Vec<CpuId>,
    usable_cpus: Vec<CpuId>,
    usable_memory_nodes: Vec<NodeId>,
    memory_limit_bytes: Option<u64>,
    memory_bytes: u64,
    warnings: Vec<String>,
    #[serde(skip)]
    node_by_cpu: BTreeMap<CpuId, NodeId>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
}

/// A package (physical socket) with an online cpu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Package {
    /// The kernel's number.
    pub id: PackageId,
    /// The nodes that have a cpu in it, ascending; more than one are sub-domains.
    pub nodes: Vec<NodeId>,
    /// Its online cpus, ascending.
    pub cpus: Vec<CpuId>,
}

/// Cpus that share L1 and L2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Its online cpus, ascending.
    pub cpus: Vec<CpuId>,
    /// The node of its first cpu.
    pub node: Option<NodeId>,
    /// The package of its first cpu.
    pub package: Option<PackageId>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

impl Topology {
    /// This machine as this process may use it: sysfs, the affinity mask of the calling thread, and its cgroups.
    ///
    /// # Errors
    /// [`TopologyError::NoCpus`] when neither `/sys` nor `/proc` tells of a cpu.
    pub fn discover() -> Result<Topology, TopologyError> {
        Topology::read(Path::new("/"))
    }

    /// The machine recorded in a folder that holds its `sys/` and `proc/` (and cgroup file systems where `proc/mounts`
    /// says). What the recorded process could use is read from there as well. `/` is this machine.
    ///
    /// # Errors
    /// [`TopologyError`] when the folder is none or tells of no cpu.
    pub fn read(root: &Path) -> Result<Topology, TopologyError> {
        read::read(root)
    }

    /// An imaginary machine: nodes, packages and cpus numbered from 0 as Linux does on x86-64 (the first cpu of every
    /// core, then the second of every core), 16 GiB per node, distances 10 to itself, 12 within a package and 21 beyond.
    /// Zeros count as ones.
    pub fn synthetic(packages: u32, nodes_per_package: u32, cores_per_node: u32, smt: u32) -> Topology {
        synthetic::machine(packages.max(1), nodes_per_package.max(1), cores_per_node.max(1), smt.max(1))
    }

    /// The online nodes, ascending by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The packages, ascending by id; empty where the kernel names none.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The cores, ascending by their first cpu.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The caches, by level, kind and first cpu; empty where the kernel describes none.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The cpus that are switched on, ascending.
    pub fn online_cpus(&self) -> &[CpuId] {
        &self.online_cpus
    }

    /// The online cpus that the affinity mask and the cgroup allow, ascending; never empty.
    pub fn usable_cpus(&self) -> &[CpuId] {
        &self.usable_cpus
    }

    /// The nodes with memory that the cgroup allows, ascending; never empty.
    pub fn usable_memory_nodes(&self) -> &[NodeId] {
        &self.usable_memory_nodes
    }

    /// The tightest memory limit of the process's cgroup and its ancestors, in bytes.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        self.memory_limit_bytes
    }

    /// The memory of the usable nodes in bytes, no more than the limit; 0 where nothing tells.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// What the kernel said that cannot be right or is missing, and what was assumed instead.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.binary_search_by_key(&id, |n| n.id).ok().map(|i| &self.nodes[i])
    }

    /// The node of an online cpu; `None` for a cpu of no online node.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.node_by_cpu.get(&cpu).copied()
    }

    /// How far it is from the cpus of one node to the memory of another. A node that is not there is as far as any
    /// remote node whose distance is unknown.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let known = self.node(from).and_then(|n| n.distances.get(&to).copied());
        known.unwrap_or(if from == to { DISTANCE_SELF } else { DISTANCE_REMOTE })
    }

    /// The machine as text: a tree of packages and nodes, what the process may use, the distances, the warnings.
    pub fn render_text(&self) -> String {
        render::text(self)
    }
}

/// Derives the packages and the nodes' packages from the package of each cpu.
fn packages_of(nodes: &mut [Node], package_by_cpu: &BTreeMap<CpuId, PackageId>) -> Vec<Package> {
    let mut packages: BTreeMap<PackageId, Package> = BTreeMap::new();
    for (&cpu, &id) in package_by_cpu {
        let package = packages.entry(id).or_insert_with(|| Package { id, nodes: Vec::new(), cpus: Vec::new() });
        package.cpus.push(cpu);
    }
    for node in nodes {
        let mut of: Vec<Option<PackageId>> = node.cpus.iter().map(|cpu| package_by_cpu.get(cpu).copied()).collect();
        of.sort_unstable();
        of.dedup();
        node.package = if let [one] = of.as_slice() { *one } else { None };
        for id in of.into_iter().flatten() {
            if let Some(package) = packages.get_mut(&id) {
                package.nodes.push(node.id);
            }
        }
    }
    packages.into_values().collect()
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod usable_tests;
