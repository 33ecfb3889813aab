//! Which of the rows that are being staged are not NULL.

use std::ops::Range;

use arrow::buffer::NullBuffer;
use numa::{Allocator, MemoryError, Region};

use crate::region_vec::RegionVec;

/// The validity of the open chunk: no memory until its first NULL.
pub(crate) struct OpenValidity {
    words: RegionVec<u64>,
    rows: usize,
    nulls: usize,
}

impl OpenValidity {
    pub(crate) fn new(allocator: &Allocator) -> Self {
        OpenValidity { words: RegionVec::new(allocator), rows: 0, nulls: 0 }
    }

    /// Appends the validity of `rows` of an array with these nulls.
    pub(crate) fn append(&mut self, nulls: Option<&NullBuffer>, rows: Range<usize>) -> Result<(), MemoryError> {
        let count = rows.len();
        match nulls {
            Some(nulls) if nulls.slice(rows.start, count).null_count() > 0 => {
                self.append_flags(count, |i| nulls.is_valid(rows.start + i))
            }
            _ => self.append_valid(count),
        }
    }

    /// Appends rows without NULLs.
    fn append_valid(&mut self, count: usize) -> Result<(), MemoryError> {
        self.rows += count;
        if self.nulls > 0 {
            self.fill(self.rows - count)?;
        }
        Ok(())
    }

    /// Appends rows of which `valid` says which are not NULL.
    fn append_flags(&mut self, count: usize, valid: impl Fn(usize) -> bool) -> Result<(), MemoryError> {
        let from = self.rows;
        self.rows += count;
        self.fill(if self.nulls == 0 { 0 } else { from })?;
        let words = self.words.as_mut_slice();
        for i in 0..count {
            if !valid(i) {
                self.nulls += 1;
                words[(from + i) / 64] &= !(1 << ((from + i) % 64));
            }
        }
        Ok(())
    }

    /// NULLs in the open chunk.
    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    /// The bits, where there is a NULL, and a new chunk begins.
    pub(crate) fn seal(&mut self) -> Option<Region> {
        self.rows = 0;
        if self.nulls == 0 {
            self.words.clear();
            return None;
        }
        self.nulls = 0;
        self.words.take()
    }

    /// Sets the bits from row `from` to the last one.
    fn fill(&mut self, from: usize) -> Result<(), MemoryError> {
        let words = self.rows.div_ceil(64);
        self.words.extend(words.saturating_sub(self.words.len()))?;
        let words = &mut self.words.as_mut_slice()[from / 64..];
        if let Some((first, rest)) = words.split_first_mut() {
            let kept = (1 << (from % 64)) - 1;
            *first = *first & kept | !kept;
            rest.fill(u64::MAX);
        }
        Ok(())
    }
}
