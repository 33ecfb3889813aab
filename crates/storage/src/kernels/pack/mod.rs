//! Values to packed codes.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

use super::{block_words, low_bits, words_for};
use crate::BLOCK_ROWS;

/// Packs `values` as codes of `bits` bits into `out`, the last block padded with zeros.
///
/// `out` has `words_for(values.len(), bits)` words, which are overwritten. Every value fits in `bits` bits.
pub(crate) fn pack(values: &[u32], bits: u8, out: &mut [u32]) {
    assert_eq!(out.len(), words_for(values.len(), bits));
    debug_assert!(values.iter().all(|&v| v <= low_bits(bits)));
    if bits == 0 {
        return;
    }
    let whole = values.len() / BLOCK_ROWS;
    let (blocks, tail) = values.split_at(whole * BLOCK_ROWS);
    let (out_blocks, out_tail) = out.split_at_mut(whole * block_words(bits));
    pack_blocks(blocks, bits, out_blocks);
    if !tail.is_empty() {
        let mut padded = [0; BLOCK_ROWS];
        padded[..tail.len()].copy_from_slice(tail);
        pack_blocks(&padded, bits, out_tail);
    }
}

/// Packs whole blocks.
fn pack_blocks(values: &[u32], bits: u8, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if super::have_avx2() {
        return avx2::pack_blocks(values, bits, out);
    }
    scalar::pack_blocks(values, bits, out);
}

#[cfg(test)]
mod tests;
