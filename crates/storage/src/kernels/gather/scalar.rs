//! The meaning of gathering.

use crate::BLOCK_ROWS;
use crate::kernels::{block_words, low_bits};

/// Appends the codes at `positions`.
pub(in crate::kernels) fn gather(words: &[u32], bits: u8, positions: &[u32], out: &mut Vec<u32>) {
    out.extend(positions.iter().map(|&position| code_at(words, bits, position as usize)));
}

/// The code at one position.
#[inline]
pub(in crate::kernels) fn code_at(words: &[u32], bits: u8, position: usize) -> u32 {
    let block = position / BLOCK_ROWS;
    let i = position % BLOCK_ROWS;
    let bit = i / 8 * bits as usize;
    let word = block * block_words(bits) + 8 * (bit / 32) + i % 8;
    let shift = bit % 32;
    let mut value = words[word] >> shift;
    if shift + bits as usize > 32 {
        value |= words[word + 8] << (32 - shift);
    }
    value & low_bits(bits)
}
