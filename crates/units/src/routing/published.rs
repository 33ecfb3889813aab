//! The routing table that everybody reads: a range table that changes whole, read without a latch and without writing.
//!
//! A reader takes what it needs of the table, and the roots of the trees that the table sends it to, between two looks
//! at a sequence number; where a change came in between, it takes all of it again. So table and roots belong together.
//! See `README.md` beside this file.
//!
//! Invariants: one publisher at a time; what a reader was given is one published state, with the roots of that state.
//!
//! # Limits
//! As many ranges as there were places made for.

use super::table::{RangeTable, Split, range_of};
use crate::primitive::{AtomicU64, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct Published {
    /// Odd while a table is being published.
    sequence: AtomicU64,
    ranges: AtomicU64,
    firsts: Box<[AtomicU64]>,
    owners: Box<[AtomicU64]>,
}

/// What a reader sees of a table; whether it was whole is known afterwards.
pub(crate) struct View<'a> {
    published: &'a Published,
    ranges: usize,
}

impl Published {
    /// A table, and places for as many ranges.
    pub(crate) fn new(table: &RangeTable, places: usize) -> Published {
        let words = || (0..places.max(table.ranges())).map(|_| AtomicU64::new(0)).collect();
        let published =
            Published { sequence: AtomicU64::new(0), ranges: AtomicU64::new(0), firsts: words(), owners: words() };
        published.store(table);
        published
    }

    /// Whether there are places for a table's ranges.
    pub(crate) fn has_room(&self, table: &RangeTable) -> bool {
        table.ranges() <= self.firsts.len()
    }

    /// Publishes a table together with what `switch` stores, which must not fail. Gives the table's number, greater
    /// than those of all before. The caller sees to it that nobody else publishes.
    pub(crate) fn publish(&self, table: &RangeTable, switch: impl FnOnce()) -> u64 {
        assert!(self.has_room(table), "places for ranges are asked for beforehand");
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.store(table);
        switch();
        self.sequence.store(sequence + 2, Ordering::Release);
        sequence / 2 + 1
    }

    fn store(&self, table: &RangeTable) {
        self.ranges.store(table.ranges() as u64, Ordering::Relaxed);
        for (range, (first, owner)) in table.firsts().iter().zip(table.owners()).enumerate() {
            self.firsts[range].store(*first, Ordering::Relaxed);
            self.owners[range].store(*owner as u64, Ordering::Relaxed);
        }
    }

    /// Takes something of a table; `take` is called again where the table changed meanwhile. Gives the table's number
    /// with it.
    pub(crate) fn read<T>(&self, mut take: impl FnMut(&View<'_>) -> T) -> (T, u64) {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence & 1 == 0 {
                let ranges = self.ranges.load(Ordering::Relaxed) as usize;
                let taken = take(&View { published: self, ranges });
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == sequence {
                    return (taken, sequence / 2);
                }
            }
            #[cfg(not(loom))]
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }
}

impl View<'_> {
    fn first(&self, range: usize) -> u64 {
        self.published.firsts[range].load(Ordering::Relaxed)
    }

    fn owner(&self, range: usize) -> usize {
        self.published.owners[range].load(Ordering::Relaxed) as usize
    }

    /// The unit that owns a key.
    #[inline]
    pub(crate) fn owner_of(&self, key: u64) -> usize {
        self.owner(range_of(self.ranges, |range| self.first(range), key))
    }

    /// Splits a batch over as many units.
    pub(crate) fn split(&self, keys: &[u64], units: usize, split: &mut Split) {
        split.fill(keys, units, |key| self.owner_of(key));
    }

    /// The parts of `first ..= last` that one unit each owns, in order: their first and last keys and the unit.
    pub(crate) fn parts(&self, first: u64, last: u64, parts: &mut Vec<(u64, u64, usize)>) {
        parts.clear();
        let mut range = range_of(self.ranges, |range| self.first(range), first);
        let mut from = first;
        loop {
            let end = if range + 1 < self.ranges { self.first(range + 1).wrapping_sub(1) } else { u64::MAX };
            parts.push((from, end.min(last), self.owner(range)));
            range += 1;
            if end >= last || range >= self.ranges {
                return;
            }
            from = end + 1;
        }
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_table() {
        let table = RangeTable::new(vec![0, 10, 20, 30]).unwrap().moved(12, 14, 3);
        let published = Published::new(&RangeTable::equal(1), 16);
        assert_eq!(published.read(|view| view.owner_of(12)), (0, 0));
        assert_eq!(published.publish(&table, || ()), 1);
        let mut parts = Vec::new();
        published.read(|view| view.parts(5, 25, &mut parts));
        assert_eq!(parts, [(5, 9, 0), (10, 11, 1), (12, 14, 3), (15, 19, 1), (20, 25, 2)]);
        published.read(|view| view.parts(13, 13, &mut parts));
        assert_eq!(parts, [(13, 13, 3)]);
        published.read(|view| view.parts(40, u64::MAX, &mut parts));
        assert_eq!(parts, [(40, u64::MAX, 3)]);
    }
}
