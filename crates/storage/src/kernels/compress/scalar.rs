//! The meaning of compressing.

use crate::BLOCK_ROWS;
use crate::kernels::gather::scalar::code_at;

/// Appends the codes of the rows that are marked.
pub(in crate::kernels) fn compress(words: &[u32], bits: u8, mask: &[u64], out: &mut Vec<u32>) {
    let rows = mask.len() * 64;
    debug_assert!(rows.is_multiple_of(BLOCK_ROWS));
    let marked = (0..rows).filter(|row| mask[row / 64] >> (row % 64) & 1 == 1);
    out.extend(marked.map(|row| code_at(words, bits, row)));
}
