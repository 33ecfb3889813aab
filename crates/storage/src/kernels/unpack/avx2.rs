//! Unpacking with AVX2: eight values per step, all shifts constants.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::BLOCK_ROWS;
use crate::kernels::vector::{for_rows, row};
use crate::kernels::{block_words, have_avx2, per_width};

type Unpacker = unsafe fn(&[u32], &mut [MaybeUninit<u32>]);
const UNPACKERS: [Unpacker; 33] = per_width!(unpack_width);

/// As the scalar one.
pub(in crate::kernels) fn unpack_blocks(words: &[u32], bits: u8, out: &mut [MaybeUninit<u32>]) {
    assert!(have_avx2());
    // SAFETY: the processor has AVX2.
    unsafe { UNPACKERS[bits as usize](words, out) }
}

#[target_feature(enable = "avx2")]
fn unpack_width<const B: usize>(words: &[u32], out: &mut [MaybeUninit<u32>]) {
    if B == 0 {
        out.fill(MaybeUninit::new(0));
        return;
    }
    for (words, values) in words.chunks_exact(block_words(B as u8)).zip(out.chunks_exact_mut(BLOCK_ROWS)) {
        let words = words.as_ptr();
        let values = values.as_mut_ptr();
        macro_rules! one {
            ($r:literal) => {
                // SAFETY: `words` is a block of 8 * B words; `values` has 256 elements, row $r < 32 is the eight from
                // 8 * $r on.
                unsafe { _mm256_storeu_si256(values.add(8 * $r).cast(), row::<B, $r>(words)) };
            };
        }
        for_rows!(one);
    }
}
