//! The meaning of the range test.

use super::RangeTest;
use crate::kernels::and_passing;

/// ANDs the test into the mask.
pub(in crate::kernels) fn select_range(words: &[u32], bits: u8, test: RangeTest, mask: &mut [u64]) {
    and_passing(words, bits, mask, |code| (test.lo..=test.hi).contains(&code) != test.negated);
}
