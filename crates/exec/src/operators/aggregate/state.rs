//! [`State`]: what one aggregate has seen, a value per group.
//!
//! Invariant: a group that no row counted for has the zero of its state: 0, no bytes. Whether there was a row a count
//! tells.

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use super::best::Best;
use super::lists::Lists;
use super::table::Table;
use crate::keys::group::GroupScratch;
use crate::plan::OpaqueGroups;

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
    pub(super) pending: PendingRows,
    pub(super) total: usize,
    /// It has been told of groups.
    pub(super) fed: bool,
}

/// Rows that wait to be enough.
#[derive(Default)]
pub(super) struct PendingRows {
    /// Per argument the arrays of chunks.
    pub(super) arguments: Vec<Vec<ArrayRef>>,
    pub(super) groups: Vec<usize>,
    pub(super) filter: Vec<bool>,
}

/// Different values by group.
pub(crate) struct Distinct {
    /// The group in the upper word, the value's number in the lower one.
    pub(super) pairs: Table<u128>,
    pub(super) encoding: GroupScratch,
    pub(super) numbers: Vec<u64>,
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
