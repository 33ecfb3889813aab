//! [`CodeRanges`]: a set of codes of one column and dictionary, as sorted ranges.
//!
//! Every predicate over one coded column becomes such a set, once per dictionary; AND and OR over the same column are
//! then exact set operations, and the result is turned into what the kernels test: nothing, everything, a range, the
//! complement of a range, or a bitmap. (Psaroudakis et al., VLDB 2015, section 5.2: boundaries are replaced with vids;
//! for a complex predicate a list of qualifying vids is built.)
//!
//! Codes run from 0 to `codes - 1`; where the column has NULLs, code 0 is NULL and `vid + 1` stands for a value. NULL
//! is a member like any other here, so callers leave it out where SQL does.

use std::ops::Range;

/// Sorted, disjoint, not adjacent, not empty, half open ranges of codes below `codes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeRanges {
    ranges: Vec<Range<u32>>,
    codes: u32,
}

impl CodeRanges {
    /// No code of `codes`.
    pub(crate) fn none(codes: u32) -> CodeRanges {
        CodeRanges { ranges: Vec::new(), codes }
    }

    /// The codes of `range`.
    pub(crate) fn one(range: Range<u32>, codes: u32) -> CodeRanges {
        let mut set = CodeRanges::none(codes);
        set.push(range);
        set
    }

    /// From ranges that ascend by start; they may touch or overlap.
    pub(crate) fn ascending(ranges: impl IntoIterator<Item = Range<u32>>, codes: u32) -> CodeRanges {
        let mut set = CodeRanges::none(codes);
        ranges.into_iter().for_each(|r| set.push(r));
        set
    }

    /// Appends a range that starts at or after the last one's start.
    fn push(&mut self, range: Range<u32>) {
        let range = range.start..range.end.min(self.codes);
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
    }

    /// The ranges.
    pub(crate) fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Number of codes, members or not.
    pub(crate) fn codes(&self) -> u32 {
        self.codes
    }

    /// Number of members.
    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(|r| u64::from(r.end - r.start)).sum()
    }

    /// Members per code there is; 0 where there is no code.
    pub(crate) fn fraction(&self) -> f64 {
        if self.codes == 0 { 0.0 } else { self.count() as f64 / f64::from(self.codes) }
    }

    /// No member.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Every code is a member.
    pub(crate) fn is_everything(&self) -> bool {
        self.count() == u64::from(self.codes)
    }

    /// Members of both.
    pub(crate) fn intersect(&self, other: &CodeRanges) -> CodeRanges {
        let mut set = CodeRanges::none(self.codes);
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.ranges.get(i), other.ranges.get(j)) {
            set.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end <= b.end { i += 1 } else { j += 1 }
        }
        set
    }

    /// Members of either.
    pub(crate) fn union(&self, other: &CodeRanges) -> CodeRanges {
        let mut all: Vec<Range<u32>> = self.ranges.iter().chain(&other.ranges).cloned().collect();
        all.sort_unstable_by_key(|r| r.start);
        CodeRanges::ascending(all, self.codes)
    }

    /// Codes that are no members.
    pub(crate) fn complement(&self) -> CodeRanges {
        let mut set = CodeRanges::none(self.codes);
        let mut next = 0;
        for range in &self.ranges {
            set.push(next..range.start);
            next = range.end;
        }
        set.push(next..self.codes);
        set
    }

    /// Is any member between `min` and `max`, both inclusive?
    pub(crate) fn meets(&self, min: u32, max: u32) -> bool {
        let first = self.ranges.partition_point(|r| r.end <= min);
        self.ranges.get(first).is_some_and(|r| r.start <= max)
    }

    /// Are all codes from `min` to `max`, both inclusive, members?
    pub(crate) fn covers(&self, min: u32, max: u32) -> bool {
        let first = self.ranges.partition_point(|r| r.end <= min);
        self.ranges.get(first).is_some_and(|r| r.start <= min && max < r.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(set: &CodeRanges) -> Vec<u32> {
        set.ranges().iter().cloned().flatten().collect()
    }

    fn arbitrary() -> impl Strategy<Value = CodeRanges> {
        proptest::collection::btree_set(0u32..40, 0..20)
            .prop_map(|codes| CodeRanges::ascending(codes.into_iter().map(|c| c..c + 1), 40))
    }

    proptest! {
        #[test]
        fn set_algebra(a in arbitrary(), b in arbitrary(), lo in 0u32..40, len in 0u32..10) {
            let has = |s: &CodeRanges, c: u32| members(s).contains(&c);
            for c in 0..40 {
                prop_assert_eq!(has(&a.intersect(&b), c), has(&a, c) && has(&b, c));
                prop_assert_eq!(has(&a.union(&b), c), has(&a, c) || has(&b, c));
                prop_assert_eq!(has(&a.complement(), c), !has(&a, c));
            }
            prop_assert_eq!(a.count() as usize, members(&a).len());
            prop_assert_eq!(a.is_empty(), a.count() == 0);
            let hi = (lo + len).min(39);
            prop_assert_eq!(a.meets(lo, hi), (lo..=hi).any(|c| has(&a, c)));
            prop_assert_eq!(a.covers(lo, hi), (lo..=hi).all(|c| has(&a, c)));
            for w in a.union(&b).ranges().windows(2) {
                prop_assert!(w[0].end < w[1].start);
            }
        }
    }
}
