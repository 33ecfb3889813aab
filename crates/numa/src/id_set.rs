//! Sets of cpu or node numbers as the kernel writes them: lists (`0-3,8`) and masks (`ff,00000001`).
//!
//! A set is kept as sorted, disjoint, non-touching ranges, so that `0-4294967295` costs as much as `0`; members are
//! only spelled out after a set was cut down to what exists.
//!
//! # Limits
//! The stride form of cpu lists (`0-31:1/2`) is a kernel input format that sysfs never prints; it is refused.

use std::fmt;

/// A set of `u32` as sorted, disjoint, inclusive ranges with a gap of at least one between neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdSet {
    ranges: Vec<(u32, u32)>,
}

impl IdSet {
    /// The set of these inclusive ranges, in any order, overlapping or not. Ranges with `last < first` hold nothing.
    pub(crate) fn from_ranges(mut ranges: Vec<(u32, u32)>) -> IdSet {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        IdSet { ranges: merged }
    }

    /// Reads a list such as `0-3,8,10-11`. Blanks and NULs around it are ignored; an empty text is the empty set.
    /// `None` when it is no list: anything but numbers that fit 32 bits, `-` and `,`, or a range that runs backwards.
    pub(crate) fn parse_list(text: &str) -> Option<IdSet> {
        let text = trim(text);
        if text.is_empty() {
            return Some(IdSet::default());
        }
        let mut ranges = Vec::new();
        for piece in text.split(',') {
            let (first, last) = match piece.trim().split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(piece)?, number(piece)?),
            };
            if first > last {
                return None;
            }
            ranges.push((first, last));
        }
        Some(IdSet::from_ranges(ranges))
    }

    /// Reads a mask of comma-separated groups of hexadecimal digits, 32 bits each, the highest group first. The leading
    /// group may be shorter than eight digits; a text without commas may be any number of digits long.
    pub(crate) fn parse_mask(text: &str) -> Option<IdSet> {
        let text = trim(text);
        let text = text.strip_prefix("0x").unwrap_or(text);
        let groups: Vec<&str> = text.split(',').collect();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let mut bit: u32 = 0;
        for (position, group) in groups.iter().rev().enumerate() {
            let leading = position + 1 == groups.len();
            let whole = group.len() == 8 || (leading && !group.is_empty() && (groups.len() == 1 || group.len() < 8));
            if !whole {
                return None;
            }
            for digit in group.chars().rev() {
                let digit = digit.to_digit(16)?;
                for i in 0..4 {
                    if digit & (1 << i) != 0 {
                        let id = bit.checked_add(i)?;
                        match ranges.last_mut() {
                            Some(previous) if previous.1 + 1 == id => previous.1 = id,
                            _ => ranges.push((id, id)),
                        }
                    }
                }
                bit = bit.checked_add(4)?;
            }
        }
        Some(IdSet { ranges })
    }

    /// The members of both sets.
    pub(crate) fn intersect(&self, other: &IdSet) -> IdSet {
        let mut i = 0;
        let mut j = 0;
        let mut ranges = Vec::new();
        while i < self.ranges.len() && j < other.ranges.len() {
            let a = self.ranges[i];
            let b = other.ranges[j];
            let first = a.0.max(b.0);
            let last = a.1.min(b.1);
            if first <= last {
                ranges.push((first, last));
            }
            if a.1 < b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        IdSet { ranges }
    }

    /// The members of this set that are not in `other`.
    pub(crate) fn without(&self, other: &IdSet) -> IdSet {
        let mut ranges = Vec::new();
        let mut j = 0;
        for &(first, last) in &self.ranges {
            let mut from = u64::from(first);
            let end = u64::from(last) + 1;
            while j < other.ranges.len() && other.ranges[j].1 < first {
                j += 1;
            }
            for &(a, b) in other.ranges[j..].iter().take_while(|r| u64::from(r.0) < end) {
                if from < u64::from(a) {
                    ranges.push((from as u32, a - 1));
                }
                from = from.max(u64::from(b) + 1);
            }
            if from < end {
                ranges.push((from as u32, last));
            }
        }
        IdSet { ranges }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        let after = self.ranges.partition_point(|r| r.0 <= id);
        after > 0 && self.ranges[after - 1].1 >= id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many members.
    pub(crate) fn len(&self) -> u64 {
        self.ranges.iter().map(|r| u64::from(r.1 - r.0) + 1).sum()
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|r| r.0..=r.1)
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> IdSet {
        IdSet::from_ranges(ids.into_iter().map(|id| (id, id)).collect())
    }
}

impl fmt::Display for IdSet {
    /// The kernel's list form; `none` for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranges.is_empty() {
            return f.write_str("none");
        }
        for (i, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

/// Without the blanks, line ends and NULs that kernels and recorders put around a value.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    // `parse` would also take a plus sign.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn plain(ids: &BTreeSet<u32>) -> IdSet {
        ids.iter().copied().collect()
    }

    fn members(set: &IdSet) -> BTreeSet<u32> {
        set.iter().collect()
    }

    /// The list form written the long way.
    fn list(ids: &[u32]) -> String {
        ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// The mask form, bit by bit from a plain vector of booleans.
    fn mask(ids: &BTreeSet<u32>, bits: u32) -> String {
        let groups = bits.div_ceil(32);
        let group = |g: u32| (0..32).filter(|b| ids.contains(&(g * 32 + b))).map(|b| 1u32 << b).sum::<u32>();
        (0..groups).rev().map(|g| format!("{:08x}", group(g))).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn reads_what_kernels_print() {
        let read = |text| IdSet::parse_list(text).map(|s| s.iter().collect::<Vec<_>>());
        assert_eq!(read("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(read(" 5 \0"), Some(vec![5]));
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("\n"), Some(vec![]));
        for bad in ["x", "1-", "-1", "3-1", "1,,2", "1,", "0x3", "+1", "4294967296", "0-31:1/2", "ff"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let read = |text| IdSet::parse_mask(text).map(|s| s.to_string());
        assert_eq!(read("ff\n").as_deref(), Some("0-7"));
        assert_eq!(read("1111,11111111").as_deref(), Some("0,4,8,12,16,20,24,28,32,36,40,44"));
        assert_eq!(read("00000001,00000000").as_deref(), Some("32"));
        assert_eq!(read("80000000,00000001").as_deref(), Some("0,63"));
        assert_eq!(read("00000001,80000000").as_deref(), Some("31-32"));
        for bad in ["", ",", "0,1", "g", "1,0000000", "1,000000000", "000000001,00000000"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_huge_range_costs_nothing() {
        let all = IdSet::parse_list("0-4294967295").unwrap();
        assert_eq!(all.len(), 1 << 32);
        assert_eq!(all.intersect(&IdSet::parse_list("4,4294967295").unwrap()).to_string(), "4,4294967295");
        assert_eq!(all.without(&IdSet::parse_list("1-4294967294").unwrap()).to_string(), "0,4294967295");
        assert!(all.contains(u32::MAX));
    }

    proptest! {
        #[test]
        fn lists_and_masks_mean_their_members(
            ids in prop::collection::btree_set(0u32..200, 0..60),
            shuffle in any::<u64>(),
        ) {
            let set = plain(&ids);
            prop_assert_eq!(members(&set), ids.clone());
            prop_assert_eq!(set.len(), ids.len() as u64);
            let mut order: Vec<u32> = ids.iter().copied().collect();
            if !order.is_empty() {
                let middle = (shuffle % order.len() as u64) as usize;
                order.rotate_left(middle);
            }
            prop_assert_eq!(IdSet::parse_list(&list(&order)), Some(set.clone()));
            if !ids.is_empty() {
                prop_assert_eq!(IdSet::parse_list(&set.to_string()), Some(set.clone()));
            }
            prop_assert_eq!(IdSet::parse_mask(&mask(&ids, 200)), Some(set.clone()));
            for id in 0..210 {
                prop_assert_eq!(set.contains(id), ids.contains(&id));
            }
        }

        #[test]
        fn set_algebra_matches_plain_sets(
            a in prop::collection::btree_set(0u32..80, 0..40),
            b in prop::collection::btree_set(0u32..80, 0..40),
        ) {
            prop_assert_eq!(members(&plain(&a).intersect(&plain(&b))), &a & &b);
            let rest = plain(&a).without(&plain(&b));
            prop_assert_eq!(members(&rest), &a - &b);
            prop_assert_eq!(rest.clone(), IdSet::from_iter(rest.iter()));
        }

        #[test]
        fn no_text_panics(text in "\\PC*", numbers in "[0-9a-f,\\-]{0,40}") {
            for text in [text, numbers] {
                let _ = IdSet::parse_list(&text);
                let _ = IdSet::parse_mask(&text);
            }
        }
    }
}
