//! The meaning of the membership test.

use crate::kernels::and_passing;

/// ANDs the test into the mask.
pub(in crate::kernels) fn select_set(words: &[u32], bits: u8, set: &[u32], mask: &mut [u64]) {
    let word = |code: u32| set.get(code as usize / 32).copied().unwrap_or(0);
    and_passing(words, bits, mask, |code| word(code) >> (code % 32) & 1 == 1);
}
