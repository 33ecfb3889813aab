//! Imaginary machines for tests and simulations.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::{Cache, CacheKind, Core, DISTANCE_SELF, Node, Topology, packages_of};
use crate::ids::{CpuId, NodeId, PackageId};

/// Between nodes of one package, as sub-NUMA clusters report it.
const DISTANCE_SUB_DOMAIN: u32 = 12;
/// Between packages, as two-socket machines report it.
const DISTANCE_PACKAGE: u32 = 21;
const NODE_MEMORY_BYTES: u64 = 16 << 30;

/// See [`Topology::synthetic`]; all arguments are at least 1.
pub(super) fn machine(packages: u32, nodes_per_package: u32, cores_per_node: u32, smt: u32) -> Topology {
    let nodes_total = packages * nodes_per_package;
    let cores_total = nodes_total * cores_per_node;
    let package_of = |node: u32| PackageId(node / nodes_per_package);
    let cpus_of = |core: u32| (0..smt).map(move |t| CpuId(t * cores_total + core)).collect::<Vec<_>>();
    let distance = |a: u32, b: u32| match (a == b, package_of(a) == package_of(b)) {
        (true, _) => DISTANCE_SELF,
        (_, true) => DISTANCE_SUB_DOMAIN,
        _ => DISTANCE_PACKAGE,
    };

    let mut nodes = Vec::new();
    let mut cores = Vec::new();
    let mut caches = Vec::new();
    let mut package_by_cpu = BTreeMap::new();
    let mut node_by_cpu = BTreeMap::new();
    for n in 0..nodes_total {
        let node = NodeId(n);
        let mut node_cpus = Vec::new();
        for core in n * cores_per_node..(n + 1) * cores_per_node {
            let cpus = cpus_of(core);
            for &cpu in &cpus {
                package_by_cpu.insert(cpu, package_of(n));
                node_by_cpu.insert(cpu, node);
            }
            node_cpus.extend_from_slice(&cpus);
            let cache = |level, kind, kib: u64| Cache { level, kind, size_bytes: kib << 10, cpus: cpus.clone() };
            caches.push(cache(1, CacheKind::Data, 32));
            caches.push(cache(1, CacheKind::Instruction, 32));
            caches.push(cache(2, CacheKind::Unified, 1024));
            cores.push(Core { cpus, node: Some(node), package: Some(package_of(n)) });
        }
        node_cpus.sort_unstable();
        caches.push(Cache { level: 3, kind: CacheKind::Unified, size_bytes: 32 << 20, cpus: node_cpus.clone() });
        let distances = (0..nodes_total).map(|other| (NodeId(other), distance(n, other))).collect();
        nodes.push(Node { cpus: node_cpus, memory_bytes: NODE_MEMORY_BYTES, distances, ..Node::bare(node) });
    }
    caches.sort_by(|a, b| (a.level, a.kind, &a.cpus).cmp(&(b.level, b.kind, &b.cpus)));
    let packages = packages_of(&mut nodes, &package_by_cpu);
    let online_cpus: Vec<CpuId> = node_by_cpu.keys().copied().collect();
    let facts = Facts {
        packages,
        cores,
        caches,
        usable_cpus: online_cpus.clone(),
        online_cpus,
        usable_memory_nodes: nodes.iter().map(|n| n.id).collect(),
        memory_limit_bytes: None,
        memory_bytes: NODE_MEMORY_BYTES * u64::from(nodes_total),
        nodes,
        ..Facts::default()
    };
    facts.finish()
}
