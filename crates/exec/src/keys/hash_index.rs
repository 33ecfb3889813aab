//! [`HashIndex`]: numbers for keys of 64 bits, open addressing with linear probing.
//!
//! Larger than the caches, a table costs what it takes to wait for memory, so it is small: an entry has twelve bytes,
//! key and number, three of five entries are used, and all lie in one stretch of memory in huge pages, which also
//! spares look-ups of addresses. The top bits of a key's hash choose one of several *parts*, which are built
//! independently of each other, the low half as a fraction of the part's length the first entry. Keys are looked up in
//! blocks: the first entry of every key is touched by a loop that does nothing else, so that as many cache misses as
//! possible overlap, and then looked at; keys whose entry has another key go on to the next one, all together, till
//! none is left.
//!
//! # Limits
//! A part has fewer than 2^32 entries.

use std::hint::black_box;
use std::sync::Arc;

use numa::{Allocator, Budget, Policy, Region};

use super::hash::hash;
use crate::ExecError;
use crate::chunk::vector::NO_ROW;

/// The code that no key has.
pub(crate) const NONE: u64 = u64::MAX;

/// Words of an entry: the key's lower and upper half, and the number, [`NO_ROW`] in an entry that is free.
const ENTRY_WORDS: usize = 3;

/// All words of an entry that is free; its key is [`NONE`], which is never put in.
const FREE: u32 = u32::MAX;
const _: () = assert!(FREE == NO_ROW && NONE == u64::MAX);

/// Keys that are looked up together.
const BLOCK_KEYS: usize = 256;

/// Entries of a part for `n` keys, at least one more than there are.
fn entries_for(keys: usize) -> usize {
    keys * 5 / 3 + 2
}

/// The part of a hash where the top `bits` choose it.
#[inline]
pub(crate) fn part_of(hash: u64, bits: u32) -> usize {
    // Two shifts, for `bits` may be 0.
    (hash >> 1 >> (63 - bits)) as usize
}

/// The entries of a part.
#[derive(Clone, Copy, Debug)]
struct PartRange {
    start: usize,
    end: usize,
}

impl PartRange {
    /// The first entry to look at.
    #[inline]
    fn first(self, hash: u64) -> usize {
        self.start + (((hash & u64::from(u32::MAX)) * (self.end - self.start) as u64) >> 32) as usize
    }

    /// The entry to look at next.
    #[inline]
    fn next(self, at: usize) -> usize {
        if at + 1 == self.end { self.start } else { at + 1 }
    }
}

/// Key and number of an entry.
#[inline]
fn entry(words: &[u32], at: usize) -> (u64, u32) {
    let entry = &words[ENTRY_WORDS * at..][..ENTRY_WORDS];
    (u64::from(entry[0]) | (u64::from(entry[1]) << 32), entry[2])
}

/// A part that is being built.
pub(crate) struct IndexPart<'a> {
    words: &'a mut [u32],
    place: PartRange,
}

impl IndexPart<'_> {
    /// Makes all entries free; before that they hold anything.
    pub(crate) fn clear(&mut self) {
        self.words.fill(FREE);
    }

    /// The number of a key; `fresh` becomes it if the key is new.
    pub(crate) fn insert(&mut self, key: u64, hash: u64, fresh: u32) -> u32 {
        let mut at = self.place.first(hash);
        loop {
            let (there, number) = entry(self.words, at);
            if number == NO_ROW {
                let free = &mut self.words[ENTRY_WORDS * at..][..ENTRY_WORDS];
                free.copy_from_slice(&[key as u32, (key >> 32) as u32, fresh]);
                return fresh;
            }
            if there == key {
                return number;
            }
            at = self.place.next(at);
        }
    }

    /// Changes every number.
    pub(crate) fn renumber(&mut self, of: impl Fn(u32) -> u32) {
        for number in self.words.iter_mut().skip(ENTRY_WORDS - 1).step_by(ENTRY_WORDS) {
            if *number != NO_ROW {
                *number = of(*number);
            }
        }
    }
}

/// Numbers of keys.
pub(crate) struct HashIndex {
    memory: Region,
    places: Vec<PartRange>,
    /// Bits of the hash, from the top, that choose the part.
    bits: u32,
}

impl HashIndex {
    /// `2^bits` parts with room for `n` keys each, which are to be cleared; charged to the budget.
    ///
    /// # Errors
    /// The budget or the machine has no room for it.
    pub(crate) fn new(keys: &[usize], bits: u32, budget: &Arc<Budget>) -> Result<HashIndex, ExecError> {
        assert_eq!(keys.len(), 1 << bits);
        let mut end = 0;
        let places = keys.iter().map(|&keys| {
            let start = end;
            end += entries_for(keys);
            PartRange { start, end }
        });
        let places = places.collect();
        let memory = Allocator::new(Policy::Local, budget.clone()).scratch(end * ENTRY_WORDS * size_of::<u32>())?;
        Ok(HashIndex { memory, places, bits })
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Its parts, to build.
    pub(crate) fn parts(&mut self) -> Vec<IndexPart<'_>> {
        let mut rest = self.memory.words_mut::<u32>();
        let mut parts = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let entries = place.end - place.start;
            let (words, behind) = rest.split_at_mut(ENTRY_WORDS * entries);
            parts.push(IndexPart { words, place: PartRange { start: 0, end: entries } });
            rest = behind;
        }
        parts
    }

    /// The numbers of keys, [`NO_ROW`] for one that is not there, which [`NONE`] never is; `out` is overwritten.
    pub(crate) fn find(&self, keys: &[u64], out: &mut Vec<u32>) {
        out.clear();
        out.resize(keys.len(), NO_ROW);
        let words = self.memory.words::<u32>();
        for (keys, out) in keys.chunks(BLOCK_KEYS).zip(out.chunks_mut(BLOCK_KEYS)) {
            self.find_block(words, keys, out);
        }
    }

    fn find_block(&self, words: &[u32], keys: &[u64], out: &mut [u32]) {
        let places = &self.places[..];
        let mut firsts = [0usize; BLOCK_KEYS];
        for (first, &key) in firsts.iter_mut().zip(keys) {
            let hash = hash(key);
            *first = places[part_of(hash, self.bits)].first(hash);
        }
        let firsts = &firsts[..keys.len()];
        // A processor looks a few hundred instructions ahead: the fewer there are for each load, the more of these are
        // under way at a time. What they bring stays in the nearest cache till it is looked at.
        black_box(firsts.iter().fold(0, |all, &first| all ^ words[ENTRY_WORDS * first]));
        // Keys that are not decided, and the entries that they have seen. No branch depends on what is loaded.
        let mut pending = [(0usize, 0u32); BLOCK_KEYS];
        let mut count = 0;
        for (((i, &key), &at), out) in (0u32..).zip(keys).zip(firsts).zip(&mut *out) {
            let (there, number) = entry(words, at);
            let same = there == key;
            *out = if same { number } else { NO_ROW };
            pending[count] = (at, i);
            count += usize::from(!same & (number != NO_ROW));
        }
        while count > 0 {
            let mut left = 0;
            for j in 0..count {
                let (at, i) = pending[j];
                let key = keys[i as usize];
                let at = places[part_of(hash(key), self.bits)].next(at);
                let (there, number) = entry(words, at);
                let same = there == key;
                out[i as usize] = if same { number } else { NO_ROW };
                pending[left] = (at, i);
                left += usize::from(!same & (number != NO_ROW));
            }
            count = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Keys that share their hash's top bits, or their low half, or nothing in particular.
    fn keys(pattern: usize, count: usize) -> Vec<u64> {
        (0..count as u64)
            .map(|i| match pattern {
                0 => i,
                1 => i << 32,
                2 => i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                _ => u64::MAX - 1 - i * 3,
            })
            .collect()
    }

    #[test]
    fn agrees_with_a_map() {
        let budget = Budget::new("a test", 64 << 20);
        for (pattern, count, bits) in (0..4).flat_map(|p| [(p, 0, 0), (p, 1, 0), (p, 1000, 0), (p, 50_000, 6)]) {
            let keys = keys(pattern, count);
            let mut sizes = vec![0; 1 << bits];
            keys.iter().for_each(|&key| sizes[part_of(hash(key), bits)] += 1);
            let mut index = HashIndex::new(&sizes, bits, &budget).unwrap();
            let mut map: HashMap<u64, u32> = HashMap::new();
            let mut parts = index.parts();
            parts.iter_mut().for_each(IndexPart::clear);
            // Every third key comes twice.
            for (number, &key) in (0u32..).zip(keys.iter().chain(keys.iter().step_by(3))) {
                let known = *map.entry(key).or_insert(number);
                assert_eq!(parts[part_of(hash(key), bits)].insert(key, hash(key), number), known);
            }
            parts.iter_mut().for_each(|part| part.renumber(|number| number + 7));
            drop(parts);
            let asked: Vec<u64> = keys.iter().copied().chain((0..5000).map(|i| i * 977)).chain([NONE; 300]).collect();
            let mut found = vec![1, 2, 3];
            index.find(&asked, &mut found);
            let expected = asked.iter().map(|key| map.get(key).map_or(NO_ROW, |number| number + 7));
            assert_eq!(found, expected.collect::<Vec<_>>(), "pattern {pattern}, {count} keys");
        }
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn without_room_there_is_an_error() {
        let budget = Budget::new("a test", 1000);
        assert!(matches!(HashIndex::new(&[1 << 20], 0, &budget), Err(ExecError::Memory(_))));
        assert_eq!(budget.used_bytes(), 0);
    }
}
