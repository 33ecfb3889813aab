//! The page map against a plain vector of one node per page, and against the kernel.

use proptest::prelude::*;

use super::*;
use crate::Allocator;

const PAGE: usize = 4096;
/// Where the plain vector's first page lies.
const BASE: usize = 16 * PAGE;

/// The node of every byte, read from the plain vector.
fn plain_node(pages: &[Option<u32>], address: usize) -> Option<u32> {
    address.checked_sub(BASE).and_then(|offset| pages.get(offset / PAGE)).copied().flatten()
}

fn build(pages: &[Option<u32>], ranges: &[(usize, usize)], batch: usize) -> PageMap {
    let look_up = |addresses: &[usize], nodes: &mut Vec<Option<u32>>| {
        assert!(addresses.len() <= batch && addresses.iter().all(|a| a % PAGE == 0));
        nodes.extend(addresses.iter().map(|a| plain_node(pages, *a)));
        Ok(())
    };
    PageMap::build(&disjoint(ranges), PAGE, batch, look_up).expect("the plain vector refuses nothing")
}

fn pages() -> impl Strategy<Value = Vec<Option<u32>>> {
    let run = (prop::option::weighted(0.8, 0u32..4), 1usize..6);
    prop::collection::vec(run, 1..12)
        .prop_map(|runs| runs.into_iter().flat_map(|(node, n)| std::iter::repeat_n(node, n)).collect())
}

fn ranges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    // Up to and beyond both ends of the plain vector, at any byte.
    prop::collection::vec((BASE - 2 * PAGE..BASE + 40 * PAGE, 0usize..12 * PAGE), 0..6)
}

proptest! {
    #[test]
    fn matches_a_plain_vector(pages in pages(), ranges in ranges(), batch in 1usize..9, probes in prop::collection::vec(BASE - 3 * PAGE..BASE + 60 * PAGE, 40)) {
        let map = build(&pages, &ranges, batch);
        let asked = |address: usize| ranges.iter().any(|&(start, len)| (start..start + len).contains(&address));
        let edges = ranges.iter().flat_map(|&(start, len)| [start, (start + len).saturating_sub(1), start + len]);
        for address in probes.into_iter().chain(edges) {
            let expected = if asked(address) { plain_node(&pages, address) } else { None };
            prop_assert_eq!(map.node_of(address).map(|n| n.0), expected, "address {:#x}", address);
        }
        // Count in steps of one byte at page edges only: all bytes of a page between two edges are alike.
        let mut edges: Vec<usize> = ranges.iter().flat_map(|&(start, len)| [start, start + len]).collect();
        edges.extend((0..64).map(|page| BASE - 3 * PAGE + page * PAGE));
        edges.sort_unstable();
        edges.dedup();
        let mut plain: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut unknown = 0;
        for pair in edges.windows(2).filter(|pair| asked(pair[0])) {
            let bytes = (pair[1] - pair[0]) as u64;
            match plain_node(&pages, pair[0]) {
                Some(node) => *plain.entry(NodeId(node)).or_insert(0) += bytes,
                None => unknown += bytes,
            }
        }
        prop_assert_eq!(map.unknown_bytes(), unknown);
        let most = plain.values().max().copied();
        prop_assert_eq!(map.majority(), plain.iter().find(|(_, bytes)| Some(**bytes) == most).map(|(node, _)| *node));
        prop_assert_eq!(map.bytes_per_node(), plain);
        for pair in map.ranges().windows(2) {
            prop_assert!(pair[0].end < pair[1].start || (pair[0].end == pair[1].start && pair[0].node != pair[1].node));
        }
    }
}

#[test]
fn space_follows_ranges_not_pages() {
    let pages = vec![Some(3); 100_000];
    let map = build(&pages, &[(BASE, pages.len() * PAGE)], 1000);
    assert_eq!(map.ranges(), [PageRange { start: BASE, end: BASE + pages.len() * PAGE, node: NodeId(3) }]);
}

#[test]
fn assumed_maps_say_so() {
    let spans = disjoint(&[(0, 10), (10, 10), (100, 5)]);
    let map = PageMap::assume(&spans, Some(NodeId(2)));
    assert!(!map.is_measured());
    assert_eq!(map.node_of(19), Some(NodeId(2)));
    assert_eq!(map.node_of(20), None);
    assert_eq!(map.bytes_per_node(), BTreeMap::from([(NodeId(2), 25)]));
    let nothing = PageMap::assume(&spans, None);
    assert_eq!((nothing.majority(), nothing.unknown_bytes()), (None, 25));
}

#[test]
fn ranges_at_the_end_of_the_address_space_do_not_overflow() {
    let map = PageMap::read(&[(usize::MAX - 5, 100), (0, 0), (1, 1)]);
    assert_eq!(map.node_of(usize::MAX - 1), None);
}

#[test]
fn the_kernel_tells_where_touched_pages_are() {
    let page = sys::page_bytes();
    // Small enough for no huge page to touch what the test does not.
    let mut region = Allocator::unplaced().region(64 * page).expect("a few pages");
    for touched in 0..32 {
        region.bytes_mut()[touched * page] = 1;
    }
    let map = PageMap::of(&region);
    if !map.is_measured() {
        eprintln!("skipped: the kernel refuses move_pages here");
        return;
    }
    assert_eq!(map.bytes_per_node().values().sum::<u64>(), 32 * page as u64);
    assert_eq!(map.unknown_bytes(), 32 * page as u64);
    assert!(map.node_of(region.address() + 31 * page).is_some());
    assert_eq!(map.node_of(region.address() + 32 * page), None);
    let small = Allocator::unplaced().region(100).expect("a hundred bytes");
    // Zeroed on the heap, so touched.
    assert_eq!(PageMap::of(&small).unknown_bytes(), 0);
}
