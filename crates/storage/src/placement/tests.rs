//! Striping against a walk over granules; every policy keeps whole granules on one node.

use numa::{NodeId, Policy};
use proptest::prelude::*;

use super::*;

const PAGE_BYTES: u64 = 4096;

fn nodes(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().map(|&id| NodeId(id)).collect()
}

/// The node of every granule, by filling node after node.
fn walked(nodes: &[NodeId], granules: usize, segment: usize) -> Vec<NodeId> {
    let mut turned = nodes.to_vec();
    for _ in 0..segment {
        let first = turned.remove(0);
        turned.push(first);
    }
    if granules < nodes.len() {
        return vec![turned[0]; granules];
    }
    let mut share = 0;
    while share * nodes.len() < granules {
        share += 1;
    }
    let mut all = Vec::new();
    for node in turned {
        for _ in 0..share {
            if all.len() < granules {
                all.push(node);
            }
        }
    }
    all
}

fn some_nodes() -> impl Strategy<Value = Vec<NodeId>> {
    proptest::sample::subsequence((0..12).map(NodeId).collect::<Vec<_>>(), 1..9).prop_shuffle()
}

proptest! {
    #[test]
    fn striping_agrees_with_the_walk(list in some_nodes(), granules in 1usize..300, segment in 0usize..20) {
        let placement = Placement::Striped(list.clone());
        let expected = walked(&list, granules, segment);
        for (granule, node) in expected.iter().enumerate() {
            prop_assert_eq!(placement.node_of_granule(granules, segment, granule), Some(*node));
            let end = placement.run_end(granules, segment, granule);
            prop_assert!(end > granule && end <= granules);
            prop_assert!(expected[granule..end].iter().all(|n| n == node));
            prop_assert!(expected.get(end).is_none_or(|next| next != node));
        }
        // One run for each node at most.
        let mut runs = expected.clone();
        runs.dedup();
        let count = runs.len();
        runs.sort_unstable();
        runs.dedup();
        prop_assert_eq!(runs.len(), count);
    }

    #[test]
    fn no_granule_crosses_two_nodes(
        list in some_nodes(), rows in 1usize..40_000_000, bits in 1u8..=32, segment in 0usize..9,
    ) {
        let placement = Placement::Striped(list);
        let granules = rows.div_ceil(GRANULE_ROWS);
        let len = 4 * words_for(rows, bits) as u64;
        let cuts = placement.codes_policy(rows, bits, segment).cuts(len, PAGE_BYTES);
        let size = 4 * words_for(GRANULE_ROWS, bits) as u64;
        prop_assert_eq!(size, u64::from(bits) * 2 * PAGE_BYTES);
        for granule in 0..granules as u64 {
            let bytes = granule * size..((granule + 1) * size).min(len);
            let of: Vec<_> = cuts.iter().filter(|(cut, _)| cut.start < bytes.end && bytes.start < cut.end).collect();
            prop_assert_eq!(of.len(), 1, "granule {} of {} in {:?}", granule, granules, cuts);
            prop_assert!(of[0].0.start <= bytes.start && bytes.end <= of[0].0.end);
            let node = placement.node_of_granule(granules, segment, granule as usize);
            prop_assert_eq!(Some(of[0].1), node);
        }
    }
}

#[test]
fn an_uneven_rest_is_spread_over_segments() {
    let placement = Placement::Striped(nodes(&[0, 1, 2, 3]));
    let of = |segment| (0..6).map(|g| placement.node_of_granule(6, segment, g).unwrap().0).collect::<Vec<_>>();
    assert_eq!(of(0), [0, 0, 1, 1, 2, 2]);
    assert_eq!(of(1), [1, 1, 2, 2, 3, 3]);
    // Fewer granules than nodes: the whole segment, in turn.
    let small = |segment| placement.codes_policy(3 * GRANULE_ROWS, 7, segment);
    assert_eq!([small(0), small(5)], [Policy::Node(NodeId(0)), Policy::Node(NodeId(1))]);
    assert_eq!(placement.turned(5).codes_policy(9, 7, 0), Policy::Node(NodeId(1)));
}

#[test]
fn every_placement_has_its_policy() {
    let two = nodes(&[3, 1]);
    let rows = 8 * GRANULE_ROWS;
    let policies = |placement: Placement| {
        (placement.codes_policy(rows, 10, 0), placement.piece_policy(8, 0, 7), placement.dictionary_policy())
    };
    let node = |id| Policy::Node(NodeId(id));
    assert_eq!(policies(Placement::Local), (Policy::Local, Policy::Local, Policy::Local));
    assert_eq!(policies(Placement::One(NodeId(3))), (node(3), node(3), node(3)));
    let chunk_bytes = 4 * 10 * 2 * PAGE_BYTES;
    let striped = |chunk_bytes| Policy::Striped { nodes: two.clone(), chunk_bytes };
    assert_eq!(policies(Placement::Striped(two.clone())), (striped(chunk_bytes), node(1), striped(0)));
    let both = Policy::Interleaved(two.clone());
    assert_eq!(policies(Placement::Interleaved(two.clone())), (both.clone(), both.clone(), both));
    assert_eq!(policies(Placement::Replicated(two)), (node(3), node(3), node(3)));
    // Lists of one node, and of none.
    for list in [Placement::Striped, Placement::Interleaved, Placement::Replicated] {
        assert_eq!(policies(list(nodes(&[2]))), (node(2), node(2), node(2)));
        assert_eq!(policies(list(Vec::new())), (Policy::Local, Policy::Local, Policy::Local));
        assert!(list(nodes(&[2])).replicas().is_none());
    }
}
