//! The range test with AVX2: `code - lo <= hi - lo`, unsigned, eight rows per step.

use std::arch::x86_64::*;

use super::RangeTest;
use crate::kernels::vector::{for_quads, prefetch, quad_mask, row};
use crate::kernels::{MASK_WORDS, block_words, have_avx2, per_width};

type Selector = unsafe fn(&[u32], RangeTest, &mut [u64]);
const SELECTORS: [Selector; 33] = per_width!(select_width);

/// As the scalar one.
pub(in crate::kernels) fn select_range(words: &[u32], bits: u8, test: RangeTest, mask: &mut [u64]) {
    assert!(have_avx2());
    // SAFETY: the processor has AVX2.
    unsafe { SELECTORS[bits as usize](words, test, mask) }
}

#[target_feature(enable = "avx2")]
fn select_width<const B: usize>(words: &[u32], test: RangeTest, mask: &mut [u64]) {
    if B == 0 {
        return;
    }
    let lo = _mm256_set1_epi32(test.lo as i32);
    let span = _mm256_set1_epi32(test.hi.wrapping_sub(test.lo) as i32);
    let flip = if test.negated { u32::MAX } else { 0 };
    for (words, mask) in words.chunks_exact(block_words(B as u8)).zip(mask.chunks_exact_mut(MASK_WORDS)) {
        if mask.iter().all(|&m| m == 0) {
            continue;
        }
        let words = words.as_ptr();
        prefetch::<B>(words);
        let mut kept = [0u32; 2 * MASK_WORDS];
        macro_rules! one {
            ($r:literal) => {{
                // SAFETY: `words` is a block of 8 * B words.
                let offset = _mm256_sub_epi32(unsafe { row::<B, $r>(words) }, lo);
                _mm256_cmpeq_epi32(_mm256_min_epu32(offset, span), offset)
            }};
        }
        macro_rules! quad {
            ($q:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
                kept[$q] = quad_mask(one!($a), one!($b), one!($c), one!($d)) ^ flip;
            };
        }
        for_quads!(quad);
        for (mask, kept) in mask.iter_mut().zip(kept.chunks_exact(2)) {
            *mask &= u64::from(kept[0]) | u64::from(kept[1]) << 32;
        }
    }
}
