//! Compressing with AVX-512 (VL): eight values per step, moved to the front by one instruction.

use std::arch::x86_64::*;

use super::{Compressor, run};
use crate::kernels::vector::{for_rows, row};
use crate::kernels::{MASK_WORDS, block_words, have_avx512, per_width};

const COMPRESSORS: [Compressor; 33] = per_width!(compress_width);

/// As the scalar one; `marked` bits are set in `mask`, and `out` has room for a stride more.
pub(in crate::kernels) fn compress(words: &[u32], bits: u8, mask: &[u64], marked: usize, out: &mut Vec<u32>) {
    assert!(have_avx512());
    // SAFETY: the processor has AVX-512.
    unsafe { run(&COMPRESSORS, words, bits, mask, marked, out) }
}

/// # Safety
/// `out` has room for as many codes as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "avx2,avx512f,avx512vl,popcnt")]
unsafe fn compress_width<const B: usize>(words: &[u32], mask: &[u64], out: *mut u32) -> usize {
    let mut done = 0;
    if B == 0 {
        return done;
    }
    for (words, mask) in words.chunks_exact(block_words(B as u8)).zip(mask.chunks_exact(MASK_WORDS)) {
        if mask.iter().all(|&m| m == 0) {
            continue;
        }
        let words = words.as_ptr();
        macro_rules! one {
            ($r:literal) => {
                let byte = (mask[$r / 8] >> ($r % 8 * 8)) as u8;
                // SAFETY: `words` is a block of 8 * B words; `done` codes are before this step's, so its stride lies in
                // the room.
                unsafe {
                    let front = _mm256_maskz_compress_epi32(byte, row::<B, $r>(words));
                    _mm256_storeu_si256(out.add(done).cast(), front);
                }
                done += byte.count_ones() as usize;
            };
        }
        for_rows!(one);
    }
    done
}
