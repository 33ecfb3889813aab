//! Packed codes to values.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
pub(super) mod scalar;

use std::mem::MaybeUninit;
use std::ops::Range;

use super::block_words;
use crate::BLOCK_ROWS;

/// Appends the codes of `rows` (any range) to `out`. `words` holds whole blocks that cover them.
pub(crate) fn unpack(words: &[u32], bits: u8, rows: Range<usize>, out: &mut Vec<u32>) {
    let old_len = out.len();
    if bits == 0 {
        out.resize(old_len + rows.len(), 0);
        return;
    }
    out.reserve(rows.len());
    let target = &mut out.spare_capacity_mut()[..rows.len()];
    unpack_into(words, bits, rows.clone(), target);
    // SAFETY: `unpack_into` has written all of `target`, the `rows.len()` elements after the old length.
    unsafe { out.set_len(old_len + rows.len()) };
}

/// Writes the codes of `rows` to `out`, which has as many elements. Writes every one of them.
fn unpack_into(words: &[u32], bits: u8, rows: Range<usize>, out: &mut [MaybeUninit<u32>]) {
    let size = block_words(bits);
    let mut row = rows.start;
    let mut done = 0;
    let mut block = [const { MaybeUninit::uninit() }; BLOCK_ROWS];
    while row < rows.end {
        let index = row / BLOCK_ROWS;
        let from = row % BLOCK_ROWS;
        let whole = (rows.end - row) / BLOCK_ROWS;
        if from == 0 && whole > 0 {
            unpack_blocks(&words[index * size..][..whole * size], bits, &mut out[done..][..whole * BLOCK_ROWS]);
            row += whole * BLOCK_ROWS;
            done += whole * BLOCK_ROWS;
        } else {
            let take = (BLOCK_ROWS - from).min(rows.end - row);
            unpack_blocks(&words[index * size..][..size], bits, &mut block);
            out[done..done + take].copy_from_slice(&block[from..from + take]);
            row += take;
            done += take;
        }
    }
}

/// Unpacks whole blocks of 1 to 32 bits; writes every element of `out`.
fn unpack_blocks(words: &[u32], bits: u8, out: &mut [MaybeUninit<u32>]) {
    assert!(words.len() == out.len() / BLOCK_ROWS * block_words(bits) && out.len().is_multiple_of(BLOCK_ROWS));
    #[cfg(target_arch = "x86_64")]
    if super::have_avx2() {
        return avx2::unpack_blocks(words, bits, out);
    }
    scalar::unpack_blocks(words, bits, out);
}

#[cfg(test)]
pub(crate) mod tests;
