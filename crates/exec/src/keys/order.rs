//! Keys of rows as words that compare as the keys do, and as bytes where no word is wide enough.
//!
//! A key column of `n` possible values (NULL included) takes the bits of `n - 1`; the first key takes the highest bits.
//! Integers are counted from their lower bound, or down from the upper one if descending; vids are their own ranks;
//! floats are their bits in order, with one zero and one NaN; NULL is the rank below or above all values. Bits rather
//! than the mixed radix of groups ([`crate::operators::sort::group`]): a prefix of the keys is then a shift of the
//! word.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows as ByteRows, SortField};

use super::float;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::plan::SortKey;
use crate::tasks::run::Run;

/// Rows between two looks at the statement where keys are bytes.
pub(crate) const CHECK_ROWS: usize = 4096;

/// An unsigned word that keys are packed into.
pub(crate) trait Word: Copy + Ord + Send + Sync + Default + std::fmt::Debug {
    /// Number of bits.
    const BITS: u32;
    /// The same number.
    fn of(value: u64) -> Self;
    /// The lowest 64 bits.
    fn low(self) -> u64;
    /// `self << bits | other`; `bits` below [`BITS`](Self::BITS).
    fn then(self, bits: u32, other: Self) -> Self;
    /// Without the lowest bits; 0 if those are all.
    fn without(self, bits: u32) -> Self;
    /// One more, modulo the word.
    fn next(self) -> Self;
    /// Sorts words.
    fn sort(words: &mut [Self]);
}

/// Sorts words of 128 bits: those that differ in few of them, as the words of one range do, by half as many.
fn sort_wide(words: &mut [u128]) {
    let (low, high) = words.iter().fold((u128::MAX, 0), |(low, high), &word| (low.min(word), high.max(word)));
    if words.len() < 2 || high - low > u128::from(u64::MAX) {
        words.sort_unstable();
        return;
    }
    let mut narrow: Vec<u64> = words.iter().map(|&word| (word - low) as u64).collect();
    narrow.sort_unstable();
    words.iter_mut().zip(narrow).for_each(|(word, above)| *word = low + u128::from(above));
}

macro_rules! word {
    ($($t:ty, $sort:expr);*) => {$(
        impl Word for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline]
            fn of(value: u64) -> Self {
                value as $t
            }
            #[inline]
            fn low(self) -> u64 {
                self as u64
            }
            #[inline]
            fn then(self, bits: u32, other: Self) -> Self {
                self << bits | other
            }
            #[inline]
            fn without(self, bits: u32) -> Self {
                self.checked_shr(bits).unwrap_or(0)
            }
            #[inline]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }
            fn sort(words: &mut [Self]) {
                $sort(words)
            }
        }
    )*};
}

word!(u64, <[u64]>::sort_unstable; u128, sort_wide);

/// One key column in a word. The rank of a value `v` is `(v ^ flip) - base`, and one more if NULLs come first.
struct KeyRank {
    column: usize,
    flip: u64,
    base: u64,
    /// Bits of the ranks.
    bits: u32,
    /// Number of ranks less one.
    last: u128,
    /// Whether a NULL may come, and if so whether it is first.
    nulls_first: Option<bool>,
}

/// Keys in one word of [`bits`](Self::bits) bits.
pub(crate) struct WordLayout {
    parts: Vec<KeyRank>,
    /// Bits of all parts together.
    pub(crate) bits: u32,
}

/// Keys as bytes.
pub(crate) struct ByteLayout {
    columns: Vec<(usize, ColumnInfo)>,
    fields: Vec<SortField>,
}

/// How the keys of a row are compared.
pub(crate) enum OrderLayout {
    /// As a word of at most 128 bits; where row numbers do not fit beside them, as bytes.
    Words(WordLayout, ByteLayout),
    /// As bytes.
    Bytes(ByteLayout),
}

impl OrderLayout {
    /// For columns of which `infos` are known.
    pub(crate) fn new(keys: &[SortKey], infos: &[ColumnInfo]) -> Result<OrderLayout, ExecError> {
        let bytes = ByteLayout::new(keys, infos);
        let parts: Option<Vec<KeyRank>> = keys.iter().map(|key| KeyRank::new(key, &infos[key.column])).collect();
        if let Some(mut parts) = parts {
            // The only possible value tells nothing, and a shift by all bits of a word would not be one.
            parts.retain(|part| part.bits > 0);
            let bits = parts.iter().map(|part| part.bits).sum();
            if bits <= u128::BITS {
                return Ok(OrderLayout::Words(WordLayout { parts, bits }, bytes));
            }
        }
        bytes.check()?;
        Ok(OrderLayout::Bytes(bytes))
    }
}

impl KeyRank {
    fn new(key: &SortKey, info: &ColumnInfo) -> Option<KeyRank> {
        let (low, high, values) = match &info.kind {
            ColumnKind::Int { low, high } => (*low as u64, *high as u64, high.abs_diff(*low)),
            ColumnKind::Vid(dictionary) => {
                let last = (dictionary.len() as u64).saturating_sub(1);
                (0, last, last)
            }
            ColumnKind::Float => (0, u64::MAX, u64::MAX),
            ColumnKind::Arrow => return None,
        };
        let last = u128::from(values) + u128::from(info.nullable);
        let (flip, base) = if key.descending { (u64::MAX, !high) } else { (0, low) };
        let bits = u128::BITS - last.leading_zeros();
        let nulls_first = info.nullable.then_some(key.nulls_first);
        Some(KeyRank { column: key.column, flip, base, bits, last, nulls_first })
    }

    /// Puts the ranks of some rows of a column behind what the words have.
    fn add<W: Word>(&self, vector: &Vector, rows: Range<usize>, words: &mut [W], first: bool) {
        let valid = vector.valid.as_ref().map(|valid| &valid[rows.clone()]);
        match &vector.data {
            Data::Int(values) => self.add_of(values[rows].iter().map(|&v| v as u64), valid, words, first),
            Data::Vid(vids) => self.add_of(vids[rows].iter().map(|&v| u64::from(v)), valid, words, first),
            Data::Float(values) => self.add_of(values[rows].iter().map(|&v| float::rank(v)), valid, words, first),
            Data::Arrow(_) => unreachable!("arrays are compared as bytes"),
        }
    }

    fn add_of<W: Word>(&self, raw: impl Iterator<Item = u64>, valid: Option<&[bool]>, words: &mut [W], first: bool) {
        let (flip, base, bits) = (self.flip, self.base, if first { 0 } else { self.bits });
        let rank = |v: u64| W::of((v ^ flip).wrapping_sub(base));
        let null = if self.nulls_first == Some(true) { W::of(0) } else { self.last_rank() };
        match (valid, self.nulls_first) {
            (None, Some(true)) => words.iter_mut().zip(raw).for_each(|(w, v)| *w = w.then(bits, rank(v).next())),
            (None, _) => words.iter_mut().zip(raw).for_each(|(w, v)| *w = w.then(bits, rank(v))),
            (Some(valid), first) => {
                let first = first == Some(true);
                for ((w, v), &valid) in words.iter_mut().zip(raw).zip(valid) {
                    let value = if first { rank(v).next() } else { rank(v) };
                    *w = w.then(bits, if valid { value } else { null });
                }
            }
        }
    }

    /// The largest rank. It fits: a column whose ranks need more bits than a word has is not packed into that word.
    fn last_rank<W: Word>(&self) -> W {
        let high = (self.last >> 64) as u64;
        if high == 0 { W::of(self.last as u64) } else { W::of(high).then(W::BITS / 2, W::of(self.last as u64)) }
    }
}

impl WordLayout {
    /// Columns that it reads, first key first; without those that tell nothing.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().map(|part| part.column)
    }

    /// Bits behind the first key's.
    pub(crate) fn bits_after_first(&self) -> u32 {
        self.parts.iter().skip(1).map(|part| part.bits).sum()
    }

    /// Bits behind those of the first `prefix` of the keys that it was made of.
    pub(crate) fn bits_behind(&self, keys: &[SortKey], prefix: usize) -> u32 {
        // Keys that tell nothing have no part: the parts of the others come in their order.
        let mut parts = self.parts.iter();
        let mut bits = self.bits;
        for key in &keys[..prefix] {
            if let Some(part) = parts.as_slice().first().filter(|part| part.column == key.column) {
                bits -= part.bits;
                parts.next();
            }
        }
        bits
    }

    /// Fills `words` with the keys of some rows; `column` gives whole columns.
    pub(crate) fn words<W: Word>(
        &self,
        rows: Range<usize>,
        mut column: impl FnMut(usize) -> Arc<Vector>,
        words: &mut Vec<W>,
    ) {
        debug_assert!(self.bits <= W::BITS);
        words.clear();
        words.resize(rows.len(), W::default());
        for (number, part) in self.parts.iter().enumerate() {
            part.add(&column(part.column), rows.clone(), words, number == 0);
        }
    }

    /// As [`words`](Self::words), of the first key alone.
    pub(crate) fn first_words<W: Word>(&self, column: &Vector, words: &mut Vec<W>) {
        words.clear();
        words.resize(column.len(), W::default());
        self.parts[0].add(column, 0..column.len(), words, true);
    }
}

impl ByteLayout {
    /// Of columns of which `infos` are known.
    pub(crate) fn new(keys: &[SortKey], infos: &[ColumnInfo]) -> ByteLayout {
        let field = |key: &SortKey| {
            let info = &infos[key.column];
            let data_type = match info.kind {
                ColumnKind::Int { .. } => DataType::Int64,
                ColumnKind::Vid(_) => DataType::UInt32,
                ColumnKind::Float | ColumnKind::Arrow => info.data_type().clone(),
            };
            SortField::new_with_options(data_type, SortOptions::new(key.descending, key.nulls_first))
        };
        let columns = keys.iter().map(|key| (key.column, infos[key.column].clone())).collect();
        ByteLayout { columns, fields: keys.iter().map(field).collect() }
    }

    fn check(&self) -> Result<(), ExecError> {
        if RowConverter::supports_fields(&self.fields) {
            return Ok(());
        }
        let types: Vec<String> = self.columns.iter().map(|(_, info)| info.data_type().to_string()).collect();
        Err(ExecError::Evaluation(format!("rows cannot be ordered by values of {}", types.join(", "))))
    }

    /// The keys of a few rows, comparable with those that any other call gives.
    pub(crate) fn of_chunk(
        &self,
        rows: usize,
        column: impl FnMut(usize) -> Arc<Vector>,
    ) -> Result<ByteRows, ExecError> {
        let columns: Vec<Arc<Vector>> = self.columns.iter().map(|(c, _)| *c).map(column).collect();
        let of = |((_, info), column): (&(usize, ColumnInfo), &Arc<Vector>)| comparable(info, column, 0..rows);
        let arrays: Vec<ArrayRef> = self.columns.iter().zip(&columns).map(of).collect();
        Ok(RowConverter::new(self.fields.clone())?.convert_columns(&arrays)?)
    }

    /// The keys of some rows, comparable with those that any other call gives; now and then looks whether to go on.
    pub(crate) fn rows(
        &self,
        rows: Range<usize>,
        mut column: impl FnMut(usize) -> Arc<Vector>,
        run: &Run<'_>,
    ) -> Result<ByteRows, ExecError> {
        let converter = RowConverter::new(self.fields.clone())?;
        if self.columns.is_empty() {
            return Ok(converter.empty_rows(0, 0));
        }
        let columns: Vec<Arc<Vector>> = self.columns.iter().map(|(c, _)| column(*c)).collect();
        let mut keys = converter.empty_rows(rows.len(), 0);
        for start in rows.clone().step_by(CHECK_ROWS) {
            run.check()?;
            let some = start..(start + CHECK_ROWS).min(rows.end);
            let of = |((_, info), column): (&(usize, ColumnInfo), &Arc<Vector>)| comparable(info, column, some.clone());
            let arrays: Vec<ArrayRef> = self.columns.iter().zip(&columns).map(of).collect();
            converter.append(&mut keys, &arrays)?;
        }
        Ok(keys)
    }
}

/// Some rows of a column as an array that sorts as its values do.
fn comparable(info: &ColumnInfo, vector: &Vector, rows: Range<usize>) -> ArrayRef {
    let nulls = vector.valid.as_ref().map(|valid| NullBuffer::from(&valid[rows.clone()]));
    match &vector.data {
        Data::Int(values) => Arc::new(Int64Array::new(values[rows].to_vec().into(), nulls)),
        Data::Vid(vids) => Arc::new(UInt32Array::new(vids[rows].to_vec().into(), nulls)),
        Data::Float(values) => {
            let values: Vec<f64> = values[rows].iter().map(|&v| float::one(v)).collect();
            Arc::new(Float64Array::new(values.into(), nulls))
        }
        Data::Arrow(_) => {
            let array = info.to_arrow(&vector.slice(rows.start, rows.len()));
            float::one_of_each(&array)
        }
    }
}
