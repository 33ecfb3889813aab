//! [`HashIndex`]: numbers for keys of 64 bits, open addressing with linear probing.
//!
//! The top bits of a key's hash choose one of several regions, which are built independently of each other; the bits below
//! them choose the entry in it. A chunk is looked up in two passes: the first entry of every key is read without a branch
//! in between, so that the cache misses overlap; the few that need another step take it afterwards.

use super::keys::NONE;
use crate::engine::vector::NO_ROW;

/// A key and its number; [`NO_ROW`] in an entry that is free.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    key: u64,
    value: u32,
}

const FREE: Entry = Entry { key: NONE, value: NO_ROW };

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

/// The hash of a key; all bits depend on all bits.
#[inline]
pub(super) fn hash(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (wide >> 64) as u64 ^ wide as u64
}

/// One region: a power of two of entries, at least one of them free.
pub(super) struct Region {
    entries: Vec<Entry>,
}

impl Region {
    /// Room for `keys` keys.
    pub(super) fn new(keys: usize) -> Region {
        Region { entries: vec![FREE; entries_for(keys)] }
    }

    /// The number of a key; `fresh` becomes it if the key is new.
    pub(super) fn insert(&mut self, key: u64, hash: u64, fresh: u32) -> u32 {
        let mask = self.entries.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let entry = &mut self.entries[at];
            if entry.value == NO_ROW {
                *entry = Entry { key, value: fresh };
                return fresh;
            }
            if entry.key == key {
                return entry.value;
            }
            at = (at + 1) & mask;
        }
    }

    /// Changes every number.
    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        for entry in &mut self.entries {
            if entry.value != NO_ROW {
                entry.value = number(entry.value);
            }
        }
    }

    fn find_from(&self, key: u64, mut at: usize) -> u32 {
        let mask = self.entries.len() - 1;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.key == key || entry.value == NO_ROW {
                return entry.value;
            }
        }
    }
}

/// Entries of a region for so many keys.
pub(super) fn entries_for(keys: usize) -> usize {
    (keys * 3 / 2 + 1).next_power_of_two()
}

/// Numbers of keys.
pub(super) struct HashIndex {
    regions: Vec<Region>,
    /// Bits of the hash, from the top, that choose the region.
    bits: u32,
}

/// The region of a hash where the top `bits` choose it.
#[inline]
pub(super) fn region_of(hash: u64, bits: u32) -> usize {
    // Two shifts, for `bits` may be 0.
    (hash >> 1 >> (63 - bits)) as usize
}

impl HashIndex {
    /// `2^bits` regions.
    pub(super) fn new(regions: Vec<Region>, bits: u32) -> HashIndex {
        assert_eq!(regions.len(), 1 << bits);
        HashIndex { regions, bits }
    }

    /// The number of a key, [`NO_ROW`] for one that is not there; [`NONE`] never is.
    pub(super) fn find_one(&self, key: u64) -> u32 {
        let hash = hash(key);
        let region = &self.regions[region_of(hash, self.bits)];
        let at = hash as usize & (region.entries.len() - 1);
        let entry = region.entries[at];
        if key == NONE {
            return NO_ROW;
        }
        if entry.key == key || entry.value == NO_ROW { entry.value } else { region.find_from(key, at) }
    }

    /// The numbers of keys, as [`find_one`](Self::find_one); `out` is overwritten.
    pub(super) fn find(&self, keys: &[u64], out: &mut Vec<u32>) {
        out.clear();
        out.resize(keys.len(), NO_ROW);
        // No branch depends on what is loaded, so that the loads of many keys are under way at a time.
        let mut again = vec![0u32; keys.len()];
        let mut count = 0;
        for (i, (&key, out)) in keys.iter().zip(out.iter_mut()).enumerate() {
            let hash = hash(key);
            let region = &self.regions[region_of(hash, self.bits)];
            let entry = region.entries[hash as usize & (region.entries.len() - 1)];
            let same = entry.key == key;
            *out = if same { entry.value } else { NO_ROW };
            again[count] = i as u32;
            count += usize::from(!same & (entry.value != NO_ROW));
        }
        for &i in &again[..count] {
            out[i as usize] = self.find_one(keys[i as usize]);
        }
    }
}
