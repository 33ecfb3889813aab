//! Where a key that is not there finds a place: leaves that grow and divide, inner nodes that grow and part.
//!
//! Invariant: whatever needs memory is taken before anything is linked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use numa::MemoryError;

use super::node::{DIRECT_LINES, INNER_HEAD, INNER_LATCH, LEAF_LINES_MAX, Leaf, Undo, inner_lines, leaf_lines};
use super::owner::Owner;
use super::slot::{Child, DIRECT_BITS, interval_start};
use super::way::{Parent, Way};
use super::{Place, Tree, slot_of};
use crate::arena::Block;

/// Bits that an inner node begins with, and by which it grows.
pub(super) const BITS_FIRST: u32 = 4;
const BITS_MORE: u32 = 2;
/// Pairs from which on an interval of 256 keys becomes an array of values.
pub(super) const DIRECT_FROM: usize = 48;

/// One change of the tree's shape that brings a key nearer to a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// An inner node above one that the key does not agree with.
    PartWays,
    /// A leaf where there is none.
    FirstLeaf,
    /// An array of values in place of a leaf with keys.
    MakeDirect,
    /// The same leaf with as many lines.
    Rebuild(usize),
    /// Two leaves in place of one of this cover.
    Halve(u32),
    /// More slots for the node above.
    Grow(Parent),
    /// A node in place of a leaf of this cover, with two leaves below it.
    NodeBelow(u32),
}

impl Owner {
    /// Makes the leaf of a key have a place for it.
    pub(super) fn make_room(&mut self, key: u64) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        loop {
            let way = tree.way(key);
            match self.step(&way) {
                None => return Ok(()),
                Some(step) => self.take_step(key, way, step)?,
            }
        }
    }

    /// What has to be done next at the end of a way so that a key finds a place there, if anything.
    pub(super) fn step(&self, way: &Way) -> Option<Step> {
        match way.child {
            Child::Inner { .. } => Some(Step::PartWays),
            Child::Empty => Some(Step::FirstLeaf),
            Child::Direct { .. } => None,
            Child::Leaf { cover, lines, .. } => {
                let leaf = self.tree.leaf(way.child).expect("a leaf");
                if leaf.has_room(&self.tree.arena) {
                    return None;
                }
                let demand = leaf.demand(&self.tree.arena);
                Some(if cover <= DIRECT_BITS && demand >= DIRECT_FROM {
                    Step::MakeDirect
                } else if lines < LEAF_LINES_MAX || cover <= DIRECT_BITS {
                    Step::Rebuild(self.grown_lines(&leaf, demand))
                } else {
                    self.division(way, cover)
                })
            }
        }
    }

    /// Does it. What is read and changed is the leaf, if there is one, the slots of the node above it, and where that
    /// node grows the slot that leads to it.
    pub(super) fn take_step(&mut self, key: u64, way: Way, step: Step) -> Result<(), MemoryError> {
        match (step, way.child) {
            (Step::PartWays, Child::Inner { block, shift, bits, .. }) => self.part_ways(key, way, block, shift, bits),
            (Step::PartWays, _) => unreachable!("ways part at an inner node"),
            (Step::FirstLeaf, _) => self.first_leaf(key, way),
            (Step::MakeDirect, _) => self.make_direct(key, way),
            (Step::Rebuild(lines), _) => self.rebuild(key, way, lines),
            (Step::Halve(cover), _) => self.halve(key, way, cover),
            (Step::Grow(parent), _) => self.grow(parent),
            (Step::NodeBelow(cover), _) => self.node_below(key, way, cover),
        }
    }

    /// The lines of a leaf that is full. One that statements are filling becomes twice as large, as its older values
    /// are copied with it each time.
    fn grown_lines(&self, leaf: &Leaf<'_>, demand: usize) -> usize {
        let is_being_filled = self.tree.chain(leaf.undo()).take(demand).count() * 2 > demand;
        let lines = leaf_lines(demand + 1);
        if is_being_filled { leaf_lines(demand * 2 + 1).min(LEAF_LINES_MAX).max(lines) } else { lines }
    }

    /// An inner node above one that a key does not agree with.
    pub(super) fn part_ways(
        &mut self,
        key: u64,
        way: Way,
        node: Block,
        shift: u32,
        bits: u32,
    ) -> Result<(), MemoryError> {
        let prefix = self.tree.prefix(node);
        let high = 64 - (key ^ prefix).leading_zeros();
        let above = high.saturating_sub(BITS_FIRST).max(shift + bits);
        let child = Child::Inner { block: node, shift, bits, skips: above > shift + bits };
        let parent = self.inner(prefix, above, high - above, &way)?;
        let slot = slot_of(prefix, above, high - above);
        let Child::Inner { block, .. } = parent else { unreachable!("an inner node was made") };
        self.tree.slot(Place::Slot { node: block, slot }).store(child.word(), Ordering::Relaxed);
        self.tree.slot(way.place).store(parent.word(), Ordering::Release);
        Ok(())
    }

    /// A fresh inner node with empty slots, to stand at a way's place.
    pub(super) fn inner(&mut self, key: u64, shift: u32, bits: u32, way: &Way) -> Result<Child, MemoryError> {
        let block = self.pool.take(&self.tree.arena, inner_lines(bits))?;
        for word in self.tree.arena.words(block, INNER_HEAD + (1 << bits)) {
            word.store(0, Ordering::Relaxed);
        }
        let top = shift + bits;
        self.tree.arena.word(block, 0).store(interval_start(key, top), Ordering::Relaxed);
        Ok(Child::Inner { block, shift, bits, skips: way.parent.map_or(64, |parent| parent.shift) > top })
    }

    /// A leaf of no pairs over as many empty slots around a key's as one leaf may have.
    fn first_leaf(&mut self, key: u64, way: Way) -> Result<(), MemoryError> {
        let mut cover = way.parent.map_or(64, |parent| parent.shift);
        if let Some(parent) = way.parent {
            while cover < parent.shift + parent.bits && self.is_empty_around(key, &parent, cover + 1) {
                cover += 1;
            }
        }
        let leaf = self.leaf_of(&[], 1, cover, 0)?;
        self.store_over(key, &way, cover, leaf);
        Ok(())
    }

    pub(super) fn is_empty_around(&self, key: u64, parent: &Parent, cover: u32) -> bool {
        let first = slot_of(interval_start(key, cover), parent.shift, parent.bits);
        let slots = 1 << (cover - parent.shift);
        let words = self.tree.arena.words(parent.block, INNER_HEAD + (1 << parent.bits));
        words[INNER_HEAD + first..INNER_HEAD + first + slots].iter().all(|slot| slot.load(Ordering::Relaxed) == 0)
    }

    /// Stores a child in all slots of its interval around a key.
    pub(super) fn store_over(&self, key: u64, way: &Way, cover: u32, child: Child) {
        let Some(parent) = way.parent else {
            self.tree.slot(way.place).store(child.word(), Ordering::Release);
            return;
        };
        let first = slot_of(interval_start(key, cover), parent.shift, parent.bits);
        for slot in first..first + (1 << (cover - parent.shift)) {
            self.tree.slot(Place::Slot { node: parent.block, slot }).store(child.word(), Ordering::Release);
        }
    }

    pub(super) fn leaf_of(
        &mut self,
        pairs: &[(u64, u64)],
        lines: usize,
        cover: u32,
        undo: Block,
    ) -> Result<Child, MemoryError> {
        let block = self.pool.take(&self.tree.arena, lines)?;
        Leaf::keyed(&self.tree.arena, block, lines).fill(0, pairs, undo);
        Ok(Child::Leaf { block, cover, lines })
    }

    /// An array of values of the 256 keys around one.
    pub(super) fn direct_of(&mut self, pairs: &[(u64, u64)], key: u64, undo: Block) -> Result<Child, MemoryError> {
        let block = self.pool.take(&self.tree.arena, DIRECT_LINES)?;
        Leaf::direct(&self.tree.arena, block).fill(interval_start(key, DIRECT_BITS), pairs, undo);
        Ok(Child::Direct { block })
    }

    /// The same leaf with another number of lines.
    pub(super) fn rebuild(&mut self, key: u64, way: Way, lines: usize) -> Result<(), MemoryError> {
        let Child::Leaf { cover, .. } = way.child else { return Ok(()) };
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let rebuilt = self.with_copied_chain(leaf.undo(), |owner, chain| owner.leaf_of(&pairs, lines, cover, chain));
        self.scratch = pairs;
        self.store_over(key, &way, cover, rebuilt?);
        self.unlink_with_chain(way.child);
        Ok(())
    }

    /// An array of values in place of a leaf with keys.
    fn make_direct(&mut self, key: u64, way: Way) -> Result<(), MemoryError> {
        let Child::Leaf { cover, .. } = way.child else { return Ok(()) };
        debug_assert_eq!(cover, DIRECT_BITS, "intervals are not divided below it");
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let direct = self.with_copied_chain(leaf.undo(), |owner, chain| owner.direct_of(&pairs, key, chain));
        self.scratch = pairs;
        self.store_over(key, &way, cover, direct?);
        self.unlink_with_chain(way.child);
        Ok(())
    }

    /// A leaf with a copy of another's chain: who is in the other goes on seeing what it has seen, since nobody
    /// changes it.
    fn with_copied_chain(
        &mut self,
        chain: Block,
        make: impl FnOnce(&mut Owner, Block) -> Result<Child, MemoryError>,
    ) -> Result<Child, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let copy = self.copy_chain(&tree, chain, &|_| true)?;
        let made = make(self, copy);
        if made.is_err() {
            self.discard_chain(copy);
        }
        made
    }

    /// Divides a full leaf: in halves where it has several slots, else after its node has more slots, or below a node
    /// of its own.
    pub(super) fn divide(&mut self, key: u64, way: Way, cover: u32) -> Result<(), MemoryError> {
        let step = self.division(&way, cover);
        self.take_step(key, way, step)
    }

    fn division(&self, way: &Way, cover: u32) -> Step {
        match way.parent {
            Some(parent) if cover > parent.shift => Step::Halve(cover),
            Some(parent) if self.may_grow(&parent) => Step::Grow(parent),
            _ => Step::NodeBelow(cover),
        }
    }

    fn halve(&mut self, key: u64, way: Way, cover: u32) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let cover = cover - 1;
        let low = interval_start(key, cover + 1);
        let middle = low | 1 << cover;
        let cut = pairs.partition_point(|pair| pair.0 < middle);
        let halves = self.halves(&pairs, cut, cover, leaf.undo(), middle);
        self.scratch = pairs;
        let (left, right) = halves?;
        self.store_over(low, &way, cover, left);
        self.store_over(middle, &way, cover, right);
        self.unlink_with_chain(way.child);
        Ok(())
    }

    fn halves(
        &mut self,
        pairs: &[(u64, u64)],
        cut: usize,
        cover: u32,
        chain: Block,
        middle: u64,
    ) -> Result<(Child, Child), MemoryError> {
        let left = self.part_of(&pairs[..cut], cover, chain, &|key| key < middle)?;
        match self.part_of(&pairs[cut..], cover, chain, &|key| key >= middle) {
            Ok(right) => Ok((left, right)),
            Err(error) => {
                self.discard(left);
                Err(error)
            }
        }
    }

    /// A leaf of some pairs and of those older values that belong to it; no leaf where there is neither.
    pub(super) fn part_of(
        &mut self,
        pairs: &[(u64, u64)],
        cover: u32,
        chain: Block,
        belongs: &dyn Fn(u64) -> bool,
    ) -> Result<Child, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let chain = self.copy_chain(&tree, chain, belongs)?;
        if pairs.is_empty() && chain == 0 {
            return Ok(Child::Empty);
        }
        let is_absent = |key: u64| pairs.binary_search_by_key(&key, |pair| pair.0).is_err();
        let mut absent: Vec<u64> =
            tree.chain(chain).filter(|record| record.before().is_some()).map(|record| record.key()).collect();
        absent.retain(|key| is_absent(*key));
        absent.sort_unstable();
        absent.dedup();
        let child = self.leaf_of(pairs, leaf_lines(pairs.len() + absent.len() + 1), cover, chain);
        if child.is_err() {
            self.discard_chain(chain);
        }
        child
    }

    /// A copy of a chain of a tree, in its order, of the older values that belong.
    pub(super) fn copy_chain(
        &mut self,
        from: &Tree,
        chain: Block,
        belongs: &dyn Fn(u64) -> bool,
    ) -> Result<Block, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let mut first = 0;
        let mut last: Block = 0;
        for record in from.chain(chain) {
            if !belongs(record.key()) {
                continue;
            }
            let copy = match self.pool.take(&tree.arena, Undo::LINES) {
                Ok(copy) => copy,
                Err(error) => {
                    self.discard_chain(first);
                    return Err(error);
                }
            };
            Undo::at(&tree.arena, copy).write(0, record.key(), record.before(), record.mark());
            match last {
                0 => first = copy,
                last => Undo::at(&tree.arena, last).set_next(copy),
            }
            last = copy;
        }
        Ok(first)
    }

    /// Gives back what was never linked.
    pub(super) fn discard(&mut self, child: Child) {
        let tree = Arc::clone(&self.tree);
        let Some(leaf) = tree.leaf(child) else { return };
        self.discard_chain(leaf.undo());
        if let Some((block, lines)) = child.leaf_block() {
            self.pool.give_back(block, lines);
        }
    }

    pub(super) fn discard_chain(&mut self, mut chain: Block) {
        while chain != 0 {
            let next = Undo::at(&self.tree.arena, chain).next();
            self.pool.give_back(chain, Undo::LINES);
            chain = next;
        }
    }

    /// Whether a node may have more slots: where it may, and where half of those it has lead to something of their
    /// own.
    fn may_grow(&self, parent: &Parent) -> bool {
        if parent.bits >= self.bits_max || parent.shift <= DIRECT_BITS {
            return false;
        }
        let slots = &self.tree.arena.words(parent.block, INNER_HEAD + (1 << parent.bits))[INNER_HEAD..];
        let shift = parent.shift - self.bits_more(parent);
        let mut before = 0;
        let mut children = 0;
        for slot in slots {
            let word = slot.load(Ordering::Relaxed);
            children += usize::from(word != 0 && word != before);
            before = word;
            // It would have to be found by several slots.
            if matches!(Child::of(word), Child::Inner { shift: below, bits, .. } if below + bits > shift) {
                return false;
            }
        }
        children * 2 >= slots.len()
    }

    fn bits_more(&self, parent: &Parent) -> u32 {
        BITS_MORE.min(self.bits_max - parent.bits).min(parent.shift - DIRECT_BITS)
    }

    /// A node with more slots in place of a node.
    fn grow(&mut self, parent: Parent) -> Result<(), MemoryError> {
        let more = self.bits_more(&parent);
        let bits = parent.bits + more;
        let shift = parent.shift - more;
        let block = self.pool.take(&self.tree.arena, inner_lines(bits))?;
        let tree = Arc::clone(&self.tree);
        let from = tree.arena.words(parent.block, INNER_HEAD + (1 << parent.bits));
        let to = tree.arena.words(block, INNER_HEAD + (1 << bits));
        to[0].store(from[0].load(Ordering::Relaxed), Ordering::Relaxed);
        to[INNER_LATCH].store(0, Ordering::Relaxed);
        for (slot, word) in from[INNER_HEAD..].iter().enumerate() {
            let child = Child::of(word.load(Ordering::Relaxed));
            let own_slot = match child {
                Child::Inner { block, .. } => Some(slot_of(tree.prefix(block), shift, more)),
                _ => None,
            };
            let child = match child {
                Child::Inner { block, shift: below, bits, .. } => {
                    Child::Inner { block, shift: below, bits, skips: below + bits < shift }
                }
                child => child,
            };
            for sub in 0..1 << more {
                let is_its = own_slot.is_none_or(|own| own == sub);
                let word = if is_its { child.word() } else { 0 };
                to[INNER_HEAD + (slot << more) + sub].store(word, Ordering::Relaxed);
            }
        }
        let grown = Child::Inner { block, shift, bits, skips: parent.skips };
        tree.slot(parent.place).store(grown.word(), Ordering::Release);
        self.unlink(parent.block, inner_lines(parent.bits));
        Ok(())
    }

    /// A node in place of a full leaf, with the leaf's pairs in two leaves below it. Its interval is the least that has
    /// all keys of the leaf, of its older values, and the one that room is made for.
    fn node_below(&mut self, key: u64, way: Way, cover: u32) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let mut differ = tree.chain(leaf.undo()).fold(0, |differ, record| differ | (record.key() ^ key));
        differ |= pairs.iter().fold(0, |differ, pair| differ | (pair.0 ^ key));
        let high = (64 - differ.leading_zeros()).max(DIRECT_BITS + 1);
        let shift = high.saturating_sub(BITS_FIRST.min(self.bits_max)).max(DIRECT_BITS);
        debug_assert!(high <= cover, "{high} bits in a leaf of {cover}");
        let low = interval_start(key, high);
        let middle = low | 1 << (high - 1);
        let cut = pairs.partition_point(|pair| pair.0 < middle);
        let halves = self.halves(&pairs, cut, high - 1, leaf.undo(), middle);
        self.scratch = pairs;
        let (left, right) = halves?;
        let node = match self.inner(key, shift, high - shift, &way) {
            Ok(node) => node,
            Err(error) => {
                self.discard(left);
                self.discard(right);
                return Err(error);
            }
        };
        let Child::Inner { block, bits, skips, .. } = node else { unreachable!("an inner node was made") };
        let parent = Parent { place: way.place, block, shift, bits, skips };
        let inside = Way { parent: Some(parent), ..way };
        self.store_over(low, &inside, high - 1, left);
        self.store_over(middle, &inside, high - 1, right);
        tree.slot(way.place).store(node.word(), Ordering::Release);
        self.unlink_with_chain(way.child);
        Ok(())
    }
}
