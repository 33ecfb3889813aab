//! [`KeyFilter`]: the keys that one side of a join has, for the scans of the other side to leave out what cannot match.
//!
//! # Limits
//! Integers and strings of a dictionary only. A filter that would let nearly all codes pass lets all of them pass.

use std::sync::Arc;

use numa::Reservation;
use storage::{CodePredicate, CodeSet, Dictionary};

use super::Run;
use super::vector::{ColumnInfo, Data, Kind, Vector};
use crate::ExecError;

/// Integers get a bit each while these take no more bits than this, or so many per row. Bits that are never set cost next to nothing.
const BITS_MAX: u64 = 1 << 26;
const BITS_PER_ROW: u64 = 64;

/// Keys are listed as well as marked up to this many rows.
const FEW_MAX: usize = 4096;

/// Codes of a dictionary that is no arithmetic progression are decoded in pieces of this many.
const DECODED: usize = 4096;

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
    /// Integers in a range, inclusive.
    Range(i64, i64),
    /// A few integers that are far apart: the lowest, the highest, and all, ascending.
    Sparse {
        /// The lowest.
        low: i64,
        /// The highest.
        high: i64,
        /// All.
        few: Vec<i64>,
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
                    return Ok(Some(match few {
                        Some(few) => KeyFilter::Sparse { low, high, few },
                        None => KeyFilter::Range(low, high),
                    }));
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
            KeyFilter::Integers { few: Some(few), .. } | KeyFilter::Sparse { few, .. } => Some(FewKeys::Integers(few)),
            KeyFilter::Vids(dictionary, _, Some(few)) => Some(FewKeys::Vids(dictionary, few)),
            _ => None,
        }
    }

    /// May this integer be a key?
    pub(crate) fn has_integer(&self, value: i64) -> bool {
        match self {
            KeyFilter::Integers { base, len, bits, .. } => {
                let at = value.wrapping_sub(*base) as u64;
                value >= *base && at < *len as u64 && bits.words[(at / 64) as usize] >> (at % 64) & 1 == 1
            }
            KeyFilter::Range(low, high) => (*low..=*high).contains(&value),
            KeyFilter::Sparse { few, .. } => few.binary_search(&value).is_ok(),
            KeyFilter::Vids(..) => true,
        }
    }

    /// The codes of a column that may match, perhaps some more; `None` where codes do not tell.
    pub(crate) fn on_codes(&self, dictionary: &Arc<Dictionary>, null_code: bool) -> Option<CodePredicate> {
        let shift = usize::from(null_code);
        let vids = dictionary.len();
        if vids == 0 {
            return Some(CodePredicate::Nothing);
        }
        let words = match self {
            KeyFilter::Vids(own, bits, _) => {
                let translated =
                    if Arc::ptr_eq(own, dictionary) { None } else { Some(translated(own, &bits.words, dictionary)?) };
                let bits = translated.as_deref().unwrap_or(&bits.words);
                window_of(bits, -(shift as i64), vids + shift)
            }
            KeyFilter::Range(low, high) | KeyFilter::Sparse { low, high, .. } => {
                dictionary.integer_bounds()?;
                let from = first_vid(dictionary, |value| value >= *low);
                let to = first_vid(dictionary, |value| value > *high);
                return Some(match (from, to) {
                    (from, to) if from >= to => CodePredicate::Nothing,
                    (from, to) if few_dropped(to - from, vids) => CodePredicate::Everything,
                    (from, to) => CodePredicate::Range { lo: (from + shift) as u32, hi: (to - 1 + shift) as u32 },
                });
            }
            KeyFilter::Integers { base, bits, .. } => {
                dictionary.integer_bounds()?;
                match dictionary.affine_integers() {
                    Some((first, 1)) if first.checked_sub(*base).is_some_and(|d| d.unsigned_abs() < 1 << 40) => {
                        window_of(&bits.words, first - base - shift as i64, vids + shift)
                    }
                    _ => self.decoded(dictionary, shift),
                }
            }
        };
        let passing = CodeSet::from_words(words);
        Some(match passing.len() {
            0 => CodePredicate::Nothing,
            some if few_dropped(some, vids) => CodePredicate::Everything,
            _ => CodePredicate::Set(Arc::new(passing)),
        })
    }

    /// The bits of codes whose values are looked up one by one.
    fn decoded(&self, dictionary: &Dictionary, shift: usize) -> Vec<u32> {
        let vids = dictionary.len();
        let mut words = vec![0u32; (vids + shift).div_ceil(32)];
        let (mut piece, mut values) = (Vec::new(), Vec::new());
        for start in (0..vids).step_by(DECODED) {
            piece.clear();
            values.clear();
            piece.extend(start as u32..(start + DECODED).min(vids) as u32);
            dictionary.integers(&piece, &mut values);
            for (code, &value) in (start + shift..).zip(&values) {
                words[code / 32] |= u32::from(self.has_integer(value)) << (code % 32);
            }
        }
        words
    }
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
fn translated(from: &Dictionary, bits: &[u64], to: &Dictionary) -> Option<Vec<u64>> {
    let set: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
    if set * 16 > (MERGED_ENTRIES + to.len()) as u64 && from.len().max(to.len()) > MERGED_ENTRIES {
        return None;
    }
    let mut found = vec![0u64; to.len().div_ceil(64)];
    let mut start = 0;
    for vid in (0..from.len()).filter(|vid| bits[vid / 64] >> (vid % 64) & 1 == 1) {
        let value = from.bytes_of(vid as u32)?;
        // Values ascend, so each search begins where the last one ended.
        let (mut low, mut high) = (start, to.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if to.bytes_of(middle as u32)? < value { low = middle + 1 } else { high = middle }
        }
        start = low;
        if low < to.len() && to.bytes_of(low as u32)? == value {
            found[low / 64] |= 1 << (low % 64);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_agree_with_looking_at_every_bit() {
        let bits = [0x8000_0000_0000_0001u64, 0xdead_beef_1234_5678, u64::MAX];
        for from in -140..260i64 {
            for len in [1, 31, 32, 33, 64, 65, 200] {
                let words = window_of(&bits, from, len);
                assert_eq!(words.len(), len.div_ceil(32));
                for i in 0..words.len() * 32 {
                    let at = from + i as i64;
                    let expected = i < len && (0..192).contains(&at) && bits[(at / 64) as usize] >> (at % 64) & 1 == 1;
                    assert_eq!(words[i / 32] >> (i % 32) & 1 == 1, expected, "{from} {len} {i}");
                }
            }
        }
    }
}
