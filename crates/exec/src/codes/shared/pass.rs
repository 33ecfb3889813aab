//! [`SharedPass`]: what one reading of a granule's codes found for several scans.
//!
//! Scans that find few rows are found *together*: one kernel looks for codes that any of them wants, and the codes of
//! those rows, sorted, are dealt out to the scans' ranges, also sorted, in one walk over both. So a pass costs one test
//! by a bitmap, and then only what is found. The others are tested one after the other, on codes that the first test
//! brought into the cache.
//!
//! Who finds few rows is guessed from how many codes it looks for. Where that is wrong, since a code is frequent or
//! codes follow the order of the rows, a granule has many rows for scans that would be found together: the pass *gives
//! up* finding them so, tests some of them one after the other, and leaves the rest to themselves. The bounds of the
//! granule's codes decide first, for whom they decide.
//!
//! Invariants:
//! - What a pass found for a scan are exactly the rows that the scan's own test finds.
//! - Before anybody asks whether there is room, it takes memory for [`hits_max`] rows that are found together and for a
//!   bit a row of each scan that is tested on its own, at most.

use std::ops::Range;
use std::sync::Arc;

use numa::Reservation;
use storage::{CodePredicate, CodedColumn, GRANULE_ROWS};

use super::readers::{PassReaders, ReaderList, ReaderRange};
use super::rule::{APART_MAX, FEW_ROWS, hits_max};
use super::{WORD, WaitingScan};
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
    /// How many rows the granule has.
    rows: usize,
    /// A reader's place above a row's place in the granule, ascending; `None` where that was given up.
    together: Option<Vec<u32>>,
    /// A bit for each reader that is looked for among those: the others had no need of the granule.
    needing: Box<[u64]>,
    /// A reader's place and its rows, by place; of those that still wanted the granule.
    apart: Vec<(u32, FoundRows)>,
    /// Some reader was found out to have many rows.
    learned: bool,
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
    /// The rows that pass all tests.
    fn select(&self, tests: &[CodePredicate]) -> Mask {
        (self.told)(&InputRows::Range(self.rows.clone()));
        let mut mask = Mask::full(self.rows.len());
        for test in tests {
            match self.skips {
                true => self.column.select(self.rows.clone(), test, mask.words_mut()),
                false => self.column.select_each(self.rows.clone(), test, mask.words_mut()),
            }
        }
        mask
    }

    /// The lowest and the highest code of the granule, where they may decide.
    fn bounds(&self) -> Option<(u32, u32)> {
        self.skips.then(|| self.column.code_bounds(self.rows.start / GRANULE_ROWS))
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
    /// Reads a granule for the readers that want it, and for `leader`. What the leader's statement does not wait for is
    /// left out.
    pub(super) fn read(readers: &PassReaders, leader: &WaitingScan, read: &GranuleRead<'_>) -> SharedPass {
        let granule = read.rows.start / GRANULE_ROWS;
        let mut needing = vec![0u64; readers.scans().len().div_ceil(WORD)].into_boxed_slice();
        for (place, scan) in readers.scans().iter().enumerate() {
            if scan.needs(granule) || scan.number() == leader.number() {
                needing[place / WORD] |= 1 << (place % WORD);
            }
        }
        let together = together(readers, &needing, leader, read);
        let bounds = read.bounds();
        // As many as are tested on their own wherever rows are few.
        let mut spare = APART_MAX.saturating_sub(readers.apart());
        let (mut apart, mut learned) = (Vec::new(), false);
        for (place, scan) in (0u32..).zip(readers.scans()) {
            let (is_apart, leads) = (readers.list().is_apart(place as usize), scan.number() == leader.number());
            if !is_apart && together.is_some() || !has_bit(&needing, place as usize) {
                continue;
            }
            if let Some(found) = bounds.and_then(|bounds| decided(scan, bounds)) {
                apart.push((place, found));
                continue;
            }
            if !is_apart && !leads {
                if spare == 0 {
                    continue;
                }
                spare -= 1;
            }
            if leader.is_stopped() {
                break;
            }
            let mask = read.select(scan.test().tests());
            if mask.count() as f64 > read.rows.len() as f64 * FEW_ROWS {
                learned |= !is_apart && scan.finds_many();
            }
            apart.push((place, found(mask, read.rows.start)));
        }
        let (readers, start, rows) = (Arc::clone(readers.list()), read.rows.start, read.rows.len());
        SharedPass { readers, start, rows, together, needing, apart, learned, charged: None }
    }

    /// Whose rows it found.
    pub(super) fn readers(&self) -> &ReaderList {
        &self.readers
    }

    /// Whether a reader was found out to have many rows, so that others should be put together.
    pub(super) fn learned(&self) -> bool {
        self.learned
    }

    /// Whether it looked for the rows of the reader at a place.
    pub(super) fn looked_for(&self, place: usize) -> bool {
        self.of_apart(place).is_some() || self.of_together(place).is_some()
    }

    /// What was found together, if the reader at a place was looked for there.
    fn of_together(&self, place: usize) -> Option<&[u32]> {
        let was = !self.readers.is_apart(place) && has_bit(&self.needing, place);
        self.together.as_deref().filter(|_| was)
    }

    /// What it found for the scan of this number, if it looked.
    pub(super) fn found(&self, number: u64) -> Option<FoundRows> {
        let place = self.readers.place(number)?;
        if let Some(found) = self.of_apart(place) {
            return Some(found.clone());
        }
        let together = self.of_together(place)?;
        let first = (place as u32) << 16;
        let from = together.partition_point(|&hit| hit < first);
        let count = together[from..].partition_point(|&hit| hit >> 16 == place as u32);
        let rows = together[from..from + count].iter().map(|&hit| hit & 0xFFFF);
        Some(match count * MANY_ROWS >= self.rows {
            true => found(Mask::of(self.rows, rows.map(|row| row as usize)), self.start),
            false => FoundRows::Rows(rows.map(|row| self.start as u32 + row).collect()),
        })
    }

    fn of_apart(&self, place: usize) -> Option<&FoundRows> {
        let at = self.apart.binary_search_by_key(&(place as u32), |(place, _)| *place).ok()?;
        Some(&self.apart[at].1)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let of = |found: &FoundRows| match found {
            FoundRows::All => 0,
            FoundRows::Rows(rows) => 4 * rows.len(),
            FoundRows::Mask(mask) => mask.rows().div_ceil(8),
        };
        let apart: usize = self.apart.iter().map(|(_, found)| size_of::<(u32, FoundRows)>() + of(found)).sum();
        let together = self.together.as_ref().map_or(0, Vec::len);
        // The bits of who waits are as many as those of who needs it.
        (size_of::<SharedPass>() + 4 * together + apart + 2 * size_of_val(&*self.needing)) as u64
    }

    /// Charges it.
    pub(super) fn charge(&mut self, charged: Reservation) {
        self.charged = Some(charged);
    }
}

/// The rows of those that are found together, as [`SharedPass`] keeps them; `None` where they are too many.
fn together(readers: &PassReaders, needing: &[u64], leader: &WaitingScan, read: &GranuleRead<'_>) -> Option<Vec<u32>> {
    if readers.union().is_empty() {
        return Some(Vec::new());
    }
    if let Some((low, high)) = read.bounds() {
        if !readers.looked_for().meets(low, high) {
            return Some(Vec::new());
        }
        if readers.looked_for().covers(low, high) && readers.one_covers(low, high) {
            return None;
        }
    }
    let most = hits_max(readers.scans().len() - readers.apart(), read.rows.len());
    let mask = read.select(readers.union());
    // Each is a hit at least.
    if mask.count() > most || leader.is_stopped() {
        return None;
    }
    let mut codes = read.codes(&mask);
    codes.sort_unstable();
    let ranges = readers.ranges().iter().filter(|range| has_bit(needing, range.reader as usize));
    dealt_out(&codes, ranges, most)
}

fn has_bit(words: &[u64], place: usize) -> bool {
    words[place / WORD] >> (place % WORD) & 1 == 1
}

/// What the bounds of a granule's codes say of a scan's rows.
fn decided(scan: &WaitingScan, (low, high): (u32, u32)) -> Option<FoundRows> {
    let set = scan.test().set();
    if set.covers(low, high) {
        return Some(FoundRows::All);
    }
    (!set.meets(low, high)).then(|| FoundRows::Rows(Vec::new()))
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

/// The rows of each reader, as [`SharedPass`] keeps them, unless they are more than `most`: `codes` have a code above a
/// place, ascending; ranges ascend by their first code.
fn dealt_out<'a>(codes: &[u64], ranges: impl Iterator<Item = &'a ReaderRange>, most: usize) -> Option<Vec<u32>> {
    let mut hits = Vec::with_capacity(codes.len());
    let mut from = 0;
    for range in ranges {
        while from < codes.len() && (codes[from] >> 32) < u64::from(range.first) {
            from += 1;
        }
        let count = codes[from..].partition_point(|&code| code >> 32 <= u64::from(range.last));
        if hits.len() + count > most {
            return None;
        }
        hits.extend(codes[from..from + count].iter().map(|code| range.reader << 16 | (code & 0xFFFF) as u32));
    }
    hits.sort_unstable();
    Some(hits)
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
            if let Some(fewer) = expected.len().checked_sub(1) {
                prop_assert_eq!(dealt_out(&sorted, of.iter(), fewer), None);
            }
            prop_assert_eq!(dealt_out(&sorted, of.iter(), expected.len()), Some(expected));
        }
    }
}
