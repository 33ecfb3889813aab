//! [`KeyFilter`]: the keys that one side of a join has, for the scans of the other side to leave out what cannot match.

use std::sync::Arc;

use storage::{CodePredicate, CodeSet, Dictionary};

use super::vector::{ColumnInfo, Data, Kind, Vector};

/// Integers get a bit each while these take no more bits than this, or so many per row.
const BITS_MAX: u64 = 1 << 20;
const BITS_PER_ROW: u64 = 64;

/// A set of key values; a superset would do as well.
pub(crate) enum KeyFilter {
    /// Integers: bit `i` stands for `base + i`.
    Integers {
        /// The value of bit 0.
        base: i64,
        /// Number of bits.
        len: usize,
        /// The bits.
        bits: Vec<u64>,
    },
    /// Integers in a range, inclusive.
    Range(i64, i64),
    /// Vids of a dictionary.
    Vids(Arc<Dictionary>, Vec<u64>),
}

impl KeyFilter {
    /// The values of a column; `None` where it cannot say more than that it is not NULL, or where a NULL counts
    /// (`nulls_equal`) and is there.
    pub(crate) fn of(info: &ColumnInfo, vector: &Vector, nulls_equal: bool) -> Option<KeyFilter> {
        let rows = vector.len();
        if nulls_equal && (0..rows).any(|row| !vector.is_valid(row)) {
            return None;
        }
        match (&vector.data, &info.kind) {
            (Data::Vid(vids), Kind::Vid(dictionary)) => {
                let mut bits = vec![0u64; dictionary.len().div_ceil(64)];
                for (row, &vid) in vids.iter().enumerate() {
                    if vector.is_valid(row) {
                        bits[vid as usize / 64] |= 1 << (vid % 64);
                    }
                }
                Some(KeyFilter::Vids(dictionary.clone(), bits))
            }
            (Data::Int(values), _) => {
                let (low, high) = super::join::bounds(vector)?;
                let span = (high.wrapping_sub(low) as u64).saturating_add(1);
                if span > BITS_MAX.max(BITS_PER_ROW * rows as u64) {
                    return Some(KeyFilter::Range(low, high));
                }
                let mut bits = vec![0u64; span.div_ceil(64) as usize];
                let mut set = |value: i64| {
                    let at = (value - low) as usize;
                    bits[at / 64] |= 1 << (at % 64);
                };
                match &vector.valid {
                    None => values.iter().for_each(|&value| set(value)),
                    Some(valid) => values.iter().zip(valid).filter(|(_, v)| **v).for_each(|(&value, _)| set(value)),
                }
                Some(KeyFilter::Integers { base: low, len: span as usize, bits })
            }
            _ => None,
        }
    }

    /// May this integer be a key?
    pub(crate) fn has_integer(&self, value: i64) -> bool {
        match self {
            KeyFilter::Integers { base, len, bits } => {
                let at = value.wrapping_sub(*base) as u64;
                value >= *base && at < *len as u64 && bits[(at / 64) as usize] >> (at % 64) & 1 == 1
            }
            KeyFilter::Range(low, high) => (*low..=*high).contains(&value),
            KeyFilter::Vids(..) => true,
        }
    }

    /// The codes of a column that may match; `None` where codes do not tell. NULL never matches.
    pub(crate) fn on_codes(&self, dictionary: &Arc<Dictionary>, null_code: bool) -> Option<CodePredicate> {
        let shift = u32::from(null_code);
        let vids = dictionary.len() as u32;
        let mut flags = Vec::with_capacity(vids as usize);
        match self {
            KeyFilter::Vids(own, bits) if Arc::ptr_eq(own, dictionary) => {
                flags.extend((0..vids as usize).map(|vid| bits[vid / 64] >> (vid % 64) & 1 == 1));
            }
            KeyFilter::Vids(..) => return None,
            _ => {
                dictionary.integer_bounds()?;
                let all: Vec<u32> = (0..vids).collect();
                let mut values = Vec::with_capacity(all.len());
                dictionary.integers(&all, &mut values);
                flags.extend(values.iter().map(|&v| self.has_integer(v)));
            }
        }
        let passing = flags.iter().filter(|&&f| f).count();
        if passing == 0 {
            return Some(CodePredicate::Nothing);
        }
        if passing == flags.len() && !null_code {
            return Some(CodePredicate::Everything);
        }
        Some(CodePredicate::Set(Arc::new(CodeSet::from_flags(shift, flags))))
    }
}
