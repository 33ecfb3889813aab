//! [`KeyFilter`]: the keys that one side of a join has, for the scans of the other side to leave out what cannot match.
//!
//! Integers that lie close together and vids get a bit each; integers far apart a [`Bloom`] filter. Where the scanned column has codes, and not
//! too many, the keys become a set of those ([`on_codes`](KeyFilter::on_codes)); elsewhere values are tested row by row
//! ([`passing`](KeyFilter::passing)). What passes may still have no match: the join tests it again.
//!
//! # Limits
//! Integers and strings of a dictionary only, each key column on its own. A filter that would let nearly all codes pass lets all of them pass.

mod bloom;
#[cfg(test)]
mod tests;
mod worth;

use std::sync::Arc;

use numa::Reservation;
use storage::{CodePredicate, CodeSet, Dictionary};

use super::Run;
use super::vector::{ColumnInfo, Data, Kind, Vector};
use crate::ExecError;
use bloom::Bloom;
pub(crate) use worth::{Most, Worth};

/// Integers get a bit each while these take no more bits than this, or so many per row. Bits that are never set cost next to nothing.
const BITS_MAX: u64 = 1 << 26;
const BITS_PER_ROW: u64 = 64;

/// Keys are listed as well as marked up to this many rows.
const FEW_MAX: usize = 4096;

/// Codes of a dictionary that is no arithmetic progression are decoded in pieces of this many, and such pieces are put together to tasks.
const DECODED: usize = 4096;
const DECODED_TASK: usize = 16 * DECODED;

/// Of larger dictionaries so many entries are asked first: where these show that nearly all pass, the others are not.
const SAMPLED: usize = 1024;

/// A few keys are looked up in a dictionary rather than its entries in them, where it has at least so many entries for each.
const ENTRIES_PER_LOOK_UP: usize = 32;

/// Values between two looks at the statement: texts may be long.
const CHECK_VALUES: usize = 4096;

/// Another dictionary's entries are compared one by one up to this many.
const MERGED_ENTRIES: usize = 64 << 10;

/// A set of key values; a superset would do as well.
#[derive(Debug)]
pub(crate) enum KeyFilter {
    /// Integers: bit `i` stands for `base + i`.
    Integers {
        /// The value of bit 0.
        base: i64,
        /// Number of bits.
        len: usize,
        /// The bits.
        bits: Bits,
        /// The values, ascending, where they are few.
        few: Option<Vec<i64>>,
    },
    /// Integers that are far apart.
    Scattered {
        /// The lowest.
        low: i64,
        /// The highest.
        high: i64,
        /// All, ascending, where they are few.
        few: Option<Vec<i64>>,
        /// All, where they are not too many.
        bloom: Option<Bloom>,
    },
    /// Vids of a dictionary, and again as a list where they are few.
    Vids(Arc<Dictionary>, Bits, Option<Vec<u32>>),
}

/// Keys that may be looked up one by one.
pub(crate) enum FewKeys<'a> {
    /// Integers.
    Integers(&'a [i64]),
    /// Vids of a dictionary.
    Vids(&'a Arc<Dictionary>, &'a [u32]),
}

impl FewKeys<'_> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            FewKeys::Integers(values) => values.len(),
            FewKeys::Vids(_, vids) => vids.len(),
        }
    }
}

/// What a filter says of a column's codes.
#[derive(Debug, Clone)]
pub(crate) struct OnCodes {
    /// The codes that may match, perhaps some more; `None` where codes do not tell.
    pub(crate) predicate: Option<CodePredicate>,
    /// Would testing values ([`KeyFilter::passing`]) leave out more?
    pub(crate) values_tell_more: bool,
}

impl OnCodes {
    fn all(predicate: CodePredicate) -> OnCodes {
        OnCodes { predicate: Some(predicate), values_tell_more: false }
    }
}

/// Bits, charged to the statement.
#[derive(Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    _charged: Reservation,
}

impl Bits {
    fn new(bits: usize, run: &Run<'_>) -> Result<Bits, ExecError> {
        let words = bits.div_ceil(64);
        let charged = run.reserve(8 * words as u64)?;
        Ok(Bits { words: vec![0; words], _charged: charged })
    }
}

impl KeyFilter {
    /// The values of a column; `None` where codes could not tell them, or where a NULL counts (`nulls_equal`) and is there.
    ///
    /// # Errors
    /// The statement's budget has no room for the bits.
    pub(crate) fn of(
        info: &ColumnInfo,
        vector: &Vector,
        nulls_equal: bool,
        run: &Run<'_>,
    ) -> Result<Option<KeyFilter>, ExecError> {
        let rows = vector.len();
        if nulls_equal && info.nullable && (0..rows).any(|row| !vector.is_valid(row)) {
            return Ok(None);
        }
        Ok(match (&vector.data, &info.kind) {
            (Data::Vid(vids), Kind::Vid(dictionary)) => {
                let mut bits = Bits::new(dictionary.len(), run)?;
                set_bits(&mut bits.words, vids.iter().map(|&vid| vid as usize), vector);
                Some(KeyFilter::Vids(dictionary.clone(), bits, few_of(vids, vector)))
            }
            (Data::Int(values), _) => {
                let Some((low, high)) = super::join::tight_bounds(info, vector) else { return Ok(None) };
                let span = (high.wrapping_sub(low) as u64).saturating_add(1);
                let few = few_of(values, vector);
                if span > BITS_MAX.max(BITS_PER_ROW * rows as u64) {
                    let bloom = Bloom::of(vector, run)?;
                    return Ok(Some(KeyFilter::Scattered { low, high, few, bloom }));
                }
                let mut bits = Bits::new(span as usize, run)?;
                set_bits(&mut bits.words, values.iter().map(|&value| value.wrapping_sub(low) as usize), vector);
                Some(KeyFilter::Integers { base: low, len: span as usize, bits, few })
            }
            _ => None,
        })
    }

    /// The keys, where they are few.
    pub(crate) fn few(&self) -> Option<FewKeys<'_>> {
        match self {
            KeyFilter::Integers { few: Some(few), .. } | KeyFilter::Scattered { few: Some(few), .. } => {
                Some(FewKeys::Integers(few))
            }
            KeyFilter::Vids(dictionary, _, Some(few)) => Some(FewKeys::Vids(dictionary, few)),
            _ => None,
        }
    }

    /// Can [`passing`](Self::passing) tell anything of a column's values?
    pub(crate) fn tells_values(&self, info: &ColumnInfo) -> bool {
        !matches!(self, KeyFilter::Vids(..)) && matches!(info.kind, Kind::Int { .. })
    }

    /// Which rows of an integer column may have a key: their numbers, ascending; `kept` is overwritten. NULL has none.
    pub(crate) fn passing(&self, vector: &Vector, kept: &mut Vec<u32>) {
        let (values, valid) = (vector.as_ints(), vector.valid.as_deref());
        match self {
            KeyFilter::Integers { base, len, bits, .. } => {
                let (base, last) = (*base, *len as u64 - 1);
                keep(values, valid, kept, |value| {
                    let at = value.wrapping_sub(base) as u64;
                    let within = at.min(last);
                    (at <= last) & (bits.words[(within / 64) as usize] >> (within % 64) & 1 == 1)
                });
            }
            KeyFilter::Scattered { bloom: Some(bloom), .. } => keep(values, valid, kept, |value| bloom.may_have(value)),
            KeyFilter::Scattered { .. } | KeyFilter::Vids(..) => {
                keep(values, valid, kept, |value| self.has_integer(value));
            }
        }
    }

    /// May this integer be a key?
    pub(crate) fn has_integer(&self, value: i64) -> bool {
        match self {
            KeyFilter::Integers { base, len, bits, .. } => {
                let at = value.wrapping_sub(*base) as u64;
                value >= *base && at < *len as u64 && bits.words[(at / 64) as usize] >> (at % 64) & 1 == 1
            }
            KeyFilter::Scattered { bloom: Some(bloom), .. } => bloom.may_have(value),
            KeyFilter::Scattered { few: Some(few), .. } => few.binary_search(&value).is_ok(),
            KeyFilter::Scattered { low, high, .. } => (*low..=*high).contains(&value),
            KeyFilter::Vids(..) => true,
        }
    }

    /// What it says of the codes of a column of a table of `rows` rows, of which a dictionary of more than `entries_max` entries is
    /// not looked at entry by entry.
    ///
    /// # Errors
    /// The statement is to stop.
    pub(crate) fn on_codes(
        &self,
        dictionary: &Arc<Dictionary>,
        null_code: bool,
        (rows, entries_max): (usize, usize),
        run: &Run<'_>,
    ) -> Result<OnCodes, ExecError> {
        let (shift, vids) = (usize::from(null_code), dictionary.len());
        let nothing_told = OnCodes { predicate: None, values_tell_more: !matches!(self, KeyFilter::Vids(..)) };
        if vids == 0 {
            return Ok(OnCodes::all(CodePredicate::Nothing));
        }
        let mut words = match self {
            KeyFilter::Vids(..) if vids > entries_max => return Ok(nothing_told),
            KeyFilter::Vids(own, bits, _) => {
                let translated = if Arc::ptr_eq(own, dictionary) {
                    None
                } else {
                    let Some(translated) = translated(own, &bits.words, dictionary, run)? else {
                        return Ok(nothing_told);
                    };
                    Some(translated)
                };
                let bits = translated.as_deref().unwrap_or(&bits.words);
                window_of(bits, -(shift as i64), vids + shift)
            }
            _ if dictionary.integer_bounds().is_none() => return Ok(nothing_told),
            KeyFilter::Scattered { few: Some(few), .. } if few.len() * ENTRIES_PER_LOOK_UP < vids => {
                let vids = few.iter().filter_map(|&key| vid_of(dictionary, key));
                let codes = vids.map(|vid| (vid + shift) as u32).collect();
                return Ok(OnCodes::all(set_of(codes, dictionary.len() + shift)));
            }
            // Entries cost as much as rows that are tested by value: as many as there are rows at most.
            KeyFilter::Scattered { low, high, bloom, .. } if bloom.is_none() || vids > rows.min(entries_max) => {
                let predicate = range_of(dictionary, (*low, *high), shift);
                return Ok(OnCodes { predicate: Some(predicate), values_tell_more: bloom.is_some() });
            }
            KeyFilter::Integers { base, len, .. } if vids > entries_max => {
                let predicate = range_of(dictionary, (*base, base + (*len as i64 - 1)), shift);
                return Ok(OnCodes { predicate: Some(predicate), values_tell_more: true });
            }
            KeyFilter::Integers { base, bits, .. } => match dictionary.affine_integers() {
                Some((first, 1)) if first.checked_sub(*base).is_some_and(|d| d.unsigned_abs() < 1 << 40) => {
                    window_of(&bits.words, first - base - shift as i64, vids + shift)
                }
                _ if self.passes_sample(dictionary) => return Ok(OnCodes::all(CodePredicate::Everything)),
                _ => self.decoded(dictionary, shift, run)?,
            },
            KeyFilter::Scattered { .. } if self.passes_sample(dictionary) => {
                return Ok(OnCodes::all(CodePredicate::Everything));
            }
            KeyFilter::Scattered { .. } => self.decoded(dictionary, shift, run)?,
        };
        if null_code {
            // A window that begins before the first value may have begun with another key's bit.
            words[0] &= !1;
        }
        let passing = CodeSet::from_words(words);
        Ok(OnCodes::all(match passing.len() {
            0 => CodePredicate::Nothing,
            some if few_dropped(some, vids) => CodePredicate::Everything,
            _ => CodePredicate::Set(Arc::new(passing)),
        }))
    }

    /// Do nearly all entries of a large dictionary pass, to judge by some?
    fn passes_sample(&self, dictionary: &Dictionary) -> bool {
        let every = dictionary.len() / SAMPLED;
        if every < 16 {
            return false;
        }
        let some: Vec<u32> = (0..SAMPLED).map(|i| (i * every) as u32).collect();
        let mut values = Vec::with_capacity(SAMPLED);
        dictionary.integers(&some, &mut values);
        few_dropped(values.iter().filter(|&&value| self.has_integer(value)).count(), SAMPLED)
    }

    /// The bits of codes whose values are looked up one by one.
    fn decoded(&self, dictionary: &Dictionary, shift: usize, run: &Run<'_>) -> Result<Vec<u32>, ExecError> {
        let codes = dictionary.len() + shift;
        let parts = run.map(codes.div_ceil(DECODED_TASK), &|task| {
            let task = task * DECODED_TASK..((task + 1) * DECODED_TASK).min(codes);
            let mut words = vec![0u32; task.len().div_ceil(32)];
            let (mut piece, mut values) = (Vec::new(), Vec::new());
            for start in task.clone().step_by(DECODED) {
                // Code 0 is NULL where codes are shifted.
                let from = start.max(shift);
                piece.clear();
                values.clear();
                piece.extend((from - shift) as u32..((start + DECODED).min(task.end) - shift) as u32);
                dictionary.integers(&piece, &mut values);
                for (code, &value) in (from - task.start..).zip(&values) {
                    words[code / 32] |= u32::from(self.has_integer(value)) << (code % 32);
                }
            }
            Ok(words)
        })?;
        Ok(parts.concat())
    }
}

/// Numbers of the values that are valid and pass, without a branch.
fn keep(values: &[i64], valid: Option<&[bool]>, kept: &mut Vec<u32>, passes: impl Fn(i64) -> bool) {
    kept.clear();
    kept.resize(values.len(), 0);
    let mut count = 0;
    match valid {
        None => {
            for (row, &value) in (0u32..).zip(values) {
                kept[count] = row;
                count += usize::from(passes(value));
            }
        }
        Some(valid) => {
            for ((row, &value), &valid) in (0u32..).zip(values).zip(valid) {
                kept[count] = row;
                count += usize::from(valid & passes(value));
            }
        }
    }
    kept.truncate(count);
}

/// The codes of values in a range, inclusive.
fn range_of(dictionary: &Dictionary, (low, high): (i64, i64), shift: usize) -> CodePredicate {
    let from = first_vid(dictionary, |value| value >= low);
    let to = first_vid(dictionary, |value| value > high);
    match (from, to) {
        (from, to) if from >= to => CodePredicate::Nothing,
        (from, to) if few_dropped(to - from, dictionary.len()) => CodePredicate::Everything,
        (from, to) => CodePredicate::Range { lo: (from + shift) as u32, hi: (to - 1 + shift) as u32 },
    }
}

/// The vid of a value, if it is there.
fn vid_of(dictionary: &Dictionary, value: i64) -> Option<usize> {
    let vid = first_vid(dictionary, |there| there >= value);
    if vid == dictionary.len() {
        return None;
    }
    let mut there = Vec::with_capacity(1);
    dictionary.integers(&[vid as u32], &mut there);
    (there[0] == value).then_some(vid)
}

/// A few of `all` codes.
fn set_of(codes: Vec<u32>, all: usize) -> CodePredicate {
    match codes.as_slice() {
        [] => return CodePredicate::Nothing,
        [one] => return CodePredicate::Range { lo: *one, hi: *one },
        _ => {}
    }
    let mut words = vec![0u32; all.div_ceil(32)];
    codes.iter().for_each(|&code| words[code as usize / 32] |= 1 << (code % 32));
    CodePredicate::Set(Arc::new(CodeSet::from_words(words)))
}

/// Do so few entries of all drop out that testing for them does not pay?
fn few_dropped(passing: usize, all: usize) -> bool {
    passing as u64 * 10 > all as u64 * 9
}

/// The values that are not NULL, ascending and each once, where they are few.
fn few_of<T: Copy + Ord>(values: &[T], vector: &Vector) -> Option<Vec<T>> {
    if values.len() > FEW_MAX {
        return None;
    }
    let mut few: Vec<T> = match &vector.valid {
        None => values.to_vec(),
        Some(valid) => values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(value, _)| *value).collect(),
    };
    few.sort_unstable();
    few.dedup();
    Some(few)
}

fn set_bits(bits: &mut [u64], at: impl Iterator<Item = usize>, vector: &Vector) {
    match &vector.valid {
        None => at.for_each(|at| bits[at / 64] |= 1 << (at % 64)),
        Some(valid) => at.zip(valid).filter(|(_, valid)| **valid).for_each(|(at, _)| bits[at / 64] |= 1 << (at % 64)),
    }
}

/// `len` bits from bit `from` on; there are none before bit 0 and behind the last one.
fn window_of(bits: &[u64], from: i64, len: usize) -> Vec<u32> {
    let word = |at: i64| usize::try_from(at).ok().and_then(|at| bits.get(at)).copied().unwrap_or(0);
    let mut words: Vec<u32> = (0..len.div_ceil(32) as i64)
        .map(|i| {
            let bit = from + 32 * i;
            let (at, shift) = (bit.div_euclid(64), bit.rem_euclid(64) as u32);
            let low = word(at) >> shift;
            // Two shifts, for a shift by 64 is none.
            (if shift > 32 { low | word(at + 1) << 1 << (63 - shift) } else { low }) as u32
        })
        .collect();
    if !len.is_multiple_of(32)
        && let Some(last) = words.last_mut()
    {
        *last &= (1 << (len % 32)) - 1;
    }
    words
}

/// The first vid whose value passes, where all values above it do too.
fn first_vid(dictionary: &Dictionary, passes: impl Fn(i64) -> bool) -> usize {
    let (mut from, mut to) = (0, dictionary.len());
    let mut value = Vec::with_capacity(1);
    while from < to {
        let middle = from + (to - from) / 2;
        value.clear();
        dictionary.integers(&[middle as u32], &mut value);
        if passes(value[0]) { to = middle } else { from = middle + 1 }
    }
    from
}

/// Vids of `to` for the values of `bits`, which are over `from`; `None` where finding them would take too long.
fn translated(from: &Dictionary, bits: &[u64], to: &Dictionary, run: &Run<'_>) -> Result<Option<Vec<u64>>, ExecError> {
    let set: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
    if set * 16 > (MERGED_ENTRIES + to.len()) as u64 && from.len().max(to.len()) > MERGED_ENTRIES {
        return Ok(None);
    }
    if [from, to].iter().any(|texts| !texts.is_empty() && texts.bytes_of(0).is_none()) {
        return Ok(None);
    }
    let mut found = vec![0u64; to.len().div_ceil(64)];
    let mut start = 0;
    for (number, vid) in (0..from.len()).filter(|vid| bits[vid / 64] >> (vid % 64) & 1 == 1).enumerate() {
        if number.is_multiple_of(CHECK_VALUES) {
            run.check()?;
        }
        let value = from.bytes_of(vid as u32);
        // Values ascend, so each search begins where the last one ended.
        let (mut low, mut high) = (start, to.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if to.bytes_of(middle as u32) < value { low = middle + 1 } else { high = middle }
        }
        start = low;
        if low < to.len() && to.bytes_of(low as u32) == value {
            found[low / 64] |= 1 << (low % 64);
        }
    }
    Ok(Some(found))
}
