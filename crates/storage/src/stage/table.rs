//! The growing dictionary of a producer's strings: value -> id, in order of appearance.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use numa::{Allocator, MemoryError, Region};

use crate::region_vec::RegionVec;

const FIRST_SLOTS: usize = 512;

/// An open-addressing hash table over an arena of bytes. Linear probing at a load of at most a half; a slot holds half
/// of the hash, so that other values are passed by without a look at their bytes and growing needs no hashing.
pub(crate) struct StringTable {
    allocator: Allocator,
    hasher: RandomState,
    /// 0 where empty, else `hash << 32 | id + 1`.
    slots: Option<Region>,
    /// Where each value starts, and where the last one ends.
    offsets: RegionVec<u64>,
    bytes: RegionVec<u8>,
}

impl StringTable {
    pub(crate) fn new(allocator: &Allocator) -> Self {
        StringTable {
            allocator: allocator.clone(),
            hasher: RandomState::default(),
            slots: None,
            offsets: RegionVec::new(allocator),
            bytes: RegionVec::new(allocator),
        }
    }

    /// The id of `value`, a new one where it has not been seen. Fewer than `u32::MAX - 1` values are asked for.
    pub(crate) fn id_of(&mut self, value: &[u8]) -> Result<u32, MemoryError> {
        if self.slot_count() < 2 * (self.len() + 1) {
            self.grow()?;
        }
        let hash = self.hasher.hash_one(value) as u32;
        let Some(region) = &mut self.slots else { unreachable!("the table has just grown") };
        let slots = region.words_mut::<u64>();
        let mask = slots.len() - 1;
        let offsets = self.offsets.as_slice();
        let bytes = self.bytes.as_slice();
        let mut at = hash as usize & mask;
        loop {
            let slot = slots[at];
            if slot == 0 {
                break;
            }
            if (slot >> 32) as u32 == hash {
                let id = slot as u32 - 1;
                let range = offsets[id as usize] as usize..offsets[id as usize + 1] as usize;
                if bytes[range] == *value {
                    return Ok(id);
                }
            }
            at = (at + 1) & mask;
        }
        let id = offsets.len().saturating_sub(1) as u32;
        slots[at] = u64::from(hash) << 32 | u64::from(id + 1);
        if self.offsets.len() == 0 {
            self.offsets.push(0)?;
        }
        self.bytes.extend_from_slice(value)?;
        self.offsets.push(self.bytes.len() as u64)?;
        Ok(id)
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The value of an id.
    pub(crate) fn value(&self, id: u32) -> &[u8] {
        let ends = &self.offsets.as_slice()[id as usize..id as usize + 2];
        &self.bytes.as_slice()[ends[0] as usize..ends[1] as usize]
    }

    /// Gives back what only insertion needs.
    pub(crate) fn freeze(&mut self) {
        self.slots = None;
        self.offsets.shrink();
        self.bytes.shrink();
    }

    fn slot_count(&self) -> usize {
        self.slots.as_ref().map_or(0, |region| region.len() / 8)
    }

    fn grow(&mut self) -> Result<(), MemoryError> {
        let count = (2 * (self.len() + 1)).next_power_of_two().max(2 * self.slot_count()).max(FIRST_SLOTS);
        let mut region = self.allocator.region(8 * count)?;
        let slots = region.words_mut::<u64>();
        let old = self.slots.as_ref().map_or(&[][..], |old| old.words::<u64>());
        for &slot in old.iter().filter(|&&slot| slot != 0) {
            let mut at = (slot >> 32) as usize & (count - 1);
            while slots[at] != 0 {
                at = (at + 1) & (count - 1);
            }
            slots[at] = slot;
        }
        self.slots = Some(region);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_order_of_appearance() {
        let mut table = StringTable::new(&Allocator::unplaced());
        for round in 0..2 {
            for i in 0..5000u32 {
                let value = format!("value {}", i * 7 % 5000);
                let id = table.id_of(value.as_bytes()).unwrap();
                assert_eq!(id, i, "round {round}");
                assert_eq!(table.value(id), value.as_bytes());
            }
        }
        assert_eq!(table.id_of(b"").unwrap(), 5000);
        assert_eq!(table.id_of(b"").unwrap(), 5000);
        assert_eq!(table.len(), 5001);
        table.freeze();
        assert_eq!(table.value(4999), b"value 4993");
    }
}
