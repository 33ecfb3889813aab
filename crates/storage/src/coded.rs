//! A column kept as bit-packed codes and a dictionary.
//!
//! # Invariants
//! Every code is NULL's (0, with `null_code`) or a vid of the dictionary; the bounds of each granule are exact.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use numa::Region;

use crate::copies::Copies;
use crate::dictionary::Dictionary;
use crate::identity::ColumnId;
use crate::kernels::compare::{RangeTest, select_range};
use crate::kernels::compress::{STRIDE, compress};
use crate::kernels::gather::{code_at, gather};
use crate::kernels::member::select_set;
use crate::kernels::positions::count;
use crate::kernels::sum::{sum, sum_wide};
use crate::kernels::unpack::unpack;
use crate::kernels::{MASK_WORDS, bits_for, block_words, words_for};
use crate::predicate::{CodePredicate, Outcome};
use crate::region_vec::words_of;
use crate::{BLOCK_ROWS, GRANULE_ROWS};

/// Rows that are added at a time: their codes and values stay in the cache that is nearest.
const SUM_ROWS: usize = 2048;

/// One column of a segment, as codes.
#[derive(Debug)]
pub struct CodedColumn {
    id: ColumnId,
    rows: usize,
    dictionary: Arc<Dictionary>,
    null_code: bool,
    bits: u8,
    /// Absent where all codes are 0.
    codes: Option<Copies<Arc<Region>>>,
    /// Smallest and largest code of each granule.
    bounds: Vec<(u32, u32)>,
}

/// Bits of the codes of a column with this dictionary.
pub(crate) fn code_bits(dictionary: &Dictionary, null_code: bool) -> u8 {
    let codes = dictionary.len() as u32 + u32::from(null_code);
    bits_for(codes.saturating_sub(1))
}

impl CodedColumn {
    /// Puts the pieces together. `codes` holds the packed codes of `rows` rows with [`code_bits`] bits, `bounds` one
    /// pair per granule.
    pub(crate) fn new(
        rows: usize,
        dictionary: Arc<Dictionary>,
        null_code: bool,
        codes: Option<Region>,
        bounds: Vec<(u32, u32)>,
    ) -> CodedColumn {
        let bits = code_bits(&dictionary, null_code);
        assert_eq!(bounds.len(), rows.div_ceil(GRANULE_ROWS));
        assert!(codes.as_ref().map_or(0, |c| c.len()) >= 4 * words_for(rows, bits));
        let codes = codes.map(|region| Copies::one(Arc::new(region)));
        CodedColumn { id: ColumnId::next(), rows, dictionary, null_code, bits, codes, bounds }
    }

    /// The same codes and values, kept elsewhere.
    pub(crate) fn moved(&self, codes: Option<Copies<Arc<Region>>>, dictionary: Arc<Dictionary>) -> CodedColumn {
        assert!(codes.is_some() == self.codes.is_some() && dictionary.len() == self.dictionary.len());
        CodedColumn {
            id: ColumnId::next(),
            rows: self.rows,
            dictionary,
            null_code: self.null_code,
            bits: self.bits,
            codes,
            bounds: self.bounds.clone(),
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> ColumnId {
        self.id
    }

    /// The same under another number.
    pub(crate) fn numbered(self, id: ColumnId) -> CodedColumn {
        CodedColumn { id, ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// What the codes stand for.
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Whether code 0 is NULL and a code is its vid plus one; else a code is its vid.
    pub fn null_code(&self) -> bool {
        self.null_code
    }

    /// Bits of a code: 0 to 32.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Number of granules.
    pub(crate) fn granules(&self) -> usize {
        self.bounds.len()
    }

    /// Smallest and largest code of a granule.
    pub fn code_bounds(&self, granule: usize) -> (u32, u32) {
        self.bounds[granule]
    }

    /// Keeps in `mask` the rows whose codes pass: bit `i` stands for row `rows.start + i`. `rows.start` is a multiple
    /// of 256; `mask` has a word for every 64 rows at least, and bits of the last one beyond `rows` come out as 0.
    pub fn select(&self, rows: Range<usize>, p: &CodePredicate, mask: &mut [u64]) {
        self.select_by(rows, p, mask, true);
    }

    /// As [`select`](Self::select), looking at every row whatever the bounds of its granule say.
    pub fn select_each(&self, rows: Range<usize>, p: &CodePredicate, mask: &mut [u64]) {
        self.select_by(rows, p, mask, false);
    }

    /// Takes out of `mask`, which is as [`select`](Self::select) has it, the rows of granules whose bounds show that
    /// none passes. Looks at no code, so others that do not pass may stay.
    pub fn select_by_bounds(&self, rows: Range<usize>, p: &CodePredicate, mask: &mut [u64]) {
        assert!(rows.start.is_multiple_of(BLOCK_ROWS) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        for granule in rows.start / GRANULE_ROWS..rows.end.div_ceil(GRANULE_ROWS) {
            let (min, max) = self.bounds[granule];
            if matches!(p.outcome(min, max), Outcome::Nothing) {
                let start = (granule * GRANULE_ROWS).max(rows.start);
                let end = ((granule + 1) * GRANULE_ROWS).min(rows.end);
                mask[(start - rows.start) / 64..(end - rows.start).div_ceil(64)].fill(0);
            }
        }
    }

    /// Whether the bounds of a granule tell for all its rows what passes, so that no code is looked at.
    pub fn bounds_decide(&self, granule: usize, p: &CodePredicate) -> bool {
        let (min, max) = self.bounds[granule];
        !matches!(p.outcome(min, max), Outcome::Unsure)
    }

    fn select_by(&self, rows: Range<usize>, p: &CodePredicate, mask: &mut [u64], summaries: bool) {
        assert!(rows.start.is_multiple_of(BLOCK_ROWS) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let mask = &mut mask[..rows.len().div_ceil(64)];
        let mut row = rows.start;
        while row < rows.end {
            let granule = row / GRANULE_ROWS;
            let end = rows.end.min((granule + 1) * GRANULE_ROWS);
            let part = &mut mask[(row - rows.start) / 64..(end - rows.start).div_ceil(64)];
            let (min, max) = self.bounds[granule];
            // Codes that take no memory are their bounds.
            let outcome = if summaries || self.bits == 0 { p.outcome(min, max) } else { Outcome::Unsure };
            match outcome {
                Outcome::Nothing => part.fill(0),
                Outcome::Everything => {}
                Outcome::Unsure => self.select_blocks(row..end, p, part),
            }
            row = end;
        }
        if !rows.len().is_multiple_of(64)
            && let Some(last) = mask.last_mut()
        {
            *last &= (1 << (rows.len() % 64)) - 1;
        }
    }

    /// The blocks of rows of one granule whose summary did not decide.
    fn select_blocks(&self, rows: Range<usize>, p: &CodePredicate, mask: &mut [u64]) {
        let size = block_words(self.bits);
        let words = &self.words()[rows.start / BLOCK_ROWS * size..rows.end.div_ceil(BLOCK_ROWS) * size];
        let whole = rows.len() / BLOCK_ROWS;
        let (mask, mask_tail) = mask.split_at_mut(whole * MASK_WORDS);
        let (words, words_tail) = words.split_at(whole * size);
        test_blocks(words, self.bits, p, mask);
        if !mask_tail.is_empty() {
            let mut padded = [0; MASK_WORDS];
            padded[..mask_tail.len()].copy_from_slice(mask_tail);
            test_blocks(words_tail, self.bits, p, &mut padded);
            mask_tail.copy_from_slice(&padded[..mask_tail.len()]);
        }
    }

    /// Appends the codes of `rows`, any range, to `out`.
    pub fn unpack(&self, rows: Range<usize>, out: &mut Vec<u32>) {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        unpack(self.words(), self.bits, rows, out);
    }

    /// Appends the codes at `positions`, rows of the segment in any order, to `out`.
    pub fn gather(&self, positions: &[u32], out: &mut Vec<u32>) {
        gather(self.words(), self.bits, self.rows, positions, out);
    }

    /// The sum of the values; see [`Column::sum`](crate::Column::sum).
    pub(crate) fn sum(&self, rows: Range<usize>, mask: Option<&[u64]>) -> Option<i128> {
        if self.null_code() {
            return None;
        }
        let dictionary = self.dictionary();
        let affine = dictionary.affine_integers();
        if affine.is_none() && !self.is_empty() {
            dictionary.integer_bounds()?;
        }
        let (mut codes, mut values) = (Vec::new(), Vec::new());
        let mut all = 0;
        for first in rows.clone().step_by(SUM_ROWS) {
            let piece = first..rows.end.min(first + SUM_ROWS);
            let mask = mask.map(|mask| &mask[(first - rows.start) / 64..(piece.end - rows.start).div_ceil(64)]);
            let marked = mask.map_or(piece.len(), count);
            codes.clear();
            // Where most are marked, leaving out some while they are added costs less than moving all others.
            let mask = match mask {
                Some(mask) if 2 * marked < piece.len() => {
                    self.compress(piece, mask, &mut codes);
                    None
                }
                mask => {
                    self.unpack(piece, &mut codes);
                    mask.filter(|_| marked < codes.len())
                }
            };
            all += match affine {
                Some((base, step)) => i128::from(base) * marked as i128 + i128::from(step) * sum(&codes, mask),
                None => {
                    values.clear();
                    dictionary.integers(&codes, &mut values);
                    sum_wide(&values, mask)
                }
            };
        }
        Some(all)
    }

    /// Appends the codes of those of `rows` whose bits are set in `mask`, in order: bit `i` stands for row
    /// `rows.start + i`, which is a multiple of 256; bits beyond `rows` are 0. For marked rows close to each other; a
    /// few are better [gathered](Self::gather).
    pub fn compress(&self, rows: Range<usize>, mask: &[u64], out: &mut Vec<u32>) {
        assert!(rows.start.is_multiple_of(BLOCK_ROWS) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert_eq!(mask.len(), rows.len().div_ceil(64));
        let size = block_words(self.bits);
        let words = &self.words()[rows.start / BLOCK_ROWS * size..rows.end.div_ceil(BLOCK_ROWS) * size];
        let whole = mask.len() / MASK_WORDS;
        let (mask, tail) = mask.split_at(whole * MASK_WORDS);
        let (words, words_tail) = words.split_at(whole * size);
        // At once for both parts: the vector may become a result.
        out.reserve(count(mask) + count(tail) + STRIDE);
        let is_full = |block: &[u64]| block.iter().all(|&word| word == u64::MAX);
        let mut done = 0;
        while done < whole {
            let blocks = mask[done * MASK_WORDS..].chunks_exact(MASK_WORDS);
            let full = is_full(&mask[done * MASK_WORDS..(done + 1) * MASK_WORDS]);
            let end = done + blocks.take_while(|block| is_full(block) == full).count();
            match full {
                // Nothing is to be moved.
                true => self.unpack(rows.start + done * BLOCK_ROWS..rows.start + end * BLOCK_ROWS, out),
                false => {
                    let (words, mask) = (&words[done * size..end * size], &mask[done * MASK_WORDS..end * MASK_WORDS]);
                    compress(words, self.bits, mask, out);
                }
            }
            done = end;
        }
        if !tail.is_empty() {
            let mut padded = [0; MASK_WORDS];
            padded[..tail.len()].copy_from_slice(tail);
            compress(words_tail, self.bits, &padded, out);
        }
    }

    /// The code of one row. Many at once: [`gather`](Self::gather).
    #[inline]
    pub fn code(&self, row: usize) -> u32 {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        code_at(self.words(), self.bits, row)
    }

    /// The values of `codes`, in the surface type.
    pub fn materialize(&self, codes: &[u32]) -> ArrayRef {
        self.dictionary.materialize(codes, self.null_code)
    }

    /// The values of `codes` as [`materialize`](Self::materialize) gives them, which may take their memory.
    pub(crate) fn materialize_into(&self, codes: Vec<u32>) -> ArrayRef {
        self.dictionary.materialize_into(codes, self.null_code)
    }

    /// The regions of the codes, unless they take none: one for each copy.
    pub(crate) fn codes(&self) -> Option<&Copies<Arc<Region>>> {
        self.codes.as_ref()
    }

    fn words(&self) -> &[u32] {
        words_of(self.codes.as_ref().map(|copies| copies.near().as_ref()), words_for(self.rows, self.bits))
    }
}

fn test_blocks(words: &[u32], bits: u8, p: &CodePredicate, mask: &mut [u64]) {
    match p {
        CodePredicate::Nothing => mask.fill(0),
        CodePredicate::Everything => {}
        CodePredicate::Range { lo, hi } => {
            select_range(words, bits, RangeTest { lo: *lo, hi: *hi, negated: false }, mask);
        }
        CodePredicate::NotRange { lo, hi } => {
            select_range(words, bits, RangeTest { lo: *lo, hi: *hi, negated: true }, mask);
        }
        CodePredicate::Set(set) => select_set(words, bits, set.words(), mask),
    }
}
