//! [`KeyFilter`]: the keys that one side of a join has, for the scans of the other side to leave out what cannot match.
//!
//! Integers that lie close together and vids get a bit each; integers far apart a [`Bloom`] filter. Where the scanned
//! column has codes, and not too many, the keys become a set of those ([`codes`]); elsewhere values are tested row by
//! row ([`passing`](KeyFilter::passing)). What passes may still have no match: the join tests it again.
//!
//! # Limits
//! Integers and strings of a dictionary only, each key column on its own. A filter that would let nearly all codes pass
//! lets all of them pass.

mod bloom;
mod codes;
#[cfg(test)]
mod tests;
mod worth;

use std::sync::Arc;

use numa::Reservation;
use storage::Dictionary;

use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::tasks::run::Run;
use bloom::Bloom;
pub(crate) use codes::OnCodes;
pub(crate) use worth::{Most, Worth};

/// Integers get a bit each while these take no more bits than this, or so many per row. Bits that are never set cost
/// next to nothing.
const BITS_MAX: u64 = 1 << 26;
const BITS_PER_ROW: u64 = 64;

/// Keys are listed as well as marked up to this many rows.
const FEW_MAX: usize = 4096;

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
    /// Integers that are far apart, or too many for the room there is.
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

/// Bits, charged to the statement.
#[derive(Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    _charged: Reservation,
}

impl Bits {
    /// All zero; `None` where the statement's budget has no room for a mere help.
    fn new(bits: usize, run: &Run<'_>) -> Option<Bits> {
        let words = bits.div_ceil(64);
        let charged = run.reserve_help(8 * words as u64)?;
        Some(Bits { words: vec![0; words], _charged: charged })
    }
}

impl KeyFilter {
    /// The values of a column; `None` where codes could not tell them, where a NULL counts (`nulls_equal`) and is
    /// there, or where the statement's budget has no room. Integers without room for their bits may have some for a
    /// [`Bloom`] filter; their bounds cost nothing.
    ///
    /// # Errors
    /// The statement is to stop.
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
            (Data::Vid(vids), ColumnKind::Vid(dictionary)) => {
                let Some(mut bits) = Bits::new(dictionary.len(), run) else { return Ok(None) };
                set_bits(&mut bits.words, vids.iter().map(|&vid| vid as usize), vector);
                Some(KeyFilter::Vids(dictionary.clone(), bits, few_of(vids, vector)))
            }
            (Data::Int(values), _) => {
                let Some((low, high)) = crate::keys::bounds::tight_bounds(info, vector) else { return Ok(None) };
                let span = (high.wrapping_sub(low) as u64).saturating_add(1);
                let few = few_of(values, vector);
                let close = span <= BITS_MAX.max(BITS_PER_ROW * rows as u64);
                let Some(mut bits) = close.then(|| Bits::new(span as usize, run)).flatten() else {
                    let bloom = Bloom::of(vector, run)?;
                    return Ok(Some(KeyFilter::Scattered { low, high, few, bloom }));
                };
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
        !matches!(self, KeyFilter::Vids(..)) && matches!(info.kind, ColumnKind::Int { .. })
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
