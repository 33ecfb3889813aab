//! [`PassReaders`]: the scans that a pass looks for rows of, put together once for many granules.

use std::ops::Range;
use std::sync::Arc;

use storage::{CodePredicate, GRANULE_ROWS};

use super::WaitingScan;
use super::rule::{Candidate, FEW_ROWS, Way, ways};
use crate::codes::filter::kernel_tests;
use crate::codes::ranges::CodeRanges;

/// See the module.
pub(super) struct PassReaders {
    list: Arc<ReaderList>,
    /// By place.
    scans: Vec<Arc<WaitingScan>>,
    /// What is looked for of those that are found together, ascending by first code.
    ranges: Vec<ReaderRange>,
    /// Tests that let through what any of those looks for; none where there is no such scan.
    union: Vec<CodePredicate>,
}

/// Codes that a reader looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReaderRange {
    pub(super) first: u32,
    /// Included.
    pub(super) last: u32,
    /// The reader's place.
    pub(super) reader: u32,
}

/// Who they are: what has to stay as long as something that was found for them.
pub(super) struct ReaderList {
    /// When they were put together, among all of the database.
    stamp: u64,
    /// Numbers of scans, ascending.
    numbers: Vec<u64>,
    /// Whether each is tested on its own.
    apart: Vec<bool>,
}

impl ReaderList {
    /// When they were put together: larger is later.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The place of a scan among them.
    pub(super) fn place(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    /// Whether a reader is tested on its own.
    pub(super) fn is_apart(&self, place: usize) -> bool {
        self.apart[place]
    }
}

impl PassReaders {
    /// Of scans that are under way, ascending by number; `leader` is one of them. What waits for those that take part
    /// is expected to take `bytes_max` at most. `None` where nobody takes part but the leader.
    pub(super) fn new(
        all: &[Arc<WaitingScan>],
        leader: &Arc<WaitingScan>,
        bytes_max: u64,
        stamp: u64,
    ) -> Option<PassReaders> {
        let mut scans: Vec<Arc<WaitingScan>> = vec![Arc::clone(leader)];
        let others = all.iter().filter(|scan| scan.number() != leader.number() && scan.is_alive());
        scans.extend(others.cloned());
        let candidates: Vec<Candidate> = scans.iter().map(|scan| candidate(scan)).collect();
        let ways = ways(&candidates, leader.test().set().codes(), bytes_max);
        let mut chosen: Vec<(Arc<WaitingScan>, Way)> =
            scans.into_iter().zip(ways).filter(|(_, way)| *way != Way::Never).collect();
        if chosen.len() < 2 {
            return None;
        }
        chosen.sort_unstable_by_key(|(scan, _)| scan.number());
        let apart: Vec<bool> = chosen.iter().map(|(_, way)| *way == Way::Apart).collect();
        let together = (0u32..).zip(&chosen).filter(|(_, (_, way))| *way == Way::Together);
        let of = |(reader, (scan, _)): (u32, &(Arc<WaitingScan>, Way))| {
            let range = move |codes: &Range<u32>| ReaderRange { first: codes.start, last: codes.end - 1, reader };
            scan.test().set().ranges().iter().map(range).collect::<Vec<_>>()
        };
        let mut ranges: Vec<ReaderRange> = together.flat_map(of).collect();
        ranges.sort_unstable_by_key(|range| range.first);
        let codes = ranges.iter().map(|range| range.first..range.last + 1);
        let union = CodeRanges::ascending(codes, leader.test().set().codes());
        let union = if union.is_empty() { Vec::new() } else { kernel_tests(&union) };
        let scans: Vec<Arc<WaitingScan>> = chosen.into_iter().map(|(scan, _)| scan).collect();
        let numbers = scans.iter().map(|scan| scan.number()).collect();
        Some(PassReaders { list: Arc::new(ReaderList { stamp, numbers, apart }), scans, ranges, union })
    }

    /// Who they are.
    pub(super) fn list(&self) -> &Arc<ReaderList> {
        &self.list
    }

    /// The scans, ascending by number.
    pub(super) fn scans(&self) -> &[Arc<WaitingScan>] {
        &self.scans
    }

    /// Those that are tested on their own, by place.
    pub(super) fn apart(&self) -> impl Iterator<Item = (u32, &Arc<WaitingScan>)> {
        let all = (0u32..).zip(&self.scans).zip(&self.list.apart);
        all.filter(|(_, apart)| **apart).map(|(reader, _)| reader)
    }

    /// See the field.
    pub(super) fn ranges(&self) -> &[ReaderRange] {
        &self.ranges
    }

    /// See the field.
    pub(super) fn union(&self) -> &[CodePredicate] {
        &self.union
    }
}

fn candidate(scan: &WaitingScan) -> Candidate {
    let set = scan.test().set();
    let fraction = set.fraction();
    // As numbers or as bits, and something for each granule.
    let rows = GRANULE_ROWS as f64 * fraction;
    let of_granule =
        4.0 * if fraction <= FEW_ROWS { rows.max(1.0) } else { rows.min(GRANULE_ROWS as f64 / 32.0) + 16.0 };
    let bytes = (of_granule * scan.left() as f64) as u64;
    Candidate { ranges: set.ranges().len(), fraction, bytes }
}
