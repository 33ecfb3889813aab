//! Compressing with AVX-512 (VL): eight values per step, moved to the front by one instruction.

use std::arch::x86_64::*;

use super::vector_path;
use crate::kernels::have_avx512;

vector_path!("avx2,avx512f,avx512vl,popcnt", have_avx512(), front);

/// The lanes that `byte` marks, in order, at the front.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl,popcnt")]
fn front(byte: u8, values: __m256i) -> __m256i {
    _mm256_maskz_compress_epi32(byte, values)
}
