//! What a slot of an inner node says of its child: one word, so that a look-up reads one line per level.
//!
//! Invariant: the word 0 is the empty slot.

use crate::arena::Block;

/// Bits of a key that lie below those that a leaf of values without keys counts.
pub(super) const DIRECT_BITS: u32 = 8;

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    /// No key.
    Empty,
    /// An inner node: its slots are found by `bits` bits of the key above `shift`.
    Inner { block: Block, shift: u32, bits: u32, skips: bool },
    /// Keys in order and their values, of an aligned interval of `2^cover` keys.
    Leaf { block: Block, cover: u32, lines: usize },
    /// A value for each of `2^DIRECT_BITS` keys side by side.
    Direct { block: Block },
}

const KIND_INNER: u64 = 1;
const KIND_LEAF: u64 = 2;
const KIND_DIRECT: u64 = 3;

impl Child {
    #[inline]
    pub(super) fn of(word: u64) -> Child {
        let block = word as Block;
        let low = (word >> 32) as u32 & 0x7f;
        match word >> 44 & 3 {
            KIND_INNER => {
                Child::Inner { block, shift: low, bits: (word >> 40) as u32 & 0xf, skips: word >> 46 & 1 == 1 }
            }
            KIND_LEAF => Child::Leaf { block, cover: low, lines: (word >> 48) as usize },
            KIND_DIRECT => Child::Direct { block },
            _ => Child::Empty,
        }
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        match self {
            Child::Empty => 0,
            Child::Inner { block, shift, bits, skips } => {
                let bits = u64::from(bits) << 40;
                u64::from(block) | u64::from(shift) << 32 | bits | KIND_INNER << 44 | u64::from(skips) << 46
            }
            Child::Leaf { block, cover, lines } => {
                u64::from(block) | u64::from(cover) << 32 | KIND_LEAF << 44 | (lines as u64) << 48
            }
            Child::Direct { block } => u64::from(block) | u64::from(DIRECT_BITS) << 32 | KIND_DIRECT << 44,
        }
    }
}

/// The bits of a key above `cover`: the first key of the aligned interval of `2^cover` keys that it lies in.
#[inline]
pub(super) fn interval_start(key: u64, cover: u32) -> u64 {
    key.checked_shr(cover).map_or(0, |prefix| prefix << cover)
}

/// The last key of that interval.
#[inline]
pub(super) fn interval_end(key: u64, cover: u32) -> u64 {
    key | 1_u64.checked_shl(cover).map_or(u64::MAX, |keys| keys - 1)
}
