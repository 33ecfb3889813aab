//! Moving regions on a machine of several nodes, under concurrent readers; where there is one node, these tests say
//! that they were skipped.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::real_nodes::several_nodes;
use super::*;
use crate::moving::{MoveError, MoveReport};
use crate::sys::page_bytes;
use crate::{Allocator, Budget, NodeId, PageMap, Pattern};

const MIB: usize = 1 << 20;

/// A region both of whose ends of every page carry their number, so that any page that is lost or swapped shows. All
/// words of all pages would take an emulated machine minutes.
fn counted(policy: Policy, len: usize) -> Region {
    let mut region = Allocator::new(policy, Budget::unlimited()).region(len).expect("a few mebibytes");
    let words = region.words_mut::<u64>();
    ends(words.len()).for_each(|i| words[i] = i as u64 + 1);
    region
}

fn is_intact(region: &Region) -> bool {
    let words = region.words::<u64>();
    ends(words.len()).all(|i| words[i] == i as u64 + 1)
}

/// The first and the last word of every page.
fn ends(words: usize) -> impl Iterator<Item = usize> {
    let step = page_bytes() / 8;
    (0..words).step_by(step).flat_map(move |at| [at, (at + step).min(words) - 1])
}

/// Runs `body` while another thread reads the region over and over: it must never see something else than its content.
fn under_readers<T>(region: &Region, body: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            while rounds == 0 || !done.load(Ordering::Relaxed) {
                assert!(is_intact(region), "a reader saw other content");
                rounds += 1;
                // Emulated machines have more cpus than there are.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let result = body();
        done.store(true, Ordering::Relaxed);
        reader.join().expect("readers see their content");
        result
    })
}

/// Where every page is, by the policy, from the start of the region; `None` where the policy leaves that open.
fn expected(policy: &Policy, region: &Region) -> Vec<(Range<u64>, NodeId)> {
    policy.cuts(region.held_bytes() as u64, page_bytes() as u64)
}

fn runs_of(map: &PageMap, region: &Region) -> Vec<(Range<u64>, NodeId)> {
    let offset = |address: usize| (address - region.address()) as u64;
    map.runs().map(|(run, node)| (offset(run.start)..offset(run.end), node)).collect()
}

#[test]
fn regions_move_between_nodes_while_they_are_read() {
    let Some((_, nodes)) = several_nodes() else { return };
    // With huge pages and without, and not of whole huge pages.
    for len in [256 << 10, 5 * MIB] {
        let region = counted(Policy::Node(nodes[0]), len);
        for &node in [&nodes[1], &nodes[nodes.len() - 1], &nodes[0]] {
            if region.policy() == Policy::Node(node) {
                continue;
            }
            let placements = region.placements();
            let before = PageMap::of(&region);
            let moved = under_readers(&region, || region.place(&Policy::Node(node), &|| false)).expect("there is room");
            let map = PageMap::of(&region);
            let what = format!("{len} bytes to node {node}: {moved:?}, {:?}, {:?}", before.ranges(), map.ranges());
            assert_eq!(
                moved,
                MoveReport { moved_bytes: region.held_bytes() as u64, ..MoveReport::default() },
                "{what}"
            );
            assert_eq!(map.bytes_per_node(), BTreeMap::from([(node, len as u64)]), "{what}");
            assert_eq!((region.policy(), region.placements()), (Policy::Node(node), placements + 1));
            let again = region.place(&Policy::Node(node), &|| false).expect("there is room");
            assert_eq!(again, MoveReport { already_bytes: region.held_bytes() as u64, ..MoveReport::default() });
        }
        assert!(is_intact(&region), "content was lost");
    }
}

#[test]
fn regions_are_striped_weighted_and_interleaved_in_place() {
    let Some((_, nodes)) = several_nodes() else { return };
    let page = page_bytes() as u64;
    let policies = [
        Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 },
        Policy::Interleaved(nodes.clone()),
        Policy::Striped { nodes: nodes.iter().rev().copied().collect(), chunk_bytes: 3 * page },
        Policy::Weighted(nodes.iter().copied().zip(1..).collect()),
        Policy::Interleaved(vec![nodes[1], nodes[0]]),
        Policy::Node(nodes[1]),
    ];
    // Over two nodes, the last one is large enough for huge pages to take turns.
    for len in [64 * page as usize, 3 * MIB + 4096, 34 * MIB] {
        let region = counted(Policy::Node(nodes[0]), len);
        let large = len > 8 * MIB;
        for policy in policies.iter().skip(if large { 4 } else { 0 }) {
            let moved = under_readers(&region, || region.place(policy, &|| false)).expect("there is room");
            let map = PageMap::of(&region);
            let what =
                format!("{policy:?} over {len} bytes: {moved:?}, {:?} {:?}", map.pattern(), map.bytes_per_node());
            assert_eq!(moved.stuck_bytes, 0, "{what}");
            assert_eq!(moved.moved_bytes + moved.already_bytes, region.held_bytes() as u64, "{what}");
            assert_eq!(region.policy(), *policy);
            if let Policy::Interleaved(_) = policy {
                let of = policy.nodes();
                match map.pattern() {
                    Pattern::Interleaved { nodes, .. } => assert_eq!(nodes, of, "{what}"),
                    // Huge pages take turns by themselves, and what is left of one at the end in base pages.
                    _ => assert!(map.ranges().len() <= 3 * of.len(), "{what}: {} ranges", map.ranges().len()),
                }
                let share = len as u64 / of.len() as u64;
                let fair = |bytes: &u64| bytes.abs_diff(share) <= 4 << 20;
                assert!(map.bytes_per_node().values().all(fair), "{what}");
                assert_eq!(map.bytes_per_node().keys().copied().collect::<Vec<_>>(), of, "{what}");
            } else {
                let mut cuts = expected(policy, &region);
                // The map ends with the region, the policy with its last page.
                cuts.last_mut().expect("runs").0.end = len as u64;
                assert_eq!(runs_of(&map, &region), cuts, "{what}");
            }
        }
        assert!(is_intact(&region), "content was lost");
    }
}

#[test]
fn pages_touched_after_a_move_follow_it() {
    let Some((_, nodes)) = several_nodes() else { return };
    let len = 6 * MIB;
    let mut region = Allocator::new(Policy::Node(nodes[0]), Budget::unlimited()).region(len).expect("a few mebibytes");
    region.bytes_mut()[..2 * MIB].fill(1);
    let moved = region.place(&Policy::Node(nodes[1]), &|| false).expect("there is room");
    assert_eq!((moved.moved_bytes, moved.stuck_bytes), (2 * MIB as u64, 0));
    region.bytes_mut()[2 * MIB..].fill(1);
    assert_eq!(PageMap::of(&region).pattern(), Pattern::One(nodes[1]));
}

#[test]
fn parts_of_a_region_are_placed_apart() {
    let Some((_, nodes)) = several_nodes() else { return };
    let page = page_bytes();
    let len = 9 * MIB;
    let region = counted(Policy::Node(nodes[0]), len);
    // Within huge pages, over several of them, and again over both ends of the first.
    for (bytes, node) in
        [(MIB + page..3 * MIB, 1), (6 * MIB..8 * MIB + 3 * page, 1), (2 * MIB..7 * MIB, 0), (0..page, 1)]
    {
        let wanted = bytes.len() as u64;
        let moved = under_readers(&region, || {
            // Bytes of a page that is not within do not move.
            region.place_range(
                bytes.start.saturating_sub(page / 2)..bytes.end + page / 2,
                &Policy::Node(nodes[node]),
                &|| false,
            )
        })
        .expect("there is room");
        assert_eq!(moved.moved_bytes + moved.already_bytes, wanted);
        let map = PageMap::of(&region);
        let there = map.bytes_within(region.address() + bytes.start..region.address() + bytes.end);
        assert_eq!(there, BTreeMap::from([(nodes[node], wanted)]));
    }
    let map = PageMap::of(&region);
    let runs = [
        (0..page, 1),
        (page..MIB + page, 0),
        (MIB + page..2 * MIB, 1),
        (2 * MIB..7 * MIB, 0),
        (7 * MIB..8 * MIB + 3 * page, 1),
        (8 * MIB + 3 * page..len, 0),
    ];
    let runs: Vec<_> = runs.into_iter().map(|(run, node)| (run.start as u64..run.end as u64, nodes[node])).collect();
    assert_eq!(runs_of(&map, &region), runs);
    let policies: Vec<_> =
        region.policies().into_iter().map(|(run, policy)| (run.start as u64..run.end as u64, policy)).collect();
    assert_eq!(policies, runs.iter().map(|(run, node)| (run.clone(), Policy::Node(*node))).collect::<Vec<_>>());
    assert_eq!(region.shares(), map.bytes_per_node());
    assert!(is_intact(&region), "content was lost");
}

#[test]
fn a_stopped_move_leaves_everything_where_it_was() {
    let Some((_, nodes)) = several_nodes() else { return };
    let region = counted(Policy::Striped { nodes: nodes[..2].to_vec(), chunk_bytes: 0 }, 28 * MIB);
    let policy = region.policy();
    let map = PageMap::of(&region);
    for steps in [0, 1, 3] {
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) >= steps;
        let result = under_readers(&region, || region.place(&Policy::Interleaved(nodes.clone()), &stop));
        assert_eq!(result, Err(MoveError::Stopped));
        assert_eq!(asked.get(), steps + 1);
        assert_eq!((region.policy(), PageMap::of(&region)), (policy.clone(), map.clone()));
    }
    assert!(is_intact(&region), "content was lost");
}

#[test]
fn a_snapshot_can_be_restored() {
    let Some((_, nodes)) = several_nodes() else { return };
    let first = Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 };
    let region = counted(first.clone(), 10 * MIB);
    let map = PageMap::of(&region);
    let taken = region.snapshot();
    region.place_range(MIB..4 * MIB, &Policy::Node(nodes[1]), &|| false).expect("there is room");
    region.place_range(2 * MIB..9 * MIB, &Policy::Interleaved(nodes.clone()), &|| false).expect("there is room");
    let moved = under_readers(&region, || region.restore(&taken));
    assert_eq!(moved.stuck_bytes, 0);
    assert_eq!(moved.moved_bytes + moved.already_bytes, region.held_bytes() as u64);
    assert_eq!((region.policy(), PageMap::of(&region)), (first, map));
    assert!(is_intact(&region), "content was lost");
}

#[test]
fn no_policy_takes_many_mappings() {
    let Some((_, nodes)) = several_nodes() else { return };
    let page = page_bytes();
    let region = counted(Policy::Node(nodes[0]), 6 * MIB);
    let within = region.address()..region.address() + region.held_bytes();
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("proc is mounted");
        let start = |line: &str| usize::from_str_radix(line.split('-').next()?, 16).ok();
        maps.lines().filter_map(start).filter(|start| within.contains(start)).count()
    };
    for (policy, most) in [
        (Policy::Striped { nodes: nodes.clone(), chunk_bytes: page as u64 }, 256),
        (Policy::Interleaved(nodes.clone()), 1),
        (Policy::Weighted(nodes.iter().copied().zip([3, 1].into_iter().cycle()).collect()), 256),
        (Policy::Node(nodes[1]), 1),
    ] {
        region.place(&policy, &|| false).expect("there is room");
        assert!(mappings() <= most, "{policy:?} takes {} mappings", mappings());
    }
}

#[test]
fn the_speed_of_moving() {
    let Some((_, nodes)) = several_nodes() else { return };
    let region = counted(Policy::Node(nodes[0]), 6 * MIB);
    for policy in [Policy::Node(nodes[1]), Policy::Interleaved(nodes.clone()), Policy::Node(nodes[0])] {
        let started = Instant::now();
        let moved = region.place(&policy, &|| false).expect("there is room");
        let seconds = started.elapsed().as_secs_f64();
        let mib = moved.moved_bytes as f64 / MIB as f64;
        eprintln!("moved {mib} MiB to {policy:?} in {seconds:.3} s, {:.0} MiB/s", mib / seconds);
        assert_eq!(moved.stuck_bytes, 0);
    }
}
