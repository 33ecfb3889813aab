//! What follows from a machine's nodes, distances and cpus: memory tiers, sub-domains, hop classes, defaults.
//!
//! Invariant: a pure function of the other facts, so that a machine read back from JSON derives the same.
//!
//! # Limits
//! Tiers are an order, not a measure: by what the firmware declares, else by kind, else by distance.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{HopClass, HopKind, MemoryKind, Node, SubDomains, Tier};
use crate::ids::{NodeId, PackageId};

/// The packages of several nodes with cpus.
pub(super) fn sub_domains(nodes: &[Node]) -> Vec<SubDomains> {
    let mut by_package: BTreeMap<PackageId, Vec<NodeId>> = BTreeMap::new();
    for node in nodes.iter().filter(|n| !n.cpus.is_empty()) {
        if let Some(package) = node.package {
            by_package.entry(package).or_default().push(node.id);
        }
    }
    let several = by_package.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    several.map(|(package, nodes)| SubDomains { package, nodes }).collect()
}

/// What puts a node before another in the order of tiers; alike means the same tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64, u32);

/// Kinds of memory, the fastest first.
pub(super) fn tiers(nodes: &[Node]) -> Vec<Tier> {
    let with_memory: Vec<&Node> = nodes.iter().filter(|n| n.memory_bytes > 0).collect();
    let with_memory = if with_memory.is_empty() { nodes.iter().collect() } else { with_memory };
    let mut kernel: Vec<Option<u32>> = with_memory.iter().map(|n| n.kernel_tier).collect();
    kernel.sort_unstable();
    kernel.dedup();
    // One tier for all tells only that the kernel was told nothing.
    let kernel_knows = kernel.len() > 1 && kernel.iter().all(Option::is_some);
    let mut by_rank: BTreeMap<Rank, Vec<&Node>> = BTreeMap::new();
    for node in with_memory {
        let rank = match node.kernel_tier {
            Some(tier) if kernel_knows => Rank(u64::from(tier), 0),
            _ => assumed_rank(node, nodes),
        };
        by_rank.entry(rank).or_default().push(node);
    }
    let tier = |(tier, nodes): (usize, Vec<&Node>)| {
        let mut kinds: Vec<MemoryKind> = nodes.iter().map(|n| n.memory_kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let memory_bytes = nodes.iter().fold(0u64, |sum, n| sum.saturating_add(n.memory_bytes));
        Tier { tier: tier as u32, kinds, nodes: nodes.iter().map(|n| n.id).collect(), memory_bytes }
    };
    by_rank.into_values().enumerate().map(tier).collect()
}

/// By kind; nodes without cpus of one kind also by how far they are from the nearest cpus.
fn assumed_rank(node: &Node, nodes: &[Node]) -> Rank {
    let (order, by_distance) = match node.memory_kind {
        MemoryKind::Hbm => (0, false),
        MemoryKind::Dram => (1, false),
        MemoryKind::Cxl => (2, true),
        MemoryKind::Pmem => (3, true),
        MemoryKind::Gpu => (4, true),
    };
    Rank(order, if by_distance { from_nearest(node, nodes).unwrap_or(0) } else { 0 })
}

/// The distance to a node from the nearest node with cpus; `None` where no other node has any.
fn from_nearest(node: &Node, nodes: &[Node]) -> Option<u32> {
    let others = nodes.iter().filter(|n| !n.cpus.is_empty() && n.id != node.id);
    others.filter_map(|n| n.distances.get(&node.id)).min().copied()
}

/// The nodes with cpus from which a node's memory is nearest: itself, if it has cpus.
pub(super) fn nearest_to(node: &Node, nodes: &[Node]) -> Vec<NodeId> {
    if !node.cpus.is_empty() {
        return vec![node.id];
    }
    let Some(nearest) = from_nearest(node, nodes) else { return Vec::new() };
    let near = nodes.iter().filter(|n| !n.cpus.is_empty() && n.distances.get(&node.id) == Some(&nearest));
    near.map(|n| n.id).collect()
}

/// The package that a node's memory belongs to: its own, or the one package of the nearest cpus.
pub(super) fn home_package(node: &Node, nodes: &[Node]) -> Option<PackageId> {
    if node.package.is_some() || !node.cpus.is_empty() {
        return node.package;
    }
    let near = nearest_to(node, nodes);
    let mut packages: Vec<Option<PackageId>> =
        nodes.iter().filter(|n| near.contains(&n.id)).map(|n| n.package).collect();
    packages.dedup();
    if let [one] = packages.as_slice() { *one } else { None }
}

/// How `to` lies to `from`.
pub(super) fn hop_kind(from: &Node, to: &Node, nodes: &[Node]) -> HopKind {
    if from.id == to.id {
        return HopKind::Local;
    }
    match (from.package, home_package(to, nodes)) {
        (Some(a), Some(b)) if a == b => HopKind::Package,
        _ => HopKind::Remote,
    }
}

/// How nodes lie to each other, the nearest first.
pub(super) fn hop_classes(nodes: &[Node]) -> Vec<HopClass> {
    /// The pairs of a class, and whether all of them lead to memory without cpus.
    struct Pairs {
        pairs: u64,
        attached: bool,
    }
    let homes: BTreeMap<NodeId, Option<PackageId>> = nodes.iter().map(|n| (n.id, home_package(n, nodes))).collect();
    let cpuless: BTreeSet<NodeId> = nodes.iter().filter(|n| n.cpus.is_empty()).map(|n| n.id).collect();
    let mut found: BTreeMap<(HopKind, u32), Pairs> = BTreeMap::new();
    for from in nodes.iter().filter(|n| !cpuless.contains(&n.id) || cpuless.len() == nodes.len()) {
        for (to, &distance) in &from.distances {
            let home = homes.get(to).copied().flatten();
            let kind = match from.id == *to {
                true => HopKind::Local,
                false if from.package.is_some() && from.package == home => HopKind::Package,
                false => HopKind::Remote,
            };
            let of = found.entry((kind, distance)).or_insert(Pairs { pairs: 0, attached: true });
            of.pairs += 1;
            of.attached &= cpuless.contains(to);
        }
    }
    let alike = |kind, attached| found.iter().filter(|((k, _), p)| *k == kind && p.attached == attached).count();
    let of_package = [false, true].map(|attached| alike(HopKind::Package, attached));
    let mut ranks: BTreeMap<(HopKind, bool), usize> = BTreeMap::new();
    let mut classes = Vec::with_capacity(found.len());
    for ((kind, distance), Pairs { pairs, attached }) in found {
        let rank = ranks.entry((kind, attached)).or_insert(0);
        *rank += 1;
        let step = |of: usize| if of > 1 { format!(", step {rank}") } else { String::new() };
        let name = match (kind, attached) {
            (HopKind::Local, _) => "local".to_string(),
            (HopKind::Package, false) => format!("same package{}", step(of_package[0])),
            (HopKind::Package, true) => format!("attached memory{}", step(of_package[1])),
            (HopKind::Remote, attached) => {
                let hops = format!("{rank} hop{}", if *rank == 1 { "" } else { "s" });
                if attached { format!("attached memory, {hops}") } else { hops }
            }
        };
        classes.push(HopClass { class: classes.len() as u32, kind, name, distance, pairs });
    }
    classes
}
