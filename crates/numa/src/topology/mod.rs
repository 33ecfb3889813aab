//! What the machine is and what this process may use of it.
//!
//! Invariants: nodes, packages and cpu lists ascend by id, ids may be sparse; every cpu named anywhere is online;
//! usable cpus are a subset of the online ones and usable memory nodes of the nodes, and neither is empty; every node
//! knows a distance to every node, 10 to itself. A kernel that lies or leaves something out yields a warning and a
//! defensible value, never an error.
//!
//! # Limits
//! An online cpu may belong to no node (its node is offline): it is usable, `node_of_cpu` is `None`, a warning tells.
//! What memory without cpus is made of is a guess (`memory.rs`); the cores of a package are told alike or not by their
//! caches only, so that fast and slow cores of one package look the same.

mod derive;
pub(crate) mod drawing;
mod facts;
pub(crate) mod files;
mod groups;
mod memory;
mod nodes;
mod read;
mod reader;
pub(crate) mod render;
pub(crate) mod synthetic;
mod system;
mod types;
mod usable;

use std::collections::BTreeMap;
use std::path::Path;

use self::facts::Facts;
pub use self::types::{
    Access, Cache, CacheKind, Core, CpuGroup, CpuQuota, HopClass, HopKind, MemoryKind, Node, Package, Pages, SideCache,
    SubDomains, Tier,
};
use crate::error::TopologyError;
use crate::ids::{CpuId, NodeId, PackageId};

/// Distance of a node to itself, by the ACPI SLIT and so by the kernel.
pub(crate) const DISTANCE_SELF: u32 = 10;
/// Distance between nodes of which the kernel tells none: the kernel's own default.
pub(crate) const DISTANCE_REMOTE: u32 = 20;

/// A machine; see the module's invariants. Serializes to the JSON of `nearside topology`, and back to an equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    facts: Facts,
    node_by_cpu: BTreeMap<CpuId, NodeId>,
    class_by_distance: BTreeMap<(HopKind, u32), usize>,
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
    /// core, then the second of every core), 16 GiB per node, distances 10 to itself, 12 within a package and 21
    /// beyond. Zeros count as ones.
    pub fn synthetic(packages: u32, nodes_per_package: u32, cores_per_node: u32, smt: u32) -> Topology {
        synthetic::machine(packages.max(1), nodes_per_package.max(1), cores_per_node.max(1), smt.max(1))
    }

    /// The online nodes, ascending by id.
    pub fn nodes(&self) -> &[Node] {
        &self.facts.nodes
    }

    /// The packages, ascending by id; empty where the kernel names none.
    pub fn packages(&self) -> &[Package] {
        &self.facts.packages
    }

    /// The cores, ascending by their first cpu.
    pub fn cores(&self) -> &[Core] {
        &self.facts.cores
    }

    /// The caches, by level, kind and first cpu; empty where the kernel describes none.
    pub fn caches(&self) -> &[Cache] {
        &self.facts.caches
    }

    /// The cpus that are switched on, ascending.
    pub fn online_cpus(&self) -> &[CpuId] {
        &self.facts.online_cpus
    }

    /// The online cpus that the affinity mask and the cgroup allow, ascending; never empty.
    pub fn usable_cpus(&self) -> &[CpuId] {
        &self.facts.usable_cpus
    }

    /// The nodes with memory that the cgroup allows, ascending; never empty.
    pub fn usable_memory_nodes(&self) -> &[NodeId] {
        &self.facts.usable_memory_nodes
    }

    /// The tightest memory limit of the process's cgroup and its ancestors, in bytes.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        self.facts.memory_limit_bytes
    }

    /// The memory of the usable nodes in bytes, no more than the limit; 0 where nothing tells.
    pub fn memory_bytes(&self) -> u64 {
        self.facts.memory_bytes
    }

    /// What the kernel said that cannot be right or is missing, and what was assumed instead.
    pub fn warnings(&self) -> &[String] {
        &self.facts.warnings
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes().binary_search_by_key(&id, |n| n.id).ok().map(|i| &self.nodes()[i])
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

    /// Of some nodes the place of the one whose memory the cpus of `from` reach at the least distance; of equally near
    /// ones the first. `None` where there is none.
    pub fn nearest_of(&self, from: NodeId, nodes: &[NodeId]) -> Option<usize> {
        (0..nodes.len()).min_by_key(|place| (nodes[*place] != from, self.distance(from, nodes[*place])))
    }

    /// The model name of its cpus, as far as the kernel tells.
    pub fn cpu_model(&self) -> Option<&str> {
        self.facts.cpu_model.as_deref()
    }

    /// The dies, by package and first cpu; empty where no package has more than one.
    pub fn dies(&self) -> &[CpuGroup] {
        &self.facts.dies
    }

    /// The clusters of cores below a package or die, as some Arm and x86 machines have them, by first cpu.
    pub fn clusters(&self) -> &[CpuGroup] {
        &self.facts.clusters
    }

    /// The books of a mainframe: groups of packages, by first cpu.
    pub fn books(&self) -> &[CpuGroup] {
        &self.facts.books
    }

    /// The drawers of a mainframe: groups of books, by first cpu.
    pub fn drawers(&self) -> &[CpuGroup] {
        &self.facts.drawers
    }

    /// The tightest quota of cpu time of the process's control groups.
    pub fn cpu_quota(&self) -> Option<CpuQuota> {
        self.facts.cpu_quota
    }

    /// How many threads to work with by default: the usable cpus, no more than the quota of cpu time keeps busy.
    pub fn default_threads(&self) -> usize {
        self.facts.default_threads
    }

    /// The memory budget by default: four fifths of [`memory_bytes`](Topology::memory_bytes).
    pub fn default_memory_bytes(&self) -> u64 {
        self.facts.default_memory_bytes
    }

    /// The packages whose nodes are sub-domains, with these.
    pub fn sub_domains(&self) -> &[SubDomains] {
        &self.facts.sub_domains
    }

    /// The memory tiers, the fastest first; nodes without memory are in none.
    pub fn tiers(&self) -> &[Tier] {
        &self.facts.tiers
    }

    /// The memory tier of a node; `None` for nodes without memory.
    pub fn tier_of(&self, node: NodeId) -> Option<u32> {
        self.tiers().iter().find(|t| t.nodes.contains(&node)).map(|t| t.tier)
    }

    /// The classes of pairs of nodes, the nearest first.
    pub fn hop_classes(&self) -> &[HopClass] {
        &self.facts.hop_classes
    }

    /// The class of this pair of nodes; `None` when one is not there or `from` has no cpus while others have.
    pub fn hop_class(&self, from: NodeId, to: NodeId) -> Option<&HopClass> {
        let from = self.node(from)?;
        let to = self.node(to)?;
        if from.cpus.is_empty() && self.nodes().iter().any(|n| !n.cpus.is_empty()) {
            return None;
        }
        let kind = derive::hop_kind(from, to, self.nodes());
        let class = self.class_by_distance.get(&(kind, *from.distances.get(&to.id)?))?;
        self.hop_classes().get(*class)
    }

    /// The nodes with cpus that reach this node's memory at the least distance: itself if it has cpus.
    pub fn nearest_cpu_nodes(&self, node: NodeId) -> Vec<NodeId> {
        self.node(node).map_or_else(Vec::new, |node| derive::nearest_to(node, self.nodes()))
    }

    /// The package that a node's memory belongs to: its own, or for a node without cpus the one it is nearest to.
    pub fn home_package(&self, node: NodeId) -> Option<PackageId> {
        derive::home_package(self.node(node)?, self.nodes())
    }

    /// The machine as text: a tree of packages and nodes, what the process may use, memory tiers,
    /// distances and hop classes, the warnings.
    pub fn render_text(&self) -> String {
        render::text(self)
    }

    /// The machine as a drawing, in SVG: packages with their nodes, cpus, caches and memory, the distances as a heat
    /// map, and the warnings. It refers to nothing outside itself.
    pub fn render_svg(&self) -> String {
        drawing::svg(self)
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
mod facts_tests;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod usable_tests;
