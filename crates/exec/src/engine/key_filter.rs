//! [`KeyFilter`]: the keys that one side of a join has, for the scans of the other side to leave out what cannot match.

use std::sync::Arc;

use storage::{CodePredicate, CodeSet, Dictionary};

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
