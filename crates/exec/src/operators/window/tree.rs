//! [`Tree`]: what an associative function makes of any range of rows, in time that grows with the logarithm of its
//! length.
//!
//! A segment tree (Leis et al., VLDB 2015, "Efficient Processing of Window Functions in Analytical SQL Queries",
//! section 4): an entry of a level is
//! made of [`FANOUT`] entries of the one below. The lowest level is what the rows have.

use std::ops::Range;

use super::places::filled;
use crate::ExecError;
use crate::tasks::run::Run;

/// Entries that one of the level above is made of.
pub(super) const FANOUT: usize = 16;

/// The levels, lowest first.
pub(super) struct Tree<T, F> {
    levels: Vec<Vec<T>>,
    zero: T,
    join: F,
}

impl<T: Copy + Default + Send + Sync, F: Fn(T, T) -> T + Sync> Tree<T, F> {
    /// Over the rows' values; `zero` joined with a value is that value.
    pub(super) fn new(run: &Run<'_>, values: Vec<T>, zero: T, join: F) -> Result<Tree<T, F>, ExecError> {
        let mut levels = vec![values];
        while let Some(below) = levels.last().filter(|level| level.len() > FANOUT) {
            let above = filled(run, below.len().div_ceil(FANOUT), &|range, part: &mut [T]| {
                let entries = below[range.start * FANOUT..].chunks(FANOUT);
                part.iter_mut().zip(entries).for_each(|(to, of)| *to = of.iter().fold(zero, |a, &b| join(a, b)));
                Ok(())
            })?;
            levels.push(above);
        }
        Ok(Tree { levels, zero, join })
    }

    /// Of a range of rows.
    #[inline]
    pub(super) fn of(&self, range: Range<usize>) -> T {
        let join = |value: T, of: &[T]| of.iter().fold(value, |a, &b| (self.join)(a, b));
        let (mut left, mut right) = (self.zero, self.zero);
        let Range { mut start, mut end } = range;
        for level in &self.levels {
            if end.saturating_sub(start) <= 2 * FANOUT {
                return (self.join)(join(left, &level[start..end.max(start)]), right);
            }
            let (first, last) = (start.next_multiple_of(FANOUT), end - end % FANOUT);
            left = join(left, &level[start..first]);
            right = (self.join)(join(self.zero, &level[last..end]), right);
            (start, end) = (first / FANOUT, last / FANOUT);
        }
        (self.join)(left, right)
    }

    /// What the rows of some ranges make together.
    #[inline]
    pub(super) fn of_all(&self, ranges: &[Range<usize>]) -> T {
        ranges.iter().fold(self.zero, |all, range| (self.join)(all, self.of(range.clone())))
    }

    /// Two together.
    #[inline]
    pub(super) fn join(&self, left: T, right: T) -> T {
        (self.join)(left, right)
    }
}

/// What a frame that only grows has made so far.
pub(super) struct TreeBuilder<T> {
    of: Range<usize>,
    value: T,
}

impl<T: Copy + Default + Send + Sync> TreeBuilder<T> {
    /// Of no row.
    pub(super) fn new(zero: T) -> TreeBuilder<T> {
        TreeBuilder { of: 0..0, value: zero }
    }

    /// Of a range; of what the last one was, only the rows behind are looked at, where it begins where that one did.
    #[inline]
    pub(super) fn of<F: Fn(T, T) -> T + Sync>(&mut self, tree: &Tree<T, F>, range: Range<usize>) -> T {
        let goes_on = self.of.start == range.start && self.of.end <= range.end && !self.of.is_empty();
        self.value = match goes_on {
            true => tree.join(self.value, tree.of(self.of.end..range.end)),
            false => tree.of(range.clone()),
        };
        self.of = range;
        self.value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use numa::Budget;
    use sched::Statement;
    use storage::Serial;

    use super::*;
    use crate::tasks::places::{Lookup, Places};

    #[test]
    fn ranges_are_joined_in_order() {
        let statement: Arc<Statement> = Statement::new(1, Budget::unlimited());
        let options = crate::ScanOptions::default();
        let places = Places { lookup: Lookup::Nowhere, options, turn: None, morsels_min: usize::MAX, attached: None };
        let run = Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &Arc::default() };
        // Positions that follow each other join to where they begin and end: anything else is noticed.
        let join = |a: (u32, u32), b: (u32, u32)| match (a, b) {
            ((0, 0), b) => b,
            (a, (0, 0)) => a,
            (a, b) => {
                assert_eq!(a.1, b.0, "{a:?} {b:?}");
                (a.0, b.1)
            }
        };
        for rows in [1usize, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 600] {
            let values: Vec<(u32, u32)> = (0..rows as u32).map(|row| (row + 1, row + 2)).collect();
            let tree = Tree::new(&run, values, (0, 0), join).unwrap();
            for start in 0..rows {
                let mut growing = TreeBuilder::new((0, 0));
                for end in start + 1..=rows {
                    let expected = (start as u32 + 1, end as u32 + 1);
                    assert_eq!(tree.of(start..end), expected, "{start}..{end} of {rows}");
                    assert_eq!(growing.of(&tree, start..end), expected, "{start}..{end} of {rows}");
                }
                assert_eq!(tree.of(start..start), (0, 0));
            }
        }
    }
}
