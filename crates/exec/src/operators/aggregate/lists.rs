//! [`Lists`]: all numbers that the rows of a group gave, for functions that no single value per group is enough for.
//!
//! Rows append their group and their number; *sealing* sorts them by group, once, so that a group's numbers lie
//! together and can be handed on as slices. A number stands for a value whose order it keeps, or says where a row is
//! kept.

use std::mem::size_of;

use super::groups::{Groups, Pick, for_each_pair};

/// Numbers by group.
#[derive(Default)]
pub(crate) struct Lists {
    /// The group of each number, as long as they are not sealed; where there is one group, nothing.
    groups: Vec<u32>,
    numbers: Vec<u64>,
    /// Sealed: the numbers of group `g` are those from `starts[g]` to before `starts[g + 1]`. Empty before.
    starts: Vec<usize>,
    total: usize,
}

impl Lists {
    /// As many groups.
    pub(super) fn resize(&mut self, total: usize) {
        if self.total == 1 && total > 1 {
            self.groups.resize(self.numbers.len(), 0);
        }
        self.total = total;
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let starts = size_of::<usize>() * self.starts.capacity();
        (size_of::<u32>() * self.groups.capacity() + size_of::<u64>() * self.numbers.capacity() + starts) as u64
    }

    /// Adds a number per row that counts.
    pub(super) fn push(&mut self, groups: Groups<'_>, mask: Option<&[bool]>, numbers: impl Iterator<Item = u64>) {
        debug_assert!(self.starts.is_empty(), "sealed lists take no more");
        match mask {
            None => self.numbers.extend(numbers),
            Some(mask) => self.numbers.extend(kept(numbers, mask)),
        }
        match (groups, mask) {
            _ if self.total == 1 => {}
            (Groups::One(_), _) => unreachable!("one group is all there is"),
            (Groups::Few(groups) | Groups::Many(groups), None) => self.groups.extend_from_slice(groups),
            (Groups::Few(groups) | Groups::Many(groups), Some(mask)) => {
                self.groups.extend(kept(groups.iter().copied(), mask));
            }
        }
    }

    /// Adds one number.
    pub(super) fn push_one(&mut self, group: usize, number: u64) {
        if self.total > 1 {
            self.groups.push(group as u32);
        }
        self.numbers.push(number);
    }

    /// Sorts the numbers by group; of a group they keep their order.
    pub(super) fn seal(&mut self) {
        if !self.starts.is_empty() {
            return;
        }
        self.starts = vec![0; self.total + 1];
        if self.groups.is_empty() {
            debug_assert!(self.numbers.is_empty() || self.total == 1, "numbers of several groups say of which");
            self.starts[1..].fill(self.numbers.len());
            return;
        }
        for &group in &self.groups {
            self.starts[group as usize + 1] += 1;
        }
        (0..self.total).for_each(|g| self.starts[g + 1] += self.starts[g]);
        if !self.groups.is_sorted() {
            let mut next = self.starts.clone();
            let mut sorted = vec![0; self.numbers.len()];
            for (&group, &number) in self.groups.iter().zip(&self.numbers) {
                let place = &mut next[group as usize];
                sorted[*place] = number;
                *place += 1;
            }
            self.numbers = sorted;
        }
        self.groups = Vec::new();
    }

    /// The numbers of a group; they must be sealed.
    pub(super) fn of(&self, group: usize) -> &[u64] {
        &self.numbers[self.starts[group]..self.starts[group + 1]]
    }

    /// Adds groups of other, sealed lists: the `i`th that is picked to group `to[i]`, or `i`.
    pub(super) fn merge(&mut self, from: &Lists, pick: &Pick<'_>, to: Option<&[u32]>) {
        debug_assert!(self.starts.is_empty(), "sealed lists take no more");
        for_each_pair(pick, to, |source, target| {
            let numbers = from.of(source);
            self.numbers.extend_from_slice(numbers);
            if self.total > 1 {
                self.groups.resize(self.groups.len() + numbers.len(), target as u32);
            }
        });
    }
}

fn kept<T>(values: impl Iterator<Item = T>, mask: &[bool]) -> impl Iterator<Item = T> {
    values.zip(mask).filter(|(_, counts)| **counts).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_by_group_in_their_order() {
        let mut lists = Lists::default();
        lists.resize(4);
        let groups = [2, 0, 2, 3, 0, 2];
        lists.push(Groups::Many(&groups), None, 0..6);
        lists.push(Groups::Many(&groups), Some(&[true, false, false, true, false, false]), 10..16);
        lists.seal();
        let all: Vec<Vec<u64>> = (0..4).map(|g| lists.of(g).to_vec()).collect();
        assert_eq!(all, [vec![1, 4], vec![], vec![0, 2, 5, 10], vec![3, 13]]);

        let mut merged = Lists::default();
        merged.resize(2);
        merged.merge(&lists, &Pick::List(&[2, 1, 0]), Some(&[1, 0, 1]));
        merged.merge(&lists, &Pick::Range(3..4), Some(&[0]));
        merged.seal();
        assert_eq!((merged.of(0), merged.of(1)), (&[3, 13][..], &[0, 2, 5, 10, 1, 4][..]));
    }

    #[test]
    fn one_group_needs_no_numbers_of_groups() {
        let mut lists = Lists::default();
        lists.resize(1);
        lists.push(Groups::One(3), Some(&[true, false, true]), [7, 8, 9].into_iter());
        lists.seal();
        assert_eq!(lists.of(0), [7, 9]);
        let mut merged = Lists::default();
        merged.resize(1);
        merged.merge(&lists, &Pick::Range(0..1), None);
        merged.merge(&lists, &Pick::Range(0..1), None);
        merged.seal();
        assert_eq!(merged.of(0), [7, 9, 7, 9]);
    }
}
