//! [`Groups`]: the groups of some rows, and the loops that add a column to what is kept per group.
//!
//! Loops run over one column of one chunk at a time: group numbers once per chunk, then one tight loop per aggregate.
//! Of one group the loop is a plain reduction; of few groups it adds to four copies in turn, since an addition to
//! memory that was just written waits for that write; of many it adds in place.

use std::ops::Range;

/// Groups for which the loop over few groups is used.
pub(super) const FEW_GROUPS: usize = 64;

/// Copies of few groups.
const COPIES: usize = 4;

/// Copies of one group.
const ONE_COPIES: usize = 8;

/// The groups of some rows.
#[derive(Clone, Copy)]
pub(super) enum Groups<'a> {
    /// All in group 0.
    One(usize),
    /// A group per row, all below [`FEW_GROUPS`].
    Few(&'a [u32]),
    /// A group per row.
    Many(&'a [u32]),
}

impl Groups<'_> {
    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        match self {
            Groups::One(rows) => *rows,
            Groups::Few(groups) | Groups::Many(groups) => groups.len(),
        }
    }

    /// The group of a row.
    pub(super) fn of(&self, row: usize) -> usize {
        match self {
            Groups::One(_) => 0,
            Groups::Few(groups) | Groups::Many(groups) => groups[row] as usize,
        }
    }
}

/// Groups of another state.
pub(super) enum Pick<'a> {
    /// Consecutive ones.
    Range(Range<usize>),
    /// These.
    List(&'a [u32]),
}

impl Pick<'_> {
    /// How many.
    pub(super) fn len(&self) -> usize {
        match self {
            Pick::Range(range) => range.len(),
            Pick::List(list) => list.len(),
        }
    }
}

/// Calls `f` with every group that is picked and the group it goes to: `to[i]`, or `i`.
pub(super) fn for_each_pair(pick: &Pick<'_>, to: Option<&[u32]>, mut f: impl FnMut(usize, usize)) {
    for i in 0..pick.len() {
        let source = match pick {
            Pick::Range(range) => range.start + i,
            Pick::List(list) => list[i] as usize,
        };
        f(source, to.map_or(i, |to| to[i] as usize));
    }
}

/// Adds the values of rows: `join` puts one into its group's, `merge` two of the latter together.
#[inline(always)]
fn accumulate<A: Copy, V: Copy>(
    state: &mut [A],
    groups: Groups<'_>,
    zero: A,
    values: &[V],
    join: impl Fn(A, V) -> A,
    merge: impl Fn(A, A) -> A,
) {
    let values = &values[..groups.rows()];
    match groups {
        Groups::One(_) => {
            let mut copies = [zero; ONE_COPIES];
            let mut parts = values.chunks_exact(ONE_COPIES);
            for part in &mut parts {
                copies.iter_mut().zip(part).for_each(|(sum, &value)| *sum = join(*sum, value));
            }
            let rest = parts.remainder().iter().fold(state[0], |sum, &value| join(sum, value));
            state[0] = copies.into_iter().fold(rest, merge);
        }
        Groups::Few(groups) => {
            let mut copies = [[zero; FEW_GROUPS]; COPIES];
            let (parts, groups) = (values.chunks_exact(COPIES), groups.chunks_exact(COPIES));
            for (group, &value) in groups.remainder().iter().zip(parts.remainder()) {
                let sum = &mut copies[0][*group as usize % FEW_GROUPS];
                *sum = join(*sum, value);
            }
            for (groups, part) in groups.zip(parts) {
                for ((copy, &group), &value) in copies.iter_mut().zip(groups).zip(part) {
                    let sum = &mut copy[group as usize % FEW_GROUPS];
                    *sum = join(*sum, value);
                }
            }
            for (group, sum) in state.iter_mut().take(FEW_GROUPS).enumerate() {
                *sum = copies.iter().fold(*sum, |all, copy| merge(all, copy[group]));
            }
        }
        Groups::Many(groups) => {
            for (&group, &value) in groups.iter().zip(values) {
                let sum = &mut state[group as usize];
                *sum = join(*sum, value);
            }
        }
    }
}

/// As [`accumulate`] of the rows of a mask.
#[inline(always)]
fn accumulate_masked<A: Copy, V: Copy>(
    state: &mut [A],
    groups: Groups<'_>,
    values: &[V],
    mask: &[bool],
    join: impl Fn(A, V) -> A,
) {
    let rows = values[..groups.rows()].iter().zip(mask);
    match groups {
        Groups::One(_) => {
            state[0] = rows.fold(state[0], |sum, (&value, &counts)| if counts { join(sum, value) } else { sum });
        }
        Groups::Few(groups) | Groups::Many(groups) => {
            for (&group, (&value, &counts)) in groups.iter().zip(rows) {
                let sum = &mut state[group as usize];
                // Not a branch around the store: that would be mispredicted as often as not.
                *sum = if counts { join(*sum, value) } else { *sum };
            }
        }
    }
}

/// Counts rows, those of the mask if there is one.
pub(super) fn count(state: &mut [i64], groups: Groups<'_>, mask: Option<&[bool]>) {
    let add = |a: i64, v: i64| a + v;
    match (groups, mask) {
        (Groups::One(rows), None) => state[0] += rows as i64,
        (Groups::One(_), Some(mask)) => state[0] += mask.iter().filter(|&&counts| counts).count() as i64,
        (Groups::Few(of) | Groups::Many(of), None) => accumulate(state, groups, 0, of, |a, _| a + 1, add),
        (_, Some(mask)) => accumulate(state, groups, 0, mask, |a, counts| a + i64::from(counts), add),
    }
}

/// Adds values by a function of each.
#[inline(always)]
pub(super) fn add<A: Copy, V: Copy>(
    state: &mut [A],
    groups: Groups<'_>,
    zero: A,
    values: &[V],
    mask: Option<&[bool]>,
    join: impl Fn(A, V) -> A,
    merge: impl Fn(A, A) -> A,
) {
    match mask {
        None => accumulate(state, groups, zero, values, join, merge),
        Some(mask) => accumulate_masked(state, groups, values, mask, join),
    }
}

/// Adds integers whose sums are known to fit.
pub(super) fn add_ints(state: &mut [i64], groups: Groups<'_>, values: &[i64], mask: Option<&[bool]>) {
    add(state, groups, 0, values, mask, i64::wrapping_add, i64::wrapping_add);
}

/// Adds integers to totals of 128 bits. Without `wraps` the caller knows that no total wraps.
pub(super) fn add_wide<V: Copy + Into<i128>>(
    low: &mut [i128],
    wraps: Option<&mut Vec<i64>>,
    groups: Groups<'_>,
    values: &[V],
    mask: Option<&[bool]>,
) {
    let Some(wraps) = wraps else {
        return add(low, groups, 0, values, mask, |a, v| a.wrapping_add(v.into()), i128::wrapping_add);
    };
    for (row, &value) in values[..groups.rows()].iter().enumerate() {
        if mask.is_none_or(|m| m[row]) {
            add_one(low, wraps, groups.of(row), value.into(), 0);
        }
    }
}

/// Adds a value that wrapped so often to a group.
#[inline(always)]
pub(super) fn add_one(low: &mut [i128], wraps: &mut Vec<i64>, group: usize, value: i128, wrapped: i64) {
    let (sum, overflow) = low[group].overflowing_add(value);
    low[group] = sum;
    if overflow || wrapped != 0 {
        wraps.resize(low.len(), 0);
        wraps[group] += wrapped + if overflow { if value < 0 { -1 } else { 1 } } else { 0 };
    }
}

/// Adds floats.
pub(super) fn add_floats(state: &mut [f64], groups: Groups<'_>, values: &[f64], mask: Option<&[bool]>) {
    add(state, groups, 0.0, values, mask, |a, v| a + v, |a, v| a + v);
}

/// Keeps the largest number that `number` makes of a value.
pub(super) fn most<V: Copy>(
    state: &mut [u64],
    groups: Groups<'_>,
    values: &[V],
    mask: Option<&[bool]>,
    number: impl Fn(V) -> u64,
) {
    add(state, groups, 0, values, mask, |a: u64, v| a.max(number(v)), u64::max);
}
