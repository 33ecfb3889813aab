//! The hashes of keys: of one or two words, and of bytes.
//!
//! Tables choose a slot by the low bits or a fraction of the low half, partitions and parts by the top bits: so all
//! bits of a hash depend on all bits of the key. Bloom filters need a stronger one and have it (`key_filter/bloom.rs`).

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Both halves of a product together.
#[inline(always)]
fn fold(value: u64) -> u64 {
    let wide = u128::from(value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (wide >> 64) as u64 ^ wide as u64
}

/// Of a word.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u64 {
    fold(key)
}

/// Of two words.
#[inline(always)]
pub(crate) fn hash_wide(key: u128) -> u64 {
    fold(fold(key as u64) ^ (key >> 64) as u64)
}

/// Of bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    FixedState::with_seed(0x5eed).hash_one(bytes)
}
