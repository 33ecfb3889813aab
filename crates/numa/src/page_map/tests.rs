//! The page map against a plain map of one node per cell of a quarter page, and against the kernel.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::sys::page_bytes;
use crate::sys::scan::Stretch;
use crate::{Allocator, Policy};

const PAGE: usize = 4096;
const CELL: usize = PAGE / 4;
/// A huge page of the made-up layouts.
const HUGE: usize = 4 * PAGE;
/// Where a layout's first page lies.
const BASE: usize = 16 * PAGE;

/// The node of each page from [`BASE`] on; `None` where no page is.
type Layout = Vec<Option<u32>>;
/// What was asked for, cell by cell, and where it lies.
type Plain = BTreeMap<usize, Option<u32>>;

fn node_in(layout: &Layout, address: usize) -> Option<u32> {
    address.checked_sub(BASE).and_then(|offset| layout.get(offset / PAGE)).copied().flatten()
}

/// Reads a layout as the kernel's answers would be read. Huge pages stand wherever four pages could be one.
fn read_layout(layout: &Layout, ranges: &[(usize, usize)], batch: usize) -> PageMap {
    let asked = disjoint(ranges);
    let look_up = |addresses: &[usize], nodes: &mut Vec<Option<u32>>| {
        assert!(addresses.len() <= batch && addresses.iter().all(|a| a % PAGE == 0));
        nodes.extend(addresses.iter().map(|a| node_in(layout, *a)));
        Ok(())
    };
    let is_huge = |page: usize| {
        let first = page / HUGE * HUGE;
        (first..first + HUGE)
            .step_by(PAGE)
            .all(|p| node_in(layout, p).is_some() && node_in(layout, p) == node_in(layout, first))
    };
    let stretches = |window: &Span| {
        let pages = read::Pieces { left: window.clone(), unit: PAGE };
        let there = pages.filter(|piece| node_in(layout, piece.start).is_some());
        there.map(|piece| Stretch { huge: is_huge(piece.start / PAGE * PAGE), bytes: piece }).collect()
    };
    // Each page for itself, as a stretch of one page; they are joined again by their nodes.
    let ranges = read::build(&asked, [PAGE, HUGE], batch, stretches, look_up).expect("a layout refuses nothing");
    let without = read::build(&asked, [PAGE, HUGE], batch, read::unknown, look_up).expect("a layout refuses nothing");
    assert_eq!(ranges, without, "what is there must not depend on who tells which pages are");
    PageMap { ranges, asked, measured: true }
}

fn plain_of(layout: &Layout, ranges: &[(usize, usize)]) -> Plain {
    let cells = ranges.iter().flat_map(|&(start, len)| (start..start + len).step_by(CELL));
    cells.map(|cell| (cell, node_in(layout, cell))).collect()
}

/// Everything that a map can be asked, against the plain one.
fn check(map: &PageMap, plain: &Plain) {
    let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
    let (mut unknown, mut runs): (u64, Vec<(Span, NodeId)>) = (0, Vec::new());
    for (&cell, &node) in plain {
        let Some(node) = node.map(NodeId) else {
            unknown += CELL as u64;
            continue;
        };
        *bytes.entry(node).or_default() += CELL as u64;
        match runs.last_mut() {
            Some((run, on)) if run.end == cell && *on == node => run.end += CELL,
            _ => runs.push((cell..cell + CELL, node)),
        }
    }
    for cell in (BASE - 6 * PAGE..BASE + 80 * PAGE).step_by(CELL) {
        let expected = plain.get(&cell).copied().flatten().map(NodeId);
        assert_eq!((map.node_of(cell), map.node_of(cell + CELL - 1)), (expected, expected), "at {cell:#x}");
        let run = runs.iter().find(|(run, _)| run.contains(&cell)).map(|(run, node)| (cell..run.end, *node));
        assert_eq!(map.run_from(cell), run);
    }
    assert_eq!(map.runs().collect::<Vec<_>>(), runs);
    let most = bytes.values().max();
    assert_eq!(map.majority(), bytes.iter().find(|(_, b)| Some(*b) == most).map(|(node, _)| *node));
    assert_eq!(map.unknown_bytes(), unknown);
    assert_eq!(map.bytes_per_node(), bytes);
    for pair in map.ranges().windows(2) {
        assert!(pair[0].end <= pair[1].start && pair[0].start < pair[0].end);
        assert!(!pair[0].continues_in(&pair[1]), "{:?} and {:?} should be one", pair[0], pair[1]);
    }
}

/// Pages in runs, in cycles and in gaps.
fn layouts() -> impl Strategy<Value = Layout> {
    let run = (prop::option::weighted(0.8, 0u32..4), 1usize..9).prop_map(|(node, n)| vec![node; n]);
    let cycle = (prop::collection::vec((0u32..4, 1usize..4), 2..4), 4usize..30).prop_map(|(steps, n)| {
        let turn: Vec<_> = steps.into_iter().flat_map(|(node, pages)| vec![Some(node); pages]).collect();
        turn.into_iter().cycle().take(n).collect()
    });
    prop::collection::vec(prop_oneof![run, cycle], 1..6).prop_map(|pieces| pieces.concat())
}

/// Up to and beyond both ends of a layout, at any quarter of a page.
fn ranges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let range = (0usize..60 * 4, 0usize..24 * 4).prop_map(|(at, len)| (BASE - 4 * PAGE + at * CELL, len * CELL));
    prop::collection::vec(range, 0..5)
}

proptest! {
    #[test]
    fn reading_matches_a_plain_map(layout in layouts(), ranges in ranges(), batch in 1usize..9, probe in ranges()) {
        let map = read_layout(&layout, &ranges, batch);
        let plain = plain_of(&layout, &ranges);
        check(&map, &plain);
        for (start, len) in probe {
            let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
            for (_, node) in plain.range(start..start + len) {
                node.iter().for_each(|node| *bytes.entry(NodeId(*node)).or_default() += CELL as u64);
            }
            prop_assert_eq!(map.bytes_within(start..start + len), bytes);
        }
    }

    #[test]
    fn maps_are_equal_that_say_the_same(a in layouts(), b in layouts(), asked in ranges()) {
        let map = read_layout(&a, &asked, 16);
        let other = read_layout(&b, &asked, 3);
        prop_assert_eq!(map == other, plain_of(&a, &asked) == plain_of(&b, &asked));
        prop_assert!(map == read_layout(&a, &asked, 3));
    }

    #[test]
    fn spans_match_sets(ranges in ranges()) {
        let cells = |spans: &[Span]| -> std::collections::BTreeSet<usize> {
            spans.iter().flat_map(|span| span.clone().step_by(CELL)).collect()
        };
        let given: Vec<Span> = ranges.iter().map(|&(start, len)| start..start + len).collect();
        let got = disjoint(&ranges);
        let expected = cells(&given);
        prop_assert_eq!(total(&got), (expected.len() * CELL) as u64);
        prop_assert_eq!(cells(&got), expected);
        prop_assert!(got.windows(2).all(|pair| pair[0].end < pair[1].start));
    }

    /// A cycle that is longer than twice its length is one range, wherever it begins and ends.
    #[test]
    fn cycles_are_one_range(
        weights in prop::collection::btree_map(0u32..40, 1usize..4, 2..6),
        skipped in 0usize..20,
        turns in 3usize..50,
        offset in 0usize..PAGE,
    ) {
        let turn: Vec<_> = weights.iter().flat_map(|(node, pages)| vec![Some(*node); *pages]).collect();
        let layout: Layout = turn.iter().copied().cycle().skip(skipped % turn.len()).take(turns * turn.len()).collect();
        let map = read_layout(&layout, &[(BASE + offset, layout.len() * PAGE - offset)], 16);
        prop_assert_eq!(map.ranges().len(), 1);
        let steps: usize = weights.values().copied().fold(0, |a, b| if a == 0 || a == b { b } else { usize::MAX });
        match map.pattern() {
            Pattern::Interleaved { nodes, page_bytes } => {
                prop_assert_eq!(page_bytes, steps * PAGE);
                prop_assert_eq!(nodes, weights.keys().map(|n| NodeId(*n)).collect::<Vec<_>>());
            }
            Pattern::Weighted { nodes, page_bytes } => {
                let given: Vec<_> = weights.iter().map(|(node, pages)| (NodeId(*node), pages * PAGE)).collect();
                prop_assert_eq!(nodes.into_iter().map(|(n, w)| (n, w * page_bytes)).collect::<Vec<_>>(), given);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn space_follows_ranges_not_pages() {
    let layout = vec![Some(3); 100_000];
    let all = [(BASE, layout.len() * PAGE)];
    assert_eq!(read_layout(&layout, &all, 1000).ranges(), [PageRange::one(BASE..BASE + all[0].1, NodeId(3))]);
    let layout: Layout = (0..100_000).map(|page| Some(page / 7 % 3)).collect();
    assert_eq!(read_layout(&layout, &all, 1000).ranges().len(), 1);
}

#[test]
fn patterns_are_told_by_name() {
    let pattern = |layout: Layout| read_layout(&layout, &[(BASE, layout.len() * PAGE)], 64).pattern();
    let nodes = |ids: &[u32]| ids.iter().map(|n| NodeId(*n)).collect::<Vec<_>>();
    assert_eq!(pattern(vec![None; 3]), Pattern::Empty);
    assert_eq!(pattern(vec![Some(2), None, Some(2)]), Pattern::One(NodeId(2)));
    let thirds = [5, 1, 3].map(|node| vec![Some(node); 10]).concat();
    assert_eq!(pattern(thirds), Pattern::Striped { nodes: nodes(&[5, 1, 3]), chunk_bytes: 10 * PAGE });
    assert_eq!(pattern(vec![Some(0), Some(1), Some(0)]), Pattern::Mixed);
    let interleaved = [Some(4), Some(2)].repeat(9);
    assert_eq!(pattern(interleaved.clone()), Pattern::Interleaved { nodes: nodes(&[2, 4]), page_bytes: PAGE });
    assert_eq!(pattern([interleaved, vec![Some(4); 5]].concat()), Pattern::Mixed);
    let chunk = crate::sys::mapping::HUGE_PAGE_BYTES / PAGE * 2;
    let chunks = [vec![Some(1); chunk], vec![Some(0); chunk]].concat().repeat(3);
    assert_eq!(pattern(chunks), Pattern::Striped { nodes: nodes(&[1, 0]), chunk_bytes: chunk * PAGE });
}

#[test]
fn assumed_maps_say_so() {
    let spans = disjoint(&[(0, 10), (10, 10), (100, 5)]);
    let map = PageMap::assume(spans.clone(), |span| vec![(span.clone(), NodeId(2))]);
    assert!(!map.is_measured());
    assert_eq!(map.node_of(19), Some(NodeId(2)));
    assert_eq!(map.node_of(20), None);
    assert_eq!(map.bytes_per_node(), BTreeMap::from([(NodeId(2), 25)]));
    let nothing = PageMap::assume(spans, |_| Vec::new());
    assert_eq!((nothing.majority(), nothing.unknown_bytes()), (None, 25));
}

#[test]
fn ranges_at_the_end_of_the_address_space_do_not_overflow() {
    let map = PageMap::read(&[(usize::MAX - 5, 100), (0, 0), (1, 1)]);
    assert_eq!(map.node_of(usize::MAX - 1), None);
}

#[test]
fn the_kernel_tells_where_touched_pages_are() {
    let page = page_bytes();
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
    let both = PageMap::read(&[(small.address(), small.len()), (region.address(), region.len())]);
    assert_eq!(both.unknown_bytes(), 32 * page as u64);
    assert_eq!(both.bytes_per_node().values().sum::<u64>(), 32 * page as u64 + 100);
}

#[test]
fn huge_pages_are_asked_for_once_and_told_alike() {
    // Two huge pages, some base pages, a hole: whatever this kernel makes of it, asking for every page says the same.
    // On a node by name, or the kernel may move pages between the two questions.
    let huge = crate::sys::mapping::HUGE_PAGE_BYTES;
    let node = crate::Topology::discover().expect("tests run on Linux").usable_memory_nodes()[0];
    let allocator = Allocator::new(Policy::Node(node), crate::Budget::unlimited());
    let mut region = allocator.region(4 * huge).expect("a few mebibytes");
    region.bytes_mut()[..2 * huge + 5 * PAGE].fill(1);
    let asked = disjoint(&[(region.address() + 100, region.len() - 100)]);
    let Ok(told) = read::measure(&asked) else {
        eprintln!("skipped: the kernel refuses move_pages here");
        return;
    };
    let every = read::build(&asked, [page_bytes(), huge], 1 << 16, read::unknown, crate::sys::nodes_of_pages);
    assert_eq!(told, every.expect("it did not refuse before"));
    assert!(told.first().is_some_and(|range| range.len_bytes() >= (2 * huge + 5 * PAGE - 100) as u64));
}
