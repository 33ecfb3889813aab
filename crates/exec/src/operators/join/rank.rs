//! [`RankIndex`]: numbers for key codes of which few occur, in the order of the codes.
//!
//! A bit per code, and in front of each 64 bits how many came before: two bits of memory per possible code instead of
//! an array's 32, so six million possible codes stay in a cache, and what comes in the order of the keys reads memory
//! in order, which a hash table scatters. A code's number counts the codes below it that occur.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::chunk::vector::NO_ROW;

/// Codes of a block.
const BLOCK: u64 = 64;

#[derive(Clone, Copy)]
struct Block {
    bits: u64,
    /// Codes that occur before this block.
    before: u32,
}

/// Bytes of the blocks of `n` possible codes.
pub(super) fn bytes_for(domain: u64) -> u64 {
    (domain / BLOCK + 2) * size_of::<Block>() as u64
}

/// Which codes occur, while that is found out.
pub(super) struct Marks(Vec<AtomicU64>);

impl Marks {
    /// None of `domain` codes.
    pub(super) fn new(domain: u64) -> Marks {
        Marks((0..domain / BLOCK + 1).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes that a code occurs.
    #[inline]
    pub(super) fn set(&self, code: u64) {
        let (word, bit) = (&self.0[(code / BLOCK) as usize], 1 << (code % BLOCK));
        // A key that comes often has come before: reading is cheaper than a locked write.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Numbers of the codes that occur.
pub(super) struct RankIndex {
    /// The last one is empty, for all codes beyond.
    blocks: Vec<Block>,
    count: u32,
}

impl RankIndex {
    /// Of fewer than 2^32 - 1 codes.
    pub(super) fn new(marks: Marks) -> RankIndex {
        let mut count = 0;
        let mut blocks = Vec::with_capacity(marks.0.len() + 1);
        for word in marks.0 {
            let bits = word.into_inner();
            blocks.push(Block { bits, before: count });
            count += bits.count_ones();
        }
        blocks.push(Block { bits: 0, before: count });
        RankIndex { blocks, count }
    }

    /// How many codes occur.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The number of a code; [`NO_ROW`] for one that does not occur, which [`NONE`](crate::keys::hash_index::NONE)
    /// never does.
    #[inline]
    pub(super) fn number(&self, code: u64) -> u32 {
        let block = self.blocks[((code / BLOCK) as usize).min(self.blocks.len() - 1)];
        let bit = 1u64 << (code % BLOCK);
        let number = block.before + (block.bits & (bit - 1)).count_ones();
        if block.bits & bit == 0 { NO_ROW } else { number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hash_index::NONE;

    #[test]
    fn codes_are_numbered_in_order() {
        let codes = [0, 1, 63, 64, 65, 200, 1000, 1023, 1024];
        let marks = Marks::new(1025);
        codes.iter().rev().chain(&codes).for_each(|&code| marks.set(code));
        let index = RankIndex::new(marks);
        assert_eq!(index.count() as usize, codes.len());
        for code in 0..1025 {
            let expected = codes.iter().position(|&c| c == code).map_or(NO_ROW, |i| i as u32);
            assert_eq!(index.number(code), expected, "{code}");
        }
        assert_eq!([index.number(1025), index.number(1 << 40), index.number(NONE)], [NO_ROW; 3]);
    }
}
