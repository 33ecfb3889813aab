//! The blocks of a tree as words: inner nodes, leaves, direct leaves, and the values from before changes.
//!
//! ```text
//! inner   prefix, latch, 6 unused | 2^bits slots
//! leaf    sequence, count + undo | keys | values                     4 * lines - 1 of each
//! direct  sequence, undo, base, 4 words of bits | 256 values
//! undo    next + present, key, value, mark
//! ```
//! A leaf is changed by its owner alone, in place: the sequence is odd meanwhile, and a reader that saw it odd or
//! changed reads again. A leaf that was replaced keeps what it had for the readers that are still in it. Only where a
//! tree has several writers (`shared.rs`) there are latches: a word of inner nodes, two high bits of a leaf's sequence.

use super::slot::{Child, DIRECT_BITS};
use crate::arena::{Arena, Block, LINE_WORDS};
use crate::versions::{Mark, Pin};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words before an inner node's slots.
pub(super) const INNER_HEAD: usize = LINE_WORDS;
/// The word of an inner node that a writer among several takes to change its slots.
pub(super) const INNER_LATCH: usize = 1;
/// The most lines of a leaf with keys.
pub(super) const LEAF_LINES_MAX: usize = 6;
/// Values of a direct leaf.
pub(super) const DIRECT_KEYS: usize = 1 << DIRECT_BITS;
pub(super) const DIRECT_LINES: usize = 1 + DIRECT_KEYS / LINE_WORDS;
/// Where a direct leaf's values begin.
const DIRECT_VALUES: usize = LINE_WORDS;
const DIRECT_BASE: usize = 2;
const DIRECT_BITMAP: usize = 3;

/// Lines of an inner node.
pub(super) fn inner_lines(bits: u32) -> usize {
    (INNER_HEAD + (1 << bits)).div_ceil(LINE_WORDS)
}

/// Pairs that a leaf of so many lines holds.
#[inline]
pub(super) fn leaf_capacity(lines: usize) -> usize {
    4 * lines - 1
}

/// The lines of a leaf for `count` pairs.
pub(super) fn leaf_lines(count: usize) -> usize {
    (count + 1).div_ceil(4).max(1)
}

impl Child {
    /// The block of a leaf and its lines.
    pub(super) fn leaf_block(self) -> Option<(Block, usize)> {
        match self {
            Child::Leaf { block, lines, .. } => Some((block, lines)),
            Child::Direct { block } => Some((block, DIRECT_LINES)),
            Child::Empty | Child::Inner { .. } => None,
        }
    }
}

/// A leaf of either kind, to read and for its owner to change.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    words: &'a [AtomicU64],
    kind: LeafKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeafKind {
    Keyed { capacity: usize },
    Direct,
}

/// A value from before a change: the link to the next older one of the leaf, the key, the value if there was one.
pub(super) struct Undo<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Undo<'a> {
    pub(super) const LINES: usize = 1;

    pub(super) fn at(arena: &'a Arena, block: Block) -> Undo<'a> {
        Undo(arena.words(block, 4))
    }

    pub(super) fn write(&self, next: Block, key: u64, before: Option<u64>, mark: Mark) {
        self.0[0].store(u64::from(next) | u64::from(before.is_some()) << 32, Ordering::Relaxed);
        self.0[1].store(key, Ordering::Relaxed);
        self.0[2].store(before.unwrap_or(0), Ordering::Relaxed);
        self.0[3].store(mark.0, Ordering::Release);
    }

    pub(super) fn next(&self) -> Block {
        self.0[0].load(Ordering::Relaxed) as Block
    }

    pub(super) fn set_next(&self, next: Block) {
        let present = self.0[0].load(Ordering::Relaxed) >> 32;
        self.0[0].store(u64::from(next) | present << 32, Ordering::Relaxed);
    }

    pub(super) fn key(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    pub(super) fn before(&self) -> Option<u64> {
        let present = self.0[0].load(Ordering::Relaxed) >> 32 & 1 == 1;
        present.then(|| self.0[2].load(Ordering::Relaxed))
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.0[3].load(Ordering::Acquire))
    }

    pub(super) fn set_mark(&self, mark: Mark) {
        self.0[3].store(mark.0, Ordering::Release);
    }
}

impl<'a> Leaf<'a> {
    #[inline]
    pub(super) fn keyed(arena: &'a Arena, block: Block, lines: usize) -> Leaf<'a> {
        let kind = LeafKind::Keyed { capacity: leaf_capacity(lines) };
        Leaf { words: arena.words(block, lines * LINE_WORDS), kind }
    }

    #[inline]
    pub(super) fn direct(arena: &'a Arena, block: Block) -> Leaf<'a> {
        Leaf { words: arena.words(block, DIRECT_LINES * LINE_WORDS), kind: LeafKind::Direct }
    }

    fn word(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn set(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    /// Makes a fresh block a leaf of these pairs, in the order of keys. Nobody reads it yet.
    pub(super) fn fill(&self, base: u64, pairs: &[(u64, u64)], undo: Block) {
        self.set(0, 0);
        match self.kind {
            LeafKind::Keyed { capacity } => {
                self.set(1, pairs.len() as u64 | u64::from(undo) << 32);
                for (place, (key, value)) in pairs.iter().enumerate() {
                    self.set(2 + place, *key);
                    self.set(2 + capacity + place, *value);
                }
            }
            LeafKind::Direct => {
                self.set(1, u64::from(undo) << 32);
                self.set(DIRECT_BASE, base);
                for word in 0..DIRECT_KEYS / 64 {
                    self.set(DIRECT_BITMAP + word, 0);
                }
                for (key, value) in pairs {
                    self.put_direct((key - base) as usize, *value);
                }
            }
        }
    }

    fn put_direct(&self, place: usize, value: u64) {
        self.set(DIRECT_VALUES + place, value);
        let word = DIRECT_BITMAP + place / 64;
        self.set(word, self.word(word) | 1 << (place % 64));
    }

    /// The newest value from before a change, 0 where there is none.
    pub(super) fn undo(&self) -> Block {
        (self.word(1) >> 32) as Block
    }

    /// Pairs in it.
    pub(super) fn count(&self) -> usize {
        match self.kind {
            LeafKind::Keyed { .. } => self.word(1) as u32 as usize,
            LeafKind::Direct => {
                (0..DIRECT_KEYS / 64).map(|word| self.word(DIRECT_BITMAP + word).count_ones() as usize).sum()
            }
        }
    }

    /// Pairs that it has to have places for: its own, and those that come back if a statement is undone.
    pub(super) fn demand(&self, arena: &Arena) -> usize {
        let mut absent = Vec::new();
        let mut undo = self.undo();
        while undo != 0 {
            let record = Undo::at(arena, undo);
            let key = record.key();
            if record.before().is_some() && self.newest(key).is_none() && !absent.contains(&key) {
                absent.push(key);
            }
            undo = record.next();
        }
        self.count() + absent.len()
    }

    /// Whether one pair more leaves it the places that it may need.
    pub(super) fn has_room(&self, arena: &Arena) -> bool {
        match self.kind {
            LeafKind::Keyed { capacity } if self.undo() == 0 => self.count() < capacity,
            LeafKind::Keyed { capacity } => self.count() < capacity && self.demand(arena) < capacity,
            LeafKind::Direct => true,
        }
    }

    /// Where a key stands among those of a leaf with keys, or would.
    #[inline]
    fn search(&self, key: u64, count: usize) -> Result<usize, usize> {
        let mut low = 0;
        let mut len = count;
        while len > 1 {
            let half = len / 2;
            low += usize::from(self.word(2 + low + half - 1) < key) * half;
            len -= half;
        }
        if len == 1 {
            let found = self.word(2 + low);
            if found == key {
                return Ok(low);
            }
            low += usize::from(found < key);
        }
        Err(low)
    }

    /// The newest value of a key, whoever may see it.
    #[inline]
    pub(super) fn newest(&self, key: u64) -> Option<u64> {
        match self.kind {
            LeafKind::Keyed { capacity } => {
                let count = (self.word(1) as u32 as usize).min(capacity);
                self.search(key, count).ok().map(|place| self.word(2 + capacity + place))
            }
            LeafKind::Direct => {
                let place = key.wrapping_sub(self.word(DIRECT_BASE));
                if place >= DIRECT_KEYS as u64 {
                    return None;
                }
                let place = place as usize;
                let present = self.word(DIRECT_BITMAP + place / 64) >> (place % 64) & 1 == 1;
                present.then(|| self.word(DIRECT_VALUES + place))
            }
        }
    }

    /// All pairs, the newest of each, in the order of keys.
    pub(super) fn pairs(&self, into: &mut Vec<(u64, u64)>) {
        into.clear();
        match self.kind {
            LeafKind::Keyed { capacity } => {
                let count = (self.word(1) as u32 as usize).min(capacity);
                into.extend((0..count).map(|place| (self.word(2 + place), self.word(2 + capacity + place))));
            }
            LeafKind::Direct => {
                let base = self.word(DIRECT_BASE);
                for word in 0..DIRECT_KEYS / 64 {
                    let mut bits = self.word(DIRECT_BITMAP + word);
                    while bits != 0 {
                        let place = word * 64 + bits.trailing_zeros() as usize;
                        into.push((base + place as u64, self.word(DIRECT_VALUES + place)));
                        bits &= bits - 1;
                    }
                }
            }
        }
    }

    /// Reads something of it that nobody changed meanwhile.
    #[inline]
    fn consistent<T>(&self, mut read: impl FnMut(&Leaf<'a>) -> T) -> T {
        loop {
            let sequence = self.words[0].load(Ordering::Acquire);
            if sequence & 1 == 0 {
                let result = read(self);
                fence(Ordering::Acquire);
                if self.words[0].load(Ordering::Relaxed) == sequence {
                    return result;
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Changes it in place; called by its owner.
    fn write(&self, change: impl FnOnce(&Leaf<'a>)) {
        let sequence = self.word(0);
        self.words[0].store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change(self);
        self.words[0].store(sequence + 2, Ordering::Release);
    }

    /// Sets or removes a key's value and links what was there before. A key that was not there needs a place.
    pub(super) fn change(&self, key: u64, value: Option<u64>, undo: Block) {
        self.write(|leaf| leaf.change_here(key, value, undo));
    }

    /// The same, where the sequence is odd already.
    pub(super) fn change_here(&self, key: u64, value: Option<u64>, undo: Block) {
        match self.kind {
            LeafKind::Keyed { capacity } => {
                let count = self.count();
                let mut count_after = count;
                match (self.search(key, count), value) {
                    (Ok(place), Some(value)) => self.set(2 + capacity + place, value),
                    (Ok(place), None) => {
                        self.shift_down(place, count, capacity);
                        count_after = count - 1;
                    }
                    (Err(place), Some(value)) => {
                        self.shift_up(place, count, capacity);
                        self.set(2 + place, key);
                        self.set(2 + capacity + place, value);
                        count_after = count + 1;
                    }
                    (Err(_), None) => {}
                }
                self.set(1, count_after as u64 | u64::from(undo) << 32);
            }
            LeafKind::Direct => {
                let place = (key - self.word(DIRECT_BASE)) as usize;
                match value {
                    Some(value) => self.put_direct(place, value),
                    None => {
                        let word = DIRECT_BITMAP + place / 64;
                        self.set(word, self.word(word) & !(1 << (place % 64)));
                    }
                }
                self.set(1, u64::from(undo) << 32);
            }
        }
    }

    /// The sequence, odd while the leaf is being changed.
    pub(super) fn sequence(&self) -> &'a AtomicU64 {
        &self.words[0]
    }

    /// The word of a key's value, where the leaf is an array of values and has the key.
    #[inline]
    pub(super) fn direct_value(&self, key: u64) -> Option<&'a AtomicU64> {
        let is_there = self.kind == LeafKind::Direct && self.newest(key).is_some();
        is_there.then(|| &self.words[DIRECT_VALUES + (key - self.word(DIRECT_BASE)) as usize])
    }

    fn shift_up(&self, place: usize, count: usize, capacity: usize) {
        for from in (place..count).rev() {
            self.set(3 + from, self.word(2 + from));
            self.set(3 + capacity + from, self.word(2 + capacity + from));
        }
    }

    fn shift_down(&self, place: usize, count: usize, capacity: usize) {
        for to in place..count - 1 {
            self.set(2 + to, self.word(3 + to));
            self.set(2 + capacity + to, self.word(3 + capacity + to));
        }
    }

    /// Links another chain of older values; called by its owner.
    pub(super) fn set_undo(&self, undo: Block) {
        self.write(|leaf| leaf.set(1, leaf.word(1) & u64::from(u32::MAX) | u64::from(undo) << 32));
    }

    /// Copies all words of it, for its owner, to a leaf of as many words that nobody reads yet.
    pub(super) fn copy_to(&self, copy: &Leaf<'_>) {
        for (from, to) in self.words.iter().zip(copy.words) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The value of a key that a reader sees.
    #[inline]
    pub(super) fn get(&self, arena: &Arena, key: u64, pin: &Pin) -> Option<u64> {
        self.consistent(|leaf| {
            let newest = leaf.newest(key);
            match leaf.undo() {
                0 => newest,
                undo => seen(arena, undo, key, newest, pin),
            }
        })
    }

    /// The pairs that a reader sees, in the order of keys.
    pub(super) fn seen_pairs(&self, arena: &Arena, pin: &Pin, into: &mut Vec<(u64, u64)>) {
        self.consistent(|leaf| {
            leaf.pairs(into);
            let mut undo = leaf.undo();
            while undo != 0 {
                let record = Undo::at(arena, undo);
                if !pin.sees(record.mark()) {
                    let key = record.key();
                    match (into.binary_search_by_key(&key, |pair| pair.0), record.before()) {
                        (Ok(place), Some(value)) => into[place].1 = value,
                        (Ok(place), None) => {
                            into.remove(place);
                        }
                        (Err(place), Some(value)) => into.insert(place, (key, value)),
                        (Err(_), None) => {}
                    }
                }
                undo = record.next();
            }
        });
    }
}

/// What a reader sees of a key, of the chain of values before changes: the oldest that it does not see the change of.
#[cold]
fn seen(arena: &Arena, mut undo: Block, key: u64, newest: Option<u64>, pin: &Pin) -> Option<u64> {
    let mut value = newest;
    while undo != 0 {
        let record = Undo::at(arena, undo);
        if record.key() == key && !pin.sees(record.mark()) {
            value = record.before();
        }
        undo = record.next();
    }
    value
}
