//! What is asked for, on made-up addresses; moving itself needs several nodes: `region::real_moves`.

use super::*;
use crate::sys::page_bytes;

fn runs(runs: &[(usize, usize, u32)]) -> Target<'static> {
    Target::Runs(runs.iter().map(|&(start, end, node)| (start..end, NodeId(node))).collect())
}

/// Every page of some stretches, its target and whether it must be split, page by page and address by address.
fn plain(stretches: &[Stretch], node_of: impl Fn(usize, bool) -> Option<u32>) -> (Vec<(usize, u32)>, Vec<usize>) {
    let (mut pages, mut cut) = (Vec::new(), Vec::new());
    for Stretch { bytes, huge } in stretches {
        let unit = if *huge { HUGE_PAGE_BYTES } else { page_bytes() };
        for number in bytes.start / unit..bytes.end.div_ceil(unit) {
            let page = (number * unit).max(bytes.start)..((number + 1) * unit).min(bytes.end);
            let Some(node) = node_of(page.start, *huge) else { continue };
            let same = page.clone().step_by(page_bytes()).all(|at| node_of(at, *huge) == Some(node));
            if *huge && !(same && page.len() == unit) {
                cut.push(page.start);
            }
            pages.push((page.start, node));
        }
    }
    (pages, cut)
}

fn check(stretches: &[Stretch], target: &Target<'_>, node_of: impl Fn(usize, bool) -> Option<u32>) {
    let (pages, cut) = pages_in(stretches.to_vec(), target);
    let pages: Vec<(usize, u32)> = pages.iter().map(|page| (page.bytes.start, page.to.0)).collect();
    assert_eq!((pages, cut), plain(stretches, node_of));
}

#[test]
fn pages_get_the_node_of_their_run_or_turn() {
    let (page, huge) = (page_bytes(), HUGE_PAGE_BYTES);
    let base = 64 * huge;
    let stretches = [
        Stretch { bytes: base - 3 * page..base, huge: true },
        Stretch { bytes: base..base + 3 * huge, huge: true },
        Stretch { bytes: base + 3 * huge + page..base + 3 * huge + 9 * page, huge: false },
        Stretch { bytes: base + 5 * huge..base + 6 * huge - page, huge: true },
    ];
    let cuts = [(base - huge, base + huge, 4), (base + huge, base + 2 * huge + page, 1), (base + 2 * huge + page, base + 4 * huge, 2)];
    let in_runs = |at: usize, _| cuts.iter().find(|(start, end, _)| (*start..*end).contains(&at)).map(|(_, _, node)| *node);
    check(&stretches, &runs(&cuts), in_runs);
    for coarse in [false, true] {
        let nodes = vec![NodeId(1), NodeId(5), NodeId(6)];
        let turn = |at: usize, is_huge| Some([1, 5, 6][at / if coarse && is_huge { huge } else { page } % 3]);
        check(&stretches, &Target::Turns { nodes, huge: coarse }, turn);
    }
    check(&stretches, &Target::Turns { nodes: vec![NodeId(3)], huge: false }, |_, _| Some(3));
    check(&stretches, &Target::Back(&PageMap::empty()), |_, _| None);
}

#[test]
fn only_cuts_within_huge_pages_split_them() {
    let (page, huge) = (page_bytes(), HUGE_PAGE_BYTES);
    let bytes = 10 * huge..20 * huge;
    let target = runs(&[(10 * huge, 12 * huge, 0), (12 * huge, 13 * huge + page, 1), (13 * huge + page, 20 * huge, 0)]);
    assert_eq!(target.cut_pages(&bytes), [13 * huge + page - 1]);
    let inner = 10 * huge + page..11 * huge - page;
    assert_eq!(target.cut_pages(&inner), [11 * huge - page - 1, 10 * huge + page]);
}

#[test]
fn room_is_needed_for_what_is_elsewhere_or_nowhere() {
    let page = page_bytes();
    let target = runs(&[(0, 4 * page, 0), (4 * page, 8 * page, 1)]);
    let needs = |target: &Target<'_>| target.needs(&(0..8 * page), &PageMap::empty()).into_iter().collect::<Vec<_>>();
    assert_eq!(needs(&target), [(NodeId(0), 4 * page as u64), (NodeId(1), 4 * page as u64)]);
    let turns = Target::Turns { nodes: vec![NodeId(2), NodeId(3)], huge: false };
    assert_eq!(needs(&turns), [(NodeId(2), 4 * page as u64), (NodeId(3), 4 * page as u64)]);
    assert_eq!(needs(&Target::Back(&PageMap::empty())), []);
}
