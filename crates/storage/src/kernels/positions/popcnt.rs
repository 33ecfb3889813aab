//! Counts and positions with the instructions for single bits that processors with AVX2 have.

use super::{STRIDE, run};
use crate::kernels::have_popcnt;

/// Positions of a word that are written without asking whether there are as many: a loop that ends with the word would
/// be predicted wrongly for nearly every word.
const STEP: usize = 8;
const _: () = assert!(STEP <= STRIDE);

/// As the scalar one.
pub(in crate::kernels) fn count(mask: &[u64]) -> usize {
    assert!(have_popcnt());
    // SAFETY: the processor has the instruction.
    unsafe { count_bits(mask) }
}

#[target_feature(enable = "popcnt")]
fn count_bits(mask: &[u64]) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// As the scalar one; `marked` bits are set in `mask`, and `out` has room for a stride more.
pub(in crate::kernels) fn positions(mask: &[u64], first: u32, marked: usize, out: &mut Vec<u32>) {
    assert!(have_popcnt());
    // SAFETY: the processor has the instructions.
    unsafe { run(write, mask, first, marked, out) }
}

/// # Safety
/// `out` has room for as many positions as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "popcnt,bmi1")]
unsafe fn write(mask: &[u64], first: u32, out: *mut u32) -> usize {
    let mut done = 0;
    for (i, &word) in mask.iter().enumerate() {
        if word == 0 {
            continue;
        }
        let mut bits = word;
        let mut to = done;
        done += word.count_ones() as usize;
        let base = first.wrapping_add(i as u32 * 64);
        while to < done {
            for step in 0..STEP {
                // SAFETY: `to` is below the end of this word's positions, and a step is at most a stride.
                unsafe { out.add(to + step).write(base.wrapping_add(bits.trailing_zeros())) };
                bits &= bits.wrapping_sub(1);
            }
            to += STEP;
        }
    }
    done
}
