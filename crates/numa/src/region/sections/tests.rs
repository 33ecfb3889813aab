//! Sections against one policy and one node for each page.

use proptest::prelude::*;

use super::*;

/// Pages of the made-up region.
const PAGES: usize = 48;

/// What each page says: its policy, and its node where that is certain.
type Plain = Vec<(Policy, Option<NodeId>)>;

fn policies() -> impl Strategy<Value = Policy> {
    let node = || (0u32..3).prop_map(NodeId);
    prop_oneof![
        Just(Policy::Local),
        node().prop_map(Policy::Node),
        Just(Policy::Interleaved(vec![NodeId(0), NodeId(2)])),
        (prop::collection::vec(node(), 1..4), 0u64..5)
            .prop_map(|(nodes, pages)| Policy::Striped { nodes, chunk_bytes: pages * page_bytes() as u64 }),
        (1u32..4).prop_map(|weight| Policy::Weighted(vec![(NodeId(1), weight), (NodeId(0), 1)])),
    ]
}

/// Lays a policy over some pages of the plain region.
fn lay(plain: &mut Plain, pages: Range<usize>, policy: &Policy) {
    let page = page_bytes() as u64;
    let cuts = policy.cuts(pages.len() as u64 * page, page);
    for (i, entry) in plain[pages].iter_mut().enumerate() {
        let cut = cuts.iter().find(|(cut, _)| cut.contains(&(i as u64 * page)));
        *entry = (policy.clone(), cut.map(|(_, node)| *node));
    }
}

proptest! {
    #[test]
    fn sections_match_a_plain_list(
        first in policies(),
        placed in prop::collection::vec((0usize..PAGES, 1usize..PAGES, policies()), 0..8),
        cut in 0usize..PAGES,
    ) {
        let page = page_bytes();
        let mut plain: Plain = vec![(Policy::Local, None); PAGES];
        lay(&mut plain, 0..PAGES, &first);
        let mut sections = vec![Section::whole(0..PAGES * page, first)];
        for (start, len, policy) in placed {
            let pages = start..(start + len).min(PAGES);
            lay(&mut plain, pages.clone(), &policy);
            put(&mut sections, Section::whole(pages.start * page..pages.end * page, policy));
        }
        // Cutting the end off changes nothing that is said of the rest.
        let left: Vec<Section> = sections.iter().filter_map(|s| s.cut(&(0..cut * page))).collect();
        for (sections, pages) in [(&sections, PAGES), (&left, cut)] {
            prop_assert_eq!(sections.iter().map(|s| s.bytes.len()).sum::<usize>(), pages * page);
            prop_assert!(sections.windows(2).all(|pair| pair[0].bytes.end == pair[1].bytes.start));
            let mut shares: BTreeMap<NodeId, u64> = BTreeMap::new();
            for section in sections {
                let runs = section.runs();
                for at in section.bytes.clone().step_by(page) {
                    let node = runs.iter().find(|(run, _)| run.contains(&at)).map(|(_, node)| *node);
                    prop_assert_eq!((&section.policy, node), (&plain[at / page].0, plain[at / page].1));
                }
                if runs.is_empty() {
                    for (node, bytes) in section.policy.shares(section.bytes.len() as u64, page as u64) {
                        *shares.entry(node).or_insert(0) += bytes;
                    }
                }
            }
            for (_, node) in &plain[..pages] {
                node.iter().for_each(|node| *shares.entry(*node).or_insert(0) += page as u64);
            }
            let mut counted = BTreeMap::new();
            sections.iter().for_each(|section| section.count(&mut counted));
            prop_assert_eq!(counted, shares);
        }
        let main = main_policy(&sections);
        let pages_of = |policy: &Policy| plain.iter().filter(|(p, _)| p == policy).count();
        prop_assert!(plain.iter().all(|(policy, _)| pages_of(policy) <= pages_of(&main)));
    }
}

#[test]
fn equal_neighbours_are_one_section() {
    let page = page_bytes();
    let mut sections = vec![Section::whole(0..8 * page, Policy::Local)];
    for at in [3, 1, 2] {
        put(&mut sections, Section::whole(at * page..(at + 1) * page, Policy::Node(NodeId(1))));
    }
    let told: Vec<_> = sections.iter().map(|s| (s.bytes.start / page, s.bytes.end / page)).collect();
    assert_eq!(told, [(0, 1), (1, 4), (4, 8)]);
    put(&mut sections, Section::whole(page..4 * page, Policy::Local));
    assert_eq!(sections.len(), 1);
}
