//! Counts and positions with AVX-512.
//!
//! How many bits the next word has is as good as random, so branches on it are predicted wrongly for every other word
//! at some density. Where few words have any bit, those that have one are picked first, eight words at a time; where
//! most have, none is skipped.

use std::arch::x86_64::*;

use super::{STRIDE, run};
use crate::kernels::{have_avx512, have_avx512_popcnt};

/// Words with at most `n` bits set are taken bit by bit, always `n`.
const FEW: usize = 4;
/// Words among which those with a bit are picked at a time.
const PICKED: usize = 64;
const _: () = assert!(FEW <= STRIDE);

/// As the scalar one.
pub(in crate::kernels) fn count(mask: &[u64]) -> usize {
    assert!(have_avx512_popcnt());
    // SAFETY: the processor has the instructions.
    unsafe { count_bits(mask) }
}

#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn count_bits(mask: &[u64]) -> usize {
    let (eights, rest) = mask.as_chunks::<8>();
    let mut sums = _mm512_setzero_si512();
    for words in eights {
        // SAFETY: eight words.
        let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(words));
    }
    _mm512_reduce_add_epi64(sums) as usize + rest.iter().map(|word| word.count_ones() as usize).sum::<usize>()
}

/// As the scalar one; `marked` bits are set in `mask`, and `out` has room for [`STRIDE`] more.
pub(in crate::kernels) fn positions(mask: &[u64], first: u32, marked: usize, out: &mut Vec<u32>) {
    assert!(have_avx512());
    // At three bits in two words every fifth word is empty.
    let path = if marked * 2 <= mask.len() * 3 { write_sparse } else { write_dense };
    // SAFETY: the processor has AVX-512.
    unsafe { run(path, mask, first, marked, out) }
}

/// The positions of one word's bits, up to [`STRIDE`] written beyond them; how many they are.
///
/// # Safety
/// `out` has room for them and for a stride more.
#[inline]
#[target_feature(enable = "avx512f,popcnt,bmi1")]
unsafe fn write_word(word: u64, base: u32, out: *mut u32) -> usize {
    let count = word.count_ones() as usize;
    if count <= FEW {
        let mut bits = word;
        for step in 0..FEW {
            // SAFETY: less than a stride.
            unsafe { out.add(step).write(base.wrapping_add(bits.trailing_zeros())) };
            bits &= bits.wrapping_sub(1);
        }
        return count;
    }
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut done = 0;
    for quarter in 0..4 {
        let bits = (word >> (16 * quarter)) as u16;
        let numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(base.wrapping_add(16 * quarter) as i32));
        // SAFETY: `done` positions are before this step's, so its stride lies in the room.
        unsafe { _mm512_storeu_si512(out.add(done).cast(), _mm512_maskz_compress_epi32(bits, numbers)) };
        done += bits.count_ones() as usize;
    }
    done
}

/// # Safety
/// `out` has room for as many positions as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "avx512f,popcnt,bmi1")]
unsafe fn write_dense(mask: &[u64], first: u32, out: *mut u32) -> usize {
    let mut done = 0;
    for (i, &word) in mask.iter().enumerate() {
        let base = first.wrapping_add(i as u32 * 64);
        // SAFETY: the words before this one wrote what they have, and there is a stride of room behind the last one's.
        done += unsafe { write_word(word, base, out.add(done)) };
    }
    done
}

/// # Safety
/// `out` has room for as many positions as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "avx512f,avx512vl,popcnt,bmi1")]
unsafe fn write_sparse(mask: &[u64], first: u32, out: *mut u32) -> usize {
    let mut picked = [0; PICKED];
    let mut done = 0;
    for (number, words) in mask.chunks(PICKED).enumerate() {
        let first = first.wrapping_add((number * PICKED * 64) as u32);
        let count = pick(words, &mut picked);
        for &i in &picked[..count] {
            // SAFETY: as in `write_dense`.
            done += unsafe { write_word(words[i as usize], first.wrapping_add(i * 64), out.add(done)) };
        }
    }
    done
}

/// Writes which of at most [`PICKED`] words have a bit; how many they are.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,popcnt")]
fn pick(words: &[u64], picked: &mut [u32; PICKED]) -> usize {
    assert!(words.len() <= PICKED);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let (eights, rest) = words.as_chunks::<8>();
    let mut count = 0;
    for (i, eight) in eights.iter().enumerate() {
        // SAFETY: eight words.
        let eight = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
        let some = _mm512_test_epi64_mask(eight, eight);
        let numbers = _mm256_add_epi32(lanes, _mm256_set1_epi32(8 * i as i32));
        // SAFETY: `count` is at most `8 * i`, so eight more are within the array.
        unsafe {
            _mm256_storeu_si256(picked.as_mut_ptr().add(count).cast(), _mm256_maskz_compress_epi32(some, numbers))
        };
        count += some.count_ones() as usize;
    }
    for (i, &word) in rest.iter().enumerate() {
        picked[count] = (8 * eights.len() + i) as u32;
        count += usize::from(word != 0);
    }
    count
}
