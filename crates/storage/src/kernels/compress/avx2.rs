//! Compressing with AVX2: eight values per step, moved to the front by a permutation that the mask's byte names.

use std::arch::x86_64::*;

use super::{Compressor, run};
use crate::kernels::vector::{for_rows, row};
use crate::kernels::{MASK_WORDS, block_words, have_avx2, have_popcnt, per_width};

const COMPRESSORS: [Compressor; 33] = per_width!(compress_width);

/// For each byte of a mask the lanes that are marked, in order, a byte each; the rest is 0.
static LANES: [u64; 256] = lanes();

const fn lanes() -> [u64; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut lane, mut to) = (0, 0);
        while lane < 8 {
            if byte >> lane & 1 == 1 {
                all[byte] |= (lane as u64) << (8 * to);
                to += 1;
            }
            lane += 1;
        }
        byte += 1;
    }
    all
}

/// As the scalar one; `marked` bits are set in `mask`, and `out` has room for a stride more.
pub(in crate::kernels) fn compress(words: &[u32], bits: u8, mask: &[u64], marked: usize, out: &mut Vec<u32>) {
    assert!(have_avx2() && have_popcnt());
    // SAFETY: the processor has AVX2 and counts bits.
    unsafe { run(&COMPRESSORS, words, bits, mask, marked, out) }
}

/// # Safety
/// `out` has room for as many codes as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "avx2,popcnt")]
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
                // SAFETY: a table of 256 entries of 8 bytes.
                let lanes = unsafe { _mm_loadl_epi64(LANES.as_ptr().add(usize::from(byte)).cast()) };
                // SAFETY: `words` is a block of 8 * B words; `done` codes are before this step's, so its stride lies in
                // the room.
                unsafe {
                    let front = _mm256_permutevar8x32_epi32(row::<B, $r>(words), _mm256_cvtepu8_epi32(lanes));
                    _mm256_storeu_si256(out.add(done).cast(), front);
                }
                done += byte.count_ones() as usize;
            };
        }
        for_rows!(one);
    }
    done
}
