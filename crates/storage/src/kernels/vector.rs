//! What the vector kernels share: reading one row (eight neighbouring values) of a block.

use std::arch::x86_64::*;

use super::low_bits;

/// How far ahead of what is read memory is asked for: the processor's own prefetching stops at each page of 4 KiB.
const AHEAD_BYTES: usize = 4096;

/// Asks for the memory of a block of `B`-bit values some way behind the one at `words`; it need not be there.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn prefetch<const B: usize>(words: *const u32) {
    let mut line = 0;
    while line < 32 * B {
        let at = words.cast::<i8>().wrapping_add(AHEAD_BYTES + line);
        _mm_prefetch::<_MM_HINT_T0>(at);
        line += 64;
    }
}

/// Calls the macro `$m` for the eight groups of four rows.
macro_rules! for_quads {
    ($m:ident) => {
        $m!(0, 0, 1, 2, 3);
        $m!(1, 4, 5, 6, 7);
        $m!(2, 8, 9, 10, 11);
        $m!(3, 12, 13, 14, 15);
        $m!(4, 16, 17, 18, 19);
        $m!(5, 20, 21, 22, 23);
        $m!(6, 24, 25, 26, 27);
        $m!(7, 28, 29, 30, 31);
    };
}
pub(super) use for_quads;

/// Calls the macro `$m` for the 32 rows.
macro_rules! for_rows {
    ($m:ident) => {
        macro_rules! quad {
            ($q:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
                $m!($a);
                $m!($b);
                $m!($c);
                $m!($d);
            };
        }
        $crate::kernels::vector::for_quads!(quad);
    };
}
pub(super) use for_rows;

/// Row `R` of the block of `B`-bit values at `words`: values `8R ..= 8R + 7`. The shifts are constants once this is
/// instantiated.
///
/// # Safety
/// `words` points at a readable block of `8 * B` words.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn row<const B: usize, const R: usize>(words: *const u32) -> __m256i {
    let word = const { R * B / 32 };
    let shift = const { R * B % 32 };
    if B == 0 {
        return _mm256_setzero_si256();
    }
    // SAFETY: R < 32, so word < B, and the block has 8 * B words; the caller vouches for the block.
    let low = unsafe { _mm256_loadu_si256(words.add(8 * word).cast()) };
    let mut value = _mm256_srl_epi32(low, _mm_cvtsi32_si128(shift as i32));
    if shift + B > 32 {
        // SAFETY: the value goes on in the lane's next word, which therefore is one of the block.
        let high = unsafe { _mm256_loadu_si256(words.add(8 * (word + 1)).cast()) };
        value = _mm256_or_si256(value, _mm256_sll_epi32(high, _mm_cvtsi32_si128(32 - shift as i32)));
    }
    if shift + B != 32 {
        value = _mm256_and_si256(value, _mm256_set1_epi32(low_bits(B as u8) as i32));
    }
    value
}

/// Four rows' lane masks (all ones or all zeros per value) as 32 bits in row order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn quad_mask(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> u32 {
    // Packing works within 128-bit halves: a.low b.low c.low d.low | a.high b.high c.high d.high, four bytes each.
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_movemask_epi8(ordered) as u32
}
