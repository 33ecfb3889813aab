//! [`PassReaders`]: the scans that a pass looks for rows of, put together once for many granules.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use numa::{Budget, Reservation};
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
    /// What any of those looks for.
    looked_for: CodeRanges,
    /// Tests that let that through; none where there is no such scan.
    union: Vec<CodePredicate>,
    /// How many are tested on their own.
    apart: usize,
    /// What all this is charged to.
    _charged: Reservation,
}

/// Why a granule is read for its scan alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoReaders {
    /// Nobody else needs it.
    Needed,
    /// There is no room for what others need.
    Room,
    /// There is no room for what they look for.
    Memory,
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
    /// The scans.
    scans: Vec<Weak<WaitingScan>>,
    /// Passes that are kept for them.
    kept: AtomicUsize,
    /// How often one of them took what was kept for it.
    taken: AtomicU64,
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

    /// The reader at a place, if it is still there.
    pub(super) fn scan(&self, place: usize) -> Option<Arc<WaitingScan>> {
        self.scans[place].upgrade()
    }

    /// Whether the statements of all of them that wait for something run.
    pub(super) fn have_begun(&self) -> bool {
        self.scans.iter().filter_map(Weak::upgrade).all(|scan| scan.left() == 0 || scan.has_begun())
    }

    /// Passes that are kept for them.
    pub(super) fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// A pass is kept for them.
    pub(super) fn keeps(&self) {
        self.kept.fetch_add(1, Relaxed);
    }

    /// A pass is kept for them no more.
    pub(super) fn dropped(&self) {
        self.kept.fetch_sub(1, Relaxed);
    }

    /// How often one of them took what was kept for it.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// One of them took what was kept for it.
    pub(super) fn took(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    /// Whether a reader is tested on its own.
    pub(super) fn is_apart(&self, place: usize) -> bool {
        self.apart[place]
    }
}

impl PassReaders {
    /// Of scans that are under way, ascending by number, those that a granule is to be read for; `leader` is one of
    /// them. What is going to wait for those that take part is expected to take `bytes_max` at most; they themselves
    /// are charged to `budget`. [`NoReaders`] where nobody takes part but the leader.
    pub(super) fn new(
        all: &[Arc<WaitingScan>],
        leader: &Arc<WaitingScan>,
        granule: usize,
        (bytes_max, budget): (u64, &Arc<Budget>),
        stamp: u64,
    ) -> Result<PassReaders, NoReaders> {
        let mut scans: Vec<Arc<WaitingScan>> = vec![Arc::clone(leader)];
        let is_other = |scan: &&Arc<WaitingScan>| scan.number() != leader.number();
        let others = all.iter().filter(is_other).filter(|scan| scan.needs(granule) && !scan.is_stopped());
        scans.extend(others.cloned());
        let candidates: Vec<Candidate> = scans.iter().map(|scan| candidate(scan)).collect();
        let ways = ways(&candidates, leader.test().set().codes(), bytes_max);
        let mut chosen: Vec<(Arc<WaitingScan>, Way)> =
            scans.into_iter().zip(ways).filter(|(_, way)| *way != Way::Never).collect();
        if chosen.len() < 2 {
            return Err(if candidates.len() < 2 { NoReaders::Needed } else { NoReaders::Room });
        }
        chosen.sort_unstable_by_key(|(scan, _)| scan.number());
        let codes = leader.test().set().codes();
        let charged = budget.reserve(bytes_of(&chosen, codes)).map_err(|_| NoReaders::Memory)?;
        let apart: Vec<bool> = chosen.iter().map(|(_, way)| *way == Way::Apart).collect();
        let together = (0u32..).zip(&chosen).filter(|(_, (_, way))| *way == Way::Together);
        let of = |(reader, (scan, _)): (u32, &(Arc<WaitingScan>, Way))| {
            let range = move |codes: &Range<u32>| ReaderRange { first: codes.start, last: codes.end - 1, reader };
            scan.test().set().ranges().iter().map(range).collect::<Vec<_>>()
        };
        let mut ranges: Vec<ReaderRange> = together.flat_map(of).collect();
        ranges.sort_unstable_by_key(|range| range.first);
        let looked_for = CodeRanges::ascending(ranges.iter().map(|range| range.first..range.last + 1), codes);
        let union = if looked_for.is_empty() { Vec::new() } else { kernel_tests(&looked_for) };
        let scans: Vec<Arc<WaitingScan>> = chosen.into_iter().map(|(scan, _)| scan).collect();
        let numbers = scans.iter().map(|scan| scan.number()).collect();
        let tested_apart = apart.iter().filter(|apart| **apart).count();
        let (kept, taken) = (AtomicUsize::new(0), AtomicU64::new(0));
        let weak = scans.iter().map(Arc::downgrade).collect();
        let list = Arc::new(ReaderList { stamp, numbers, apart, scans: weak, kept, taken });
        Ok(PassReaders { list, scans, ranges, looked_for, union, apart: tested_apart, _charged: charged })
    }

    /// Who they are.
    pub(super) fn list(&self) -> &Arc<ReaderList> {
        &self.list
    }

    /// The scans, ascending by number.
    pub(super) fn scans(&self) -> &[Arc<WaitingScan>] {
        &self.scans
    }

    /// How many need a granule.
    pub(super) fn needing(&self, granule: usize) -> usize {
        self.scans.iter().filter(|scan| scan.needs(granule)).count()
    }

    /// See the field.
    pub(super) fn apart(&self) -> usize {
        self.apart
    }

    /// See the field.
    pub(super) fn looked_for(&self) -> &CodeRanges {
        &self.looked_for
    }

    /// Whether one of those that are found together looks for all codes from `low` to `high`.
    pub(super) fn one_covers(&self, low: u32, high: u32) -> bool {
        let begun = self.ranges.partition_point(|range| range.first <= low);
        self.ranges[..begun].iter().any(|range| range.last >= high)
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

/// Bytes that readers take, at most: what each looks for, twice, and a bitmap of the codes.
fn bytes_of(chosen: &[(Arc<WaitingScan>, Way)], codes: u32) -> u64 {
    let together = chosen.iter().filter(|(_, way)| *way == Way::Together);
    let ranges: usize = together.map(|(scan, _)| scan.test().set().ranges().len()).sum();
    let each = size_of::<ReaderRange>() + size_of::<Range<u32>>();
    let bitmap = if ranges > 0 { codes.div_ceil(8) as usize } else { 0 };
    (size_of::<PassReaders>() + size_of_val(chosen) + ranges * each + bitmap) as u64
}

fn candidate(scan: &WaitingScan) -> Candidate {
    let set = scan.test().set();
    let fraction = if scan.has_many() { set.fraction().max(2.0 * FEW_ROWS) } else { set.fraction() };
    // As numbers or as bits, and something for each granule.
    let rows = GRANULE_ROWS as f64 * fraction;
    let of_granule =
        4.0 * if fraction <= FEW_ROWS { rows.max(1.0) } else { rows.min(GRANULE_ROWS as f64 / 32.0) + 16.0 };
    let bytes = (of_granule * scan.missing() as f64) as u64;
    Candidate { ranges: set.ranges().len(), fraction, bytes }
}
