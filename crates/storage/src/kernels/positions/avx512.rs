//! Positions with AVX-512: of sixteen numbers those whose bits are set move to the front.

use std::arch::x86_64::*;

use super::run;
use crate::kernels::have_avx512;

/// Words with at most so many bits set are taken bit by bit.
const FEW: u32 = 4;

/// As the scalar one; `marked` bits are set in `mask`, and `out` has room for a stride more.
pub(in crate::kernels) fn positions(mask: &[u64], first: u32, marked: usize, out: &mut Vec<u32>) {
    assert!(have_avx512());
    // SAFETY: the processor has AVX-512.
    unsafe { run(write, mask, first, marked, out) }
}

/// # Safety
/// `out` has room for as many positions as bits are set in `mask`, and for a stride more.
#[target_feature(enable = "avx512f,popcnt,bmi1")]
unsafe fn write(mask: &[u64], first: u32, out: *mut u32) -> usize {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut done = 0;
    for (i, &word) in mask.iter().enumerate() {
        if word == 0 {
            continue;
        }
        let base = first.wrapping_add(i as u32 * 64);
        let count = word.count_ones();
        if count <= FEW {
            let mut bits = word;
            for step in 0..FEW as usize {
                // SAFETY: fewer than a stride from the positions of this word on.
                unsafe { out.add(done + step).write(base.wrapping_add(bits.trailing_zeros())) };
                bits &= bits.wrapping_sub(1);
            }
            done += count as usize;
            continue;
        }
        for quarter in 0..4 {
            let bits = (word >> (16 * quarter)) as u16;
            let numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(base.wrapping_add(16 * quarter) as i32));
            // SAFETY: `done` positions are before this step's, so its stride lies in the room.
            unsafe { _mm512_storeu_si512(out.add(done).cast(), _mm512_maskz_compress_epi32(bits, numbers)) };
            done += bits.count_ones() as usize;
        }
    }
    done
}
