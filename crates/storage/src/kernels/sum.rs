//! Sums of integers where they lie, all of them or those whose bit is set: what is left out is not copied away first.

use crate::types::Native;

/// Values that are added side by side.
const LANES: usize = 8;

/// The sum of up to 2^31 values; with `mask` of those whose bits are set, which has one for each.
pub(crate) fn sum<T: Native + Into<i64>>(values: &[T], mask: Option<&[u64]>) -> i128 {
    debug_assert!(values.len() <= 1 << 31 && mask.is_none_or(|mask| mask.len() >= values.len().div_ceil(64)));
    #[cfg(target_arch = "x86_64")]
    {
        if super::have_avx512() {
            // SAFETY: the processor has what the function is made for.
            return unsafe { sum_avx512(values, mask) };
        }
        if super::have_avx2() {
            // SAFETY: as above.
            return unsafe { sum_avx2(values, mask) };
        }
    }
    sum_of(values, mask)
}

/// As [`sum`], of values of 64 bits, the most frequent ones.
pub(crate) fn sum_wide(values: &[i64], mask: Option<&[u64]>) -> i128 {
    #[cfg(target_arch = "x86_64")]
    if super::have_avx512() {
        let whole = values.len() / 64;
        let (behind, mask_behind) = (&values[64 * whole..], mask.map(|mask| &mask[whole..]));
        // SAFETY: the processor has what the function is made for.
        let of_whole = unsafe { sum_wide_avx512(values.as_chunks::<64>().0, mask) };
        return of_whole + sum_of(behind, mask_behind);
    }
    sum(values, mask)
}

/// What [`sum_of`] does, eight values at a time, with what is not marked as 0.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2")]
fn sum_wide_avx512(values: &[[i64; 64]], mask: Option<&[u64]>) -> i128 {
    use std::arch::x86_64::*;

    let half = _mm512_set1_epi64(i64::from(u32::MAX));
    let (mut low, mut high) = ([_mm512_setzero_si512(); 2], [_mm512_setzero_si512(); 2]);
    for (place, values) in values.iter().enumerate() {
        let word = mask.map_or(u64::MAX, |mask| mask[place]);
        for (number, eight) in values.as_chunks::<LANES>().0.iter().enumerate() {
            // What is not marked is loaded too: loads under masks are not fetched ahead as well.
            // SAFETY: the array has the eight values that are loaded.
            let eight = unsafe { _mm512_loadu_epi64(eight.as_ptr()) };
            let marked = (word >> (LANES * number)) as __mmask8;
            let side = number % 2;
            low[side] = _mm512_add_epi64(low[side], _mm512_maskz_and_epi64(marked, eight, half));
            high[side] = _mm512_add_epi64(high[side], _mm512_maskz_srai_epi64::<32>(marked, eight));
        }
    }
    let total = |sides: [__m512i; 2]| -> [i64; LANES] {
        let mut lanes = [0; LANES];
        // SAFETY: the array has room for eight values.
        unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr(), _mm512_add_epi64(sides[0], sides[1])) };
        lanes
    };
    // Below 2^31 values no half wraps.
    Lanes { low: total(low).map(|low| low as u64), high: total(high) }.total()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2")]
fn sum_avx512<T: Native + Into<i64>>(values: &[T], mask: Option<&[u64]>) -> i128 {
    sum_of(values, mask)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2<T: Native + Into<i64>>(values: &[T], mask: Option<&[u64]>) -> i128 {
    sum_of(values, mask)
}

/// Totals of values in two halves, so that none wraps: the lower 32 bits without a sign, the upper ones with it.
#[derive(Clone, Copy, Default)]
struct Lanes {
    low: [u64; LANES],
    high: [i64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, lane: usize, value: i64) {
        self.low[lane] += value as u64 & u64::from(u32::MAX);
        self.high[lane] += value >> 32;
    }

    fn total(&self) -> i128 {
        let low: i128 = self.low.iter().map(|&low| i128::from(low)).sum();
        let high: i128 = self.high.iter().map(|&high| i128::from(high)).sum();
        (high << 32) + low
    }
}

/// A loop that the compiler makes vector instructions of, for whatever processor it may.
#[inline(always)]
fn sum_of<T: Native + Into<i64>>(values: &[T], mask: Option<&[u64]>) -> i128 {
    let mut lanes = Lanes::default();
    let (whole, rest) = values.as_chunks::<64>();
    for (place, values) in whole.iter().enumerate() {
        let (eights, _) = values.as_chunks::<LANES>();
        match mask.map_or(u64::MAX, |mask| mask[place]) {
            u64::MAX => {
                for eight in eights {
                    (0..LANES).for_each(|lane| lanes.add(lane, eight[lane].into()));
                }
            }
            0 => {}
            word => {
                for (number, eight) in eights.iter().enumerate() {
                    for (lane, value) in eight.iter().enumerate() {
                        let keep = 0_i64.wrapping_sub((word >> (LANES * number + lane) & 1) as i64);
                        lanes.add(lane, (*value).into() & keep);
                    }
                }
            }
        }
    }
    let word = mask.and_then(|mask| mask.get(whole.len())).copied().unwrap_or(u64::MAX);
    for (bit, value) in rest.iter().enumerate() {
        if word >> bit & 1 == 1 {
            lanes.add(bit % LANES, (*value).into());
        }
    }
    lanes.total()
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    fn check<T: Native + Into<i64>>(values: &[T], random: &mut Random) {
        let plain = |keep: &dyn Fn(usize) -> bool| -> i128 {
            let kept = values.iter().enumerate().filter(|(row, _)| keep(*row));
            kept.map(|(_, value)| i128::from(Into::<i64>::into(*value))).sum()
        };
        let words = values.len().div_ceil(64);
        let random_words = |random: &mut Random| -> Vec<u64> {
            let shapes: [fn(&mut Random) -> u64; 4] =
                [|_| 0, |_| u64::MAX, Random::next_u64, |random| random.next_u64() | random.next_u64()];
            (0..words).map(|_| random.pick(&shapes)(random)).collect()
        };
        let mask = random_words(random);
        let whole = plain(&|_| true);
        let marked = plain(&|row| mask[row / 64] >> (row % 64) & 1 == 1);
        assert_eq!((sum(values, None), sum_of(values, None)), (whole, whole));
        assert_eq!((sum(values, Some(&mask)), sum_of(values, Some(&mask))), (marked, marked));
    }

    #[test]
    fn wide_values_have_the_same_sum() {
        let mut random = Random::new(6);
        for rows in (0..300_usize).chain([65_536, 70_001]) {
            let shift = random.below(64);
            let values: Vec<i64> = (0..rows).map(|_| random.next_u64() as i64 >> shift).collect();
            let words = rows.div_ceil(64);
            let mask: Vec<u64> = (0..words).map(|_| random.next_u64() | random.next_u64()).collect();
            assert_eq!(sum_wide(&values, None), sum_of(&values, None), "{rows}");
            assert_eq!(sum_wide(&values, Some(&mask)), sum_of(&values, Some(&mask)), "{rows}");
        }
    }

    #[test]
    fn sums_are_those_of_a_plain_loop() {
        let mut random = Random::new(5);
        for rows in (0..200).chain([1000, 70_000]) {
            let wide: Vec<i64> = (0..rows).map(|_| random.next_u64() as i64 >> random.below(64)).collect();
            check(&wide, &mut random);
            check(&wide.iter().map(|&v| v as i32).collect::<Vec<_>>(), &mut random);
            check(&wide.iter().map(|&v| v as u32).collect::<Vec<_>>(), &mut random);
            check(&wide.iter().map(|&v| v as i8).collect::<Vec<_>>(), &mut random);
            check(&vec![i64::MIN; rows], &mut random);
            check(&vec![i64::MAX; rows], &mut random);
        }
    }
}
