//! A tree without a range of its keys, beside the one that readers are in.
//!
//! Inner nodes on the two edges of the range are copied; what lies beside it is shared, what lies in it is listed.
//! Nothing that is linked changes, so whoever began at the old root goes on seeing everything.
//!
//! Invariant: what is made here is not linked, and goes back where the range stays.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use numa::MemoryError;

use super::Tree;
use super::node::{INNER_HEAD, inner_lines, leaf_lines};
use super::owner::Owner;
use super::room::DIRECT_FROM;
use super::slot::{Child, DIRECT_BITS, interval_end, interval_start};
use crate::arena::Block;

/// A part of a tree: the keys of an aligned interval of `2^top`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subtree {
    pub(super) child: Child,
    /// The first key of its interval.
    pub(super) first: u64,
    pub(super) top: u32,
}

impl Subtree {
    pub(super) fn last(&self) -> u64 {
        interval_end(self.first, self.top)
    }
}

/// A tree without a range, and what was in the range.
#[derive(Debug)]
pub(super) struct Carved {
    /// What the root becomes.
    pub(super) root: Child,
    /// Subtrees that lie in the range, in the order of keys.
    pub(super) inside: Vec<Subtree>,
    /// Leaves that have keys of the range and may have others.
    pub(super) cut: Vec<Child>,
    /// Inner nodes of which there is a copy, or that lead to nothing else.
    pub(super) replaced: Vec<(Block, usize)>,
    made: Vec<(Block, usize)>,
    made_leaves: Vec<Child>,
}

impl Tree {
    /// What an inner node leads to, each once, in the order of keys.
    pub(super) fn children(&self, block: Block, shift: u32, bits: u32) -> Vec<Subtree> {
        let prefix = self.prefix(block);
        let slots = &self.arena.words(block, INNER_HEAD + (1 << bits))[INNER_HEAD..];
        let mut before = 0;
        let mut children = Vec::new();
        for (slot, word) in slots.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            if word != 0 && word != before {
                children.push(self.subtree(Child::of(word), prefix | (slot as u64) << shift));
            }
            before = word;
        }
        children
    }

    /// A child as a subtree, by a key of its interval or of its slot.
    fn subtree(&self, child: Child, key: u64) -> Subtree {
        match child {
            Child::Inner { block, shift, bits, .. } => Subtree { child, first: self.prefix(block), top: shift + bits },
            Child::Leaf { cover, .. } => Subtree { child, first: interval_start(key, cover), top: cover },
            Child::Direct { .. } => Subtree { child, first: interval_start(key, DIRECT_BITS), top: DIRECT_BITS },
            Child::Empty => Subtree { child, first: key, top: 0 },
        }
    }
}

impl Owner {
    /// The tree without `range`, both ends included.
    pub(super) fn carve(&mut self, range: (u64, u64)) -> Result<Carved, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let mut carved = Carved {
            root: Child::Empty,
            inside: Vec::new(),
            cut: Vec::new(),
            replaced: Vec::new(),
            made: Vec::new(),
            made_leaves: Vec::new(),
        };
        let root = tree.child(super::Place::Root);
        match self.carve_child(tree.subtree(root, 0), range, &mut carved) {
            Ok(root) => {
                carved.root = root;
                Ok(carved)
            }
            Err(error) => {
                self.forget(carved);
                Err(error)
            }
        }
    }

    /// Gives back what was made for a range that stays.
    pub(super) fn forget(&mut self, carved: Carved) {
        for (block, lines) in carved.made {
            self.pool.give_back(block, lines);
        }
        for leaf in carved.made_leaves {
            self.discard(leaf);
        }
    }

    fn carve_child(&mut self, of: Subtree, range: (u64, u64), carved: &mut Carved) -> Result<Child, MemoryError> {
        if of.child == Child::Empty || of.last() < range.0 || range.1 < of.first {
            return Ok(of.child);
        }
        if range.0 <= of.first && of.last() <= range.1 {
            carved.inside.push(of);
            return Ok(Child::Empty);
        }
        match of.child {
            Child::Inner { block, shift, bits, skips } => {
                let copy = self.carve_inner(of, (block, shift, bits), range, carved)?;
                Ok(copy.map_or(Child::Empty, |block| Child::Inner { block, shift, bits, skips }))
            }
            _ => self.carve_leaf(of, range, carved),
        }
    }

    /// A copy of an inner node without the range; none where nothing else is below it.
    fn carve_inner(
        &mut self,
        of: Subtree,
        (block, shift, bits): (Block, u32, u32),
        range: (u64, u64),
        carved: &mut Carved,
    ) -> Result<Option<Block>, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let copy = self.pool.take(&tree.arena, inner_lines(bits))?;
        carved.made.push((copy, inner_lines(bits)));
        let words = tree.arena.words(copy, INNER_HEAD + (1 << bits));
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        words[0].store(of.first, Ordering::Relaxed);
        let mut is_empty = true;
        for child in tree.children(block, shift, bits) {
            let left = self.carve_child(child, range, carved)?;
            is_empty &= left == Child::Empty;
            let slot = super::slot_of(child.first, shift, bits);
            let slots = 1 << child.top.saturating_sub(shift);
            for word in &words[INNER_HEAD + slot..INNER_HEAD + slot + slots] {
                word.store(left.word(), Ordering::Relaxed);
            }
        }
        carved.replaced.push((block, inner_lines(bits)));
        // An empty copy stays among what was made, and goes back with the node that it is a copy of.
        if is_empty {
            carved.replaced.push((copy, inner_lines(bits)));
        }
        Ok((!is_empty).then_some(copy))
    }

    /// A leaf of the keys beside the range. One that has none of the range is left as it is.
    fn carve_leaf(&mut self, of: Subtree, range: (u64, u64), carved: &mut Carved) -> Result<Child, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(of.child).expect("what is neither empty nor an inner node is a leaf");
        let stays = |key: u64| key < range.0 || range.1 < key;
        let mut pairs = Vec::new();
        leaf.pairs(&mut pairs);
        if pairs.iter().all(|pair| stays(pair.0)) && tree.chain(leaf.undo()).all(|record| stays(record.key())) {
            return Ok(of.child);
        }
        pairs.retain(|pair| stays(pair.0));
        carved.cut.push(of.child);
        let left = match of.child {
            Child::Direct { .. } if leaf_lines(pairs.len()) >= leaf_lines(DIRECT_FROM) => {
                let chain = self.copy_chain(&tree, leaf.undo(), &stays)?;
                self.direct_of(&pairs, of.first, chain).inspect_err(|_| self.discard_chain(chain))?
            }
            _ => self.part_of(&pairs, of.top, leaf.undo(), &stays)?,
        };
        if left != Child::Empty {
            carved.made_leaves.push(left);
        }
        Ok(left)
    }
}
