//! Partition tables: which unit owns which keys, and which units have rows of an object without a key.
//!
//! Plain data: a table is made anew when a range moves, and published whole.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2 (range and bitmap partition tables, batch target look-up).

/// The ranges of keys of one object, in their order; together they are all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTable {
    /// The first key of each partition; that of partition 0 is 0.
    firsts: Vec<u64>,
}

impl RangeTable {
    /// `partitions` ranges of equal length.
    pub fn equal(partitions: usize) -> RangeTable {
        let partitions = partitions.max(1);
        let first = |partition: usize| ((partition as u128) << 64).div_ceil(partitions as u128) as u64;
        RangeTable { firsts: (0..partitions).map(first).collect() }
    }

    /// Ranges that begin at these keys; `None` unless the first is 0 and each is greater than the one before.
    pub fn new(firsts: Vec<u64>) -> Option<RangeTable> {
        let ascends = firsts.windows(2).all(|pair| pair[0] < pair[1]);
        (ascends && firsts.first() == Some(&0)).then_some(RangeTable { firsts })
    }

    /// The first key of each partition.
    pub fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// Partitions; at least one.
    pub fn partitions(&self) -> usize {
        self.firsts.len()
    }

    /// The last key of a partition.
    pub fn last(&self, partition: usize) -> u64 {
        self.firsts.get(partition + 1).map_or(u64::MAX, |next| next - 1)
    }

    /// The partition of a key.
    #[inline]
    pub fn partition_of(&self, key: u64) -> usize {
        let mut low = 0;
        let mut len = self.firsts.len();
        while len > 1 {
            let half = len / 2;
            low += usize::from(self.firsts[low + half] <= key) * half;
            len -= half;
        }
        low
    }

    /// The places of a batch's keys, those of one partition side by side in their order, and where each partition's
    /// begin, with the end of all behind them.
    pub fn split(&self, keys: &[u64], places: &mut Vec<usize>, starts: &mut Vec<usize>) {
        starts.clear();
        starts.resize(self.partitions() + 1, 0);
        places.clear();
        if self.partitions() == 1 {
            places.extend(0..keys.len());
            starts[1] = keys.len();
            return;
        }
        let partitions: Vec<usize> = keys.iter().map(|key| self.partition_of(*key)).collect();
        for partition in &partitions {
            starts[*partition + 1] += 1;
        }
        for partition in 0..self.partitions() {
            starts[partition + 1] += starts[partition];
        }
        places.resize(keys.len(), 0);
        let mut next = starts.clone();
        for (place, partition) in partitions.iter().enumerate() {
            let at = &mut next[*partition];
            places[*at] = place;
            *at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    #[test]
    fn a_key_lies_in_the_range_that_has_it() {
        let mut random = Random::new(5);
        for partitions in [1, 2, 3, 7, 64, 100] {
            let table = RangeTable::equal(partitions);
            assert_eq!((table.partitions(), table.last(partitions - 1)), (partitions, u64::MAX));
            for _ in 0..500 {
                let key = random.next_u64();
                let partition = table.partition_of(key);
                assert!(table.firsts()[partition] <= key && key <= table.last(partition));
                let first = table.firsts()[partition];
                assert_eq!(table.partition_of(first), partition);
                assert_eq!(table.partition_of(first.saturating_sub(1)), partition.saturating_sub(1));
            }
        }
    }

    #[test]
    fn a_batch_is_split_into_every_key_once_and_in_order() {
        let mut random = Random::new(6);
        let mut places = Vec::new();
        let mut starts = Vec::new();
        for partitions in [1, 2, 9] {
            let table = RangeTable::equal(partitions);
            let keys: Vec<u64> = (0..random.below(300)).map(|_| random.next_u64()).collect();
            table.split(&keys, &mut places, &mut starts);
            assert_eq!((starts.len(), starts[partitions], places.len()), (partitions + 1, keys.len(), keys.len()));
            for partition in 0..partitions {
                let own = &places[starts[partition]..starts[partition + 1]];
                assert!(own.is_sorted() && own.iter().all(|place| table.partition_of(keys[*place]) == partition));
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
}
