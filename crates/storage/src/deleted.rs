//! Which rows of a segment are deleted: an immutable bitmap, one per version.

use std::ops::Range;
use std::sync::Arc;

use numa::{Allocator, Region};

use crate::error::StoreError;

/// The deleted rows of a segment, as of one version.
#[derive(Debug)]
pub struct DeletedRows {
    rows: usize,
    count: usize,
    /// Absent where nothing is deleted.
    bits: Option<Region>,
}

impl DeletedRows {
    /// No deleted row among `rows`.
    pub fn none(rows: usize) -> DeletedRows {
        DeletedRows { rows, count: 0, bits: None }
    }

    /// These and `positions`, in any order; rows that are deleted already stay so.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] for a position beyond the rows, [`StoreError::Memory`].
    pub fn with_deleted(&self, positions: &[u32], allocator: &Allocator) -> Result<Arc<DeletedRows>, StoreError> {
        if let Some(&index) = positions.iter().find(|&&p| p as usize >= self.rows) {
            return Err(StoreError::NotThere { what: "row", index: index as usize, count: self.rows });
        }
        if self.rows == 0 {
            return Ok(Arc::new(DeletedRows::none(0)));
        }
        let mut bits = allocator.region(self.rows.div_ceil(64) * 8)?;
        let words = bits.words_mut::<u64>();
        if let Some(old) = &self.bits {
            words.copy_from_slice(old.words());
        }
        let mut count = self.count;
        for &position in positions {
            let word = &mut words[position as usize / 64];
            let bit = 1 << (position % 64);
            count += usize::from(*word & bit == 0);
            *word |= bit;
        }
        Ok(Arc::new(DeletedRows { rows: self.rows, count, bits: Some(bits) }))
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
        self.words().is_some_and(|words| words[row / 64] >> (row % 64) & 1 == 1)
    }

    /// The bitmap: bit `row % 64` of word `row / 64`; `None` where nothing is deleted.
    pub fn words(&self) -> Option<&[u64]> {
        self.bits.as_ref().map(|bits| bits.words())
    }

    /// Clears in `mask`, bit `i` for row `rows.start + i`, the rows that are deleted. `rows.start` is a multiple of 64.
    pub fn strike_out(&self, rows: Range<usize>, mask: &mut [u64]) {
        assert!(rows.start.is_multiple_of(64) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let Some(words) = self.words() else { return };
        let words = &words[rows.start / 64..rows.end.div_ceil(64)];
        for (mask, deleted) in mask[..words.len()].iter_mut().zip(words) {
            *mask &= !deleted;
        }
    }

    /// Bytes of the bitmap.
    pub fn bytes(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| bits.len())
    }
}

#[cfg(test)]
mod tests {
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
}
