//! The right to change a tree: one thread at a time has it.
//!
//! Invariants: whatever needs memory is taken before anything is linked, so a change that finds no memory changes
//! nothing; a statement marks every key that it names until it ends, those too that it finds as it leaves them.

use std::collections::VecDeque;
use std::sync::Arc;

use numa::MemoryError;

use super::Tree;
use super::lookup::GROUP;
use super::node::Undo;
use crate::arena::{Arena, Block, Pool};
use crate::versions::{Versions, Write, WriteState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Older values from which on they are collected while statements go on.
pub(super) const COLLECT_FROM: usize = 512;

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
    /// The value afterwards, `None` where it stays.
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
    pub(super) tree: Arc<Tree>,
    pub(super) versions: Arc<Versions>,
    pub(super) pool: Pool,
    pub(super) bits_max: u32,
    /// Keys of which older values are kept, some more than once.
    pub(super) changed: Vec<u64>,
    /// From so many on [`Owner::collect_if_many`] collects.
    pub(super) collect_from: usize,
    /// Blocks that were unlinked: in which epoch, and their lines.
    pub(super) unlinked: VecDeque<(u64, Block, usize)>,
    pub(super) just_unlinked: Vec<(Block, usize)>,
    /// How many leaves were unlinked so far.
    pub(super) leaves_gone: u64,
    /// Marks of statements that are gone, not yet told.
    pub(super) resolved: Vec<(u32, u64)>,
    pub(super) scratch: Vec<(u64, u64)>,
}

impl Owner {
    /// An empty tree whose inner nodes take at most `prefix_bits` bits of a key (8 in the paper, which is the most; at
    /// least 1).
    pub fn new(arena: Arc<Arena>, versions: Arc<Versions>, prefix_bits: u32) -> Owner {
        let tree = Tree { arena, root: AtomicU64::new(0), pairs: AtomicU64::new(0) };
        Owner {
            tree: Arc::new(tree),
            versions,
            pool: Pool::new(),
            // A node's slots must fit a block.
            bits_max: prefix_bits.clamp(1, 8),
            changed: Vec::new(),
            collect_from: COLLECT_FROM,
            unlinked: VecDeque::new(),
            just_unlinked: Vec::new(),
            leaves_gone: 0,
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
        let tree = Arc::clone(&self.tree);
        let result = self.change_marked(&tree, (key, None), change, write);
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
        // Counted beforehand and corrected after: a panic in between leaves a number that is never used again, and not
        // one that is used too early.
        self.versions.marked(write.number(), keys.len() as u64);
        let tree = Arc::clone(&self.tree);
        let mut marks = 0;
        let mut result = Ok(());
        'groups: for (group, asked) in keys.chunks(GROUP).enumerate() {
            let slots = tree.ask_for_many(asked);
            let before = self.leaves_gone;
            for (place, (key, slot)) in asked.iter().zip(slots).enumerate() {
                let place = group * GROUP + place;
                let slot = (self.leaves_gone == before).then_some(slot);
                match self.change_marked(&tree, (*key, slot), change(place), write) {
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
        self.versions.resolved(write.number(), keys.len() as u64 - marks);
        result
    }

    /// The value from before, and whether a mark was made. `tree` is the owner's; with the key comes what slot it leads
    /// to, if that is known.
    fn change_marked(
        &mut self,
        tree: &Tree,
        (key, slot): (u64, Option<u64>),
        change: Change,
        write: &Write,
    ) -> Result<(Option<u64>, bool), ChangeError> {
        let known = slot.and_then(|slot| tree.leaf_with(slot, key));
        let mut found = known.or_else(|| tree.leaf(tree.way(key).child));
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
                        return self.change_marked(tree, (key, None), change, write);
                    }
                    WriteState::Committed(_) => {}
                },
                None => {}
            }
        }
        let value = change.of(before);
        if is_marked && value.is_none() {
            return Ok((before, false));
        }
        // A key that stays as it is gets a mark as well: other statements change it before this one or after it, as
        // they do this one's other keys, and not in between.
        let value = value.unwrap_or(before);
        let is_more = value.is_some() && before.is_none();
        if !found.is_some_and(|leaf| !is_more || leaf.has_room(&tree.arena)) {
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
            self.changed.push(key);
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
}
