//! Subtrees of one tree put into another that has no key of theirs.
//!
//! An inner node of the same arena is linked with all that is below it; anything else is copied. What is put in changes
//! nothing for readers of the other keys: they find them beside it.
//!
//! Invariants: nothing of the source changes; what is put in comes out again ([`Owner::ungraft`]) without asking for
//! memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use numa::MemoryError;

use super::carve::Subtree;
use super::node::{INNER_HEAD, Leaf, Undo, inner_lines};
use super::owner::Owner;
use super::room::BITS_FIRST;
use super::slot::{Child, DIRECT_BITS};
use super::way::Way;
use super::{Place, Tree, slot_of};
use crate::arena::Block;
use crate::versions::Mark;

/// What was put in so far.
#[derive(Debug, Default)]
pub(super) struct Grafted {
    /// Whether inner nodes are linked.
    pub(super) links: bool,
    /// Inner nodes that were linked, each with its first key.
    pub(super) linked: Vec<(Block, u64)>,
    /// Leaves of the source that were copied.
    pub(super) copied_leaves: Vec<Child>,
    /// Inner nodes of the source in whose place there are others.
    pub(super) copied_nodes: Vec<(Block, usize)>,
    /// Pairs, the newest of each key.
    pub(super) pairs: u64,
    /// Lines of what was linked.
    pub(super) linked_lines: u64,
}

impl Owner {
    /// Puts a subtree of `from` in. Nothing of its interval is here.
    pub(super) fn graft(&mut self, from: &Tree, part: Subtree, done: &mut Grafted) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        loop {
            let way = tree.way(part.first);
            let slot_bits = way.parent.map_or(64, |parent| parent.shift);
            match way.child {
                Child::Empty => match part.child {
                    Child::Empty => return Ok(()),
                    // It takes several slots: what is below it takes one or some of them each.
                    Child::Inner { block, shift, bits, .. } if part.top > slot_bits => {
                        for child in from.children(block, shift, bits) {
                            self.graft(from, child, done)?;
                        }
                        done.copied_nodes.push((block, inner_lines(bits)));
                        return Ok(());
                    }
                    Child::Inner { block, shift, bits, .. } => {
                        let own = match done.links {
                            true => self.link_node(block, part, done),
                            false => self.copy_node(from, (block, shift, bits), done)?,
                        };
                        let skips = slot_bits > part.top;
                        let child = Child::Inner { block: own, shift, bits, skips };
                        tree.slot(way.place).store(child.word(), Ordering::Release);
                        return Ok(());
                    }
                    Child::Leaf { .. } | Child::Direct { .. } => {
                        let leaf = self.copy_leaf(from, part.child, done)?;
                        return self.put_leaf(Subtree { child: leaf, ..part }, &way);
                    }
                },
                Child::Inner { block, shift, bits, .. } => self.part_ways(part.first, way, block, shift, bits)?,
                Child::Leaf { cover, .. } => match tree.leaf(way.child) {
                    Some(leaf) if leaf.count() > 0 || leaf.undo() != 0 => self.divide(part.first, way, cover)?,
                    _ => self.remove_leaf(part.first, way),
                },
                Child::Direct { .. } => self.remove_leaf(part.first, way),
            }
        }
    }

    fn link_node(&mut self, block: Block, part: Subtree, done: &mut Grafted) -> Block {
        self.tree.count(part.child, done);
        done.linked.push((block, part.first));
        block
    }

    /// A copy of an inner node with all that is below it.
    fn copy_node(
        &mut self,
        from: &Tree,
        (block, shift, bits): (Block, u32, u32),
        done: &mut Grafted,
    ) -> Result<Block, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let copy = self.pool.take(&tree.arena, inner_lines(bits))?;
        let words = tree.arena.words(copy, INNER_HEAD + (1 << bits));
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        words[0].store(from.prefix(block), Ordering::Relaxed);
        for part in from.children(block, shift, bits) {
            let child = match part.child {
                Child::Inner { block, shift, bits, skips } => {
                    let inner = self.copy_node(from, (block, shift, bits), done);
                    inner.map(|block| Child::Inner { block, shift, bits, skips })
                }
                leaf => self.copy_leaf(from, leaf, done),
            };
            let child = match child {
                Ok(child) => child,
                Err(error) => {
                    self.discard_node(copy, shift, bits);
                    return Err(error);
                }
            };
            let slot = slot_of(part.first, shift, bits);
            let slots = 1 << part.top.saturating_sub(shift);
            for word in &words[INNER_HEAD + slot..INNER_HEAD + slot + slots] {
                word.store(child.word(), Ordering::Relaxed);
            }
        }
        done.copied_nodes.push((block, inner_lines(bits)));
        Ok(copy)
    }

    /// Gives back a node that was never linked, with all that is below it.
    fn discard_node(&mut self, block: Block, shift: u32, bits: u32) {
        let tree = Arc::clone(&self.tree);
        for part in tree.children(block, shift, bits) {
            match part.child {
                Child::Inner { block, shift, bits, .. } => self.discard_node(block, shift, bits),
                leaf => self.discard(leaf),
            }
        }
        self.pool.give_back(block, inner_lines(bits));
    }

    /// A copy of a leaf with its older values and their marks.
    fn copy_leaf(&mut self, from: &Tree, child: Child, done: &mut Grafted) -> Result<Child, MemoryError> {
        let Some((leaf, (_, lines))) = from.leaf(child).zip(child.leaf_block()) else { return Ok(child) };
        let tree = Arc::clone(&self.tree);
        let chain = self.copy_chain(from, leaf.undo(), &|_| true)?;
        let own = match self.pool.take(&tree.arena, lines) {
            Ok(own) => own,
            Err(error) => {
                self.discard_chain(chain);
                return Err(error);
            }
        };
        let copied = match child {
            Child::Leaf { cover, .. } => Child::Leaf { block: own, cover, lines },
            _ => Child::Direct { block: own },
        };
        let copy = tree.leaf(copied).expect("a leaf's copy is one");
        leaf.copy_to(&copy);
        copy.set_undo(chain);
        done.copied_leaves.push(child);
        done.pairs += leaf.count() as u64;
        Ok(copied)
    }

    /// Puts a leaf into an empty slot, or into several; gives it back where there is no memory for what it needs above.
    fn put_leaf(&mut self, part: Subtree, way: &Way) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        let slot_bits = way.parent.map_or(64, |parent| parent.shift);
        match part.child {
            Child::Leaf { block, lines, .. } => {
                // It becomes the leaf of its whole slot, where the slot is larger.
                let cover = part.top.max(slot_bits);
                self.store_over(part.first, way, cover, Child::Leaf { block, cover, lines });
            }
            Child::Direct { .. } if slot_bits > DIRECT_BITS => {
                let bits = (slot_bits - DIRECT_BITS).min(BITS_FIRST).min(self.bits_max);
                let node = self.inner(part.first, DIRECT_BITS, bits, way).inspect_err(|_| self.discard(part.child))?;
                let Child::Inner { block, .. } = node else { unreachable!("an inner node was made") };
                let slot = slot_of(part.first, DIRECT_BITS, bits);
                tree.slot(Place::Slot { node: block, slot }).store(part.child.word(), Ordering::Relaxed);
                tree.slot(way.place).store(node.word(), Ordering::Release);
            }
            child => tree.slot(way.place).store(child.word(), Ordering::Release),
        }
        Ok(())
    }

    /// Puts one key in, with its older values, the oldest first.
    pub(super) fn graft_key(
        &mut self,
        key: u64,
        newest: Option<u64>,
        older: &[(Option<u64>, Mark)],
    ) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        self.make_room(key)?;
        let leaf = tree.leaf(tree.way(key).child).expect("there is room in a leaf");
        let mut taken = Vec::new();
        for _ in older {
            match self.pool.take(&tree.arena, Undo::LINES) {
                Ok(block) => taken.push(block),
                Err(error) => {
                    taken.into_iter().for_each(|block| self.pool.give_back(block, Undo::LINES));
                    return Err(error);
                }
            }
        }
        let mut chain = leaf.undo();
        for (block, (before, mark)) in taken.into_iter().zip(older) {
            Undo::at(&tree.arena, block).write(chain, key, *before, *mark);
            chain = block;
        }
        leaf.change(key, newest, chain);
        Ok(())
    }

    /// Takes everything of `range` out again: unlinks what was linked, and unlinks and forgets the rest.
    pub(super) fn ungraft(&mut self, range: (u64, u64), done: &Grafted) {
        let tree = Arc::clone(&self.tree);
        for (block, first) in &done.linked {
            if let Some(way) = tree.way_to(*first, *block) {
                tree.slot(way.place).store(0, Ordering::Release);
                self.prune(*first, way);
            }
        }
        let is_in = |key: u64| range.0 <= key && key <= range.1;
        let mut pairs = Vec::new();
        let mut next = range.0;
        loop {
            let (child, end) = tree.reach(tree.root(), next);
            if let Some(leaf) = tree.leaf(child) {
                leaf.pairs(&mut pairs);
                let mut keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
                keys.extend(tree.chain(leaf.undo()).map(|record| record.key()));
                keys.sort_unstable();
                keys.dedup();
                for key in keys.into_iter().filter(|key| is_in(*key)) {
                    self.take_out(key, &leaf);
                }
                if leaf.count() == 0 && leaf.undo() == 0 {
                    self.remove_leaf(next, tree.way(next));
                }
            }
            match end.checked_add(1) {
                Some(after) if after <= range.1 => next = after,
                _ => return,
            }
        }
    }

    /// Forgets a key and its older values.
    fn take_out(&mut self, key: u64, leaf: &Leaf<'_>) {
        let tree = Arc::clone(&self.tree);
        let mut before: Block = 0;
        let mut at = leaf.undo();
        while at != 0 {
            let record = Undo::at(&tree.arena, at);
            let next = record.next();
            if record.key() == key {
                match before {
                    0 => leaf.set_undo(next),
                    before => Undo::at(&tree.arena, before).set_next(next),
                }
                self.unlink(at, Undo::LINES);
            } else {
                before = at;
            }
            at = next;
        }
        leaf.change(key, None, leaf.undo());
    }
}

impl Tree {
    /// Counts the pairs and lines of a subtree.
    pub(super) fn count(&self, child: Child, counts: &mut Grafted) {
        match child {
            Child::Empty => {}
            Child::Inner { block, shift, bits, .. } => {
                counts.linked_lines += inner_lines(bits) as u64;
                let children = self.children(block, shift, bits);
                children.iter().for_each(|part| self.ask_for_head(part.child));
                children.iter().for_each(|part| self.count(part.child, counts));
            }
            leaf => {
                let lines = leaf.leaf_block().map_or(0, |(_, lines)| lines as u64);
                let Some(leaf) = self.leaf(leaf) else { return };
                counts.pairs += leaf.count() as u64;
                counts.linked_lines += lines + self.chain(leaf.undo()).count() as u64 * Undo::LINES as u64;
            }
        }
    }
}
