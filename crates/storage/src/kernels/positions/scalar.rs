//! The meaning of positions and counts.

/// Bits that are set.
pub(in crate::kernels) fn count(mask: &[u64]) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// Appends the places of the set bits, each plus `first`.
pub(in crate::kernels) fn positions(mask: &[u64], first: u32, out: &mut Vec<u32>) {
    for (i, &word) in mask.iter().enumerate() {
        let mut bits = word;
        while bits != 0 {
            out.push(first.wrapping_add(i as u32 * 64 + bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }
}
