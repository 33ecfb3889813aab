//! [`Mask`]: one bit per row of a piece of a segment (at most a granule), the format of qualifying matches while a filter
//! narrows them (Psaroudakis et al., VLDB 2015, section 5.2: a bit vector; positions are taken from it once, at the end).
//!
//! Bit `i` is row `i` of the piece. Bits past the last row are always 0.

use std::ops::Range;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer};

/// Bits of a word.
const WORD: usize = 64;
/// Positions that are written at a time.
const STRIDE: usize = 8;

/// A set of rows of one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mask {
    words: Vec<u64>,
    rows: usize,
}

impl Mask {
    /// Every row.
    pub(crate) fn full(rows: usize) -> Mask {
        let mut words = vec![u64::MAX; rows.div_ceil(WORD)];
        if let (Some(last), tail) = (words.last_mut(), rows % WORD)
            && tail != 0
        {
            *last = (1 << tail) - 1;
        }
        Mask { words, rows }
    }

    /// No row.
    pub(crate) fn empty(rows: usize) -> Mask {
        Mask { words: vec![0; rows.div_ceil(WORD)], rows }
    }

    /// Rows of the piece, set or not.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are set.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// No row is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// The words, for kernels that AND into them. They must leave bits past the last row at 0.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Unsets every row.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds the rows of `other`.
    pub(crate) fn or(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Keeps the rows of `other`.
    pub(crate) fn and(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Takes the rows of `other` away.
    pub(crate) fn and_not(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// Sets one row.
    pub(crate) fn set(&mut self, row: usize) {
        debug_assert!(row < self.rows);
        self.words[row / WORD] |= 1 << (row % WORD);
    }

    /// Unsets one row.
    pub(crate) fn unset(&mut self, row: usize) {
        self.words[row / WORD] &= !(1 << (row % WORD));
    }

    /// Set rows within `rows`, whose start is a multiple of 64.
    pub(crate) fn count_in(&self, rows: &Range<usize>) -> usize {
        debug_assert_eq!(rows.start % WORD, 0);
        debug_assert!(rows.end.is_multiple_of(WORD) || rows.end == self.rows);
        self.words[rows.start / WORD..rows.end.div_ceil(WORD)].iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Appends the set rows within `rows` (whose start is a multiple of 64) to `out`, each plus `offset`.
    pub(crate) fn positions_in(&self, rows: &Range<usize>, offset: usize, out: &mut Vec<u32>) {
        debug_assert_eq!(rows.start % WORD, 0);
        let words = &self.words[rows.start / WORD..rows.end.div_ceil(WORD)];
        let count: usize = words.iter().map(|w| w.count_ones() as usize).sum();
        let mut at = out.len();
        out.resize(at + count + STRIDE, 0);
        for (i, &word) in words.iter().enumerate() {
            let (mut bits, mut to) = (word, at);
            at += word.count_ones() as usize;
            let base = (offset + rows.start + i * WORD) as u32;
            // Some at a time, whether there are as many or not: a loop that ends with the word would be predicted wrongly for
            // nearly every word. What is too many is written over.
            while to < at {
                for slot in &mut out[to..to + STRIDE] {
                    *slot = base.wrapping_add(bits.trailing_zeros());
                    bits &= bits.wrapping_sub(1);
                }
                to += STRIDE;
            }
        }
        out.truncate(at);
    }

    /// The bits as Arrow has them.
    pub(crate) fn into_boolean_buffer(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.rows)
    }

    /// Keeps, within the rows that start at `start` (a multiple of 64), those for which `test` is TRUE.
    pub(crate) fn keep_true(&mut self, start: usize, test: &BooleanArray) {
        debug_assert_eq!(start % WORD, 0);
        let chunks = test.values().bit_chunks();
        let nulls = test.nulls().map(|n| n.inner().bit_chunks());
        let first = start / WORD;
        for (i, word) in chunks.iter_padded().enumerate().take(test.len().div_ceil(WORD)) {
            self.words[first + i] &= word;
        }
        if let Some(valid) = nulls {
            for (i, word) in valid.iter_padded().enumerate().take(test.len().div_ceil(WORD)) {
                self.words[first + i] &= word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_has_no_bits_past_the_end() {
        for rows in [0, 1, 63, 64, 65, 1000] {
            let mask = Mask::full(rows);
            assert_eq!(mask.count(), rows);
            assert_eq!(mask.is_empty(), rows == 0);
            let mut positions = Vec::new();
            mask.positions_in(&(0..rows), 7, &mut positions);
            assert_eq!(positions, (7..7 + rows as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn positions_are_those_of_the_set_bits() {
        let mut state = 7u64;
        for density in [0, 1, 3, 8, 40, 63, 64] {
            let mut mask = Mask::empty(1000);
            for row in 0..1000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if state >> 33 & 63 < density {
                    mask.set(row);
                }
            }
            for rows in [0..1000, 64..1000, 128..192, 960..1000, 0..0] {
                let mut positions = vec![5, 6];
                mask.positions_in(&rows, 9, &mut positions);
                let plain = rows.clone().filter(|row| mask.words[row / WORD] >> (row % WORD) & 1 == 1);
                let expected: Vec<u32> = [5, 6].into_iter().chain(plain.map(|row| row as u32 + 9)).collect();
                assert_eq!(positions, expected, "{density} {rows:?}");
            }
        }
    }

    #[test]
    fn set_operations() {
        let mut odd = Mask::full(130);
        (0..130).step_by(2).for_each(|i| odd.unset(i));
        assert_eq!(odd.count(), 65);
        let mut even = Mask::full(130);
        even.and_not(&odd);
        assert_eq!(even.count_in(&(0..64)), 32);
        assert_eq!(even.count_in(&(128..130)), 1);
        even.or(&odd);
        assert_eq!(even, Mask::full(130));
        even.clear();
        assert_eq!(even, Mask::empty(130));
    }

    #[test]
    fn keep_true_drops_false_and_null() {
        let mut mask = Mask::full(200);
        let test: BooleanArray = (0..136)
            .map(|i| match i % 3 {
                0 => Some(true),
                1 => Some(false),
                _ => None,
            })
            .collect();
        mask.keep_true(64, &test);
        let mut positions = Vec::new();
        mask.positions_in(&(64..200), 0, &mut positions);
        assert_eq!(positions, (64..200).filter(|i| (i - 64) % 3 == 0).collect::<Vec<_>>());
        assert_eq!(mask.count_in(&(0..64)), 64);
    }
}
