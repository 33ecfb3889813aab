//! [`State`]: what one aggregate has seen, a value per group, and the loops that add to it.
//!
//! Loops run over one column of one chunk at a time: group numbers once per chunk, then one tight loop per aggregate.
//! Of one group the loop is a plain reduction; of few groups it adds to four copies in turn, since an addition to
//! memory that was just written waits for that write; of many it adds in place.
//!
//! Invariant: a group that no row counted for has the zero of its state: 0, no bytes. Whether there was a row a count
//! tells.

use std::ops::Range;

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use super::best::Best;
use super::keys::Encoding;
use super::lists::Lists;
use super::table::Table;
use crate::plan::OpaqueGroups;

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

/// What one aggregate has seen, by group.
pub(crate) enum State {
    /// Rows that count.
    Count(Vec<i64>),
    /// Sums that bounds and rows keep within 64 bits.
    Sum(Vec<i64>),
    /// Sums of 128 bits, and how often each wrapped; the latter is empty while none did.
    Exact(Vec<i128>, Vec<i64>),
    /// Sums of floats.
    Float(Vec<f64>),
    /// The largest number; what stands for what the aggregate says.
    Most(Vec<u64>),
    /// The smallest or largest row of Arrow's row format.
    Bytes(Vec<Option<Box<[u8]>>>),
    /// Of a function that this crate does not know.
    Opaque(Opaque),
    /// Its state once no more rows come: arrays of a row per group.
    Partial(Vec<ArrayRef>),
    /// Pairs of group and value.
    Distinct(Box<Distinct>),
    /// All numbers, or all rows.
    Lists(Box<Lists>),
    /// One row.
    Best(Box<Best>),
}

/// The state of an opaque function, and rows that it has not been given yet.
pub(crate) struct Opaque {
    pub(super) groups: Mutex<Box<dyn OpaqueGroups>>,
    pub(super) pending: Pending,
    pub(super) total: usize,
    /// It has been told of groups.
    pub(super) fed: bool,
}

/// Rows that wait to be enough.
#[derive(Default)]
pub(super) struct Pending {
    /// Per argument the arrays of chunks.
    pub(super) arguments: Vec<Vec<ArrayRef>>,
    pub(super) groups: Vec<usize>,
    pub(super) filter: Vec<bool>,
}

/// Different values by group.
pub(crate) struct Distinct {
    /// The group in the upper word, the value's number in the lower one.
    pub(super) pairs: Table<u128>,
    pub(super) encoding: Encoding,
    pub(super) numbers: Vec<u64>,
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

impl State {
    /// As many groups; new ones are zero.
    pub(super) fn resize(&mut self, groups: usize) {
        fn to<T: Clone + Default>(values: &mut Vec<T>, groups: usize) {
            if values.is_empty() && groups > 0 {
                // Zeroed pages come untouched from the system.
                *values = vec![T::default(); groups];
            } else {
                values.resize(groups, T::default());
            }
        }
        match self {
            State::Count(values) | State::Sum(values) => to(values, groups),
            State::Exact(low, wraps) => {
                to(low, groups);
                if !wraps.is_empty() {
                    wraps.resize(groups, 0);
                }
            }
            State::Float(values) => to(values, groups),
            State::Most(values) => to(values, groups),
            State::Bytes(values) => to(values, groups),
            State::Opaque(opaque) => opaque.total = groups,
            State::Lists(lists) => lists.resize(groups),
            State::Best(best) => best.resize(groups),
            State::Partial(_) | State::Distinct(_) => {}
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            State::Lists(lists) => return lists.bytes(),
            State::Best(best) => return best.bytes(),
            State::Count(values) | State::Sum(values) => 8 * values.capacity(),
            State::Exact(low, wraps) => 16 * low.capacity() + 8 * wraps.capacity(),
            State::Float(values) => 8 * values.capacity(),
            State::Most(values) => 8 * values.capacity(),
            // A box and the allocation behind it, about.
            State::Bytes(values) => 64 * values.capacity(),
            State::Opaque(opaque) => opaque.groups.lock().bytes() + 16 * opaque.pending.groups.capacity(),
            State::Partial(arrays) => arrays.iter().map(|a| a.get_array_memory_size()).sum(),
            State::Distinct(distinct) => {
                (distinct.pairs.bytes() + distinct.encoding.bytes()) as usize + 8 * distinct.numbers.capacity()
            }
        };
        bytes as u64
    }

    /// Turns 64 bits into 128.
    pub(super) fn widen(&mut self) {
        if let State::Sum(values) = self {
            *self = State::Exact(values.iter().map(|&v| i128::from(v)).collect(), Vec::new());
        }
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
