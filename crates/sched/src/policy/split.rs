//! How the usable cpus become thread groups: per node, along shared L3 caches and dies, SMT siblings together.
//!
//! Invariants: a group's cpus are of one node; every usable cpu is in one group; the cpus of a core are in one group
//! unless the core alone is larger than the largest group allowed.
//!
//! # Limits
//! Clusters below the L3 cache (ARM) are not looked at.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 ("larger topologies are assigned a couple TG per socket.
//! Hyperthreads are grouped in the same TG").

use std::collections::BTreeMap;

use numa::{CacheKind, CpuId, NodeId, Topology};

/// How a node's cpus are split into thread groups: along shared caches and dies, SMT siblings together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Groups of fewer cpus are joined with their neighbour.
    pub cpus_min: usize,
    /// Groups of more cpus are cut.
    pub cpus_max: usize,
}

impl Default for Split {
    /// Four cpus share a lock without noticing; beyond 32 they begin to wait for it.
    fn default() -> Split {
        Split { cpus_min: 4, cpus_max: 32 }
    }
}

/// The cpus of a group to be: first one of each core, then their siblings.
pub(super) type Cpus = Vec<CpuId>;

/// The usable cpus of every node that has any, in groups.
pub(super) fn groups(topology: &Topology, split: Split) -> Vec<(NodeId, Vec<Cpus>)> {
    let first_node = topology.nodes().first().map_or(NodeId(0), |node| node.id);
    let mut nodes: BTreeMap<NodeId, Vec<CpuId>> = BTreeMap::new();
    for cpu in topology.usable_cpus() {
        nodes.entry(topology.node_of_cpu(*cpu).unwrap_or(first_node)).or_default().push(*cpu);
    }
    assert!(!nodes.is_empty(), "a topology has at least one usable cpu");
    let siblings = siblings(topology);
    let of_node = |(node, cpus): (NodeId, Vec<CpuId>)| {
        let mut groups = cut(join(clusters(topology, &cpus), split.cpus_min.max(1)), topology, split.cpus_max.max(1));
        for group in &mut groups {
            group.sort_by_key(|cpu| (siblings.get(cpu).copied().unwrap_or(0), *cpu));
        }
        (node, groups)
    };
    nodes.into_iter().map(of_node).collect()
}

/// Of every usable cpu, which of its core's usable cpus it is.
pub(super) fn siblings(topology: &Topology) -> BTreeMap<CpuId, usize> {
    let mut siblings = BTreeMap::new();
    for core in topology.cores() {
        let usable = core.cpus.iter().filter(|cpu| topology.usable_cpus().binary_search(cpu).is_ok());
        siblings.extend(usable.enumerate().map(|(rank, cpu)| (*cpu, rank)));
    }
    siblings
}

/// Cpus of one node that share an L3 cache; where caches tell nothing, a die.
fn clusters(topology: &Topology, cpus: &[CpuId]) -> Vec<Cpus> {
    let die = |cpu: &CpuId| topology.dies().iter().position(|die| die.cpus.contains(cpu));
    let cache = |cpu: &CpuId| {
        let shares = |cache: &numa::Cache| {
            cache.level == 3 && cache.kind != CacheKind::Instruction && cache.cpus.len() > 1 && cache.cpus.contains(cpu)
        };
        topology.caches().iter().position(shares)
    };
    // Dies first, so that small clusters are joined within their die.
    let mut clusters: BTreeMap<(Option<usize>, Option<usize>), Cpus> = BTreeMap::new();
    for cpu in cpus {
        clusters.entry((die(cpu), cache(cpu))).or_default().push(*cpu);
    }
    clusters.into_values().collect()
}

/// Joins neighbours until none has fewer than `cpus_min` cpus.
fn join(clusters: Vec<Cpus>, cpus_min: usize) -> Vec<Cpus> {
    let mut joined: Vec<Cpus> = Vec::new();
    for cluster in clusters {
        match joined.last_mut() {
            Some(last) if last.len() < cpus_min => last.extend(cluster),
            _ => joined.push(cluster),
        }
    }
    if joined.len() > 1 && joined.last().is_some_and(|last| last.len() < cpus_min) {
        let last = joined.pop().unwrap_or_default();
        joined.last_mut().expect("more than one").extend(last);
    }
    joined
}

/// Cuts what has more than `cpus_max` cpus into equal pieces of whole cores.
fn cut(clusters: Vec<Cpus>, topology: &Topology, cpus_max: usize) -> Vec<Cpus> {
    let mut pieces = Vec::new();
    for cluster in clusters {
        let pieces_wanted = cluster.len().div_ceil(cpus_max);
        if pieces_wanted <= 1 {
            pieces.push(cluster);
            continue;
        }
        let mut cores: BTreeMap<usize, Cpus> = BTreeMap::new();
        let cores_known = topology.cores().len();
        for cpu in &cluster {
            let core = topology.cores().iter().position(|core| core.cpus.contains(cpu));
            cores.entry(core.unwrap_or(cores_known + cpu.0 as usize)).or_default().push(*cpu);
        }
        let cores: Vec<Cpus> = cores.into_values().collect();
        let per_piece = cores.len().div_ceil(pieces_wanted);
        pieces.extend(cores.chunks(per_piece).map(<[Cpus]>::concat));
    }
    pieces
}
