//! The right to change a tree: one thread at a time has it.
//!
//! Invariant: whatever needs memory is taken before anything is linked, so a change that finds no memory changes
//! nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use numa::MemoryError;

use super::lookup::GROUP;
use super::node::{DIRECT_LINES, INNER_HEAD, LEAF_LINES_MAX, Leaf, Undo, inner_lines, leaf_capacity, leaf_lines};
use super::slot::{Child, DIRECT_BITS, interval_start};
use super::{Place, Tree, agrees, slot_of};
use crate::arena::{Arena, Block, Pool};
use crate::versions::{Mark, Versions, Write, WriteState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits that an inner node begins with, and by which it grows.
const BITS_FIRST: u32 = 4;
const BITS_MORE: u32 = 2;
/// Pairs from which on an interval of 256 keys becomes an array of values, and down to which it stays one.
const DIRECT_FROM: usize = 48;
const DIRECT_LEAST: usize = 24;
/// A leaf is made smaller when it could be by this factor.
const SHRINK: usize = 3;

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value, whether there is one or not.
    Put(u64),
    /// Sets the value of a key that has none; else nothing changes.
    Insert(u64),
    /// Sets the value of a key that has one; else nothing changes.
    Replace(u64),
    /// Removes the key.
    Remove,
}

impl Change {
    /// The value afterwards, `None` for no change at all.
    fn of(self, before: Option<u64>) -> Option<Option<u64>> {
        match (self, before) {
            (Change::Put(value), _) | (Change::Insert(value), None) | (Change::Replace(value), Some(_)) => {
                Some(Some(value))
            }
            (Change::Remove, Some(_)) => Some(None),
            (Change::Insert(_), Some(_)) | (Change::Replace(_) | Change::Remove, None) => None,
        }
    }
}

/// Why a key was not changed; nothing was.
#[derive(Debug)]
pub enum ChangeError {
    /// Another statement has changed the key and has neither committed nor been told to be undone.
    Busy,
    /// No memory.
    Memory(MemoryError),
}

impl From<MemoryError> for ChangeError {
    fn from(error: MemoryError) -> ChangeError {
        ChangeError::Memory(error)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Owner {
    tree: Arc<Tree>,
    versions: Arc<Versions>,
    pool: Pool,
    bits_max: u32,
    /// Keys of which older values are kept, the oldest change first, and whose change it was.
    changed: VecDeque<(u64, u32)>,
    /// Blocks that were unlinked: in which epoch, and their lines.
    unlinked: VecDeque<(u64, Block, usize)>,
    just_unlinked: Vec<(Block, usize)>,
    /// Marks of statements that are gone, not yet told.
    resolved: Vec<(u32, u64)>,
    scratch: Vec<(u64, u64)>,
}

/// The way to what holds a key: its slot, and the inner node that has it.
#[derive(Clone, Copy, Debug)]
struct Way {
    place: Place,
    child: Child,
    /// The node of the slot: its own place, block, shift and bits.
    parent: Option<Parent>,
}

#[derive(Clone, Copy, Debug)]
struct Parent {
    place: Place,
    block: Block,
    shift: u32,
    bits: u32,
    skips: bool,
}

impl Owner {
    /// An empty tree whose inner nodes take at most `prefix_bits` bits of a key (8 in the paper; 1 to 12).
    pub fn new(arena: Arc<Arena>, versions: Arc<Versions>, prefix_bits: u32) -> Owner {
        let tree = Tree { arena, root: AtomicU64::new(0), pairs: AtomicU64::new(0) };
        Owner {
            tree: Arc::new(tree),
            versions,
            pool: Pool::new(),
            // A node's slots must fit a block.
            bits_max: prefix_bits.clamp(1, 8),
            changed: VecDeque::new(),
            unlinked: VecDeque::new(),
            just_unlinked: Vec::new(),
            resolved: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The tree, for readers.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Bytes of the blocks in use, those that wait for readers included.
    pub fn used_bytes(&self) -> u64 {
        self.pool.used_bytes()
    }

    /// Older values that are kept for readers or until their statement ends.
    pub fn changes_kept(&self) -> usize {
        self.changed.len()
    }

    /// Changes a key for a statement. Gives the value from before, as the statement sees it.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing was changed then.
    pub fn change(&mut self, key: u64, change: Change, write: &Write) -> Result<Option<u64>, ChangeError> {
        let result = self.change_marked(key, change, write);
        if let Ok((_, true)) = result {
            self.versions.marked(write.number(), 1);
        }
        result.map(|(before, _)| before)
    }

    /// Changes many keys, in their order, with what they need asked for beforehand; `done` is told what each had
    /// before. Stops at the first error and says at which place.
    ///
    /// # Errors
    /// [`ChangeError`] of the place; the keys before it are changed, for the statement to undo or keep.
    pub fn change_many(
        &mut self,
        keys: &[u64],
        change: impl Fn(usize) -> Change,
        write: &Write,
        mut done: impl FnMut(usize, Option<u64>),
    ) -> Result<(), (usize, ChangeError)> {
        let mut marks = 0;
        let mut result = Ok(());
        'groups: for (group, asked) in keys.chunks(GROUP).enumerate() {
            self.tree.ask_for_many(asked);
            for (place, key) in asked.iter().enumerate() {
                let place = group * GROUP + place;
                match self.change_marked(*key, change(place), write) {
                    Ok((before, marked)) => {
                        marks += u64::from(marked);
                        done(place, before);
                    }
                    Err(error) => {
                        result = Err((place, error));
                        break 'groups;
                    }
                }
            }
        }
        self.versions.marked(write.number(), marks);
        result
    }

    /// The value from before, and whether a mark was made.
    fn change_marked(&mut self, key: u64, change: Change, write: &Write) -> Result<(Option<u64>, bool), ChangeError> {
        let tree = Arc::clone(&self.tree);
        let mut found = tree.leaf(tree.way(key).child);
        let before = found.and_then(|leaf| leaf.newest(key));
        let mut is_marked = false;
        if let Some(record) = found.and_then(|leaf| tree.newest_record(leaf.undo(), key)) {
            match record.mark().writer() {
                Some(number) if number == write.number() => is_marked = true,
                Some(number) => match self.versions.state(number) {
                    WriteState::Running => return Err(ChangeError::Busy),
                    // Its statement is gone; what it did is undone here and now.
                    WriteState::Aborted => {
                        self.settle(key);
                        return self.change_marked(key, change, write);
                    }
                    WriteState::Committed(_) => {}
                },
                None => {}
            }
        }
        let Some(value) = change.of(before) else { return Ok((before, false)) };
        if value.is_some() && before.is_none() && !found.is_some_and(|leaf| leaf.has_room(&tree.arena)) {
            self.make_room(key)?;
            found = tree.leaf(tree.way(key).child);
        }
        // A second change of a key by one statement has its value from before already.
        let record = match is_marked {
            true => None,
            false => Some(self.pool.take(&tree.arena, Undo::LINES)?),
        };
        let leaf = found.expect("there is room in a leaf");
        let mut chain = leaf.undo();
        if let Some(record) = record {
            Undo::at(&tree.arena, record).write(chain, key, before, write.mark());
            self.changed.push_back((key, write.number()));
            chain = record;
        }
        leaf.change(key, value, chain);
        match (before, value) {
            (None, Some(_)) => tree.pairs.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => tree.pairs.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        Ok((before, record.is_some()))
    }

    /// Makes the leaf of a key have a place for it.
    fn make_room(&mut self, key: u64) -> Result<(), MemoryError> {
        let tree = Arc::clone(&self.tree);
        loop {
            let way = tree.way(key);
            match way.child {
                Child::Inner { block, shift, bits, .. } => self.part_ways(key, way, block, shift, bits)?,
                Child::Empty => self.first_leaf(key, way)?,
                Child::Direct { .. } => return Ok(()),
                Child::Leaf { cover, lines, .. } => {
                    let leaf = tree.leaf(way.child).expect("a leaf");
                    if leaf.has_room(&tree.arena) {
                        return Ok(());
                    }
                    let demand = leaf.demand(&tree.arena);
                    if cover <= DIRECT_BITS && demand >= DIRECT_FROM {
                        self.make_direct(key, way)?;
                    } else if lines < LEAF_LINES_MAX || cover <= DIRECT_BITS {
                        self.rebuild(key, way, leaf_lines(demand + 1))?;
                    } else {
                        self.divide(key, way, cover)?;
                    }
                }
            }
        }
    }

    /// An inner node above one that a key does not agree with.
    fn part_ways(&mut self, key: u64, way: Way, node: Block, shift: u32, bits: u32) -> Result<(), MemoryError> {
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
    fn inner(&mut self, key: u64, shift: u32, bits: u32, way: &Way) -> Result<Child, MemoryError> {
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

    fn is_empty_around(&self, key: u64, parent: &Parent, cover: u32) -> bool {
        let first = slot_of(interval_start(key, cover), parent.shift, parent.bits);
        let slots = 1 << (cover - parent.shift);
        let words = self.tree.arena.words(parent.block, INNER_HEAD + (1 << parent.bits));
        words[INNER_HEAD + first..INNER_HEAD + first + slots].iter().all(|slot| slot.load(Ordering::Relaxed) == 0)
    }

    /// Stores a child in all slots of its interval around a key.
    fn store_over(&self, key: u64, way: &Way, cover: u32, child: Child) {
        let Some(parent) = way.parent else {
            self.tree.slot(way.place).store(child.word(), Ordering::Release);
            return;
        };
        let first = slot_of(interval_start(key, cover), parent.shift, parent.bits);
        for slot in first..first + (1 << (cover - parent.shift)) {
            self.tree.slot(Place::Slot { node: parent.block, slot }).store(child.word(), Ordering::Release);
        }
    }

    fn leaf_of(&mut self, pairs: &[(u64, u64)], lines: usize, cover: u32, undo: Block) -> Result<Child, MemoryError> {
        let block = self.pool.take(&self.tree.arena, lines)?;
        Leaf::keyed(&self.tree.arena, block, lines).fill(0, pairs, undo);
        Ok(Child::Leaf { block, cover, lines })
    }

    /// The same leaf with another number of lines.
    fn rebuild(&mut self, key: u64, way: Way, lines: usize) -> Result<(), MemoryError> {
        let Child::Leaf { cover, .. } = way.child else { return Ok(()) };
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let mut pairs = std::mem::take(&mut self.scratch);
        leaf.pairs(&mut pairs);
        let rebuilt = self.leaf_of(&pairs, lines, cover, leaf.undo());
        self.scratch = pairs;
        self.store_over(key, &way, cover, rebuilt?);
        self.unlink_child(way.child);
        Ok(())
    }

    /// An array of values in place of a leaf with keys.
    fn make_direct(&mut self, key: u64, way: Way) -> Result<(), MemoryError> {
        let Child::Leaf { cover, .. } = way.child else { return Ok(()) };
        debug_assert_eq!(cover, DIRECT_BITS, "intervals are not divided below it");
        let tree = Arc::clone(&self.tree);
        let leaf = tree.leaf(way.child).expect("a leaf");
        let block = self.pool.take(&tree.arena, DIRECT_LINES)?;
        leaf.pairs(&mut self.scratch);
        Leaf::direct(&tree.arena, block).fill(interval_start(key, DIRECT_BITS), &self.scratch, leaf.undo());
        self.store_over(key, &way, cover, Child::Direct { block });
        self.unlink_child(way.child);
        Ok(())
    }

    /// Divides a full leaf: in halves where it has several slots, else after its node has more slots, or below a node
    /// of its own.
    fn divide(&mut self, key: u64, way: Way, cover: u32) -> Result<(), MemoryError> {
        match way.parent {
            Some(parent) if cover > parent.shift => self.halve(key, way, cover),
            Some(parent) if self.may_grow(&parent) => self.grow(parent),
            _ => self.node_below(key, way, cover),
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
    fn part_of(
        &mut self,
        pairs: &[(u64, u64)],
        cover: u32,
        chain: Block,
        belongs: &dyn Fn(u64) -> bool,
    ) -> Result<Child, MemoryError> {
        let chain = self.copy_chain(chain, belongs)?;
        if pairs.is_empty() && chain == 0 {
            return Ok(Child::Empty);
        }
        let tree = Arc::clone(&self.tree);
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

    /// A copy of a chain, in its order, of the older values that belong.
    fn copy_chain(&mut self, chain: Block, belongs: &dyn Fn(u64) -> bool) -> Result<Block, MemoryError> {
        let tree = Arc::clone(&self.tree);
        let mut first = 0;
        let mut last: Block = 0;
        let mut at = chain;
        while at != 0 {
            let record = Undo::at(&tree.arena, at);
            at = record.next();
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
    fn discard(&mut self, child: Child) {
        if let Child::Leaf { block, lines, .. } = child {
            let chain = Leaf::keyed(&self.tree.arena, block, lines).undo();
            self.discard_chain(chain);
            self.pool.give_back(block, lines);
        }
    }

    fn discard_chain(&mut self, mut chain: Block) {
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

    /// Undoes what ended statements did to a key, forgets older values that nobody needs, and makes the tree smaller
    /// where it can be.
    fn settle(&mut self, key: u64) {
        let needed = self.versions.oldest_needed();
        self.settle_for(key, needed);
        self.tell_resolved();
    }

    /// As [`settle`](Self::settle), for readers of `needed` and later; whether older values of the key are left.
    fn settle_for(&mut self, key: u64, needed: u64) -> bool {
        let tree = Arc::clone(&self.tree);
        let way = tree.way(key);
        let Some(leaf) = tree.leaf(way.child) else { return false };
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
            self.shrink(key, way, leaf.count());
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
        let mut left = self.changed.len();
        let mut keys = [0; GROUP];
        while left > 0 {
            let group = left.min(GROUP);
            for (key, (changed, _)) in keys.iter_mut().zip(&self.changed) {
                *key = *changed;
            }
            self.tree.ask_for_many(&keys[..group]);
            for key in &keys[..group] {
                let changed = self.changed.pop_front().expect("as many were counted");
                if self.settle_for(*key, needed) {
                    self.changed.push_back(changed);
                }
            }
            left -= group;
        }
        self.tell_resolved();
        self.reclaim();
    }

    /// Gives blocks back that no reader can be in.
    fn reclaim(&mut self) {
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
    fn remove_leaf(&mut self, key: u64, way: Way) {
        let cover = match way.child {
            Child::Leaf { cover, .. } => cover,
            Child::Direct { .. } => DIRECT_BITS,
            Child::Empty | Child::Inner { .. } => return,
        };
        self.store_over(key, &way, cover, Child::Empty);
        self.unlink_child(way.child);
        let mut way = way;
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

    fn unlink(&mut self, block: Block, lines: usize) {
        self.just_unlinked.push((block, lines));
    }

    /// Unlinks a leaf whose chain lives on, or that has none.
    fn unlink_child(&mut self, child: Child) {
        match child {
            Child::Leaf { block, lines, .. } => self.unlink(block, lines),
            Child::Direct { block } => self.unlink(block, DIRECT_LINES),
            Child::Empty | Child::Inner { .. } => {}
        }
    }

    /// Unlinks a leaf and its chain, of which there is a copy.
    fn unlink_with_chain(&mut self, child: Child) {
        let mut at = self.tree.leaf(child).map_or(0, |leaf| leaf.undo());
        while at != 0 {
            let next = Undo::at(&self.tree.arena, at).next();
            self.unlink(at, Undo::LINES);
            at = next;
        }
        self.unlink_child(child);
    }
}

impl Tree {
    /// The way to what holds a key: down to a leaf, an empty slot, or an inner node that the key does not agree with.
    fn way(&self, key: u64) -> Way {
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

    /// The older values of a leaf, the newest first; for its owner.
    fn chain(&self, first: Block) -> impl Iterator<Item = Undo<'_>> {
        let record = move |block: Block| (block != 0).then(|| Undo::at(&self.arena, block));
        std::iter::successors(record(first), move |last| record(last.next()))
    }

    fn newest_record(&self, first: Block, key: u64) -> Option<Undo<'_>> {
        self.chain(first).find(|record| record.key() == key)
    }
}
