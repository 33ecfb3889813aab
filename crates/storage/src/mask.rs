//! Bit masks of rows: bit `i % 64` of word `i / 64` stands for row `i`.

use crate::kernels::positions;

/// Rows that are marked.
pub fn mask_count(mask: &[u64]) -> usize {
    positions::count(mask)
}

/// Appends the numbers of the marked rows, ascending, the first row's number being `first`.
pub fn mask_positions(mask: &[u64], first: u32, out: &mut Vec<u32>) {
    positions::positions(mask, first, out);
}
