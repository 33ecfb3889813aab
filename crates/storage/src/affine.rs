//! Dictionaries that store nothing: `key = base + step * vid`.
//!
//! # Limits
//! Not every vid need occur in the column, so counts of vids are estimates of counts of distinct values.

use arrow::buffer::Buffer;

use crate::types::{Native, Physical, with_native};

/// The two numbers, in key space (see `types`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Affine {
    pub(crate) base: i128,
    /// Distance of neighbouring vids, at least 1. It may need all 128 bits.
    pub(crate) step: u128,
}

impl Affine {
    /// The key of `vid`.
    pub(crate) fn key(self, vid: u32) -> i128 {
        self.base.wrapping_add(self.step.wrapping_mul(u128::from(vid)) as i128)
    }

    /// The first vid whose key is at least `key`, of `len`.
    pub(crate) fn lower_bound(self, key: i128, len: u32) -> u32 {
        if key <= self.base {
            return 0;
        }
        let distance = key.wrapping_sub(self.base) as u128;
        distance.div_ceil(self.step).min(u128::from(len)) as u32
    }

    /// The first vid whose key is above `key`, of `len`.
    pub(crate) fn upper_bound(self, key: i128, len: u32) -> u32 {
        if key < self.base {
            return 0;
        }
        let distance = key.wrapping_sub(self.base) as u128;
        (distance / self.step).saturating_add(1).min(u128::from(len)) as u32
    }

    /// The native values of the vids, where `len` is the number of vids there are.
    pub(crate) fn values(self, physical: Physical, len: u32, vids: impl ExactSizeIterator<Item = u32>) -> Buffer {
        let last = self.key(len.saturating_sub(1));
        let narrow = i64::try_from(self.base).is_ok() && i64::try_from(last).is_ok();
        with_native!(physical, N => {
            let values: Vec<N> = if narrow && self.step == 1 {
                // A product of 64 bits takes several instructions where vectors have none for it.
                let base = self.base as i64;
                vids.map(|vid| N::from_key(base.wrapping_add(i64::from(vid)))).collect()
            } else if narrow {
                // All keys fit in 64 bits, so arithmetic modulo 2^64 gives them exactly.
                let base = self.base as i64;
                let step = self.step as i64;
                vids.map(|vid| N::from_key(base.wrapping_add(step.wrapping_mul(i64::from(vid))))).collect()
            } else {
                vids.map(|vid| N::from_wide_key(self.key(vid))).collect()
            };
            Buffer::from_vec(values)
        })
    }

    /// The values of the vids in their own memory, for a type of 32-bit integers, which must hold them all.
    pub(crate) fn in_place(self, mut vids: Vec<u32>) -> Buffer {
        // Exact modulo 2^32.
        let base = self.base as u32;
        let step = self.step as u32;
        if step == 1 {
            vids.iter_mut().for_each(|vid| *vid = vid.wrapping_add(base));
        } else {
            vids.iter_mut().for_each(|vid| *vid = vid.wrapping_mul(step).wrapping_add(base));
        }
        Buffer::from_vec(vids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_place_are_the_values() {
        let vids: Vec<u32> = (0..1000).map(|i| i * 7919 % 1001).collect();
        for (base, step) in
            [(0, 1), (-5, 1), (i128::from(i32::MIN), 1), (i128::from(i32::MAX) - 3000, 3), (-9, 1_000_000)]
        {
            let affine = Affine { base, step };
            let expected = affine.values(Physical::I32, 1001, vids.iter().copied());
            assert_eq!(affine.in_place(vids.clone()), expected, "{affine:?}");
            let wide: Vec<i64> = vids.iter().map(|&vid| affine.key(vid) as i64).collect();
            assert_eq!(affine.values(Physical::I64, 1001, vids.iter().copied()), Buffer::from_vec(wide), "{affine:?}");
        }
        let unsigned = Affine { base: i128::from(u32::MAX) - 1000, step: 1 };
        let expected = unsigned.values(Physical::U32, 1001, vids.iter().copied());
        assert_eq!(unsigned.in_place(vids), expected);
    }

    #[test]
    fn bounds_agree_with_a_walk() {
        for (base, step, len) in [(-7, 3, 9), (0, 1, 5), (i128::MIN, u128::MAX / 4, 5), (5, 1, 1), (5, 1, 0)] {
            let affine = Affine { base, step };
            let keys: Vec<i128> = (0..len).map(|vid| affine.key(vid)).collect();
            assert!(keys.is_sorted());
            let mut probes = vec![i128::MIN, i128::MAX, 0, -7, -8, 5, 4];
            probes.extend(keys.iter().flat_map(|&k| [k.saturating_sub(1), k, k.saturating_add(1)]));
            for probe in probes {
                let lower = keys.partition_point(|&k| k < probe) as u32;
                let upper = keys.partition_point(|&k| k <= probe) as u32;
                assert_eq!(affine.lower_bound(probe, len), lower, "{affine:?} {probe}");
                assert_eq!(affine.upper_bound(probe, len), upper, "{affine:?} {probe}");
            }
        }
    }
}
