//! The membership test with AVX2: the bitmap in a register up to 256 codes, gathered from memory beyond.

use std::arch::x86_64::*;

use crate::kernels::vector::{for_quads, quad_mask, row};
use crate::kernels::{MASK_WORDS, block_words, have_avx2, per_width};

type Selector = unsafe fn(&[u32], &[u32], &mut [u64]);
const SELECTORS: [Selector; 33] = per_width!(select_width);

/// As the scalar one.
pub(in crate::kernels) fn select_set(words: &[u32], bits: u8, set: &[u32], mask: &mut [u64]) {
    assert!(have_avx2());
    if set.is_empty() {
        return mask.fill(0);
    }
    // SAFETY: the processor has AVX2, and the set has a word.
    unsafe { SELECTORS[bits as usize](words, set, mask) }
}

/// The set is not empty.
#[target_feature(enable = "avx2")]
fn select_width<const B: usize>(words: &[u32], set: &[u32], mask: &mut [u64]) {
    if B == 0 {
        return;
    }
    let mut small = [0; 8];
    let head = set.len().min(8);
    small[..head].copy_from_slice(&set[..head]);
    // SAFETY: eight words.
    let small = unsafe { _mm256_loadu_si256(small.as_ptr().cast()) };
    // Word indexes are below 2^27; codes beyond the bitmap are sent to its last word and struck out afterwards.
    let last_word = _mm256_set1_epi32((set.len() - 1).min(1 << 27) as i32);
    for (words, mask) in words.chunks_exact(block_words(B as u8)).zip(mask.chunks_exact_mut(MASK_WORDS)) {
        if mask.iter().all(|&m| m == 0) {
            continue;
        }
        let words = words.as_ptr();
        let mut kept = [0u32; 2 * MASK_WORDS];
        macro_rules! one {
            ($r:literal) => {{
                // SAFETY: `words` is a block of 8 * B words.
                let codes = unsafe { row::<B, $r>(words) };
                let index = _mm256_srli_epi32::<5>(codes);
                let found = if B <= 8 {
                    _mm256_permutevar8x32_epi32(small, index)
                } else {
                    let clamped = _mm256_min_epu32(index, last_word);
                    // SAFETY: the index is at most the set's last word.
                    let word = unsafe { _mm256_i32gather_epi32::<4>(set.as_ptr().cast(), clamped) };
                    _mm256_and_si256(word, _mm256_cmpeq_epi32(clamped, index))
                };
                // The code's bit to the sign, the sign to all bits.
                let place = _mm256_andnot_si256(codes, _mm256_set1_epi32(31));
                _mm256_srai_epi32::<31>(_mm256_sllv_epi32(found, place))
            }};
        }
        macro_rules! quad {
            ($q:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
                kept[$q] = quad_mask(one!($a), one!($b), one!($c), one!($d));
            };
        }
        for_quads!(quad);
        for (mask, kept) in mask.iter_mut().zip(kept.chunks_exact(2)) {
            *mask &= u64::from(kept[0]) | u64::from(kept[1]) << 32;
        }
    }
}
