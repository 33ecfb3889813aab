//! What ended statements leave behind: values to put back or to forget, and a tree that may be smaller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use numa::MemoryError;

use super::Tree;
use super::lookup::GROUP;
use super::node::{INNER_HEAD, LEAF_LINES_MAX, Leaf, Undo, inner_lines, leaf_capacity, leaf_lines};
use super::owner::{COLLECT_FROM, Owner};
use super::slot::{Child, DIRECT_BITS};
use super::way::Way;
use crate::arena::Block;
use crate::versions::{Mark, WriteState};

/// Pairs down to which an array of values stays one.
const DIRECT_LEAST: usize = 24;
/// A leaf is made smaller when it could be by this factor.
const SHRINK: usize = 3;

impl Owner {
    /// Undoes what ended statements did to a key, forgets older values that nobody needs, and makes the tree smaller
    /// where it can be.
    pub(super) fn settle(&mut self, key: u64) {
        let needed = self.versions.oldest_needed();
        let tree = Arc::clone(&self.tree);
        self.settle_for(&tree, key, None, needed);
        self.tell_resolved();
    }

    /// As [`settle`](Self::settle), for readers of `needed` and later; whether older values of the key are left.
    /// `tree` is the owner's, `slot` what the key leads to, if that is known.
    fn settle_for(&mut self, tree: &Tree, key: u64, slot: Option<u64>, needed: u64) -> bool {
        let found = slot.and_then(|slot| tree.leaf_with(slot, key));
        let Some(leaf) = found.or_else(|| tree.leaf(tree.way(key).child)) else { return false };
        let mut before: Block = 0;
        let mut at = leaf.undo();
        let mut is_left = false;
        let mut may_shrink = false;
        while at != 0 {
            let record = Undo::at(&tree.arena, at);
            let next = record.next();
            if self.is_done(&leaf, &record, needed) {
                match before {
                    0 => leaf.set_undo(next),
                    before => Undo::at(&tree.arena, before).set_next(next),
                }
                // What was inserted and undone is gone as well as what was removed.
                may_shrink |= leaf.newest(record.key()).is_none();
                self.unlink(at, Undo::LINES);
            } else {
                is_left |= record.key() == key;
                before = at;
            }
            at = next;
        }
        if may_shrink && leaf.undo() == 0 {
            self.shrink(key, tree.way(key), leaf.count());
        }
        is_left
    }

    /// Whether an older value may be forgotten. A value of a statement that was undone is put back first, which is why
    /// the newest record of a key comes first.
    fn is_done(&mut self, leaf: &Leaf<'_>, record: &Undo<'_>, needed: u64) -> bool {
        let Some(number) = record.mark().writer() else { return record.mark().0 <= needed };
        let version = match self.versions.state(number) {
            WriteState::Running => return false,
            WriteState::Aborted => {
                self.put_back(leaf, record);
                0
            }
            WriteState::Committed(version) => version,
        };
        record.set_mark(Mark(version));
        match self.resolved.last_mut() {
            Some((last, marks)) if *last == number => *marks += 1,
            _ => self.resolved.push((number, 1)),
        }
        version <= needed
    }

    fn put_back(&mut self, leaf: &Leaf<'_>, record: &Undo<'_>) {
        let key = record.key();
        let was_there = leaf.newest(key).is_some();
        leaf.change(key, record.before(), leaf.undo());
        match (was_there, record.before().is_some()) {
            (false, true) => self.tree.pairs.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.tree.pairs.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    fn tell_resolved(&mut self) {
        for (number, marks) in self.resolved.drain(..) {
            self.versions.resolved(number, marks);
        }
    }

    /// Settles what can be settled: makes room for what is written, and gives memory back. To be called after
    /// statements, and when there is nothing else to do.
    pub fn collect(&mut self) {
        let needed = self.versions.oldest_needed();
        let mut changed = std::mem::take(&mut self.changed);
        // Older values of a key are settled together, however often it was changed.
        changed.sort_unstable();
        changed.dedup();
        let tree = Arc::clone(&self.tree);
        let mut left = 0;
        for group in 0..changed.len().div_ceil(GROUP) {
            let places = group * GROUP..changed.len().min((group + 1) * GROUP);
            let slots = tree.ask_for_chains(&changed[places.clone()]);
            let before = self.leaves_gone;
            for (place, slot) in places.zip(slots) {
                let slot = (self.leaves_gone == before).then_some(slot);
                if self.settle_for(&tree, changed[place], slot, needed) {
                    changed[left] = changed[place];
                    left += 1;
                }
            }
        }
        changed.truncate(left);
        self.changed = changed;
        self.collect_from = COLLECT_FROM.max(2 * left);
        self.tell_resolved();
        self.reclaim();
    }

    /// Collects when there is much to settle. What a reader holds is looked at again only when there is twice as much.
    pub(crate) fn collect_if_many(&mut self) {
        if self.changed.len() >= self.collect_from {
            self.collect();
        }
    }

    /// Gives blocks back that no reader can be in.
    pub(super) fn reclaim(&mut self) {
        if self.unlinked.is_empty() && self.just_unlinked.is_empty() {
            return;
        }
        // What was unlinked since the last time was so by now, at the latest.
        let epoch = self.versions.epoch();
        self.unlinked.extend(self.just_unlinked.drain(..).map(|(block, lines)| (epoch, block, lines)));
        let oldest = self.versions.oldest_epoch();
        while let Some((_, block, lines)) = self.unlinked.pop_front_if(|(epoch, ..)| *epoch < oldest) {
            self.pool.give_back(block, lines);
        }
        self.pool.share_free(&self.tree.arena);
    }

    /// Makes a leaf without older values as small as its pairs allow.
    fn shrink(&mut self, key: u64, way: Way, count: usize) {
        // Where there is no memory to make it smaller, it stays as it is.
        let _ = match way.child {
            _ if count == 0 => {
                self.remove_leaf(key, way);
                Ok(())
            }
            Child::Leaf { lines, .. } if lines > 1 && count * SHRINK < leaf_capacity(lines) => {
                self.rebuild(key, way, leaf_lines(count + 1))
            }
            Child::Direct { .. } if count <= DIRECT_LEAST => self.make_keyed(key, way, count),
            _ => Ok(()),
        };
        if let Child::Leaf { cover, .. } = way.child {
            self.merge(key, cover);
        }
    }

    /// A leaf with keys in place of an array of values.
    fn make_keyed(&mut self, key: u64, way: Way, count: usize) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let keyed = self.leaf_of(&pairs, leaf_lines(count + 1), DIRECT_BITS, 0);
        self.scratch = pairs;
        self.store_over(key, &way, DIRECT_BITS, keyed?);
        self.unlink_child(way.child);
        Ok(())
    }

    /// Takes out a leaf without pairs, and every inner node above it that leads to nothing then.
    pub(super) fn remove_leaf(&mut self, key: u64, way: Way) {
        let cover = match way.child {
            Child::Leaf { cover, .. } => cover,
            Child::Direct { .. } => DIRECT_BITS,
            Child::Empty | Child::Inner { .. } => return,
        };
        self.store_over(key, &way, cover, Child::Empty);
        self.unlink_child(way.child);
        self.prune(key, way);
    }

    /// Takes out every inner node above an empty slot that leads to nothing.
    pub(super) fn prune(&mut self, key: u64, mut way: Way) {
        while let Some(parent) = way.parent {
            let slots = &self.tree.arena.words(parent.block, INNER_HEAD + (1 << parent.bits))[INNER_HEAD..];
            if slots.iter().any(|slot| slot.load(Ordering::Relaxed) != 0) {
                return;
            }
            self.tree.slot(parent.place).store(0, Ordering::Release);
            self.unlink(parent.block, inner_lines(parent.bits));
            way = self.tree.way(key);
        }
    }

    /// Puts a leaf together with the other half of the interval around both, while they fit half a leaf and have no
    /// older values.
    fn merge(&mut self, key: u64, mut cover: u32) {
        let tree = Arc::clone(&self.tree);
        loop {
            let way = tree.way(key);
            let other_key = key ^ 1_u64.checked_shl(cover).unwrap_or(0);
            let (Some(parent), Some(leaf)) = (way.parent, tree.leaf(way.child)) else { return };
            let is_inside = cover < parent.shift + parent.bits && cover >= DIRECT_BITS;
            if !is_inside || !matches!(way.child, Child::Leaf { cover: own, .. } if own == cover) {
                return;
            }
            let other_way = tree.way(other_key);
            // A leaf that has all slots of a node below would leave that node behind.
            if other_way.parent.is_none_or(|other| other.block != parent.block) {
                return;
            }
            let other = match other_way.child {
                Child::Leaf { cover: own, .. } if own == cover => tree.leaf(other_way.child),
                // Slots next to it that lead nowhere become its own for nothing.
                Child::Empty if self.is_empty_around(other_key, &parent, cover) => None,
                _ => return,
            };
            let count = leaf.count() + other.map_or(0, |other| other.count());
            if count * 2 > leaf_capacity(LEAF_LINES_MAX)
                || leaf.undo() != 0
                || other.is_some_and(|leaf| leaf.undo() != 0)
            {
                return;
            }
            let mut pairs = std::mem::take(&mut self.scratch);
            leaf.pairs(&mut pairs);
            if let Some(other) = other {
                let mut more = Vec::new();
                other.pairs(&mut more);
                pairs.extend(more);
                pairs.sort_unstable();
            }
            let merged = self.leaf_of(&pairs, leaf_lines(count + 1), cover + 1, 0);
            self.scratch = pairs;
            let Ok(merged) = merged else { return };
            self.store_over(key, &way, cover + 1, merged);
            self.unlink_child(way.child);
            self.unlink_child(other_way.child);
            cover += 1;
        }
    }

    pub(super) fn unlink(&mut self, block: Block, lines: usize) {
        self.just_unlinked.push((block, lines));
    }

    /// Unlinks a leaf whose chain lives on, or that has none.
    fn unlink_child(&mut self, child: Child) {
        if let Some((block, lines)) = child.leaf_block() {
            self.leaves_gone += 1;
            self.unlink(block, lines);
        }
    }

    /// Unlinks a leaf and its chain, of which there is a copy.
    pub(super) fn unlink_with_chain(&mut self, child: Child) {
        let mut at = self.tree.leaf(child).map_or(0, |leaf| leaf.undo());
        while at != 0 {
            let next = Undo::at(&self.tree.arena, at).next();
            self.unlink(at, Undo::LINES);
            at = next;
        }
        self.unlink_child(child);
    }
}
