//! The meaning of the membership test.

use crate::BLOCK_ROWS;
use crate::kernels::unpack::unpack;
use crate::kernels::{MASK_WORDS, block_words};

/// ANDs the test into the mask.
pub(in crate::kernels) fn select_set(words: &[u32], bits: u8, set: &[u32], mask: &mut [u64]) {
    let mut codes = Vec::with_capacity(BLOCK_ROWS);
    for (words, mask) in words.chunks_exact(block_words(bits)).zip(mask.chunks_exact_mut(MASK_WORDS)) {
        codes.clear();
        unpack(words, bits, 0..BLOCK_ROWS, &mut codes);
        for (codes, mask) in codes.chunks_exact(64).zip(mask) {
            let mut kept = 0;
            for (i, &code) in codes.iter().enumerate() {
                let word = set.get(code as usize / 32).copied().unwrap_or(0);
                kept |= u64::from(word >> (code % 32) & 1) << i;
            }
            *mask &= kept;
        }
    }
}
