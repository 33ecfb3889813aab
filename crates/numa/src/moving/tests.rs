//! What is asked for, on made-up addresses; moving itself needs several nodes: `region::real_moves`.

use std::collections::BTreeSet;

use super::*;
use crate::sys::page_bytes;

fn runs(runs: &[(usize, usize, u32)]) -> MoveTarget<'static> {
    MoveTarget::Runs(runs.iter().map(|&(start, end, node)| (start..end, NodeId(node))).collect())
}

/// Every page of some stretches and its target, and the huge pages (by number) that must be split: those of whose base
/// pages some have another target, or are not within.
fn plain(stretches: &[Stretch], node_of: impl Fn(usize) -> Option<u32>) -> (Vec<(usize, u32)>, BTreeSet<usize>) {
    let mut pages = Vec::new();
    let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for Stretch { bytes, huge } in stretches {
        for at in bytes.clone().step_by(page_bytes()) {
            let first = at == bytes.start || at.is_multiple_of(HUGE_PAGE_BYTES);
            let Some(node) = node_of(at) else { continue };
            if first || !huge {
                pages.push((at, node));
            }
            parts.entry(at / HUGE_PAGE_BYTES).or_default().push(node);
        }
    }
    parts.retain(|_, nodes| nodes.len() < HUGE_PAGE_BYTES / page_bytes() || nodes.iter().any(|node| *node != nodes[0]));
    (pages, parts.into_keys().collect())
}

fn check(stretches: &[Stretch], target: &MoveTarget<'_>, node_of: impl Fn(usize) -> Option<u32>) {
    let (pages, cut) = pages_in(stretches.to_vec(), target);
    let pages: Vec<(usize, u32)> = pages.iter().map(|page| (page.bytes.start, page.to.0)).collect();
    let cut: BTreeSet<usize> = cut.into_iter().map(|at| at / HUGE_PAGE_BYTES).collect();
    assert_eq!((pages, cut), plain(stretches, node_of));
}

#[test]
fn pages_get_the_node_of_their_run_or_turn() {
    let page = page_bytes();
    let huge = HUGE_PAGE_BYTES;
    let base = 64 * huge;
    let stretches = [
        Stretch { bytes: base - 3 * page..base, huge: true },
        Stretch { bytes: base..base + 3 * huge, huge: true },
        Stretch { bytes: base + 3 * huge + page..base + 3 * huge + 9 * page, huge: false },
        Stretch { bytes: base + 4 * huge..base + 5 * huge, huge: false },
        Stretch { bytes: base + 5 * huge..base + 6 * huge - page, huge: true },
    ];
    let cuts = [
        (base - huge, base + huge, 4),
        (base + huge, base + 2 * huge + page, 1),
        (base + 2 * huge + page, base + 5 * huge - 2 * page, 2),
    ];
    let in_runs =
        |at: usize| cuts.iter().find(|(start, end, _)| (*start..*end).contains(&at)).map(|(_, _, node)| *node);
    check(&stretches, &runs(&cuts), in_runs);
    for coarse in [false, true] {
        let nodes = vec![NodeId(1), NodeId(5), NodeId(6)];
        let turn = |at: usize| Some([1, 5, 6][at / if coarse { huge } else { page } % 3]);
        check(&stretches, &MoveTarget::Turns { nodes, huge: coarse }, turn);
    }
    check(&stretches, &MoveTarget::Turns { nodes: vec![NodeId(3)], huge: false }, |_| Some(3));
    check(&stretches, &MoveTarget::Back(&PageMap::read(&[])), |_| None);
}

#[test]
fn room_is_needed_for_what_is_elsewhere_or_nowhere() {
    let page = page_bytes();
    let target = runs(&[(0, 4 * page, 0), (4 * page, 8 * page, 1)]);
    let needs =
        |target: &MoveTarget<'_>| target.needs(&(0..8 * page), &PageMap::read(&[])).into_iter().collect::<Vec<_>>();
    assert_eq!(needs(&target), [(NodeId(0), 4 * page as u64), (NodeId(1), 4 * page as u64)]);
    let turns = MoveTarget::Turns { nodes: vec![NodeId(2), NodeId(3)], huge: false };
    assert_eq!(needs(&turns), [(NodeId(2), 4 * page as u64), (NodeId(3), 4 * page as u64)]);
    assert_eq!(needs(&MoveTarget::Back(&PageMap::read(&[]))), []);
}
