//! Many look-ups side by side: each asks for its next line and leaves the processor to the others until it has come.
//!
//! A look-up of one key waits for memory once per level; `GROUP` of them wait together (the batched look-ups of
//! Kissinger et al., ADMS 2014, section 3.1, with the interleaving of Psaropoulos et al., VLDB 2017).

use super::node::{DIRECT_KEYS, INNER_HEAD, LEAF_LINES_MAX, Leaf};
use super::slot::Child;
use super::{Root, Tree, slot_of};
use crate::arena::LINE_WORDS;
use crate::versions::Pin;
use std::sync::atomic::Ordering;

/// Look-ups on their way at a time: about as many lines as a core can wait for, twice.
pub(super) const GROUP: usize = 24;

impl Tree {
    /// Hands the value of each key, with the key's place in `keys`, to `found`, in the order of places.
    pub fn get_many(&self, keys: &[u64], pin: &Pin, found: impl FnMut(usize, Option<u64>)) {
        self.get_many_from(self.root(), keys, pin, found);
    }

    /// As [`get_many`](Self::get_many), from a root on.
    pub(crate) fn get_many_from(&self, root: Root, keys: &[u64], pin: &Pin, found: impl FnMut(usize, Option<u64>)) {
        self.get_many_by(root, keys, |_| pin, found);
    }

    /// As [`get_many_from`](Self::get_many_from), each key as the reader sees it that `pin_of` tells for its place.
    pub(crate) fn get_many_by<'a>(
        &self,
        root: Root,
        keys: &[u64],
        pin_of: impl Fn(usize) -> &'a Pin,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let words = self.descend(root, keys);
            for (place, (key, word)) in keys.iter().zip(words).enumerate() {
                let place = group * GROUP + place;
                let leaf = self.leaf(Child::of(word));
                found(place, leaf.and_then(|leaf| leaf.get(&self.arena, *key, pin_of(place))));
            }
        }
    }

    /// The slots that at most `GROUP` keys lead to, below all inner nodes, with what they lead to asked for.
    fn descend(&self, root: Root, keys: &[u64]) -> [u64; GROUP] {
        let mut words = [root.0; GROUP];
        let mut on_the_way = true;
        while on_the_way {
            on_the_way = false;
            for (key, word) in keys.iter().zip(&mut words) {
                if let Child::Inner { block, shift, bits, .. } = Child::of(*word) {
                    *word = self.arena.word(block, INNER_HEAD + slot_of(*key, shift, bits)).load(Ordering::Acquire);
                    on_the_way |= self.ask_for(*key, Child::of(*word));
                }
            }
        }
        words
    }

    /// Asks for the lines of a child that a look-up reads next; whether it is an inner node.
    #[inline]
    fn ask_for(&self, key: u64, child: Child) -> bool {
        match child {
            Child::Inner { block, shift, bits, .. } => {
                self.arena.prefetch(block, INNER_HEAD + slot_of(key, shift, bits));
                true
            }
            Child::Leaf { block, lines, .. } => {
                for line in 0..lines.min(LEAF_LINES_MAX) {
                    self.arena.prefetch(block, line * LINE_WORDS);
                }
                false
            }
            Child::Direct { block } => {
                self.arena.prefetch(block, 0);
                self.arena.prefetch(block, LINE_WORDS + (key as usize % DIRECT_KEYS));
                false
            }
            Child::Empty => false,
        }
    }

    /// Asks for the first line of a child.
    pub(super) fn ask_for_head(&self, child: Child) {
        match child {
            Child::Inner { block, .. } | Child::Leaf { block, .. } | Child::Direct { block } => {
                self.arena.prefetch(block, 0);
            }
            Child::Empty => {}
        }
    }

    /// Asks for what a change of each of at most `GROUP` keys reads and writes, as look-ups of them would; a change of
    /// a tree of which nothing is in a cache costs as much as a look-up then. Gives the slots that the keys lead to.
    pub(super) fn ask_for_many(&self, keys: &[u64]) -> [u64; GROUP] {
        self.descend(self.root(), keys)
    }

    /// As [`ask_for_many`](Self::ask_for_many), and for the newest of the keys' older values.
    pub(super) fn ask_for_chains(&self, keys: &[u64]) -> [u64; GROUP] {
        let words = self.descend(self.root(), keys);
        for word in &words[..keys.len()] {
            let chain = self.leaf(Child::of(*word)).map_or(0, |leaf| leaf.undo());
            if chain != 0 {
                self.arena.prefetch(chain, 0);
            }
        }
        words
    }

    /// The leaf that a slot leads to which [`ask_for_many`](Self::ask_for_many) gave for a key, where the key is in it;
    /// the slot may be that of other keys, for which the way there was not compared with the key. No leaf may have been
    /// unlinked since.
    pub(super) fn leaf_with(&self, word: u64, key: u64) -> Option<Leaf<'_>> {
        self.leaf(Child::of(word)).filter(|leaf| leaf.newest(key).is_some())
    }
}
