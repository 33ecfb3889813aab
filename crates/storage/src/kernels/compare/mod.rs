//! Which codes lie in a range: unpacked and compared in registers, never stored.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod scalar;

use super::{MASK_WORDS, block_words};

/// Which codes a range test keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeTest {
    /// The lowest code of the range.
    pub(crate) lo: u32,
    /// The highest code of the range; `lo <= hi`.
    pub(crate) hi: u32,
    /// Keep the codes outside the range instead.
    pub(crate) negated: bool,
}

/// ANDs into `mask`, bit `i` for code `i`, whether the code passes. `words` holds whole blocks of 1 to 32 bits and
/// `mask` four words for each.
pub(crate) fn select_range(words: &[u32], bits: u8, test: RangeTest, mask: &mut [u64]) {
    assert!(test.lo <= test.hi && (1..=32).contains(&bits));
    assert_eq!(words.len(), mask.len() / MASK_WORDS * block_words(bits));
    #[cfg(target_arch = "x86_64")]
    {
        if super::have_avx512_compare() {
            return avx512::select_range(words, bits, test, mask);
        }
        if super::have_avx2() {
            return avx2::select_range(words, bits, test, mask);
        }
    }
    scalar::select_range(words, bits, test, mask);
}

#[cfg(test)]
mod tests;
