//! Ranks: numbers that never fall as values rise, by which an index finds a bucket.

use std::ops::Range;

use crate::coded::CodedColumn;
use crate::column::Column;
use crate::dictionary::Value;

/// How values of a column become ranks; the lowest one's is 0.
#[derive(Debug, Clone)]
pub(super) enum Ranks {
    /// No value.
    None,
    /// `code - first`; the codes lie in `first ..= last`.
    Codes {
        /// The lowest code that may occur, NULL's excepted.
        first: u32,
        /// The highest one.
        last: u32,
    },
    /// `(key - low) >> shift`; the keys lie in `low ..= high`.
    Keys {
        /// The lowest key.
        low: i128,
        /// The highest key.
        high: i128,
        /// Bits that do not fit.
        shift: u32,
    },
    /// The eight bytes behind the first `shared`, less those of the lowest value.
    Bytes {
        /// The lowest value.
        low: Box<[u8]>,
        /// The highest value.
        high: Box<[u8]>,
        /// Bytes with which all values begin.
        shared: usize,
    },
}

impl Ranks {
    /// Of codes.
    pub(super) fn of_codes(column: &CodedColumn) -> Ranks {
        let lowest = u32::from(column.null_code());
        let bounds = (0..column.granules()).map(|granule| column.code_bounds(granule));
        let all = bounds.fold((u32::MAX, 0), |(min, max), (low, high)| (min.min(low), max.max(high)));
        let first = all.0.max(lowest);
        let last = all.1;
        if first > last { Ranks::None } else { Ranks::Codes { first, last } }
    }

    /// Of plain values, the lowest and highest of which are given.
    pub(super) fn of_values(low: Value<'_>, high: Value<'_>) -> Ranks {
        match (low, high) {
            (Value::Key(low), Value::Key(high)) => {
                let width = 128 - (high.wrapping_sub(low) as u128).leading_zeros();
                Ranks::Keys { low, high, shift: width.saturating_sub(64) }
            }
            (Value::Bytes(low), Value::Bytes(high)) => {
                let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
                Ranks::Bytes { low: low.into(), high: high.into(), shared }
            }
            _ => unreachable!("a column has values of one type"),
        }
    }

    /// The highest rank there may be; `None` where there is no value.
    pub(super) fn highest(&self) -> Option<u64> {
        match self {
            Ranks::None => None,
            Ranks::Codes { first, last } => Some(u64::from(last - first)),
            Ranks::Keys { high, .. } => self.of_value(Value::Key(*high)),
            Ranks::Bytes { high, .. } => self.of_value(Value::Bytes(high)),
        }
    }

    /// Whether values of one rank are equal.
    pub(super) fn are_exact(&self) -> bool {
        match self {
            Ranks::None | Ranks::Codes { .. } => true,
            Ranks::Keys { shift, .. } => *shift == 0,
            Ranks::Bytes { .. } => false,
        }
    }

    /// The rank of a plain value; `None` where it lies outside the lowest and the highest.
    #[inline]
    pub(super) fn of_value(&self, value: Value<'_>) -> Option<u64> {
        match (self, value) {
            (Ranks::Keys { low, high, shift }, Value::Key(key)) => {
                let inside = *low <= key && key <= *high;
                inside.then(|| (key.wrapping_sub(*low) as u128 >> shift) as u64)
            }
            (Ranks::Bytes { low, high, shared }, Value::Bytes(value)) => {
                let inside = &low[..] <= value && value <= &high[..];
                // What lies between two values begins with what they share.
                inside.then(|| eight(&value[*shared..]) - eight(&low[*shared..]))
            }
            _ => None,
        }
    }

    /// Whether a plain value that has no rank is above all, not below.
    pub(super) fn is_above(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (Ranks::Keys { high, .. }, Value::Key(key)) => key > *high,
            (Ranks::Bytes { high, .. }, Value::Bytes(value)) => value > &high[..],
            _ => false,
        }
    }

    /// Appends the ranks of those of `rows`, rows of one granule, that are not NULL, and the rows.
    pub(super) fn append(
        &self,
        column: &Column,
        rows: Range<usize>,
        scratch: &mut Vec<u32>,
        out: &mut Vec<(u64, u32)>,
    ) {
        match (column, self) {
            (Column::Coded(coded), Ranks::Codes { first, .. }) => {
                scratch.clear();
                coded.unpack(rows.clone(), scratch);
                // NULL's code lies below the first one.
                let ranked = scratch.iter().zip(rows.start as u32..).filter(|(code, _)| *code >= first);
                out.extend(ranked.map(|(code, row)| (u64::from(code - first), row)));
            }
            (Column::Plain(plain), _) => plain.for_each_value(rows, |row, value| {
                let rank = self.of_value(value).expect("a stored value lies between the lowest and the highest");
                out.push((rank, row as u32));
            }),
            _ => {}
        }
    }
}

/// The first eight bytes as a number that sorts as they do; missing ones are 0.
#[inline]
fn eight(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_bytes_never_fall() {
        let mut values: Vec<&[u8]> = vec![b"x", b"xa", b"xa\0", b"xabcdefghi", b"xabcdefghj", b"xb", b"x\xff\xff"];
        values.sort_unstable();
        let ranks = Ranks::of_values(Value::Bytes(values[0]), Value::Bytes(values[values.len() - 1]));
        let of: Vec<u64> = values.iter().map(|v| ranks.of_value(Value::Bytes(v)).unwrap()).collect();
        assert!(of.is_sorted() && of[0] == 0 && ranks.highest() == of.last().copied(), "{of:?}");
        assert_eq!((ranks.of_value(Value::Bytes(b"w")), ranks.of_value(Value::Bytes(b"y"))), (None, None));
        assert!(ranks.is_above(Value::Bytes(b"y")) && !ranks.is_above(Value::Bytes(b"")));
    }

    #[test]
    fn ranks_of_wide_keys_never_fall() {
        let keys = [i128::MIN, -5, 0, 1 << 70, (1 << 70) + 1, i128::MAX];
        let ranks = Ranks::of_values(Value::Key(keys[0]), Value::Key(keys[5]));
        let of: Vec<u64> = keys.iter().map(|&key| ranks.of_value(Value::Key(key)).unwrap()).collect();
        assert!(of.is_sorted() && of[0] == 0 && of[5] == u64::MAX && !ranks.are_exact(), "{of:?}");
    }
}
