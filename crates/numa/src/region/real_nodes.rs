//! Regions on a machine of several nodes; where there is one, these tests say that they were skipped.

use std::collections::BTreeMap;

use super::*;
use crate::sys::page_bytes;
use crate::{Budget, MemoryError, NodeId, PageMap, Pattern, Topology, current_node, pin_current_thread, usage};

const MIB: usize = 1 << 20;
/// Set to fill nodes to the brim: nothing else may need memory meanwhile, so run with one test thread.
const FILL_NODES: &str = "NEARSIDE_TEST_FILL_NODES";

/// The machine and its memory nodes, when there are several.
pub(super) fn several_nodes() -> Option<(Topology, Vec<NodeId>)> {
    let topology = Topology::discover().expect("tests run on Linux");
    let nodes = topology.usable_memory_nodes().to_vec();
    if nodes.len() < 2 {
        eprintln!("skipped: this machine has one memory node");
        return None;
    }
    tests::can_place().then_some((topology, nodes))
}

fn touched(policy: Policy, len: usize) -> Region {
    let mut region = Allocator::new(policy, Budget::unlimited()).region(len).expect("a few mebibytes");
    region.bytes_mut().fill(1);
    region
}

#[test]
fn bound_regions_lie_on_their_node() {
    let Some((_, nodes)) = several_nodes() else { return };
    for &node in &nodes {
        for len in [64 << 10, MIB, 5 * MIB + 4096] {
            let region = touched(Policy::Node(node), len);
            let map = PageMap::of(&region);
            assert!(map.is_measured());
            assert_eq!(map.bytes_per_node(), BTreeMap::from([(node, len as u64)]));
            assert_eq!((map.majority(), map.node_of(region.address() + len - 1)), (Some(node), Some(node)));
        }
    }
}

#[test]
fn interleaved_regions_alternate() {
    let Some((_, nodes)) = several_nodes() else { return };
    let page = page_bytes();
    let pages = 32 * nodes.len();
    let region = touched(Policy::Interleaved(nodes.clone()), pages * page);
    let map = PageMap::of(&region);
    let share = (pages / nodes.len() * page) as u64;
    assert_eq!(map.bytes_per_node(), nodes.iter().map(|n| (*n, share)).collect::<BTreeMap<_, _>>());
    // Page by page in turn: no two neighbours on one node.
    assert_eq!(map.runs().count(), pages);
    assert_eq!(map.ranges().len(), 1);
    assert!(matches!(map.pattern(), Pattern::Interleaved { page_bytes: size, .. } if size == page));
    let pair = vec![nodes[1], nodes[0]];
    let map = PageMap::of(&touched(Policy::Interleaved(pair), pages * page));
    assert_eq!(map.bytes_per_node().keys().copied().collect::<Vec<_>>(), nodes[..2]);
}

#[test]
fn stripes_and_weighted_runs_lie_as_the_policy_cuts_them() {
    let Some((_, nodes)) = several_nodes() else { return };
    let page = page_bytes() as u64;
    let weights: Vec<(NodeId, u32)> = nodes.iter().copied().zip(1..).collect();
    let policies = [
        Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 },
        Policy::Striped { nodes: nodes.iter().rev().copied().collect(), chunk_bytes: 3 * page },
        Policy::Striped { nodes: vec![nodes[1], nodes[0]], chunk_bytes: 64 << 10 },
        Policy::Weighted(weights),
    ];
    for policy in policies {
        for len in [16 * page, (1 << 20) + page, (8 << 20) + 1] {
            let region = touched(policy.clone(), len as usize);
            assert_eq!(region.policy(), policy);
            let map = PageMap::of(&region);
            assert!(map.is_measured());
            let found = map.runs().map(|(r, node)| {
                let start = (r.start - region.address()) as u64;
                (start..start + (r.end - r.start) as u64, node)
            });
            assert_eq!(found.collect::<Vec<_>>(), policy.cuts(len, page), "{policy:?} over {len} bytes");
        }
    }
}

#[test]
fn small_regions_lie_on_their_node_whoever_frees_them() {
    let Some((_, nodes)) = several_nodes() else { return };
    for round in 0..3 {
        for &node in &nodes {
            let sizes = (0..200usize).map(|i| 1 + (i * 331 + round) % 20_000);
            let regions: Vec<Region> = sizes.map(|len| touched(Policy::Node(node), len)).collect();
            let ranges: Vec<(usize, usize)> = regions.iter().map(|r| (r.address(), r.len())).collect();
            let map = PageMap::read(&ranges);
            assert!(map.is_measured());
            assert_eq!((map.bytes_per_node().into_keys().collect::<Vec<_>>(), map.unknown_bytes()), (vec![node], 0));
            // Freed by a thread that took none of them; the next round takes them again.
            std::thread::spawn(move || drop(regions)).join().expect("no panic");
        }
    }
}

#[test]
fn scratch_memory_stays_on_its_node() {
    let Some((_, nodes)) = several_nodes() else { return };
    for &node in &nodes {
        let allocator = Allocator::new(Policy::Node(node), Budget::unlimited());
        for _ in 0..4 {
            let mut scratch = allocator.scratch(3 * MIB).expect("a few mebibytes");
            scratch.bytes_mut().fill(1);
            let map = PageMap::of(&scratch);
            assert_eq!(map.bytes_per_node(), BTreeMap::from([(node, 3 << 20)]));
        }
    }
}

#[test]
fn usage_names_the_nodes() {
    let Some((_, nodes)) = several_nodes() else { return };
    let budget = Budget::new("real nodes", 64 << 20);
    let on = |node: NodeId| Allocator::new(Policy::Node(node), Arc::clone(&budget));
    let regions: Vec<[Region; 2]> = nodes
        .iter()
        .map(|node| [on(*node).region(MIB).expect("fits"), on(*node).region(1000).expect("fits")])
        .collect();
    let mine: Vec<_> = usage().into_iter().filter(|u| u.owner == "real nodes").map(|u| (u.node, u.bytes)).collect();
    let expected: Vec<_> = nodes.iter().flat_map(|node| [(Some(*node), 1 << 20), (Some(*node), 1024)]).collect();
    assert_eq!(mine, expected);
    drop(regions);
    assert!(usage().iter().all(|u| u.owner != "real nodes"));
}

#[test]
fn threads_know_their_node() {
    let Some((topology, _)) = several_nodes() else { return };
    for cpu in topology.usable_cpus().to_vec() {
        let node = topology.node_of_cpu(cpu);
        let all = topology.usable_cpus().to_vec();
        std::thread::spawn(move || {
            assert!(pin_current_thread(&[cpu]));
            assert_eq!(current_node(), node);
            // Pinned to cpus of several nodes, it is asked anew each time.
            assert!(pin_current_thread(&all));
            assert!(current_node().is_some());
        })
        .join()
        .expect("no panic");
    }
}

#[test]
fn local_regions_lie_where_they_are_touched() {
    let Some((topology, nodes)) = several_nodes() else { return };
    for &node in &nodes {
        let cpus = topology.node(node).expect("a node").cpus.clone();
        let usable = cpus.iter().all(|cpu| topology.usable_cpus().contains(cpu));
        if cpus.is_empty() || !usable {
            continue;
        }
        std::thread::spawn(move || {
            assert!(pin_current_thread(&cpus));
            let map = PageMap::of(&touched(Policy::Local, MIB));
            assert_eq!(map.majority(), Some(node));
        })
        .join()
        .expect("no panic");
    }
}

#[test]
fn filling_a_node_ends_in_an_error_that_names_it() {
    let Some((_, nodes)) = several_nodes() else { return };
    if std::env::var_os(FILL_NODES).is_none() {
        eprintln!("skipped: {FILL_NODES} is not set");
        return;
    }
    for &node in &nodes {
        let allocator = Allocator::new(Policy::Node(node), Budget::unlimited());
        let mut held = Vec::new();
        let error = loop {
            match allocator.region(8 * MIB) {
                Ok(mut region) => {
                    region.bytes_mut().fill(1);
                    held.push(region);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, MemoryError::NodeFull { node: full, .. } if full == node), "{error}");
        let ranges: Vec<(usize, usize)> = held.iter().map(|r| (r.address(), r.len())).collect();
        let map = PageMap::read(&ranges);
        let here = map.bytes_per_node().get(&node).copied().unwrap_or(0);
        let total = (held.len() * 8 * MIB) as u64;
        eprintln!("node {node}: {} MiB held, {} MiB of them there; {error}", total >> 20, here >> 20);
        assert!(here * 10 >= total * 9, "{here} of {total} bytes lie on node {node}");
    }
}
