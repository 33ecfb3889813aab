//! Policies against a plain list of one node per page.

use proptest::prelude::*;

use super::*;

const PAGE: u64 = 4096;

fn nodes() -> impl Strategy<Value = Vec<NodeId>> {
    prop::collection::vec((0u32..5).prop_map(NodeId), 1..6)
}

fn policies() -> impl Strategy<Value = Policy> {
    let chunk = prop_oneof![Just(0), 1u64..20_000, (1u64..64).prop_map(|p| p * PAGE)];
    let weights = prop::collection::vec(((0u32..5).prop_map(NodeId), 0u32..12), 1..6);
    prop_oneof![
        Just(Policy::Local),
        (0u32..5).prop_map(|n| Policy::Node(NodeId(n))),
        nodes().prop_map(Policy::Interleaved),
        weights.prop_map(Policy::Weighted),
        (nodes(), chunk).prop_map(|(nodes, chunk_bytes)| Policy::Striped { nodes, chunk_bytes }),
    ]
}

/// Few pages, many pages, and enough for huge pages.
fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..20 * PAGE, 0u64..5_000 * PAGE, (0u64..1 << 36), Just(u64::MAX / 2)]
}

/// Striping as the definition says it: page by page, with the chunk's size as documented.
fn plain_striped(nodes: &[NodeId], chunk_bytes: u64, len: u64) -> Vec<NodeId> {
    let pages = len.div_ceil(PAGE);
    let mut chunk_pages = match chunk_bytes {
        0 => pages.div_ceil(nodes.len() as u64),
        bytes => bytes.div_ceil(PAGE),
    };
    let factor = (1..).find(|factor| len.div_ceil(chunk_pages * factor * PAGE) <= CUTS_MAX).expect("some factor");
    chunk_pages *= factor;
    (0..pages).map(|page| nodes[(page / chunk_pages) as usize % nodes.len()]).collect()
}

/// The node of every page by the cuts.
fn by_cuts(cuts: &[(Range<u64>, NodeId)], len: u64) -> Vec<NodeId> {
    let at = |offset: u64| cuts.iter().find(|(bytes, _)| bytes.contains(&offset)).expect("no gap").1;
    (0..len.div_ceil(PAGE)).map(|page| at(page * PAGE)).collect()
}

proptest! {
    #[test]
    fn cuts_cover_without_gap_and_shares_add_up(policy in policies(), len in lengths()) {
        let cuts = policy.cuts(len, PAGE);
        prop_assert!(cuts.len() as u64 <= CUTS_MAX);
        let one_node = policy.nodes().len() == 1;
        let runs = !matches!(policy, Policy::Local | Policy::Interleaved(_)) && policy.is_placed();
        prop_assert_eq!(cuts.is_empty(), len == 0 || !(runs || one_node));
        let mut end = 0;
        for (bytes, node) in &cuts {
            prop_assert!(bytes.start == end && bytes.start < bytes.end && bytes.start % PAGE == 0);
            prop_assert!(policy.nodes().contains(node));
            end = bytes.end;
        }
        prop_assert!(cuts.is_empty() || end == len);
        prop_assert!(cuts.windows(2).all(|pair| pair[0].1 != pair[1].1));
        let shares = policy.shares(len, PAGE);
        prop_assert_eq!(shares.values().sum::<u64>(), if policy.is_placed() { len } else { 0 });
        prop_assert!(shares.values().all(|bytes| *bytes > 0));
    }

    #[test]
    fn stripes_are_chunks_in_turn(
        nodes in nodes(),
        chunk_bytes in prop_oneof![Just(0), 1u64..40_000],
        len in 1u64..2_000 * PAGE,
    ) {
        let policy = Policy::Striped { nodes: nodes.clone(), chunk_bytes };
        prop_assert_eq!(by_cuts(&policy.cuts(len, PAGE), len), plain_striped(&nodes, chunk_bytes, len));
    }

    #[test]
    fn weights_are_kept(weights in prop::collection::vec(0u32..9, 2..5), len in lengths()) {
        let weights: Vec<(NodeId, u32)> = (0..).map(NodeId).zip(weights).collect();
        weights_kept(&weights, len)?;
        // Where a region lies follows its pages, whoever asks about its bytes.
        let policy = Policy::Weighted(weights);
        let whole = len.div_ceil(PAGE) * PAGE;
        let mut cuts = policy.cuts(whole, PAGE);
        cuts.iter_mut().for_each(|(bytes, _)| bytes.end = bytes.end.min(len));
        prop_assert_eq!(policy.cuts(len, PAGE), cuts);
    }

    #[test]
    fn interleaved_shares_match_counting_pages(nodes in nodes(), len in 0u64..200 * PAGE) {
        let policy = Policy::Interleaved(nodes);
        let set = policy.nodes();
        let mut plain: BTreeMap<NodeId, u64> = BTreeMap::new();
        for page in 0..len.div_ceil(PAGE) {
            *plain.entry(set[page as usize % set.len()]).or_insert(0) += PAGE.min(len - page * PAGE);
        }
        prop_assert_eq!(policy.shares(len, PAGE), plain);
    }

    #[test]
    fn leaving_a_node_out_keeps_the_others(policy in policies(), gone in 0u32..5) {
        let gone = NodeId(gone);
        let mut left = policy.nodes();
        left.retain(|n| *n != gone);
        prop_assert_eq!(policy.only(|n| n != gone).nodes(), left);
    }
}

/// Every share is less than a unit from what the weights say, and within an eighth of it as soon as huge pages are
/// used.
fn weights_kept(weights: &[(NodeId, u32)], len: u64) -> Result<(), TestCaseError> {
    let divisor = weights.iter().fold(0, |d, (_, w)| gcd(d, u64::from(*w))).max(1);
    let sum: u64 = weights.iter().map(|(_, w)| u64::from(*w)).sum();
    let len = len.div_ceil(PAGE) * PAGE;
    let shares = Policy::Weighted(weights.to_vec()).shares(len, PAGE);
    let huge = sum > 0 && len / HUGE_BYTES >= sum / divisor * HUGE_CYCLES_MIN;
    let unit = u128::from(if huge { HUGE_BYTES } else { PAGE });
    for (node, weight) in weights.iter().filter(|_| sum > 0) {
        let given = u128::from(shares.get(node).copied().unwrap_or(0)) * u128::from(sum);
        let exact = u128::from(len) * u128::from(*weight);
        let off = given.abs_diff(exact);
        prop_assert!(off < unit * u128::from(sum), "{:?} of {} with {:?}: {:?}", node, len, weights, shares);
        prop_assert!(!huge || off * 8 <= exact, "{:?} of {} with {:?}: {:?}", node, len, weights, shares);
    }
    Ok(())
}

#[test]
fn shares_do_not_drift_over_cycles() {
    // 73.8 huge pages in eight cycles of nine weights: cuts rounded one by one gave the second node a sixth too little.
    let weights: Vec<(NodeId, u32)> = (0..).map(NodeId).zip([1, 2, 5, 1]).collect();
    weights_kept(&weights, 154_866_610).expect("shares");
}

#[test]
fn examples() {
    let n = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    let striped = Policy::Striped { nodes: n(&[2, 0]), chunk_bytes: 0 };
    assert_eq!(striped.cuts(5 * PAGE + 1, PAGE), [(0..3 * PAGE, NodeId(2)), (3 * PAGE..5 * PAGE + 1, NodeId(0))]);
    let weighted = Policy::Weighted(vec![(NodeId(0), 6), (NodeId(1), 0), (NodeId(3), 2)]);
    let cuts = weighted.cuts(8 * PAGE, PAGE);
    let pages: Vec<u32> = by_cuts(&cuts, 8 * PAGE).iter().map(|n| n.0).collect();
    assert_eq!(pages, [0, 0, 0, 3, 0, 0, 0, 3]);
    assert_eq!(weighted.nodes(), n(&[0, 3]));
    // Huge pages as soon as a few cycles of them fit.
    let cuts = weighted.cuts(64 << 20, PAGE);
    assert!(cuts.len() == 16 && cuts.iter().all(|(bytes, _)| bytes.start % HUGE_BYTES == 0), "{cuts:?}");
    assert!(!Policy::Weighted(vec![(NodeId(0), 0)]).is_placed());
    assert_eq!(Policy::Node(NodeId(1)).only(|_| false), Policy::Local);
}
