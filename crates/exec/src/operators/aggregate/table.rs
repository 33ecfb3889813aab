//! [`Table`]: the groups that one worker has found, numbered from 0 in the order in which they came.
//!
//! As long as keys come in ascending order, a new key can only be larger than the last one, and nothing is hashed: rows
//! of one key follow each other where a table is clustered by it. The first key out of order builds the hash slots from
//! what is there, and from then on it is open addressing with linear probing, the key beside the group's number.

use std::mem::size_of;

use crate::keys::group::GroupKey;

/// No group.
const EMPTY: u32 = u32::MAX;
/// Fewest slots.
const SLOTS_MIN: usize = 1 << 10;

#[derive(Clone, Copy)]
struct Slot<K> {
    key: K,
    group: u32,
}

/// Keys and their numbers.
pub(super) struct Table<K> {
    keys: Vec<K>,
    /// A power of two, at most half full; empty while keys ascend.
    slots: Vec<Slot<K>>,
}

impl<K: GroupKey> Table<K> {
    /// No group.
    pub(super) fn new() -> Table<K> {
        Table { keys: Vec::new(), slots: Vec::new() }
    }

    /// With hash slots for `n` groups.
    pub(super) fn with_groups(groups: usize) -> Table<K> {
        let slots = (2 * groups).next_power_of_two().max(SLOTS_MIN);
        Table { keys: Vec::with_capacity(groups), slots: vec![Slot { key: K::default(), group: EMPTY }; slots] }
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys by number.
    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The keys by number, without the table.
    pub(super) fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// No group; the slots stay.
    pub(super) fn clear(&mut self) {
        let slots = self.slots.len();
        self.slots.clear();
        self.slots.resize(slots, Slot { key: K::default(), group: EMPTY });
        self.keys.clear();
    }

    /// Do the keys ascend by number?
    pub(super) fn is_ordered(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        (self.keys.capacity() * size_of::<K>() + self.slots.capacity() * size_of::<Slot<K>>()) as u64
    }

    /// The number of each row's group, which is added where it is new.
    pub(super) fn groups(&mut self, keys: &[K], groups: &mut Vec<u32>) {
        groups.clear();
        groups.reserve(keys.len());
        let mut start = 0;
        if self.is_ordered() {
            start = self.groups_in_order(keys, groups);
            if start == keys.len() {
                return;
            }
            self.build_slots();
        }
        for &key in &keys[start..] {
            groups.push(self.find_or_add(key));
        }
    }

    /// As [`groups`](Self::groups) for the rows before the first key that is out of order; how many those are.
    fn groups_in_order(&mut self, keys: &[K], groups: &mut Vec<u32>) -> usize {
        let Some(&first) = keys.first() else { return 0 };
        let mut last = match self.keys.last() {
            Some(&last) if first < last => return 0,
            Some(&last) => last,
            None => {
                self.keys.push(first);
                first
            }
        };
        if !keys.is_sorted() {
            return 0;
        }
        // Without a branch: whether a key is new is hard to foresee. The last key is written again where it is not.
        let mut group = self.keys.len() - 1;
        self.keys.resize(self.keys.len() + keys.len(), K::default());
        let known = &mut self.keys[..];
        groups.extend(keys.iter().map(|&key| {
            group += usize::from(key != last);
            known[group] = key;
            last = key;
            group as u32
        }));
        self.keys.truncate(group + 1);
        keys.len()
    }

    fn build_slots(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        *self = Table::with_groups(keys.len());
        for key in keys {
            self.find_or_add(key);
        }
    }

    /// The number of a key's group.
    #[inline(always)]
    pub(super) fn find_or_add(&mut self, key: K) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        loop {
            let slot = &self.slots[at & mask];
            if slot.group == EMPTY {
                return self.add(key, at & mask);
            }
            if slot.key == key {
                return slot.group;
            }
            at += 1;
        }
    }

    #[inline]
    fn add(&mut self, key: K, at: usize) -> u32 {
        let group = self.keys.len() as u32;
        self.keys.push(key);
        self.slots[at] = Slot { key, group };
        if 2 * self.keys.len() > self.slots.len() {
            self.grow();
        }
        group
    }

    #[cold]
    fn grow(&mut self) {
        let slots = 2 * self.slots.len();
        self.slots.clear();
        self.slots.resize(slots, Slot { key: K::default(), group: EMPTY });
        let mask = slots - 1;
        for (group, &key) in self.keys.iter().enumerate() {
            let mut at = key.hash() as usize & mask;
            while self.slots[at & mask].group != EMPTY {
                at += 1;
            }
            self.slots[at & mask] = Slot { key, group: group as u32 };
        }
    }
}
