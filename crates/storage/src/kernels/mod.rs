//! The loops over packed codes, each as a triplet: `mod.rs` chooses at run time, `scalar.rs` is the meaning, `avx2.rs`
//! the fast path. Each pair is tested against the other and against plain vectors for every width.
//!
//! # The layout
//! A block holds 256 values of `b` bits in `b` rows of 8 words of 32 bits. Value `8r + l` lies in lane `l`: its bits
//! are `r*b .. r*b + b` of the bit string that the lane's words form, lowest bit first. A 256-bit load is one word of
//! every lane, so a compare yields eight neighbouring rows. Blocks follow each other without gaps.
//!
//! # Limits
//! x86-64 with AVX2 has a fast path; other processors run the scalar one. AVX-512 is used where it saves most
//! (tested on Zen 4): comparing, and moving marked lanes to the front. NEON waits for hardware to test on.

#![allow(unsafe_code)]

#[doc(hidden)]
pub mod bench;
pub(crate) mod compare;
pub(crate) mod compress;
pub(crate) mod gather;
pub(crate) mod member;
pub(crate) mod pack;
pub(crate) mod positions;
pub(crate) mod share;
pub(crate) mod sum;
pub(crate) mod unpack;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::BLOCK_ROWS;

/// Words of 64 bits in the mask of a block.
pub(crate) const MASK_WORDS: usize = BLOCK_ROWS / 64;

/// Words of 32 bits that a block of `bits`-bit codes takes.
pub(crate) const fn block_words(bits: u8) -> usize {
    BLOCK_ROWS / 32 * bits as usize
}

/// Words of 32 bits that `rows` codes take, the last block padded.
pub(crate) const fn words_for(rows: usize, bits: u8) -> usize {
    rows.div_ceil(BLOCK_ROWS) * block_words(bits)
}

/// All ones in the lowest `bits` bits.
pub(crate) const fn low_bits(bits: u8) -> u32 {
    if bits == 0 { 0 } else { u32::MAX >> (32 - bits) }
}

/// Bits that the numbers `0..=max` need.
pub(crate) const fn bits_for(max: u32) -> u8 {
    (32 - max.leading_zeros()) as u8
}

/// Whether the fast paths may run here.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn have_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Whether lanes can be moved to the front by a mask.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn have_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512vl") && have_avx2() && have_popcnt()
}

/// Whether codes can be compared into mask registers and shifted across words.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn have_avx512_compare() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512bw") && has!("avx512dq") && has!("avx512vbmi2") && have_avx512()
}

/// Whether there is an instruction that counts the bits of eight words.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn have_avx512_popcnt() -> bool {
    std::arch::is_x86_feature_detected!("avx512vpopcntdq") && have_avx512()
}

/// Whether there are instructions that count bits and take the lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn have_popcnt() -> bool {
    std::arch::is_x86_feature_detected!("popcnt") && std::arch::is_x86_feature_detected!("bmi1")
}

/// The meaning of all tests of codes: ANDs into the mask whether each code passes.
#[inline]
pub(crate) fn and_passing(words: &[u32], bits: u8, mask: &mut [u64], passes: impl Fn(u32) -> bool) {
    let mut codes = Vec::with_capacity(BLOCK_ROWS);
    for (words, mask) in words.chunks_exact(block_words(bits)).zip(mask.chunks_exact_mut(MASK_WORDS)) {
        codes.clear();
        unpack::unpack(words, bits, 0..BLOCK_ROWS, &mut codes);
        for (codes, mask) in codes.chunks_exact(64).zip(mask) {
            let bit = |(i, code): (usize, &u32)| u64::from(passes(*code)) << i;
            *mask &= codes.iter().enumerate().map(bit).fold(0, |kept, bit| kept | bit);
        }
    }
}

/// A table of the 33 instances of a function that is generic over the width.
macro_rules! per_width {
    ($f:ident) => {
        [
            $f::<0>, $f::<1>, $f::<2>, $f::<3>, $f::<4>, $f::<5>, $f::<6>, $f::<7>, $f::<8>, $f::<9>, $f::<10>,
            $f::<11>, $f::<12>, $f::<13>, $f::<14>, $f::<15>, $f::<16>, $f::<17>, $f::<18>, $f::<19>, $f::<20>,
            $f::<21>, $f::<22>, $f::<23>, $f::<24>, $f::<25>, $f::<26>, $f::<27>, $f::<28>, $f::<29>, $f::<30>,
            $f::<31>, $f::<32>,
        ]
    };
}
pub(crate) use per_width;
