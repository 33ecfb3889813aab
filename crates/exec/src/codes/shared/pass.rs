//! [`SharedPass`]: what one reading of a granule's codes found for several scans.
//!
//! Scans that find few rows are found *together*: one kernel looks for codes that any of them wants, and the codes of
//! those rows, sorted, are dealt out to the scans' ranges, also sorted, in one walk over both. So a pass costs one test
//! by a bitmap, and then only what is found. The others are tested one after the other, on codes that the first test
//! brought into the cache.
//!
//! Invariant: what a pass found for a scan are exactly the rows that the scan's own test finds.

use std::ops::Range;
use std::sync::Arc;

use numa::Reservation;
use storage::CodedColumn;

use super::readers::{PassReaders, ReaderList, ReaderRange};
use crate::codes::input::{InputRows, MarkedInput};
use crate::mask::Mask;

/// One row in `n` is many: bits are kept of them, not numbers.
const MANY_ROWS: usize = 32;

/// Rows of a granule that a scan's test lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundRows {
    /// All of them.
    All,
    /// These rows of the segment, ascending.
    Rows(Vec<u32>),
    /// A bit for each row of the granule.
    Mask(Mask),
}

/// See the module.
pub(super) struct SharedPass {
    readers: Arc<ReaderList>,
    /// The granule's first row.
    start: usize,
    /// A reader's place above a row's place in the granule, ascending.
    together: Vec<u32>,
    /// A reader's place and its rows, by place; of those that still wanted the granule.
    apart: Vec<(u32, FoundRows)>,
    /// What it is charged to once it is kept.
    charged: Option<Reservation>,
}

/// How the rows of a granule are read.
pub(crate) struct GranuleRead<'a> {
    pub(crate) column: &'a CodedColumn,
    /// All rows of one granule.
    pub(crate) rows: Range<usize>,
    /// The granule's bounds may decide.
    pub(crate) skips: bool,
    /// Is told what is read, each time.
    pub(crate) told: &'a dyn Fn(&InputRows<'_>),
}

impl GranuleRead<'_> {
    fn select(&self, test: &storage::CodePredicate, mask: &mut Mask) {
        match self.skips {
            true => self.column.select(self.rows.clone(), test, mask.words_mut()),
            false => self.column.select_each(self.rows.clone(), test, mask.words_mut()),
        }
    }

    /// The codes of the rows of a mask, with the place of each in the granule: the code above the place, by row.
    fn codes(&self, mask: &Mask) -> Vec<u64> {
        let (count, rows) = (mask.count(), &self.rows);
        let (mut positions, mut codes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        mask.positions_in(&(0..rows.len()), rows.start, &mut positions);
        if count * MANY_ROWS >= rows.len() {
            let words = mask.words_in(&(0..rows.len()));
            (self.told)(&InputRows::Marked(MarkedInput { rows: rows.clone(), mask: words, count }));
            self.column.compress(rows.clone(), words, &mut codes);
        } else {
            (self.told)(&InputRows::Positions(&positions));
            self.column.gather(&positions, &mut codes);
        }
        let place = |row: u32| u64::from(row) - rows.start as u64;
        codes.iter().zip(positions).map(|(&code, row)| u64::from(code) << 32 | place(row)).collect()
    }
}

impl SharedPass {
    /// Reads a granule for the readers that want it, and for the one of number `leader`.
    pub(super) fn read(readers: &PassReaders, (granule, leader): (usize, u64), read: &GranuleRead<'_>) -> SharedPass {
        let rows = read.rows.len();
        (read.told)(&InputRows::Range(read.rows.clone()));
        let mut together = Vec::new();
        if !readers.union().is_empty() {
            let mut mask = Mask::full(rows);
            readers.union().iter().for_each(|test| read.select(test, &mut mask));
            if !mask.is_empty() {
                let mut codes = read.codes(&mask);
                codes.sort_unstable();
                together = dealt_out(&codes, readers.ranges());
            }
        }
        let apart = readers.apart().filter(|(_, scan)| scan.number() == leader || scan.wants(granule));
        let apart = apart.map(|(place, scan)| {
            let mut mask = Mask::full(rows);
            scan.test().tests().iter().for_each(|test| read.select(test, &mut mask));
            (place, found(mask, read.rows.start))
        });
        let apart = apart.collect();
        SharedPass { readers: Arc::clone(readers.list()), start: read.rows.start, together, apart, charged: None }
    }

    /// Whose rows it found.
    pub(super) fn readers(&self) -> &ReaderList {
        &self.readers
    }

    /// What it found for the scan of this number, if it looked.
    pub(super) fn found(&self, number: u64) -> Option<FoundRows> {
        let place = self.readers.place(number)?;
        if self.readers.is_apart(place) {
            let at = self.apart.binary_search_by_key(&(place as u32), |(place, _)| *place).ok()?;
            return Some(self.apart[at].1.clone());
        }
        let first = (place as u32) << 16;
        let from = self.together.partition_point(|&hit| hit < first);
        let of = self.together[from..].iter().take_while(|&&hit| hit >> 16 == place as u32);
        Some(FoundRows::Rows(of.map(|hit| self.start as u32 + (hit & 0xFFFF)).collect()))
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let of = |found: &FoundRows| match found {
            FoundRows::All => 0,
            FoundRows::Rows(rows) => 4 * rows.len(),
            FoundRows::Mask(mask) => mask.rows().div_ceil(8),
        };
        let apart: usize = self.apart.iter().map(|(_, found)| size_of::<(u32, FoundRows)>() + of(found)).sum();
        (size_of::<SharedPass>() + 4 * self.together.len() + apart) as u64
    }

    /// Charges it.
    pub(super) fn charge(&mut self, charged: Reservation) {
        self.charged = Some(charged);
    }
}

/// What a mask over a granule that begins at row `start` is kept as.
fn found(mask: Mask, start: usize) -> FoundRows {
    let count = mask.count();
    if count == mask.rows() {
        return FoundRows::All;
    }
    if count * MANY_ROWS >= mask.rows() {
        return FoundRows::Mask(mask);
    }
    let mut rows = Vec::with_capacity(count);
    mask.positions_in(&(0..mask.rows()), start, &mut rows);
    FoundRows::Rows(rows)
}

/// The rows of each reader, as [`SharedPass`] keeps them: `codes` have a code above a place, ascending; ranges ascend
/// by their first code.
fn dealt_out(codes: &[u64], ranges: &[ReaderRange]) -> Vec<u32> {
    let mut hits = Vec::with_capacity(codes.len());
    let mut from = 0;
    for range in ranges {
        while from < codes.len() && (codes[from] >> 32) < u64::from(range.first) {
            from += 1;
        }
        let of = codes[from..].iter().take_while(|&&code| code >> 32 <= u64::from(range.last));
        hits.extend(of.map(|code| range.reader << 16 | (code & 0xFFFF) as u32));
    }
    hits.sort_unstable();
    hits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_are_dealt_out_to_every_range_that_has_them(
            codes in proptest::collection::vec(0u32..60, 0..100),
            ranges in proptest::collection::vec((0u32..70, 0u32..20), 0..20),
        ) {
            let mut sorted: Vec<u64> =
                codes.iter().zip(0u64..).map(|(&code, place)| u64::from(code) << 32 | place).collect();
            sorted.sort_unstable();
            // One range a reader, so that none has a row twice.
            let mut of: Vec<ReaderRange> = ranges.iter().zip(0..)
                .map(|(&(first, more), reader)| ReaderRange { first, last: first + more, reader }).collect();
            of.sort_unstable_by_key(|range| range.first);
            let mut expected = Vec::new();
            for (&(first, more), reader) in ranges.iter().zip(0u32..) {
                let places = (0u32..).zip(&codes).filter(|(_, code)| (first..=first + more).contains(code));
                expected.extend(places.map(|(place, _)| reader << 16 | place));
            }
            prop_assert_eq!(dealt_out(&sorted, &of), expected);
        }
    }
}
