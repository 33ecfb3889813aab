//! Which codes are in a set, given as a bitmap over codes.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
pub(super) mod scalar;

use super::{MASK_WORDS, block_words};

/// ANDs into `mask`, bit `i` for code `i`, whether bit `code` of `set` is set; codes beyond the bitmap are not in it.
/// `words` holds whole blocks of 1 to 32 bits and `mask` four words for each.
pub(crate) fn select_set(words: &[u32], bits: u8, set: &[u32], mask: &mut [u64]) {
    assert!((1..=32).contains(&bits));
    assert_eq!(words.len(), mask.len() / MASK_WORDS * block_words(bits));
    #[cfg(target_arch = "x86_64")]
    if super::have_avx2() {
        return avx2::select_set(words, bits, set, mask);
    }
    scalar::select_set(words, bits, set, mask);
}

#[cfg(test)]
mod tests;
