//! What the plan of a probe needs to know of the machine: who measures what, how large its caches are, how much memory
//! is free, how fast pages come.
//!
//! Invariants: the cpus of an initiator are usable ones; the first of every core come before any second.
//!
//! # Limits
//! Caches are believed as the kernel describes them; a virtual machine may describe less than the host has.

use std::collections::BTreeMap;

use crate::ids::{CpuId, NodeId};
use crate::topology::{Cache, CacheKind, Topology};

/// Assumed where the kernel describes no caches.
const CACHE_BYTES_ASSUMED: u64 = 32 << 20;

/// A node whose cpus measure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Initiator {
    /// Its row in the matrices.
    pub(super) row: usize,
    pub(super) node: NodeId,
    /// Its usable cpus, first of every core first.
    pub(super) cpus: Vec<CpuId>,
    /// Of these, how many are the first of their core.
    pub(super) cores: usize,
    /// The cpus that can load memory while the first one measures latency: all that share no core with it, or, where
    /// there is one core only, all others.
    pub(super) loaders: Vec<CpuId>,
    /// The largest cache that one cpu sees.
    pub(super) cache_bytes_max: u64,
    /// All last-level caches of its cpus together.
    pub(super) cache_bytes_total: u64,
}

/// A node whose memory is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TargetFacts {
    /// Its column in the matrices.
    pub(super) column: usize,
    pub(super) node: NodeId,
    /// What can be allocated there.
    pub(super) free_bytes: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProbeFacts {
    pub(super) initiators: Vec<Initiator>,
    pub(super) targets: Vec<TargetFacts>,
    /// `[initiator][target]`, by their order here.
    pub(super) distances: Vec<Vec<u32>>,
    /// What can be allocated on all nodes together, by the machine and the limits of this process.
    pub(super) free_bytes: u64,
    /// How fast fresh pages can be touched by one thread.
    pub(super) touch_bytes_per_second: f64,
    /// Whether caches are described.
    pub(super) caches_known: bool,
}

impl ProbeFacts {
    /// The facts of a machine whose nodes have so much free memory; `rows` and `columns` are the nodes of the matrices.
    pub(super) fn of(
        topology: &Topology,
        rows: &[NodeId],
        columns: &[NodeId],
        free_bytes: u64,
        node_free_bytes: impl Fn(NodeId) -> u64,
        touch_bytes_per_second: f64,
    ) -> ProbeFacts {
        let rows = rows.iter().enumerate();
        let initiators: Vec<Initiator> = rows.filter_map(|(row, node)| initiator(topology, row, *node)).collect();
        let columns = columns.iter().enumerate();
        let target =
            |(column, node): (usize, &NodeId)| TargetFacts { column, node: *node, free_bytes: node_free_bytes(*node) };
        let targets: Vec<TargetFacts> = columns.map(target).collect();
        let distances = initiators
            .iter()
            .map(|from| targets.iter().map(|to| topology.distance(from.node, to.node)).collect())
            .collect();
        let caches_known = initiators.iter().all(|i| last_level(topology, &i.cpus).next().is_some());
        ProbeFacts { initiators, targets, distances, free_bytes, touch_bytes_per_second, caches_known }
    }
}

fn initiator(topology: &Topology, row: usize, node: NodeId) -> Option<Initiator> {
    let usable =
        |cpu: &CpuId| topology.usable_cpus().binary_search(cpu).is_ok() && topology.node_of_cpu(*cpu) == Some(node);
    let cores: Vec<Vec<CpuId>> = topology
        .cores()
        .iter()
        .map(|core| core.cpus.iter().copied().filter(usable).collect::<Vec<_>>())
        .filter(|cpus| !cpus.is_empty())
        .collect();
    let most = cores.iter().map(Vec::len).max()?;
    let cpus: Vec<CpuId> =
        (0..most).flat_map(|nth| cores.iter().filter_map(move |core| core.get(nth)).copied()).collect();
    let elsewhere: Vec<CpuId> = cpus.iter().copied().filter(|cpu| !cores[0].contains(cpu)).collect();
    let loaders = if elsewhere.is_empty() { cpus[1..].to_vec() } else { elsewhere };
    let known = last_level(topology, &cpus).map(|c| c.size_bytes);
    let (max, total) =
        known.fold((0, 0), |(max, total): (u64, u64), bytes| (max.max(bytes), total.saturating_add(bytes)));
    let assumed = |bytes: u64| if bytes == 0 { CACHE_BYTES_ASSUMED } else { bytes };
    Some(Initiator {
        row,
        node,
        cores: cores.len(),
        loaders,
        cpus,
        cache_bytes_max: assumed(max),
        cache_bytes_total: assumed(total),
    })
}

/// The caches of the highest level that hold data for one of these cpus.
fn last_level<'a>(topology: &'a Topology, cpus: &[CpuId]) -> impl Iterator<Item = &'a Cache> {
    let mut levels: BTreeMap<CpuId, u32> = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    let data = |cache: &&Cache| cache.kind != CacheKind::Instruction && cache.size_bytes > 0;
    for cache in topology.caches().iter().filter(data) {
        for cpu in &cache.cpus {
            if let Some(level) = levels.get_mut(cpu) {
                *level = cache.level.max(*level);
            }
        }
    }
    let last = move |cache: &&Cache| cache.cpus.iter().any(|cpu| levels.get(cpu) == Some(&cache.level));
    topology.caches().iter().filter(data).filter(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(topology: &Topology) -> ProbeFacts {
        let nodes: Vec<NodeId> = topology.nodes().iter().map(|n| n.id).collect();
        ProbeFacts::of(topology, &nodes, &nodes, 1 << 30, |node| u64::from(node.0) + 1, 1e9)
    }

    #[test]
    fn a_node_has_its_own_caches_cpus_and_memory() {
        let facts = facts(&Topology::synthetic(2, 2, 4, 2));
        assert_eq!((facts.initiators.len(), facts.targets.len()), (4, 4));
        for (i, from) in facts.initiators.iter().enumerate() {
            assert_eq!((from.row, from.cpus.len(), from.cores), (i, 8, 4));
            // One L3 for each node; L1 and L2 are not its last level.
            assert_eq!((from.cache_bytes_max, from.cache_bytes_total), (32 << 20, 32 << 20));
        }
        assert_eq!(facts.targets.iter().map(|t| t.free_bytes).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(facts.distances[0], [10, 12, 21, 21]);
        assert!(facts.caches_known);
    }

    #[test]
    fn caches_that_nobody_describes_are_assumed() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("proc")).expect("a folder");
        std::fs::write(root.path().join("proc/cpuinfo"), "processor : 0\nprocessor : 1\n").expect("a file");
        let facts = facts(&Topology::read(root.path()).expect("two cpus"));
        assert!(!facts.caches_known);
        assert_eq!(facts.initiators[0].cache_bytes_total, CACHE_BYTES_ASSUMED);
        assert_eq!(facts.initiators[0].cpus, [CpuId(0), CpuId(1)]);
    }
}
