//! [`Mask`]: one bit per row of a piece of a segment (at most a granule), the format of qualifying matches while a
//! filter narrows them (Psaroudakis et al., VLDB 2015, section 5.2: a bit vector; positions are taken from it once, at
//! the end).
//!
//! Bit `i` is row `i` of the piece. Bits past the last row are always 0.

use std::ops::Range;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use storage::{BLOCK_ROWS, mask_count, mask_positions};

/// Bits of a word.
const WORD: usize = 64;

/// One row in `n` is dense: unpacking a block takes the time of gathering about eight of its rows.
const DENSE_ROWS: usize = 32;

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

    /// Some rows.
    pub(crate) fn of(rows: usize, set: impl IntoIterator<Item = usize>) -> Mask {
        let mut mask = Mask::empty(rows);
        set.into_iter().for_each(|row| mask.set(row));
        mask
    }

    /// Rows of the piece, set or not.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are set.
    pub(crate) fn count(&self) -> usize {
        mask_count(&self.words)
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
        mask_count(self.words_in(rows))
    }

    /// Appends the set rows within `rows` (whose start is a multiple of 64) to `out`, each plus `offset`.
    pub(crate) fn positions_in(&self, rows: &Range<usize>, offset: usize, out: &mut Vec<u32>) {
        mask_positions(self.words_in(rows), (offset + rows.start) as u32, out);
    }

    /// The words of `rows`, whose start is a multiple of 64, and whose end is one too or the last row's.
    pub(crate) fn words_in(&self, rows: &Range<usize>) -> &[u64] {
        debug_assert_eq!(rows.start % WORD, 0);
        debug_assert!(rows.end.is_multiple_of(WORD) || rows.end == self.rows);
        &self.words[rows.start / WORD..rows.end.div_ceil(WORD)]
    }

    /// Whether the rows that are set, `count`, are some of all, and so many that unpacking whole blocks for them pays.
    pub(crate) fn is_dense(&self, count: usize) -> bool {
        count < self.rows && count * DENSE_ROWS >= self.rows
    }

    /// The rows of a window that are set, `count` of them and one at least, where they follow each other.
    pub(crate) fn run_in(&self, window: &Range<usize>, count: usize) -> Option<Range<usize>> {
        let words = self.words_in(window);
        let first = words.iter().position(|&word| word != 0)?;
        let start = first * WORD + words[first].trailing_zeros() as usize;
        let end = start + count;
        let within = words.get(first..=(end - 1) / WORD)?;
        let behind = if end.is_multiple_of(WORD) { 0 } else { within[within.len() - 1] >> (end % WORD) };
        (behind == 0 && mask_count(within) == count).then(|| window.start + start..window.start + end)
    }

    /// Cuts it, of whose rows `marked` are set, at blocks of rows into windows with at most `most` (a block's rows at
    /// least) set rows each, and with one at least; with how many.
    pub(crate) fn windows(&self, marked: usize, most: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
        assert!(most >= BLOCK_ROWS, "a block may have more than {most} set rows");
        let mut block = 0;
        std::iter::from_fn(move || {
            // Mostly one is enough.
            if block == 0 && marked > 0 && marked <= most {
                block = self.rows.div_ceil(BLOCK_ROWS);
                return Some((0..self.rows, marked));
            }
            let (mut window, mut count) = (block * BLOCK_ROWS..block * BLOCK_ROWS, 0);
            while window.end < self.rows {
                let end = (window.end + BLOCK_ROWS).min(self.rows);
                let added = self.count_in(&(window.end..end));
                if count + added > most {
                    break;
                }
                block += 1;
                window = if count + added == 0 { end..end } else { window.start..end };
                count += added;
            }
            (count > 0).then_some((window, count))
        })
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
    fn windows_have_every_row_once() {
        for every in [1, 2, 3, 31, 300, 900] {
            for rows in [1000, 256, 100, 2048] {
                let mut mask = Mask::empty(rows);
                (0..rows).step_by(every).for_each(|row| mask.set(row));
                for most in [256, 300, 5000] {
                    let (mut seen, mut end) = (Vec::new(), 0);
                    for (window, count) in mask.windows(mask.count(), most) {
                        assert!(window.start >= end && window.start.is_multiple_of(BLOCK_ROWS) && count <= most);
                        assert!(count > 0 && count == mask.count_in(&window));
                        mask.positions_in(&window, 0, &mut seen);
                        end = window.end;
                    }
                    assert_eq!(seen, (0..rows as u32).step_by(every).collect::<Vec<_>>(), "{every} {rows} {most}");
                }
            }
        }
    }

    #[test]
    fn a_run_is_told_from_rows_with_gaps() {
        for (start, end) in [(0, 1), (0, 64), (0, 1000), (63, 65), (64, 128), (65, 127), (999, 1000), (300, 513)] {
            let mut mask = Mask::empty(1000);
            (start..end).for_each(|row| mask.set(row));
            for window in
                [0..1000, start / WORD * WORD..1000, start / WORD * WORD..(end.div_ceil(WORD) * WORD).min(1000)]
            {
                assert_eq!(mask.run_in(&window, end - start), Some(start..end));
            }
            for other in [0, 1, start.saturating_sub(2), (start + end) / 2, end + 1, end + 64, 999] {
                let mut mask = mask.clone();
                match mask.words[other.min(999) / WORD] >> (other % WORD) & 1 == 1 {
                    true => mask.unset(other),
                    false => mask.set(other.min(999)),
                }
                let mut rows = Vec::new();
                mask.positions_in(&(0..1000), 0, &mut rows);
                let is_run = rows.windows(2).all(|pair| pair[0] + 1 == pair[1]);
                let run = rows.first().map(|&first| first as usize..first as usize + rows.len());
                let expected = if is_run { run } else { None };
                assert_eq!(mask.run_in(&(0..1000), rows.len()), expected, "{start}..{end} and {other}");
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
