//! The codes of the rows that a mask marks: unpacked and packed together in registers.
//!
//! Every row of a block that has a marked one is unpacked, so it pays where a block has several; fewer are better
//! gathered at their positions.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod scalar;

use super::positions::count;
use super::{MASK_WORDS, block_words};

/// Codes that a vector path writes at a time; what lies past the marked ones is written over.
pub(crate) const STRIDE: usize = 8;

/// A vector path for one width: writes the codes of the marked rows, and up to [`STRIDE`] more; gives how many were
/// marked.
#[cfg(target_arch = "x86_64")]
type Compressor = unsafe fn(&[u32], &[u64], *mut u32) -> usize;

/// Appends what a vector path finds; `marked` bits are set in `mask`, and `out` has room for [`STRIDE`] more.
///
/// # Safety
/// The processor has what the paths in the table are made of.
#[cfg(target_arch = "x86_64")]
unsafe fn run(paths: &[Compressor; 33], words: &[u32], bits: u8, mask: &[u64], marked: usize, out: &mut Vec<u32>) {
    // A path writes as many as bits are set, whatever the caller believes.
    assert!(out.capacity() - out.len() >= marked + STRIDE && count(mask) == marked);
    assert!(words.len() >= mask.len() / MASK_WORDS * block_words(bits));
    let target = out.spare_capacity_mut().as_mut_ptr().cast();
    // SAFETY: the caller vouches for the processor; `target` has room for the marked codes and a stride.
    let written = unsafe { paths[usize::from(bits)](words, mask, target) };
    assert_eq!(written, marked);
    // SAFETY: `n` codes were written after the old length.
    unsafe { out.set_len(out.len() + marked) };
}

/// A vector path: where the processor has `$features`, which `$have` tells, `$front` moves the values of the lanes that
/// a byte marks to the front.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_path {
    ($features:literal, $have:expr, $front:ident) => {
        use super::{Compressor, run};
        use crate::kernels::vector::{for_rows, row};
        use crate::kernels::{MASK_WORDS, block_words, per_width};

        const COMPRESSORS: [Compressor; 33] = per_width!(compress_width);

        /// As the scalar one; `marked` bits are set in `mask`, and `out` has room for a stride more.
        pub(in crate::kernels) fn compress(words: &[u32], bits: u8, mask: &[u64], marked: usize, out: &mut Vec<u32>) {
            assert!($have);
            // SAFETY: the processor has what the path is made of.
            unsafe { run(&COMPRESSORS, words, bits, mask, marked, out) }
        }

        /// # Safety
        /// `out` has room for as many codes as bits are set in `mask`, and for a stride more.
        #[target_feature(enable = $features)]
        unsafe fn compress_width<const B: usize>(words: &[u32], mask: &[u64], out: *mut u32) -> usize {
            let mut done = 0;
            if B == 0 {
                return done;
            }
            for (words, mask) in words.chunks_exact(block_words(B as u8)).zip(mask.chunks_exact(MASK_WORDS)) {
                if mask.iter().all(|&m| m == 0) {
                    continue;
                }
                let words = words.as_ptr();
                macro_rules! one {
                    ($r:literal) => {
                        let byte = (mask[$r / 8] >> ($r % 8 * 8)) as u8;
                        // SAFETY: `words` is a block of 8 * B words.
                        let values = unsafe { row::<B, $r>(words) };
                        // SAFETY: `done` codes are before this step's, so its stride lies in the room.
                        unsafe { _mm256_storeu_si256(out.add(done).cast(), $front(byte, values)) };
                        done += byte.count_ones() as usize;
                    };
                }
                for_rows!(one);
            }
            done
        }
    };
}
#[cfg(target_arch = "x86_64")]
use vector_path;

/// Appends the codes of the rows whose bits are set in `mask`, in order. `words` holds whole blocks of 0 to 32 bits and
/// `mask` four words for each.
pub(crate) fn compress(words: &[u32], bits: u8, mask: &[u64], out: &mut Vec<u32>) {
    assert!(bits <= 32 && mask.len().is_multiple_of(MASK_WORDS));
    let marked = count(mask);
    if bits == 0 {
        out.resize(out.len() + marked, 0);
        return;
    }
    assert_eq!(words.len(), mask.len() / MASK_WORDS * block_words(bits));
    out.reserve(marked + STRIDE);
    #[cfg(target_arch = "x86_64")]
    {
        if super::have_avx512() {
            return avx512::compress(words, bits, mask, marked, out);
        }
        if super::have_avx2() && super::have_popcnt() {
            return avx2::compress(words, bits, mask, marked, out);
        }
    }
    scalar::compress(words, bits, mask, out);
}

#[cfg(test)]
mod tests;
