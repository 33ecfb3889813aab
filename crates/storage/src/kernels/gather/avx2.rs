//! Gathering with AVX2: eight positions per step.

use std::arch::x86_64::*;

use super::scalar;
use crate::kernels::{block_words, have_avx2, low_bits};

/// As the scalar one; `words` has at most `i32::MAX` words and covers every position.
pub(in crate::kernels) fn gather(words: &[u32], bits: u8, positions: &[u32], out: &mut Vec<u32>) {
    assert!(have_avx2());
    // SAFETY: the processor has AVX2.
    unsafe { gather_eights(words, bits, positions, out) }
    let rest = positions.len() / 8 * 8;
    scalar::gather(words, bits, &positions[rest..], out);
}

#[target_feature(enable = "avx2")]
fn gather_eights(words: &[u32], bits: u8, positions: &[u32], out: &mut Vec<u32>) {
    let old_len = out.len();
    let count = positions.len() / 8 * 8;
    out.reserve(positions.len());
    let target = out.spare_capacity_mut()[..count].as_mut_ptr();
    let width = _mm256_set1_epi32(i32::from(bits));
    let block_size = _mm256_set1_epi32(block_words(bits) as i32);
    let low = _mm256_set1_epi32(low_bits(bits) as i32);
    let last = _mm256_set1_epi32(words.len() as i32 - 1);
    let seven = _mm256_set1_epi32(7);
    let ones = _mm256_set1_epi32(31);
    let thirty_two = _mm256_set1_epi32(32);
    for (i, eight) in positions.chunks_exact(8).enumerate() {
        // SAFETY: a chunk of eight positions.
        let position = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
        let block = _mm256_mullo_epi32(_mm256_srli_epi32::<8>(position), block_size);
        let row = _mm256_and_si256(_mm256_srli_epi32::<3>(position), ones);
        let bit = _mm256_mullo_epi32(row, width);
        let shift = _mm256_and_si256(bit, ones);
        let word = _mm256_add_epi32(block, _mm256_slli_epi32::<3>(_mm256_srli_epi32::<5>(bit)));
        let word = _mm256_add_epi32(word, _mm256_and_si256(position, seven));
        // Clamping keeps the reads inside whatever the positions are; for positions in range it changes only the
        // second word of values that do not need one.
        let first = _mm256_min_epu32(word, last);
        let second = _mm256_min_epu32(_mm256_add_epi32(word, _mm256_set1_epi32(8)), last);
        // SAFETY: both indexes are at most the last word's, and that fits in i32.
        let (a, b) = unsafe {
            let base = words.as_ptr().cast();
            (_mm256_i32gather_epi32::<4>(base, first), _mm256_i32gather_epi32::<4>(base, second))
        };
        // A shift by 32 gives zero; bits of a second word that is not the value's fall to the mask.
        let high = _mm256_sllv_epi32(b, _mm256_sub_epi32(thirty_two, shift));
        let value = _mm256_and_si256(_mm256_or_si256(_mm256_srlv_epi32(a, shift), high), low);
        // SAFETY: `target` has `count` elements, and 8 * i + 8 <= count.
        unsafe { _mm256_storeu_si256(target.add(8 * i).cast(), value) };
    }
    // SAFETY: the loop has written the `count` elements after the old length.
    unsafe { out.set_len(old_len + count) };
}
