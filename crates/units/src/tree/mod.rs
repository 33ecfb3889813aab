//! The ordered map of one partition: a prefix tree that its owner changes in place and that anybody reads meanwhile.
//!
//! Inner nodes take 1 to `prefix bits` bits of a key at a time and grow as they fill; paths on which all keys agree
//! are skipped. A leaf holds the pairs of an aligned interval of keys, in order, and is split in halves; where an
//! interval of 256 keys is well filled, its leaf is an array of values without keys. So dense keys cost about 8 bytes
//! per pair beside the value's own 8 at most, and random ones one line per level.
//!
//! Every change keeps the value from before, with the mark of the statement that made it, in a chain at its leaf
//! until nobody needs it. A leaf without a chain, that is nearly every one, is as it was always.
//!
//! Invariants: one owner at a time changes a tree; slots are stored after what they lead to; a block that was unlinked
//! is used again only when no reader is left that was there then, and not changed either; slots of a leaf are side by
//! side and all alike. So a [`Root`] that was taken after a pin leads to all that this pin sees, as long as it is held,
//! whatever the owner does.
//!
//! Source: Kissinger et al., ADMS 2014, sections 3.1 and 4 (prefix trees, prefix length 8); values from before changes
//! beside the newest ones follow Neumann et al., SIGMOD 2015.

use std::sync::Arc;

use crate::arena::{Arena, Block};
use crate::versions::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

mod carve;
mod graft;
mod handover;
mod lookup;
mod node;
mod owner;
mod range;
mod room;
mod settle;
mod shared;
mod slot;
#[cfg(test)]
mod tests;
mod way;

pub use owner::{Change, ChangeError, Owner};
pub use shared::SharedTree;

#[cfg(test)]
pub(crate) use handover::fault;
pub(crate) use handover::{Handover, Taken};

use node::{INNER_HEAD, Leaf};
use slot::Child;

/// See the module. Reading needs a [`Pin`]; changing needs the [`Owner`].
#[derive(Debug)]
pub struct Tree {
    arena: Arc<Arena>,
    root: AtomicU64,
    /// Newest pairs, committed or not.
    pairs: AtomicU64,
}

/// Where a reader begins: taken from the tree after the reader was pinned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root(u64);

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Root,
    Slot { node: Block, slot: usize },
}

impl Tree {
    /// Pairs in it, those of statements that have not committed included.
    pub fn len(&self) -> u64 {
        self.pairs.load(Ordering::Relaxed)
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory it lies in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Where to begin.
    #[inline]
    pub(crate) fn root(&self) -> Root {
        Root(self.root.load(Ordering::Acquire))
    }

    /// The value of a key that a reader sees.
    pub fn get(&self, key: u64, pin: &Pin) -> Option<u64> {
        self.get_from(self.root(), key, pin)
    }

    /// The value of a key that a reader sees, from a root on.
    #[inline]
    pub(crate) fn get_from(&self, root: Root, key: u64, pin: &Pin) -> Option<u64> {
        let mut child = Child::of(root.0);
        loop {
            child = match child {
                Child::Inner { block, shift, bits, .. } => {
                    let slot = slot_of(key, shift, bits);
                    self.child(Place::Slot { node: block, slot })
                }
                child => return self.leaf(child)?.get(&self.arena, key, pin),
            };
        }
    }

    fn slot(&self, place: Place) -> &AtomicU64 {
        match place {
            Place::Root => &self.root,
            Place::Slot { node, slot } => self.arena.word(node, INNER_HEAD + slot),
        }
    }

    #[inline]
    fn child(&self, place: Place) -> Child {
        Child::of(self.slot(place).load(Ordering::Acquire))
    }

    /// The bits that all keys below an inner node agree on; those from `shift + bits` on.
    fn prefix(&self, node: Block) -> u64 {
        self.arena.word(node, 0).load(Ordering::Relaxed)
    }

    fn leaf(&self, child: Child) -> Option<Leaf<'_>> {
        match child {
            Child::Leaf { block, lines, .. } => Some(Leaf::keyed(&self.arena, block, lines)),
            Child::Direct { block } => Some(Leaf::direct(&self.arena, block)),
            Child::Empty | Child::Inner { .. } => None,
        }
    }
}

/// The slot of a key in an inner node.
#[inline]
fn slot_of(key: u64, shift: u32, bits: u32) -> usize {
    (key >> shift) as usize & ((1 << bits) - 1)
}

/// Whether a key agrees with the prefix of an inner node.
fn agrees(key: u64, prefix: u64, shift: u32, bits: u32) -> bool {
    (key ^ prefix).checked_shr(shift + bits).unwrap_or(0) == 0
}
