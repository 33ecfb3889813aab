//! Packing with AVX2: one accumulator of eight lanes, stored whenever its 32 bits are full.

use std::arch::x86_64::*;

use crate::BLOCK_ROWS;
use crate::kernels::{block_words, have_avx2, per_width};

type Packer = unsafe fn(&[u32], &mut [u32]);
const PACKERS: [Packer; 33] = per_width!(pack_width);

/// As the scalar one.
pub(super) fn pack_blocks(values: &[u32], bits: u8, out: &mut [u32]) {
    assert!(have_avx2());
    // SAFETY: the processor has AVX2.
    unsafe { PACKERS[bits as usize](values, out) }
}

#[target_feature(enable = "avx2")]
fn pack_width<const B: usize>(values: &[u32], out: &mut [u32]) {
    if B == 0 {
        return;
    }
    for (block, words) in values.chunks_exact(BLOCK_ROWS).zip(out.chunks_exact_mut(block_words(B as u8))) {
        let mut accumulator = _mm256_setzero_si256();
        macro_rules! row {
            ($r:literal) => {{
                let word = const { $r * B / 32 };
                let shift = const { $r * B % 32 };
                // SAFETY: a block has 256 values, row $r < 32 is the eight from 8 * $r on.
                let value = unsafe { _mm256_loadu_si256(block.as_ptr().add(8 * $r).cast()) };
                let placed = _mm256_sll_epi32(value, _mm_cvtsi32_si128(shift as i32));
                accumulator = _mm256_or_si256(accumulator, placed);
                if shift + B >= 32 {
                    // SAFETY: word < B for every row below 32, and the block has 8 * B words.
                    unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(8 * word).cast(), accumulator) };
                    // A shift by 32 gives zero: nothing of the value is left over.
                    accumulator = _mm256_srl_epi32(value, _mm_cvtsi32_si128(32 - shift as i32));
                }
            }};
        }
        macro_rules! quad {
            ($q:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
                row!($a);
                row!($b);
                row!($c);
                row!($d);
            };
        }
        crate::kernels::vector::for_quads!(quad);
    }
}
