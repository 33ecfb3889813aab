//! The range test with AVX-512 (VL, BW, DQ, VBMI2): eight rows per step into a mask register.
//!
//! Codes are compared where they stand: moved up so that a code's highest bit is the lane's highest, with whatever lies
//! below it. For a code `v` above `s` other bits `g`, `(v << s | g) - (lo << s) <= (span << s | ones)` exactly where
//! `v - lo <= span`, so nothing has to be masked away; a code that goes on in the next word takes one funnel shift.

use std::arch::x86_64::*;

use super::RangeTest;
use crate::kernels::vector::prefetch;
use crate::kernels::{MASK_WORDS, block_words, have_avx512_compare, low_bits, per_width};

type Selector = unsafe fn(&[u32], RangeTest, &mut [u64]);
const SELECTORS: [Selector; 33] = per_width!(select_width);

/// As the scalar one.
pub(in crate::kernels) fn select_range(words: &[u32], bits: u8, test: RangeTest, mask: &mut [u64]) {
    assert!(have_avx512_compare());
    // SAFETY: the processor has the instructions.
    unsafe { SELECTORS[bits as usize](words, test, mask) }
}

#[target_feature(enable = "avx2,avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi2")]
fn select_width<const B: usize>(words: &[u32], test: RangeTest, mask: &mut [u64]) {
    if B == 0 {
        return;
    }
    let flip = if test.negated { u64::MAX } else { 0 };
    // Numbers that are no codes of this width would lose bits.
    let top = low_bits(B as u8);
    if test.lo > top {
        mask.iter_mut().for_each(|word| *word &= flip);
        return;
    }
    let span = test.hi.min(top) - test.lo;
    let above = 32 - B;
    let lo = _mm256_set1_epi32((test.lo << above) as i32);
    let span = _mm256_set1_epi32((span << above | ((1_u64 << above) - 1) as u32) as i32);
    for (words, mask) in words.chunks_exact(block_words(B as u8)).zip(mask.chunks_exact_mut(MASK_WORDS)) {
        if mask.iter().all(|&m| m == 0) {
            continue;
        }
        let words = words.as_ptr();
        prefetch::<B>(words);
        macro_rules! one {
            ($r:expr) => {{
                // SAFETY: `words` is a block of 8 * B words.
                let code = unsafe { raised::<B, { $r }>(words) };
                u32::from(_mm256_cmple_epu32_mask(_mm256_sub_epi32(code, lo), span))
            }};
        }
        macro_rules! eight {
            ($w:literal) => {{
                let pair = |a: u32, b: u32| u32::from(_mm512_kunpackb(b as u16, a as u16));
                let low =
                    _mm512_kunpackw(pair(one!(8 * $w + 2), one!(8 * $w + 3)), pair(one!(8 * $w), one!(8 * $w + 1)));
                let high =
                    _mm512_kunpackw(pair(one!(8 * $w + 6), one!(8 * $w + 7)), pair(one!(8 * $w + 4), one!(8 * $w + 5)));
                mask[$w] &= _mm512_kunpackd(u64::from(high), u64::from(low)) ^ flip;
            }};
        }
        eight!(0);
        eight!(1);
        eight!(2);
        eight!(3);
    }
}

/// Row `R` of the block of `B`-bit values at `words`, each at the top of its lane, other bits below it.
///
/// # Safety
/// `words` points at a readable block of `8 * B` words.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512vbmi2")]
unsafe fn raised<const B: usize, const R: usize>(words: *const u32) -> __m256i {
    let word = const { R * B / 32 };
    let shift = const { R * B % 32 };
    // SAFETY: R < 32, so word < B, and the block has 8 * B words; the caller vouches for the block.
    let low = unsafe { _mm256_loadu_si256(words.add(8 * word).cast()) };
    if shift + B <= 32 {
        return _mm256_sll_epi32(low, _mm_cvtsi32_si128((32 - B - shift) as i32));
    }
    // SAFETY: the value goes on in the lane's next word, which therefore is one of the block.
    let high = unsafe { _mm256_loadu_si256(words.add(8 * (word + 1)).cast()) };
    _mm256_shrdv_epi32(low, high, _mm256_set1_epi32((shift + B - 32) as i32))
}
