//! The meaning of packing.

use crate::BLOCK_ROWS;
use crate::kernels::block_words;

/// Packs whole blocks: `values` has a multiple of 256, `out` as many blocks.
pub(super) fn pack_blocks(values: &[u32], bits: u8, out: &mut [u32]) {
    let width = bits as usize;
    for (block, words) in values.chunks_exact(BLOCK_ROWS).zip(out.chunks_exact_mut(block_words(bits))) {
        words.fill(0);
        for (i, &value) in block.iter().enumerate() {
            let row = i / 8;
            let lane = i % 8;
            let word = row * width / 32;
            let shift = row * width % 32;
            words[8 * word + lane] |= value << shift;
            if shift + width > 32 {
                words[8 * (word + 1) + lane] |= value >> (32 - shift);
            }
        }
    }
}
