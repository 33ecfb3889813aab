//! Which rows of a segment are deleted, as of one version: a bitmap in chunks that versions share.
//!
//! # Invariants
//! A chunk that two versions have is never written. So a version that is derived from another copies the chunks in
//! which more rows are deleted, and writes in place what nobody else has.

use std::ops::Range;
use std::sync::Arc;

use numa::{Allocator, Region};

use crate::error::StoreError;

/// Rows of a chunk: few enough that copying the chunks of some hundred rows costs little in a large segment, and so
/// many that a segment has a thousand chunks at most.
const CHUNK_ROWS: usize = 16 * 1024;

/// The deleted rows of a segment, as of one version.
#[derive(Debug, Clone)]
pub struct DeletedRows {
    rows: usize,
    count: usize,
    /// Absent where nothing of the chunk is deleted; none at all where nothing is.
    chunks: Vec<Option<Arc<Region>>>,
}

impl DeletedRows {
    /// No deleted row among `rows`.
    pub fn none(rows: usize) -> DeletedRows {
        DeletedRows { rows, count: 0, chunks: Vec::new() }
    }

    /// These and `positions`, in any order; rows that are deleted already stay so.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] for a position beyond the rows, [`StoreError::Memory`].
    pub fn with_deleted(&self, positions: &[u32], allocator: &Allocator) -> Result<Arc<DeletedRows>, StoreError> {
        let mut more = self.clone();
        more.delete(positions, allocator)?;
        Ok(Arc::new(more))
    }

    /// `positions` of `rows` rows are deleted too, in place where nobody else has `deleted`.
    ///
    /// # Errors
    /// As [`with_deleted`](Self::with_deleted); after one some of the positions may be deleted.
    pub(crate) fn delete_in(
        deleted: &mut Option<Arc<DeletedRows>>,
        rows: usize,
        positions: &[u32],
        allocator: &Allocator,
    ) -> Result<(), StoreError> {
        let deleted = deleted.get_or_insert_with(|| Arc::new(DeletedRows::none(rows)));
        Arc::make_mut(deleted).delete(positions, allocator)
    }

    fn delete(&mut self, positions: &[u32], allocator: &Allocator) -> Result<(), StoreError> {
        if let Some(&index) = positions.iter().find(|&&p| p as usize >= self.rows) {
            return Err(StoreError::NotThere { what: "row", index: index as usize, count: self.rows });
        }
        if self.chunks.is_empty() {
            self.chunks = vec![None; self.rows.div_ceil(CHUNK_ROWS)];
        }
        // Mostly they ascend: each chunk is asked for once.
        for of_chunk in positions.chunk_by(|a, b| *a as usize / CHUNK_ROWS == *b as usize / CHUNK_ROWS) {
            let place = of_chunk[0] as usize / CHUNK_ROWS;
            let rows = CHUNK_ROWS.min(self.rows - place * CHUNK_ROWS);
            let words = own(&mut self.chunks[place], rows, allocator)?;
            for position in of_chunk {
                let word = &mut words[*position as usize % CHUNK_ROWS / 64];
                let bit = 1 << (position % 64);
                self.count += usize::from(*word & bit == 0);
                *word |= bit;
            }
        }
        Ok(())
    }

    /// Number of rows of the segment, deleted or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of deleted rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True where the row is deleted.
    pub fn contains(&self, row: usize) -> bool {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let chunk = self.chunks.get(row / CHUNK_ROWS).and_then(Option::as_ref);
        chunk.is_some_and(|bits| bits.words::<u64>()[row % CHUNK_ROWS / 64] >> (row % 64) & 1 == 1)
    }

    /// Clears in `mask`, bit `i` for row `rows.start + i`, the rows that are deleted. `rows.start` is a multiple of 64.
    pub fn strike_out(&self, rows: Range<usize>, mask: &mut [u64]) {
        assert!(rows.start.is_multiple_of(64) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let mut from = rows.start;
        while from < rows.end && !self.chunks.is_empty() {
            let place = from / CHUNK_ROWS;
            let end = ((place + 1) * CHUNK_ROWS).min(rows.end);
            if let Some(bits) = &self.chunks[place] {
                let words = &bits.words::<u64>()[from % CHUNK_ROWS / 64..];
                let mask = &mut mask[(from - rows.start) / 64..(end - rows.start).div_ceil(64)];
                for (mask, deleted) in mask.iter_mut().zip(words) {
                    *mask &= !deleted;
                }
            }
            from = end;
        }
    }

    /// Number of deleted rows in a range.
    pub(crate) fn count_in(&self, rows: Range<usize>) -> usize {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let mut count = 0;
        let mut from = rows.start;
        while from < rows.end && !self.chunks.is_empty() {
            let place = from / CHUNK_ROWS;
            let end = ((place + 1) * CHUNK_ROWS).min(rows.end);
            if let Some(bits) = &self.chunks[place] {
                let words = bits.words::<u64>();
                let (mut at, end) = (from % CHUNK_ROWS, end - place * CHUNK_ROWS);
                while at < end {
                    let within = (end - at).min(64 - at % 64);
                    let mask = u64::MAX >> (64 - within) << (at % 64);
                    count += (words[at / 64] & mask).count_ones() as usize;
                    at += within;
                }
            }
            from = end;
        }
        count
    }

    /// The rows, ascending, that are deleted and were not in an earlier version of the same segment.
    pub fn since(&self, earlier: Option<&DeletedRows>) -> Vec<u32> {
        let mut rows = Vec::new();
        for (place, chunk) in self.chunks.iter().enumerate() {
            let Some(bits) = chunk else { continue };
            let before = earlier.and_then(|earlier| earlier.chunks.get(place)?.as_ref());
            if before.is_some_and(|before| Arc::ptr_eq(before, bits)) {
                continue;
            }
            let before = before.map_or(&[][..], |before| before.words::<u64>());
            for (word, deleted) in bits.words::<u64>().iter().enumerate() {
                let mut new = deleted & !before.get(word).copied().unwrap_or(0);
                while new != 0 {
                    rows.push((place * CHUNK_ROWS + word * 64) as u32 + new.trailing_zeros());
                    new &= new - 1;
                }
            }
        }
        rows
    }

    /// Bytes of the bitmap.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().flatten().map(|bits| bits.len()).sum()
    }
}

/// The words of a chunk of `rows` rows, for whoever is the only one to have it: a copy where others have it too.
fn own<'a>(
    chunk: &'a mut Option<Arc<Region>>,
    rows: usize,
    allocator: &Allocator,
) -> Result<&'a mut [u64], StoreError> {
    let is_own = chunk.as_mut().is_some_and(|bits| Arc::get_mut(bits).is_some());
    if !is_own {
        let mut copy = allocator.region(rows.div_ceil(64) * 8)?;
        if let Some(bits) = chunk {
            copy.words_mut::<u64>().copy_from_slice(bits.words());
        }
        *chunk = Some(Arc::new(copy));
    }
    let bits = chunk.as_mut().and_then(Arc::get_mut);
    Ok(bits.expect("nobody else has a copy that was just made").words_mut())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use random::Random;

    use super::*;

    #[test]
    fn deleting_twice_counts_once_and_leaves_the_old_version_alone() {
        let none = DeletedRows::none(130);
        let a = none.with_deleted(&[129, 0, 64], &Allocator::unplaced()).unwrap();
        let b = a.with_deleted(&[64, 65, 65], &Allocator::unplaced()).unwrap();
        assert_eq!((none.count(), a.count(), b.count()), (0, 3, 4));
        assert!(a.contains(129) && !a.contains(65) && b.contains(65) && !none.contains(0));
        let mut mask = [u64::MAX; 2];
        b.strike_out(64..130, &mut mask);
        assert_eq!(mask, [u64::MAX << 2, u64::MAX << 2 | 1]);
    }

    #[test]
    fn a_row_that_is_not_there_is_an_error() {
        let error = DeletedRows::none(10).with_deleted(&[3, 10], &Allocator::unplaced()).unwrap_err();
        assert_eq!(error.to_string(), "there is no row 10, only 10");
    }

    /// Versions that are derived, some of them in place, against a set for each.
    #[test]
    fn versions_are_sets() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let rows = random.pick(&[1, 64, 1000, CHUNK_ROWS, CHUNK_ROWS + 1, 5 * CHUNK_ROWS - 77]);
            let mut versions: Vec<(Option<Arc<DeletedRows>>, BTreeSet<u32>)> = vec![(None, BTreeSet::new())];
            for _ in 0..30 {
                let (mut deleted, mut set) = match random.one_in(3) {
                    // Alone, so that it is written in place.
                    true => versions.swap_remove(random.below(versions.len())),
                    false => versions[random.below(versions.len())].clone(),
                };
                let first = random.below(rows);
                let near = random.pick(&[1, 300, rows]);
                let more: Vec<u32> =
                    (0..random.below(40)).map(|_| ((first + random.below(near)) % rows) as u32).collect();
                DeletedRows::delete_in(&mut deleted, rows, &more, &Allocator::unplaced()).unwrap();
                set.extend(more);
                versions.push((deleted, set));
            }
            for (deleted, set) in &versions {
                let (earlier, earlier_set) = &versions[random.below(versions.len())];
                let since = deleted.as_ref().map_or_else(Vec::new, |deleted| deleted.since(earlier.as_deref()));
                assert!(since.iter().eq(set.difference(earlier_set)));
                let none = DeletedRows::none(rows);
                let deleted = deleted.as_deref().unwrap_or(&none);
                assert_eq!((deleted.count(), deleted.rows()), (set.len(), rows));
                let start = random.below(rows.div_ceil(64)) * 64;
                let end = start + 1 + random.below(rows - start);
                let mut mask = vec![u64::MAX; (end - start).div_ceil(64) + 1];
                deleted.strike_out(start..end, &mut mask);
                for row in start..end {
                    let is_struck = mask[(row - start) / 64] >> (row % 64) & 1 == 0;
                    assert_eq!((is_struck, deleted.contains(row)), (set.contains(&(row as u32)), is_struck), "{row}");
                }
                assert_eq!(mask.last(), Some(&u64::MAX), "a word behind the rows");
                let (from, to) = (random.below(rows + 1), random.below(rows + 1));
                let range = from.min(to)..from.max(to);
                let inside = set.range(range.start as u32..range.end as u32).count();
                assert_eq!(deleted.count_in(range.clone()), inside, "{range:?}");
            }
        }
    }
}
