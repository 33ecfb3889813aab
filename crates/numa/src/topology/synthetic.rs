//! Imaginary machines: of regular shape, with any distances, and with memory nodes that have no cpus.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::{Cache, CacheKind, Core, DISTANCE_SELF, MemoryKind, Node, Topology, packages_of};
use crate::ids::{CpuId, NodeId, PackageId};

/// Between nodes of one package, as sub-NUMA clusters report it.
pub(crate) const DISTANCE_SUB_DOMAIN: u32 = 12;
/// Between packages, as two-socket machines report it.
pub(crate) const DISTANCE_PACKAGE: u32 = 21;

/// A regular machine: nodes, packages and cpus are numbered from 0 as Linux does on x86-64 (the first cpu of every
/// core, then the second of every core); nodes without cpus come last.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    pub(crate) packages: u32,
    pub(crate) nodes_per_package: u32,
    pub(crate) cores_per_node: u32,
    pub(crate) smt: u32,
    /// Of each node with cpus.
    pub(crate) memory_bytes: u64,
    pub(crate) l1_bytes: u64,
    pub(crate) l2_bytes: u64,
    /// Shared by the cpus of a node; 0 for none.
    pub(crate) l3_bytes: u64,
    /// How many nodes have no cpus, with the memory of each and its kind.
    pub(crate) cpuless: u32,
    pub(crate) cpuless_bytes: u64,
    pub(crate) cpuless_kind: MemoryKind,
    pub(crate) cpu_model: Option<String>,
}

impl Blueprint {
    /// A machine of this shape with 16 GiB per node.
    pub(crate) fn new(packages: u32, nodes_per_package: u32, cores_per_node: u32, smt: u32) -> Blueprint {
        Blueprint {
            packages,
            nodes_per_package,
            cores_per_node,
            smt,
            memory_bytes: 16 << 30,
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            l3_bytes: 32 << 20,
            cpuless: 0,
            cpuless_bytes: 16 << 30,
            cpuless_kind: MemoryKind::Cxl,
            cpu_model: None,
        }
    }

    /// How many nodes have cpus.
    pub(crate) fn cpu_nodes(&self) -> u32 {
        self.packages * self.nodes_per_package
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> u32 {
        self.cpu_nodes() + self.cpuless
    }

    /// The package that a node lies in or, without cpus, beside: these are dealt out in turn.
    pub(crate) fn package_of(&self, node: u32) -> u32 {
        match node.checked_sub(self.cpu_nodes()) {
            None => node / self.nodes_per_package,
            Some(cpuless) => cpuless % self.packages,
        }
    }

    /// The machine with these distances between its nodes; a node is always 10 from itself.
    pub(crate) fn build(&self, distance: impl Fn(u32, u32) -> u32) -> Topology {
        let cores_total = self.cpu_nodes() * self.cores_per_node;
        let mut facts = Facts { cpu_model: self.cpu_model.clone(), ..Facts::default() };
        let mut package_by_cpu = BTreeMap::new();
        for n in 0..self.nodes() {
            let node = NodeId(n);
            let package = PackageId(self.package_of(n));
            let has_cpus = n < self.cpu_nodes();
            let mut node_cpus = Vec::new();
            let cores = if has_cpus { n * self.cores_per_node..(n + 1) * self.cores_per_node } else { 0..0 };
            for core in cores {
                let cpus: Vec<CpuId> = (0..self.smt).map(|t| CpuId(t * cores_total + core)).collect();
                package_by_cpu.extend(cpus.iter().map(|cpu| (*cpu, package)));
                node_cpus.extend_from_slice(&cpus);
                facts.caches.extend(self.core_caches(&cpus));
                facts.cores.push(Core { cpus, node: Some(node), package: Some(package) });
            }
            node_cpus.sort_unstable();
            if has_cpus && self.l3_bytes > 0 {
                let kind = CacheKind::Unified;
                let cpus = node_cpus.clone();
                facts.caches.push(Cache { level: 3, kind, size_bytes: self.l3_bytes, cpus });
            }
            let far = |other: u32| if other == n { DISTANCE_SELF } else { distance(n, other).max(DISTANCE_SELF) };
            let distances = (0..self.nodes()).map(|other| (NodeId(other), far(other))).collect();
            let (memory_bytes, memory_kind) = match has_cpus {
                true => (self.memory_bytes, MemoryKind::Dram),
                false => (self.cpuless_bytes, self.cpuless_kind),
            };
            facts.nodes.push(Node { cpus: node_cpus, memory_bytes, memory_kind, distances, ..Node::bare(node) });
        }
        facts.caches.sort_by(|a, b| (a.level, a.kind, &a.cpus).cmp(&(b.level, b.kind, &b.cpus)));
        facts.packages = packages_of(&mut facts.nodes, &package_by_cpu);
        facts.online_cpus = package_by_cpu.into_keys().collect();
        facts.usable_cpus = facts.online_cpus.clone();
        facts.usable_memory_nodes = facts.nodes.iter().filter(|n| n.memory_bytes > 0).map(|n| n.id).collect();
        facts.memory_bytes = facts.nodes.iter().fold(0u64, |sum, n| sum.saturating_add(n.memory_bytes));
        facts.finish()
    }

    fn core_caches(&self, cpus: &[CpuId]) -> Vec<Cache> {
        let cache = |level, kind, size_bytes| Cache { level, kind, size_bytes, cpus: cpus.to_vec() };
        let caches = vec![
            cache(1, CacheKind::Data, self.l1_bytes),
            cache(1, CacheKind::Instruction, self.l1_bytes),
            cache(2, CacheKind::Unified, self.l2_bytes),
        ];
        caches.into_iter().filter(|c| c.size_bytes > 0).collect()
    }
}

/// See [`Topology::synthetic`]; all arguments are at least 1.
pub(super) fn machine(packages: u32, nodes_per_package: u32, cores_per_node: u32, smt: u32) -> Topology {
    let blueprint = Blueprint::new(packages, nodes_per_package, cores_per_node, smt);
    blueprint.build(|a, b| match blueprint.package_of(a) == blueprint.package_of(b) {
        true => DISTANCE_SUB_DOMAIN,
        false => DISTANCE_PACKAGE,
    })
}
