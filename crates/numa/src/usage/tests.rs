//! Counters against what was allocated. Tests of this process run side by side, so each looks at owners of its own.

use super::*;
use crate::fixture::Fixture;
use crate::{Allocator, Budget, Policy};

/// What `usage` shows of one owner.
fn of(owner: &str) -> Vec<(Option<u32>, UsageKind, u64)> {
    let mine = usage().into_iter().filter(|u| u.owner == owner);
    mine.map(|u| (u.node.map(|n| n.0), u.kind, u.bytes)).collect()
}

#[test]
fn usage_follows_regions_by_owner_and_node() {
    let fixture = Fixture::machine(&[0, 1], 2);
    let machine = Arc::new(Machine::read(fixture.root()));
    let budget = Budget::new("usage by node", 1 << 30);
    let nodes = vec![NodeId(0), NodeId(1)];
    let on = |policy| Allocator::on_machine(policy, Some(Arc::clone(&budget)), Arc::clone(&machine));
    assert_eq!(of("usage by node"), []);
    let local = on(Policy::Local).region(100_000).expect("fits");
    assert_eq!(of("usage by node"), [(None, UsageKind::Region, local.held_bytes() as u64)]);
    drop(local);
    let mut striped = on(Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 }).region(1 << 20).expect("fits");
    let half = 512 << 10;
    assert_eq!(of("usage by node"), [(Some(0), UsageKind::Region, half), (Some(1), UsageKind::Region, half)]);
    striped.shrink(768 << 10);
    assert_eq!(of("usage by node"), [(Some(0), UsageKind::Region, half), (Some(1), UsageKind::Region, half / 2)]);
    striped.set_policy(Policy::Node(NodeId(1)));
    assert_eq!(of("usage by node"), [(Some(1), UsageKind::Region, 768 << 10)]);
    drop(striped);
    let small = on(Policy::Node(NodeId(1))).region(1000).expect("fits");
    assert_eq!(of("usage by node"), [(Some(1), UsageKind::Pool, small.held_bytes() as u64)]);
    drop(small);
    assert_eq!(of("usage by node"), []);
}

#[test]
fn a_machine_of_one_node_counts_all_there_and_names_are_one_owner() {
    let fixture = Fixture::machine(&[0], 2);
    let machine = Arc::new(Machine::read(fixture.root()));
    let budgets = [Budget::new("two of a name", 1 << 30), Budget::new("two of a name", 1 << 30)];
    let regions = budgets.each_ref().map(|budget| {
        let policy = Policy::Interleaved(vec![NodeId(0), NodeId(1)]);
        let allocator = Allocator::on_machine(policy, Some(Arc::clone(budget)), Arc::clone(&machine));
        [allocator.region(64).expect("fits"), allocator.region(1 << 20).expect("fits")]
    });
    assert_eq!(of("two of a name"), [(Some(0), UsageKind::Region, 2 * (64 + (1 << 20)))]);
    drop(regions);
    assert_eq!(of("two of a name"), []);
}

#[test]
fn owners_that_are_gone_are_forgotten() {
    for i in 0..1000 {
        let budget = Budget::new(format!("short-lived {i}"), 1 << 20);
        Allocator::new(Policy::Local, budget).region(64).expect("fits");
    }
    assert!(usage().iter().all(|u| !u.owner.starts_with("short-lived")));
    let known = OWNERS.lock().expect("no panic").all.len();
    assert!(known < 500, "{known} owners are remembered");
}

#[test]
fn far_nodes_are_counted_without_a_node() {
    let counts = Counts::register("far");
    let far = NodeId(counts.bytes.len() as u32);
    counts.add(Some(far), UsageKind::Region, 7);
    assert_eq!(of("far"), [(None, UsageKind::Region, 7)]);
    counts.take(Some(far), UsageKind::Region, 7);
    assert_eq!(of("far"), []);
}
