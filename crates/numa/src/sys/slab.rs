//! Slabs: a mapping cut into blocks of equal size, each of which has at most one owner at a time.
//!
//! Invariants: a [`Block`] exists if and only if the bit of its index is clear in `free`; bits are cleared and set
//! atomically, so no block has two owners, whichever threads take and drop them. A slab outlives its blocks.
//!
//! # Limits
//! Finding a free block looks at one word per 64 blocks. Which slab to take from is for the pool to say.

use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::mapping::{ALIGN_BYTES, Mapping};

/// Who keeps the blocks of a slab while nobody uses them.
pub(crate) trait Home: Any + Debug + Send + Sync {
    /// Takes a block back.
    fn give_back(&self, block: Block);
}

/// A mapping and which of its blocks are free; see the module's invariants.
#[derive(Debug)]
pub(crate) struct Slab {
    mapping: Mapping,
    block_bytes: usize,
    /// One bit per block, set where it is free.
    free: Box<[AtomicU64]>,
    free_blocks: AtomicUsize,
    home: Box<dyn Home>,
}

impl Slab {
    /// All whole blocks of a mapping, all free. `block_bytes` is a multiple of 64 and not 0.
    pub(crate) fn new(mapping: Mapping, block_bytes: usize, home: Box<dyn Home>) -> Slab {
        assert!(block_bytes > 0 && block_bytes.is_multiple_of(ALIGN_BYTES));
        let blocks = mapping.bytes() / block_bytes;
        let word = |w: usize| u64::MAX.checked_shr((64 - (blocks - 64 * w).min(64)) as u32).unwrap_or(0);
        let free = (0..blocks.div_ceil(64)).map(|w| AtomicU64::new(word(w))).collect();
        Slab { mapping, block_bytes, free, free_blocks: AtomicUsize::new(blocks), home }
    }

    /// A free block, if there is one.
    pub(crate) fn take(self: &Arc<Slab>) -> Option<Block> {
        for (w, word) in self.free.iter().enumerate() {
            // Acquire: what the last owner wrote happened before this owner writes.
            let lowest = |bits: u64| (bits != 0).then(|| bits & (bits - 1));
            if let Ok(before) = word.try_update(Ordering::Acquire, Ordering::Relaxed, lowest) {
                self.free_blocks.fetch_sub(1, Ordering::Relaxed);
                return Some(Block { slab: Arc::clone(self), index: 64 * w + before.trailing_zeros() as usize });
            }
        }
        None
    }

    /// How many of its blocks are free.
    pub(crate) fn free_blocks(&self) -> usize {
        self.free_blocks.load(Ordering::Relaxed)
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> usize {
        self.mapping.bytes() / self.block_bytes
    }

    /// Bytes of its mapping.
    pub(crate) fn held_bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Who keeps its blocks while nobody uses them.
    pub(crate) fn home(&self) -> &dyn Home {
        self.home.as_ref()
    }
}

/// The one owner of a block of a slab; the block is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    slab: Arc<Slab>,
    index: usize,
}

impl Block {
    pub(crate) fn slab(&self) -> &Arc<Slab> {
        &self.slab
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slab.block_bytes
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        // SAFETY: `index < blocks`, so the block lies within the slab's mapping.
        unsafe { self.slab.mapping.start().add(self.index * self.slab.block_bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Counted first: a slab never shows more free blocks than a taker could find a moment later.
        self.slab.free_blocks.fetch_add(1, Ordering::Relaxed);
        self.slab.free[self.index / 64].fetch_or(1 << (self.index % 64), Ordering::Release);
    }
}
