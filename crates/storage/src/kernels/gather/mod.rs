//! Codes at positions.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
pub(super) mod scalar;

use super::words_for;

/// Appends the codes at `positions`, all below `rows`, in their order. `words` holds the blocks of `rows` codes.
pub(crate) fn gather(words: &[u32], bits: u8, rows: usize, positions: &[u32], out: &mut Vec<u32>) {
    let highest = positions.iter().copied().max().unwrap_or(0) as usize;
    assert!(positions.is_empty() || highest < rows, "position {highest} of {rows} rows");
    if bits == 0 {
        out.resize(out.len() + positions.len(), 0);
        return;
    }
    assert!(words.len() >= words_for(rows, bits));
    #[cfg(target_arch = "x86_64")]
    if super::have_avx2() && words.len() <= i32::MAX as usize {
        return avx2::gather(words, bits, positions, out);
    }
    scalar::gather(words, bits, positions, out);
}

/// The code at one position, below the rows that `words` holds.
#[inline]
pub(crate) fn code_at(words: &[u32], bits: u8, position: usize) -> u32 {
    if bits == 0 { 0 } else { scalar::code_at(words, bits, position) }
}

#[cfg(test)]
mod tests;
