//! The meaning of unpacking, and the path of processors without AVX2.

use std::mem::MaybeUninit;

use crate::BLOCK_ROWS;
use crate::kernels::{block_words, low_bits, per_width};

type Unpacker = fn(&[u32], &mut [MaybeUninit<u32>]);
const UNPACKERS: [Unpacker; 33] = per_width!(unpack_width);

/// Unpacks whole blocks; writes every element of `out`.
pub(in crate::kernels) fn unpack_blocks(words: &[u32], bits: u8, out: &mut [MaybeUninit<u32>]) {
    UNPACKERS[bits as usize](words, out);
}

/// One width: the compiler turns the inner loop into vector code where it can.
fn unpack_width<const B: usize>(words: &[u32], out: &mut [MaybeUninit<u32>]) {
    if B == 0 {
        out.fill(MaybeUninit::new(0));
        return;
    }
    for (words, values) in words.chunks_exact(block_words(B as u8)).zip(out.chunks_exact_mut(BLOCK_ROWS)) {
        for row in 0..32 {
            let word = row * B / 32;
            let shift = row * B % 32;
            for lane in 0..8 {
                let mut value = words[8 * word + lane] >> shift;
                if shift + B > 32 {
                    value |= words[8 * (word + 1) + lane] << (32 - shift);
                }
                values[8 * row + lane].write(value & low_bits(B as u8));
            }
        }
    }
}
