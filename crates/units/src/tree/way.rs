//! The way from the root to what holds a key, as an owner follows it.

use super::node::Undo;
use super::slot::Child;
use super::{Place, Tree, agrees, slot_of};
use crate::arena::Block;

/// The way to what holds a key: its slot, and the inner node that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) place: Place,
    pub(super) child: Child,
    /// The node of the slot: its own place, block, shift and bits.
    pub(super) parent: Option<Parent>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub(super) place: Place,
    pub(super) block: Block,
    pub(super) shift: u32,
    pub(super) bits: u32,
    pub(super) skips: bool,
}

impl Tree {
    /// The way to what holds a key: down to a leaf, an empty slot, or an inner node that the key does not agree with.
    pub(super) fn way(&self, key: u64) -> Way {
        let mut way = Way { place: Place::Root, child: self.child(Place::Root), parent: None };
        while let Child::Inner { block, shift, bits, skips } = way.child {
            let has_prefix = skips || way.parent.is_none();
            if has_prefix && !agrees(key, self.prefix(block), shift, bits) {
                break;
            }
            let parent = Parent { place: way.place, block, shift, bits, skips };
            let place = Place::Slot { node: block, slot: slot_of(key, shift, bits) };
            way = Way { place, child: self.child(place), parent: Some(parent) };
        }
        way
    }

    /// The way to an inner node that lies above a key.
    pub(super) fn way_to(&self, key: u64, node: Block) -> Option<Way> {
        let mut way = Way { place: Place::Root, child: self.child(Place::Root), parent: None };
        while let Child::Inner { block, shift, bits, skips } = way.child {
            if block == node {
                return Some(way);
            }
            let parent = Parent { place: way.place, block, shift, bits, skips };
            let place = Place::Slot { node: block, slot: slot_of(key, shift, bits) };
            way = Way { place, child: self.child(place), parent: Some(parent) };
        }
        None
    }

    /// The older values of a leaf, the newest first; for its owner.
    pub(super) fn chain(&self, first: Block) -> impl Iterator<Item = Undo<'_>> {
        let record = move |block: Block| (block != 0).then(|| Undo::at(&self.arena, block));
        std::iter::successors(record(first), move |last| record(last.next()))
    }

    pub(super) fn newest_record(&self, first: Block, key: u64) -> Option<Undo<'_>> {
        self.chain(first).find(|record| record.key() == key)
    }
}
