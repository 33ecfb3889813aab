//! The baseline of the paper, for comparison only: one tree of the same blocks that every thread changes.
//!
//! There are no units, no tokens, no routing and no versions: a writer goes down as a reader does and changes what it
//! finds there by atomic instructions. The value of a key in an array of values is one store. A leaf with keys is
//! changed between two steps of its sequence, the first of which is a compare-and-swap. Where the tree's shape has to
//! change, the leaf and the node whose slots change are latched, and the node above that one if the node itself is
//! replaced (optimistic latches as in Leis et al., DaMoN 2016). Batches ask for their lines beforehand, as an owner's
//! do, so what differs from units is what the paper compares.
//!
//! Invariants: latches are tried, never waited for while another is held; what was replaced is marked as gone before
//! its latch is given back and is changed by nobody after; blocks are used again by epochs, as an owner's are.
//!
//! # Limits
//! Values are set and read, keys are not removed. A batch is not a statement: readers see its keys one by one.
//!
//! Source: Kissinger et al., ADMS 2014, section 4 ("not partitioned and .. synchronized via atomic instructions").

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use numa::{Allocator, MemoryError};
use parking_lot::{Mutex, MutexGuard};

use super::lookup::GROUP;
use super::node::{INNER_LATCH, Leaf};
use super::owner::Owner;
use super::room::Step;
use super::slot::Child;
use super::way::{Parent, Way};
use super::{Place, Tree};
use crate::arena::{Arena, LINE_WORDS};
use crate::versions::Versions;

/// States of an inner node's latch.
const FREE: u64 = 0;
const HELD: u64 = 1;
const GONE: u64 = 2;
/// Bits of a leaf's sequence: its latch is held by who replaces it; it was replaced.
const LEAF_HELD: u64 = 1 << 63;
const LEAF_GONE: u64 = 1 << 62;
const LINE_BYTES: u64 = LINE_WORDS as u64 * 8;
/// Lines that a writer's memory begins with as its own, since writers give back what others have taken.
const LINES_AHEAD: u64 = 1 << 40;
/// Blocks that a writer has unlinked from which on it looks for those that nobody is in.
const RECLAIM_FROM: usize = 256;
/// How often a change is tried again at once before other threads are let run.
const SPINS: u32 = 64;

/// See the module.
#[derive(Debug)]
pub struct SharedTree {
    tree: Arc<Tree>,
    versions: Arc<Versions>,
    root_latch: AtomicU64,
    /// Memory for blocks, for one thread at a time each.
    writers: Box<[Mutex<Owner>]>,
}

/// A latch that is held, and what it becomes.
struct Latched<'a> {
    word: &'a AtomicU64,
    after: Cell<u64>,
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        self.word.store(self.after.get(), Ordering::Release);
    }
}

impl<'a> Latched<'a> {
    /// `None` where another thread has it, or what it belongs to is gone.
    fn of_node(word: &'a AtomicU64) -> Option<Latched<'a>> {
        let taken = word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Latched { word, after: Cell::new(FREE) })
    }

    /// A leaf's: readers go on meanwhile.
    fn of_leaf(leaf: &Leaf<'a>) -> Option<Latched<'a>> {
        let word = leaf.sequence();
        let sequence = free_sequence(word)?;
        let held = sequence | LEAF_HELD;
        let taken = word.compare_exchange(sequence, held, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Latched { word, after: Cell::new(sequence) })
    }
}

/// The sequence of a leaf that nobody changes, holds or has replaced.
fn free_sequence(word: &AtomicU64) -> Option<u64> {
    let sequence = word.load(Ordering::Acquire);
    (sequence & (1 | LEAF_HELD | LEAF_GONE) == 0).then_some(sequence)
}

/// What came of setting a value in a leaf.
enum Put {
    Done {
        is_more: bool,
    },
    /// The leaf has no place for the key.
    Full,
    /// Another thread is at it, or has replaced it.
    Again,
}

fn put(leaf: &Leaf<'_>, arena: &Arena, key: u64, value: u64) -> Put {
    if let Some(word) = leaf.direct_value(key) {
        word.store(value, Ordering::Release);
        return Put::Done { is_more: false };
    }
    let word = leaf.sequence();
    let Some(sequence) = free_sequence(word) else { return Put::Again };
    if word.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Put::Again;
    }
    fence(Ordering::Release);
    let is_more = leaf.newest(key).is_none();
    if is_more && !leaf.has_room(arena) {
        word.store(sequence, Ordering::Release);
        return Put::Full;
    }
    leaf.change_here(key, Some(value), 0);
    word.store(sequence + 2, Ordering::Release);
    Put::Done { is_more }
}

impl SharedTree {
    /// An empty tree in memory of this allocator (the paper's is interleaved over all nodes) that about so many threads
    /// write at a time, whose inner nodes take at most `prefix_bits` bits of a key.
    pub fn new(allocator: Allocator, writers: usize, prefix_bits: u32) -> SharedTree {
        let versions = Versions::new();
        let arena = Arc::new(Arena::new(allocator));
        let first = Owner::new(Arc::clone(&arena), Arc::clone(&versions), prefix_bits);
        let tree = Arc::clone(&first.tree);
        let more = (1..writers.max(1)).map(|_| {
            let owner = Owner::new(Arc::clone(&arena), Arc::clone(&versions), prefix_bits);
            Owner { tree: Arc::clone(&tree), ..owner }
        });
        let mut owners: Vec<Owner> = std::iter::once(first).chain(more).collect();
        owners.iter_mut().for_each(|owner| owner.pool.gain_lines(LINES_AHEAD));
        let writers = owners.into_iter().map(Mutex::new).collect();
        SharedTree { tree, versions, root_latch: AtomicU64::new(FREE), writers }
    }

    /// Sets the values of keys, one after the other.
    ///
    /// # Errors
    /// No memory for the rest of them.
    pub fn write(&self, pairs: &[(u64, u64)]) -> Result<(), MemoryError> {
        let mut owner = self.writer();
        let mut more = 0;
        let result = {
            let _pin = self.versions.pin();
            self.write_pinned(&mut owner, pairs, &mut more)
        };
        // One counter for all: touched once a batch.
        self.tree.pairs.fetch_add(more, Ordering::Relaxed);
        if owner.just_unlinked.len() + owner.unlinked.len() >= RECLAIM_FROM {
            owner.reclaim();
        }
        result
    }

    /// Tells the value of each key, with its place, in the order of places.
    pub fn lookup(&self, keys: &[u64], found: impl FnMut(usize, Option<u64>)) {
        self.tree.get_many(keys, &self.versions.pin(), found);
    }

    /// As [`Tree::range`]: each leaf as it is when the reader comes by.
    pub fn range(&self, first: u64, last: u64, each: impl FnMut(u64, u64) -> bool) {
        self.tree.range(first, last, &self.versions.pin(), each);
    }

    /// Keys in it.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Gives back what nobody reads, and says how many bytes of blocks are in use.
    pub fn used_bytes(&self) -> u64 {
        let mut owners: Vec<MutexGuard<'_, Owner>> = self.writers.iter().map(Mutex::lock).collect();
        let used = owners.iter_mut().map(|owner| {
            owner.reclaim();
            owner.used_bytes()
        });
        used.sum::<u64>() - self.writers.len() as u64 * LINES_AHEAD * LINE_BYTES
    }

    /// Memory for a thread that writes: mostly the one it had before.
    fn writer(&self) -> MutexGuard<'_, Owner> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static START: usize = THREADS.fetch_add(1, Ordering::Relaxed));
        let start = START.with(|start| *start);
        let count = self.writers.len();
        let free = (0..count).find_map(|step| self.writers[(start + step) % count].try_lock());
        free.unwrap_or_else(|| self.writers[start % count].lock())
    }

    fn write_pinned(&self, owner: &mut Owner, pairs: &[(u64, u64)], more: &mut u64) -> Result<(), MemoryError> {
        let mut keys = [0; GROUP];
        for group in pairs.chunks(GROUP) {
            keys.iter_mut().zip(group).for_each(|(key, pair)| *key = pair.0);
            self.tree.ask_for_many(&keys[..group.len()]);
            for (key, value) in group {
                *more += u64::from(self.put(owner, *key, *value)?);
            }
        }
        Ok(())
    }

    /// Sets one value; whether the key was not there.
    fn put(&self, owner: &mut Owner, key: u64, value: u64) -> Result<bool, MemoryError> {
        let mut tries = 0;
        loop {
            let way = self.tree.way(key);
            let leaf = self.tree.leaf(way.child);
            let is_changed = match leaf.map_or(Put::Full, |leaf| put(&leaf, &self.tree.arena, key, value)) {
                Put::Done { is_more } => return Ok(is_more),
                Put::Full => self.make_room(owner, key, &way)?,
                Put::Again => false,
            };
            if is_changed {
                continue;
            }
            tries += 1;
            match tries % SPINS {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Changes the tree's shape so that a key may find a place; whether it did, or another thread was in the way.
    fn make_room(&self, owner: &mut Owner, key: u64, way: &Way) -> Result<bool, MemoryError> {
        let leaf = match self.tree.leaf(way.child) {
            Some(leaf) => match Latched::of_leaf(&leaf) {
                Some(latched) => Some(latched),
                None => return Ok(false),
            },
            None => None,
        };
        let Some(holder) = self.latch(way.place) else { return Ok(false) };
        if self.tree.child(way.place) != way.child {
            return Ok(false);
        }
        match owner.step(way) {
            // Another thread has made room.
            None => Ok(true),
            Some(Step::Grow(parent)) => self.grow(owner, (key, way), parent, &holder),
            Some(step) => {
                owner.take_step(key, *way, step)?;
                if let Some(leaf) = leaf {
                    leaf.after.set(leaf.after.get() | LEAF_GONE);
                }
                Ok(true)
            }
        }
    }

    fn grow(
        &self,
        owner: &mut Owner,
        (key, way): (u64, &Way),
        parent: Parent,
        holder: &Latched<'_>,
    ) -> Result<bool, MemoryError> {
        let Some(_above) = self.latch(parent.place) else { return Ok(false) };
        let Parent { block, shift, bits, skips, .. } = parent;
        if self.tree.child(parent.place) != (Child::Inner { block, shift, bits, skips }) {
            return Ok(false);
        }
        owner.take_step(key, *way, Step::Grow(parent))?;
        holder.after.set(GONE);
        Ok(true)
    }

    /// The latch of the node that has a slot.
    fn latch(&self, place: Place) -> Option<Latched<'_>> {
        Latched::of_node(match place {
            Place::Root => &self.root_latch,
            Place::Slot { node, .. } => self.tree.arena.word(node, INNER_LATCH),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use random::Random;

    use super::super::graft::Grafted;
    use super::super::tests::Keys;
    use super::*;

    fn tree(writers: usize, bits: u32) -> SharedTree {
        SharedTree::new(Allocator::unplaced(), writers, bits)
    }

    /// Bytes of the blocks that are reached from the root.
    fn reached_bytes(tree: &Tree) -> u64 {
        let mut counts = Grafted::default();
        tree.count(tree.child(Place::Root), &mut counts);
        assert_eq!(counts.pairs, tree.len());
        counts.linked_lines * LINE_BYTES
    }

    #[test]
    fn it_is_the_ordered_map_that_was_written() {
        let all = [Keys::Dense(3000), Keys::Random, Keys::Clusters, Keys::Bits];
        for (number, keys) in all.into_iter().enumerate() {
            for bits in [1, 4, 8] {
                let mut random = Random::new(crate::scale::seed() ^ (number as u64) << 4 ^ u64::from(bits));
                let tree = tree(2, bits);
                let mut model = BTreeMap::new();
                for round in 0..60 {
                    let pairs: Vec<(u64, u64)> =
                        (0..random.below_u64(120)).map(|_| (keys.draw(&mut random), random.next_u64())).collect();
                    tree.write(&pairs).unwrap();
                    model.extend(pairs.iter().copied());
                    assert_eq!(tree.len(), model.len() as u64, "{keys:?} {bits} {round}");
                }
                let drawn: Vec<u64> = (0..500).map(|_| keys.draw(&mut random)).chain([0, u64::MAX]).collect();
                tree.lookup(&drawn, |place, value| assert_eq!(value, model.get(&drawn[place]).copied()));
                let (first, last) = (keys.draw(&mut random), keys.draw(&mut random));
                for (first, last) in [(0, u64::MAX), (first.min(last), first.max(last))] {
                    let mut found = Vec::new();
                    tree.range(first, last, |key, value| {
                        found.push((key, value));
                        true
                    });
                    assert!(model.range(first..=last).map(|(key, value)| (*key, *value)).eq(found));
                }
                assert_eq!(tree.used_bytes(), reached_bytes(&tree.tree), "{keys:?} {bits}: blocks are lost");
            }
        }
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let tree = tree(1, 8);
        tree.write(&[]).unwrap();
        assert!(tree.is_empty() && tree.used_bytes() == 0);
        tree.lookup(&[], |_, _| unreachable!("nothing was asked"));
        tree.lookup(&[5], |_, value| assert_eq!(value, None));
    }

    /// A writer that was held up between finding its way and changing what it found, by hand: threads seldom meet so.
    #[test]
    fn a_writer_with_an_old_way_changes_nothing() {
        let mut replaced = [0, 0, 0];
        for keys in [Keys::Dense(3000), Keys::Random, Keys::Clusters, Keys::Bits] {
            let tree = tree(1, 8);
            let mut random = Random::new(crate::scale::seed());
            let mut model = BTreeMap::new();
            for round in 0..40 {
                // What it walks through is not used again meanwhile.
                let _pin = tree.versions.pin();
                let late: Vec<u64> = (0..20).map(|_| keys.draw(&mut random)).collect();
                let ways: Vec<Way> = late.iter().map(|key| tree.tree.way(*key)).collect();
                let pairs: Vec<(u64, u64)> = (0..80).map(|_| (keys.draw(&mut random), round)).collect();
                tree.write(&pairs).unwrap();
                model.extend(pairs);
                for (key, way) in late.iter().zip(ways) {
                    if tree.tree.child(way.place) == way.child && tree.latch(way.place).is_some() {
                        continue;
                    }
                    if let Some(leaf) = tree.tree.leaf(way.child)
                        && tree.tree.way(*key).child != way.child
                    {
                        replaced[0] += 1;
                        assert!(matches!(put(&leaf, &tree.tree.arena, *key, u64::MAX), Put::Again));
                        assert!(Latched::of_leaf(&leaf).is_none());
                    }
                    replaced[1] += usize::from(way.child == Child::Empty);
                    replaced[2] += usize::from(tree.latch(way.place).is_none());
                    let mut owner = tree.writer();
                    let before = owner.used_bytes();
                    assert!(!tree.make_room(&mut owner, *key, &way).unwrap(), "{keys:?} {key:#x} {way:?}");
                    assert_eq!(owner.used_bytes(), before);
                }
                let mut found = Vec::new();
                tree.range(0, u64::MAX, |key, value| {
                    found.push((key, value));
                    true
                });
                assert!(model.iter().map(|(key, value)| (*key, *value)).eq(found), "{keys:?} {round}");
            }
        }
        assert!(replaced.iter().all(|times| *times > 20), "{replaced:?}: leaves, empty slots, nodes");
    }

    #[test]
    fn threads_change_one_tree_and_lose_nothing() {
        const WRITERS: u64 = 4;
        for keys in [Keys::Dense(6000), Keys::Random, Keys::Clusters, Keys::Bits] {
            let tree = tree(WRITERS as usize - 1, 8);
            let done = AtomicBool::new(false);
            let models = std::thread::scope(|scope| {
                let (tree, done) = (&tree, &done);
                let writers: Vec<_> = (0..WRITERS).map(|own| scope.spawn(move || write_own(tree, keys, own))).collect();
                let reader = scope.spawn(move || read_meanwhile(tree, keys, done));
                let models: Vec<BTreeMap<u64, u64>> =
                    writers.into_iter().map(|writer| writer.join().unwrap()).collect();
                done.store(true, Ordering::Relaxed);
                assert!(reader.join().unwrap() > 0);
                models
            });
            // Each key has one writer, so its last value is known.
            let model: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
            let mut found = Vec::new();
            tree.range(0, u64::MAX, |key, value| {
                found.push((key, value));
                true
            });
            assert!(model.iter().map(|(key, value)| (*key, *value)).eq(found), "{keys:?}");
            assert_eq!((tree.len(), tree.used_bytes()), (model.len() as u64, reached_bytes(&tree.tree)), "{keys:?}");
        }

        fn write_own(tree: &SharedTree, keys: Keys, own: u64) -> BTreeMap<u64, u64> {
            let mut random = Random::new(crate::scale::seed() ^ own << 20);
            let mut model = BTreeMap::new();
            for round in 1..crate::scale::times(300) {
                let drawn = (0..80).map(|_| keys.draw(&mut random)).filter(|key| random::mixed(*key) % WRITERS == own);
                let pairs: Vec<(u64, u64)> = drawn.map(|key| (key, round)).collect();
                tree.write(&pairs).unwrap();
                model.extend(pairs);
            }
            model
        }

        /// Values of a key only grow.
        fn read_meanwhile(tree: &SharedTree, keys: Keys, done: &AtomicBool) -> u64 {
            let mut random = Random::new(77);
            let drawn: Vec<u64> = (0..400).map(|_| keys.draw(&mut random)).collect();
            let mut seen = vec![None; drawn.len()];
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds == 0 {
                tree.lookup(&drawn, |place, value| {
                    assert!(value >= seen[place], "{:#x}: {value:?} after {:?}", drawn[place], seen[place]);
                    seen[place] = value;
                });
                let mut before = None;
                tree.range(0, u64::MAX, |key, _| {
                    assert!(before.is_none_or(|before| before < key));
                    before = Some(key);
                    true
                });
                rounds += 1;
            }
            rounds
        }
    }
}
