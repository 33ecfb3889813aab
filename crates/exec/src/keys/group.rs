//! [`GroupCodec`]: key columns packed into one number per row, and back.
//!
//! Every key column becomes one or two digits of a number in mixed radix: an integer is its distance from the lower
//! bound, a vid itself (NULL is digit 0 of a nullable column), a float its canonical bits, and whatever has no such
//! digits is interned. The number has one word of 64 bits where the radices fit, else two. Equal keys have equal
//! numbers and the other way round, so nothing is ever compared but numbers.
//!
//! A codec of groups knows its columns' bounds before it sees a row, gives every value a number and gives the value
//! back. A codec of joins ([`crate::operators::aggregate::join`]) is made of one side's rows, has no number for what
//! that side has not, and is never asked for values; one that sorts ([`crate::operators::aggregate::order`]) keeps the
//! order of values and their directions, so that its digits are bits. Floats, byte strings and hashes are the same for
//! all.
//!
//! # Limits
//! Floats inside lists and structs are not canonical: there -0.0 and 0.0 are two keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::float;
use super::hash::{hash, hash_wide};
use super::interner::{Interner, LocalInterner};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector, ints_of_arrow, is_integer, type_bounds};

/// Most words of a number.
const WORDS: usize = 2;

/// A key as one number.
pub(crate) trait GroupKey: Copy + Eq + Ord + Default + Send + Sync + 'static {
    /// Adds to one of its words; word 0 is the lower one.
    fn add(&mut self, word: usize, value: u64);
    /// One of its words.
    fn word(self, word: usize) -> u64;
    /// A well-mixed hash.
    fn hash(self) -> u64;
    /// The lower word.
    fn low(self) -> u64 {
        self.word(0)
    }
}

impl GroupKey for u64 {
    #[inline(always)]
    fn add(&mut self, _word: usize, value: u64) {
        *self = self.wrapping_add(value);
    }
    #[inline(always)]
    fn word(self, _word: usize) -> u64 {
        self
    }
    #[inline(always)]
    fn hash(self) -> u64 {
        hash(self)
    }
}

impl GroupKey for u128 {
    #[inline(always)]
    fn add(&mut self, word: usize, value: u64) {
        *self = self.wrapping_add(u128::from(value) << (64 * word));
    }
    #[inline(always)]
    fn word(self, word: usize) -> u64 {
        (self >> (64 * word)) as u64
    }
    #[inline(always)]
    fn hash(self) -> u64 {
        hash_wide(self)
    }
}

/// What a digit stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digit {
    /// `value - low`, plus one where 0 is NULL.
    Int { key: usize, low: i64, null_digit: bool },
    /// The vid, plus one where 0 is NULL.
    Vid { key: usize, null_digit: bool },
    /// Canonical bits; 0 for NULL.
    Float { key: usize },
    /// 1 for NULL.
    Null { key: usize },
    /// The id of all interned columns together.
    Interned,
}

#[derive(Debug, Clone, Copy)]
struct DigitPlace {
    digit: Digit,
    word: usize,
    stride: u64,
    /// How many values it has: at most 2^64.
    radix: u128,
}

/// Packs some columns of chunks into a number per row.
pub(crate) struct GroupCodec {
    columns: Vec<usize>,
    infos: Vec<ColumnInfo>,
    placed: Vec<DigitPlace>,
    words: usize,
    /// Numbers lie below this; of all words.
    domain: Option<u64>,
    interned: Option<InternedKeys>,
}

struct InternedKeys {
    /// Which of the keys.
    keys: Vec<usize>,
    interner: Interner,
}

/// What a worker needs to encode.
#[derive(Default)]
pub(crate) struct GroupScratch {
    interner: LocalInterner,
    ids: Vec<u32>,
}

impl GroupScratch {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.interner.bytes() + 4 * self.ids.capacity() as u64
    }
}

/// What is known of a column once narrow integers have become integers, which [`load`] does.
pub(crate) fn loaded_info(info: &ColumnInfo) -> ColumnInfo {
    match (&info.kind, type_bounds(info.data_type())) {
        (ColumnKind::Arrow, Some((low, high))) if is_integer(info.data_type()) => {
            ColumnInfo::int(info.field.clone(), low, high, info.nullable)
        }
        _ => info.clone(),
    }
}

/// A column of a chunk as [`loaded_info`] says.
pub(crate) fn load(chunk: &mut Chunk, column: usize, info: &ColumnInfo) -> Arc<Vector> {
    let vector = chunk.column(column);
    match (&vector.data, &info.kind) {
        (Data::Arrow(array), ColumnKind::Int { .. }) => {
            let valid = array.logical_nulls().filter(|n| n.null_count() > 0).map(|n| n.iter().collect());
            Arc::new(Vector { data: Data::Int(ints_of_arrow(array.as_ref())), valid })
        }
        _ => vector,
    }
}

impl GroupCodec {
    /// A codec of `columns` of chunks of which `infos` are known, into numbers of at most `words` words.
    pub(crate) fn new(columns: &[usize], infos: &[ColumnInfo], words: usize) -> Result<GroupCodec, ExecError> {
        let infos: Vec<ColumnInfo> = columns.iter().map(|&c| loaded_info(&infos[c])).collect();
        let plain = |key: usize| !matches!(infos[key].kind, ColumnKind::Arrow);
        let (digits, rest): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(|&key| plain(key));
        let mut wanted: Vec<(Digit, u128)> = digits.iter().flat_map(|&key| digits_of(key, &infos[key])).collect();
        if !rest.is_empty() {
            wanted.push((Digit::Interned, 1 << 32));
        }
        let (placed, rest) = match place(&wanted, words.min(WORDS)) {
            Some(placed) => (placed, rest),
            None => {
                let all = place(&[(Digit::Interned, 1 << 32)], 1).expect("32 bits fit");
                (all, (0..columns.len()).collect())
            }
        };
        let words = placed.iter().map(|p| p.word + 1).max().unwrap_or(1);
        let total = placed.iter().try_fold(1u128, |all, p| all.checked_mul(p.radix));
        let domain = total.and_then(|t| u64::try_from(t).ok());
        let interned = match rest.is_empty() {
            true => None,
            false => {
                let types = rest.iter().map(|&key| interned_type(&infos[key])).collect();
                Some(InternedKeys { keys: rest, interner: Interner::new(types)? })
            }
        };
        Ok(GroupCodec { columns: columns.to_vec(), infos, placed, words, domain, interned })
    }

    /// Are there no columns?
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Words of a number: 1 or 2.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Every number lies below this, where that fits 64 bits.
    pub(crate) fn domain(&self) -> Option<u64> {
        self.domain
    }

    /// Bytes that all workers share.
    pub(crate) fn bytes(&self) -> u64 {
        self.interned.as_ref().map_or(0, |i| i.interner.bytes())
    }

    /// The numbers of a chunk's rows.
    pub(crate) fn encode<K: GroupKey>(
        &self,
        chunk: &mut Chunk,
        encoding: &mut GroupScratch,
        keys: &mut Vec<K>,
    ) -> Result<(), ExecError> {
        keys.clear();
        keys.resize(chunk.rows(), K::default());
        for placed in &self.placed {
            let Some(key) = placed.digit.key() else {
                let interned = self.interned.as_ref().expect("a digit of interned columns has some");
                self.intern(interned, chunk, encoding)?;
                add_digits(keys, placed, encoding.ids.iter().map(|&id| u64::from(id)));
                continue;
            };
            let vector = load(chunk, self.columns[key], &self.infos[key]);
            match (placed.digit, &vector.data, &vector.valid) {
                (Digit::Int { low, null_digit, .. }, Data::Int(values), valid) => {
                    let shift = u64::from(null_digit);
                    let digits = values.iter().map(|v| v.wrapping_sub(low) as u64);
                    match valid {
                        None => add_digits(keys, placed, digits.map(|d| d.wrapping_add(shift))),
                        Some(valid) => {
                            add_digits(keys, placed, masked(digits.map(|d| d.wrapping_add(shift)), valid));
                        }
                    }
                }
                (Digit::Vid { null_digit, .. }, Data::Vid(vids), valid) => {
                    let shift = u64::from(null_digit);
                    let digits = vids.iter().map(|&v| u64::from(v) + shift);
                    match valid {
                        None => add_digits(keys, placed, digits),
                        Some(valid) => add_digits(keys, placed, masked(digits, valid)),
                    }
                }
                (Digit::Float { .. }, Data::Float(values), valid) => {
                    let digits = values.iter().map(|&v| float::bits(v));
                    match valid {
                        None => add_digits(keys, placed, digits),
                        Some(valid) => add_digits(keys, placed, masked(digits, valid)),
                    }
                }
                (Digit::Null { .. }, _, None) => {}
                (Digit::Null { .. }, _, Some(valid)) => {
                    add_digits(keys, placed, valid.iter().map(|&v| u64::from(!v)));
                }
                _ => unreachable!("a vector has the kind of its column"),
            }
        }
        Ok(())
    }

    fn intern(&self, interned: &InternedKeys, chunk: &mut Chunk, encoding: &mut GroupScratch) -> Result<(), ExecError> {
        let arrays: Vec<ArrayRef> = interned
            .keys
            .iter()
            .map(|&key| interned_array(&load(chunk, self.columns[key], &self.infos[key])))
            .collect();
        interned.interner.intern(&arrays, &mut encoding.interner, &mut encoding.ids)
    }

    /// The columns that some numbers stand for, and what is known of them.
    pub(crate) fn decode<K: GroupKey>(&self, keys: &[K]) -> Result<Vec<(ColumnInfo, Vector)>, ExecError> {
        let mut valid: Vec<Option<Vec<bool>>> = vec![None; self.infos.len()];
        let mut data: Vec<Option<Vector>> = vec![None; self.infos.len()];
        for placed in &self.placed {
            let digits: Vec<u64> = self.digits(placed, keys);
            match placed.digit {
                Digit::Int { key, low, null_digit } => {
                    let shift = low.wrapping_sub(i64::from(null_digit));
                    let nulls = null_digit.then(|| digits.iter().map(|&d| d != 0).collect::<Vec<bool>>());
                    let mut values: Vec<i64> = digits.into_iter().map(|d| shift.wrapping_add(d as i64)).collect();
                    if let Some(nulls) = nulls {
                        values.iter_mut().zip(&nulls).for_each(|(v, &valid)| *v = if valid { *v } else { low });
                        valid[key] = Some(nulls);
                    }
                    data[key] = Some(Vector::ints(values));
                }
                Digit::Vid { key, null_digit } => {
                    let vids = digits.iter().map(|&d| (d as u32).saturating_sub(u32::from(null_digit))).collect();
                    valid[key] = null_digit.then(|| digits.iter().map(|&d| d != 0).collect());
                    data[key] = Some(Vector { data: Data::Vid(vids), valid: None });
                }
                Digit::Float { key } => {
                    let values = digits.into_iter().map(f64::from_bits).collect();
                    data[key] = Some(Vector { data: Data::Float(values), valid: None });
                }
                Digit::Null { key } => valid[key] = Some(digits.iter().map(|&d| d == 0).collect()),
                Digit::Interned => {
                    let interned = self.interned.as_ref().expect("a digit of interned columns has some");
                    let ids: Vec<u32> = digits.iter().map(|&d| d as u32).collect();
                    for (&key, array) in interned.keys.iter().zip(interned.interner.arrays(&ids)?) {
                        let vector = of_interned(&array, &self.infos[key]);
                        valid[key] = vector.valid.clone();
                        data[key] = Some(vector);
                    }
                }
            }
        }
        let columns = data.into_iter().zip(valid).zip(&self.infos).map(|((vector, valid), info)| {
            let mut vector = vector.expect("every key has a digit");
            vector.valid = valid.filter(|v| v.contains(&false));
            (info.clone(), vector)
        });
        Ok(columns.collect())
    }

    fn digits<K: GroupKey>(&self, placed: &DigitPlace, keys: &[K]) -> Vec<u64> {
        // A digit of 2^64 values has its word to itself, but for digits of one value, which add nothing.
        if placed.radix == 1 {
            return vec![0; keys.len()];
        }
        if placed.radix > u128::from(u64::MAX) {
            return keys.iter().map(|k| k.word(placed.word)).collect();
        }
        let top = !self.placed.iter().any(|p| p.word == placed.word && p.stride > placed.stride);
        if placed.radix == 1 {
            return vec![0; keys.len()];
        }
        let (word, stride, radix) = (placed.word, placed.stride, placed.radix as u64);
        match (stride, top) {
            (1, true) => keys.iter().map(|k| k.word(word)).collect(),
            (1, false) => keys.iter().map(|k| k.word(word) % radix).collect(),
            (_, true) => keys.iter().map(|k| k.word(word) / stride).collect(),
            (_, false) => keys.iter().map(|k| k.word(word) / stride % radix).collect(),
        }
    }
}

impl Digit {
    fn key(self) -> Option<usize> {
        match self {
            Digit::Int { key, .. } | Digit::Vid { key, .. } | Digit::Float { key } | Digit::Null { key } => Some(key),
            Digit::Interned => None,
        }
    }
}

#[inline(always)]
fn masked<'a>(digits: impl Iterator<Item = u64> + 'a, valid: &'a [bool]) -> impl Iterator<Item = u64> + 'a {
    digits.zip(valid).map(|(digit, &valid)| if valid { digit } else { 0 })
}

#[inline(always)]
fn add_digits<K: GroupKey>(keys: &mut [K], placed: &DigitPlace, digits: impl Iterator<Item = u64>) {
    let (word, stride) = (placed.word, placed.stride);
    if stride == 1 {
        keys.iter_mut().zip(digits).for_each(|(key, digit)| key.add(word, digit));
    } else {
        keys.iter_mut().zip(digits).for_each(|(key, digit)| key.add(word, digit.wrapping_mul(stride)));
    }
}

/// Digits of a column that needs no interning, with their radices.
fn digits_of(key: usize, info: &ColumnInfo) -> Vec<(Digit, u128)> {
    let null = (Digit::Null { key }, 2);
    match &info.kind {
        ColumnKind::Int { low, high } => {
            let radix = (i128::from(*high) - i128::from(*low)) as u128 + 1;
            match (info.nullable, radix < 1 << 64) {
                (true, true) => vec![(Digit::Int { key, low: *low, null_digit: true }, radix + 1)],
                (true, false) => vec![(Digit::Int { key, low: *low, null_digit: false }, radix), null],
                (false, _) => vec![(Digit::Int { key, low: *low, null_digit: false }, radix)],
            }
        }
        ColumnKind::Vid(dictionary) => {
            let nulls = u128::from(info.nullable);
            let radix = (dictionary.len() as u128 + nulls).max(1);
            vec![(Digit::Vid { key, null_digit: info.nullable }, radix)]
        }
        ColumnKind::Float if info.nullable => vec![(Digit::Float { key }, 1 << 64), null],
        ColumnKind::Float => vec![(Digit::Float { key }, 1 << 64)],
        ColumnKind::Arrow => unreachable!("such columns are interned"),
    }
}

/// Digits put into words, the widest first into the first word that has room; `None` where they do not fit.
fn place(wanted: &[(Digit, u128)], words: usize) -> Option<Vec<DigitPlace>> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(wanted[i].1));
    let mut used = vec![1u128; words];
    let mut placed: Vec<Option<DigitPlace>> = vec![None; wanted.len()];
    // One word for all, in the order of keys, keeps neighbours together.
    let product = wanted.iter().try_fold(1u128, |all, (_, radix)| all.checked_mul(*radix));
    if product.is_some_and(|p| p <= 1 << 64) {
        order = (0..wanted.len()).rev().collect();
    }
    for i in order {
        let (digit, radix) = wanted[i];
        let fits = |used: u128| used.checked_mul(radix).is_some_and(|all| all <= 1 << 64);
        let word = (0..words).find(|&w| fits(used[w]))?;
        // A stride of 2^64 is only reached by digits of radix 1, which are always 0.
        placed[i] = Some(DigitPlace { digit, word, stride: used[word] as u64, radix });
        used[word] *= radix;
    }
    placed.into_iter().collect()
}

/// How an interned column is interned.
fn interned_type(info: &ColumnInfo) -> DataType {
    match info.kind {
        ColumnKind::Int { .. } => DataType::Int64,
        ColumnKind::Float => DataType::Float64,
        ColumnKind::Vid(_) => DataType::UInt32,
        ColumnKind::Arrow => info.data_type().clone(),
    }
}

fn interned_array(vector: &Vector) -> ArrayRef {
    let nulls = || vector.valid.as_ref().map(|v| NullBuffer::from(v.as_slice()));
    match &vector.data {
        Data::Int(values) => Arc::new(Int64Array::new(values.clone().into(), nulls())),
        Data::Vid(vids) => Arc::new(UInt32Array::new(vids.clone().into(), nulls())),
        Data::Float(values) => {
            let values: Vec<f64> = values.iter().map(|&v| float::one(v)).collect();
            Arc::new(Float64Array::new(values.into(), nulls()))
        }
        Data::Arrow(array) => float::one_of_each(array),
    }
}

/// A column as it was before [`interned_array`].
fn of_interned(array: &ArrayRef, info: &ColumnInfo) -> Vector {
    let valid = || -> Option<Vec<bool>> { array.nulls().filter(|n| n.null_count() > 0).map(|n| n.iter().collect()) };
    match info.kind {
        ColumnKind::Arrow => Vector { data: Data::Arrow(array.clone()), valid: None },
        ColumnKind::Int { low, .. } => {
            let values = array.as_primitive::<arrow::datatypes::Int64Type>();
            let values = values.iter().map(|v| v.unwrap_or(low)).collect();
            Vector { data: Data::Int(values), valid: valid() }
        }
        ColumnKind::Float => {
            let values = array.as_primitive::<arrow::datatypes::Float64Type>();
            Vector { data: Data::Float(values.iter().map(|v| v.unwrap_or(0.0)).collect()), valid: valid() }
        }
        ColumnKind::Vid(_) => {
            let vids = array.as_primitive::<arrow::datatypes::UInt32Type>();
            Vector { data: Data::Vid(vids.iter().map(|v| v.unwrap_or(0)).collect()), valid: valid() }
        }
    }
}
