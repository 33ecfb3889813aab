//! Compressing with AVX2: eight values per step, moved to the front by a permutation that the mask's byte names.

use std::arch::x86_64::*;

use super::vector_path;
use crate::kernels::{have_avx2, have_popcnt};

vector_path!("avx2,popcnt", have_avx2() && have_popcnt(), front);

/// For each byte of a mask the lanes that are marked, in order, a byte each; the rest is 0.
static LANES: [u64; 256] = lanes();

const fn lanes() -> [u64; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut lane = 0;
        let mut to = 0;
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

/// The lanes that `byte` marks, in order, at the front.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn front(byte: u8, values: __m256i) -> __m256i {
    // SAFETY: a table of 256 entries of 8 bytes.
    let lanes = unsafe { _mm_loadl_epi64(LANES.as_ptr().add(usize::from(byte)).cast()) };
    _mm256_permutevar8x32_epi32(values, _mm256_cvtepu8_epi32(lanes))
}
