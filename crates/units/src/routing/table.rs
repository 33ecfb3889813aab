//! Partition tables: which unit owns which keys, and which units have rows of an object without a key.
//!
//! Plain data: a table is made anew when a range moves, and published whole.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2 (range and bitmap partition tables, batch target look-up).

/// The ranges of keys of one object, in their order, each with the unit that owns it; together they are all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTable {
    /// The first key of each range; that of range 0 is 0.
    firsts: Vec<u64>,
    /// The unit of each range.
    owners: Vec<usize>,
}

impl RangeTable {
    /// A range for each of `units` units, all of equal length.
    pub fn equal(units: usize) -> RangeTable {
        let units = units.max(1);
        let first = |unit: usize| ((unit as u128) << 64).div_ceil(units as u128) as u64;
        RangeTable { firsts: (0..units).map(first).collect(), owners: (0..units).collect() }
    }

    /// Ranges that begin at these keys, one per unit in order; `None` unless the first is 0 and each is greater than
    /// the one before.
    pub fn new(firsts: Vec<u64>) -> Option<RangeTable> {
        let ascends = firsts.windows(2).all(|pair| pair[0] < pair[1]);
        let owners = (0..firsts.len()).collect();
        (ascends && firsts.first() == Some(&0)).then_some(RangeTable { firsts, owners })
    }

    /// The first key of each range.
    pub fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The unit of each range.
    pub fn owners(&self) -> &[usize] {
        &self.owners
    }

    /// Ranges; at least one.
    pub fn ranges(&self) -> usize {
        self.firsts.len()
    }

    /// The last key of a range.
    pub fn last(&self, range: usize) -> u64 {
        self.firsts.get(range + 1).map_or(u64::MAX, |next| next - 1)
    }

    /// The range of a key.
    pub fn range_of(&self, key: u64) -> usize {
        range_of(self.firsts.len(), |range| self.firsts[range], key)
    }

    /// The unit that owns a key.
    pub fn owner_of(&self, key: u64) -> usize {
        self.owners[self.range_of(key)]
    }

    /// The table after the keys `first ..= last` went to `owner`; ranges of one owner side by side become one.
    #[must_use]
    pub fn moved(&self, first: u64, last: u64, owner: usize) -> RangeTable {
        let before = (0..self.ranges()).filter(|range| self.firsts[*range] < first);
        let mut ranges: Vec<(u64, usize)> = before.map(|range| (self.firsts[range], self.owners[range])).collect();
        ranges.push((first, owner));
        if let Some(next) = last.checked_add(1) {
            ranges.push((next, self.owner_of(next)));
            let behind = (0..self.ranges()).filter(|range| self.firsts[*range] > next);
            ranges.extend(behind.map(|range| (self.firsts[range], self.owners[range])));
        }
        ranges.dedup_by_key(|range| range.1);
        RangeTable {
            firsts: ranges.iter().map(|range| range.0).collect(),
            owners: ranges.iter().map(|range| range.1).collect(),
        }
    }
}

/// The range that a key lies in, of `ranges` whose first keys `first` tells.
///
/// Keys come in no order, so a branch would be guessed wrongly every other time: where the compiler made one of the
/// comparison, a key of 64 ranges took 19 ns in place of 4.
#[inline]
pub(crate) fn range_of(ranges: usize, first: impl Fn(usize) -> u64, key: u64) -> usize {
    let mut low = 0;
    let mut len = ranges;
    while len > 1 {
        let half = len / 2;
        low = std::hint::select_unpredictable(first(low + half) <= key, low + half, low);
        len -= half;
    }
    low
}

/// A batch's keys by their owners.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// The places of the batch, those of one owner side by side in their order.
    places: Vec<usize>,
    /// Where each owner's places begin, with the end of all behind them.
    starts: Vec<usize>,
    owners: Vec<usize>,
}

impl Split {
    /// Splits a batch over `owners` units.
    pub(crate) fn fill(&mut self, keys: &[u64], owners: usize, owner_of: impl Fn(u64) -> usize) {
        self.starts.clear();
        self.starts.resize(owners + 1, 0);
        self.owners.clear();
        self.owners.extend(keys.iter().map(|key| owner_of(*key)));
        for owner in &self.owners {
            self.starts[*owner + 1] += 1;
        }
        for owner in 0..owners {
            self.starts[owner + 1] += self.starts[owner];
        }
        self.places.clear();
        self.places.resize(keys.len(), 0);
        let mut next = self.starts.clone();
        for (place, owner) in self.owners.iter().enumerate() {
            let at = &mut next[*owner];
            self.places[*at] = place;
            *at += 1;
        }
    }

    /// All places, owner by owner.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The places of an owner's keys.
    pub(crate) fn of(&self, owner: usize) -> &[usize] {
        &self.places[self.starts[owner]..self.starts[owner + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    #[test]
    fn a_key_lies_in_the_range_that_has_it() {
        let mut random = Random::new(5);
        for units in [1, 2, 3, 7, 64, 100] {
            let table = RangeTable::equal(units);
            assert_eq!((table.ranges(), table.last(units - 1)), (units, u64::MAX));
            for _ in 0..500 {
                let key = random.next_u64();
                let range = table.range_of(key);
                assert!(table.firsts()[range] <= key && key <= table.last(range));
                let first = table.firsts()[range];
                assert_eq!(table.range_of(first), range);
                assert_eq!(table.range_of(first.saturating_sub(1)), range.saturating_sub(1));
                assert_eq!(table.owner_of(key), range);
            }
        }
    }

    #[test]
    fn a_batch_is_split_into_every_key_once_and_in_order() {
        let mut random = Random::new(6);
        let mut split = Split::default();
        for units in [1, 2, 9] {
            let table = RangeTable::equal(units);
            let keys: Vec<u64> = (0..random.below(300)).map(|_| random.next_u64()).collect();
            split.fill(&keys, units, |key| table.owner_of(key));
            assert_eq!((0..units).map(|unit| split.of(unit).len()).sum::<usize>(), keys.len());
            for unit in 0..units {
                let own = split.of(unit);
                assert!(own.is_sorted() && own.iter().all(|place| table.owner_of(keys[*place]) == unit));
            }
        }
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for firsts in [vec![], vec![1], vec![0, 5, 5], vec![0, 7, 3]] {
            assert_eq!(RangeTable::new(firsts.clone()), None, "{firsts:?}");
        }
        assert!(RangeTable::new(vec![0, 3, u64::MAX]).is_some());
    }

    #[test]
    fn what_moved_has_its_owner_and_nothing_else_changed() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let mut firsts: Vec<u64> = (0..random.below(6)).map(|_| 1 + random.below_u64(60)).collect();
            firsts.push(0);
            firsts.sort_unstable();
            firsts.dedup();
            let mut table = RangeTable::new(firsts).unwrap();
            let units = table.ranges();
            for _ in 0..20 {
                let before = table.clone();
                let first = random.below_u64(64);
                let near = first + random.below_u64(20);
                let last = random.pick(&[first, near, 63, u64::MAX]);
                let owner = random.below(units);
                table = table.moved(first, last, owner);
                for key in (0..100).chain([u64::MAX]) {
                    let expected = if first <= key && key <= last { owner } else { before.owner_of(key) };
                    assert_eq!(table.owner_of(key), expected, "{before:?}, {first} to {last} for {owner}: {table:?}");
                }
                assert!(table.owners().windows(2).all(|pair| pair[0] != pair[1]));
            }
        }
    }
}
