//! The grouped form of `sum` and `avg`: one exact total per group, in plain vectors indexed by group.

use std::fmt::Debug;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{Decimal128Type, Int64Type, UInt64Type};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::total::{AggregateKind, Finish, Total};

/// Totals per group. The state's columns are those of [`super::accumulators::ExactAccumulator`].
///
/// A row costs one 128-bit addition, one flag and, where the total wrapped (almost never), a look at `wraps`, which
/// stays empty until then.
#[derive(Debug)]
pub(super) struct GroupTotals<T> {
    finish: Finish,
    low: Vec<i128>,
    /// How often each total wrapped; empty as long as none did.
    wraps: Vec<i64>,
    counts: Counts,
    _input: std::marker::PhantomData<fn() -> T>,
}

/// Values per group: their number for an average, for a sum only whether there are any.
#[derive(Debug)]
enum Counts {
    Any(Vec<bool>),
    Number(Vec<u64>),
}

impl Counts {
    fn resize(&mut self, groups: usize) {
        match self {
            Counts::Any(any) => any.resize(groups, false),
            Counts::Number(number) => number.resize(groups, 0),
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> Counts {
        match self {
            Counts::Any(any) => Counts::Any(emit_to.take_needed(any)),
            Counts::Number(number) => Counts::Number(emit_to.take_needed(number)),
        }
    }

    fn of(&self, group: usize) -> u64 {
        match self {
            Counts::Any(any) => u64::from(any[group]),
            Counts::Number(number) => number[group],
        }
    }

    /// The groups that have values, as a null buffer; `None` when all have.
    fn nulls(&self) -> Option<NullBuffer> {
        let valid = match self {
            Counts::Any(any) => BooleanBuffer::from(any.as_slice()),
            Counts::Number(number) => number.iter().map(|&n| n > 0).collect(),
        };
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    fn capacity_bytes(&self) -> usize {
        match self {
            Counts::Any(any) => any.capacity(),
            Counts::Number(number) => number.capacity() * size_of::<u64>(),
        }
    }
}

impl<T> GroupTotals<T> {
    pub fn new(finish: Finish) -> Self {
        let counts = match finish.wanted {
            AggregateKind::Sum => Counts::Any(Vec::new()),
            AggregateKind::Average { .. } => Counts::Number(Vec::new()),
        };
        GroupTotals { finish, low: Vec::new(), wraps: Vec::new(), counts, _input: std::marker::PhantomData }
    }

    fn resize(&mut self, groups: usize) {
        self.low.resize(groups, 0);
        self.counts.resize(groups);
        if !self.wraps.is_empty() {
            self.wraps.resize(groups, 0);
        }
    }

    /// Adds `by` to the wraps of `group`.
    #[cold]
    fn wrapped(&mut self, group: usize, by: i64) {
        if self.wraps.is_empty() {
            self.wraps.resize(self.low.len(), 0);
        }
        self.wraps[group] += by;
    }

    #[inline(always)]
    fn add(&mut self, group: usize, value: i128) {
        let (low, overflow) = self.low[group].overflowing_add(value);
        self.low[group] = low;
        if overflow {
            self.wrapped(group, if value < 0 { -1 } else { 1 });
        }
    }

    /// Adds `value(row)` to the group of every row that `mask` selects; `count(row)` is what it counts for.
    #[inline(always)]
    fn accumulate(
        &mut self,
        group_indices: &[usize],
        mask: Option<&BooleanBuffer>,
        value: impl Fn(usize) -> i128,
        count: impl Fn(usize) -> u64,
    ) {
        let mut counts = std::mem::replace(&mut self.counts, Counts::Any(Vec::new()));
        match &mut counts {
            Counts::Any(any) => for_rows(group_indices, mask, |row, group| {
                self.add(group, value(row));
                any[group] = true;
            }),
            Counts::Number(number) => for_rows(group_indices, mask, |row, group| {
                self.add(group, value(row));
                number[group] += count(row);
            }),
        }
        self.counts = counts;
    }

    /// The first groups or all of them, taken out: low halves, wraps (empty: none) and counts.
    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Vec<i64>, Counts) {
        let low = emit_to.take_needed(&mut self.low);
        let wraps = match self.wraps.is_empty() {
            true => Vec::new(),
            false => emit_to.take_needed(&mut self.wraps),
        };
        (low, wraps, self.counts.take(emit_to))
    }

    fn state_arrays(
        &self,
        low: Vec<i128>,
        wraps: Vec<i64>,
        counts: Option<Vec<u64>>,
        nulls: Option<NullBuffer>,
    ) -> Vec<ArrayRef> {
        let groups = low.len();
        let wraps = if wraps.is_empty() { vec![0; groups] } else { wraps };
        let low = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(low), nulls)
            .with_data_type(self.finish.low_type.clone());
        let wraps = PrimitiveArray::<Int64Type>::new(ScalarBuffer::from(wraps), None);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(3);
        if let Some(counts) = counts {
            let counts = PrimitiveArray::<UInt64Type>::new(ScalarBuffer::from(counts), None);
            arrays.push(Arc::new(counts));
        }
        arrays.push(Arc::new(low));
        arrays.push(Arc::new(wraps));
        arrays
    }
}

#[inline(always)]
fn for_rows(group_indices: &[usize], mask: Option<&BooleanBuffer>, mut f: impl FnMut(usize, usize)) {
    match mask {
        None => {
            for (row, &group) in group_indices.iter().enumerate() {
                f(row, group);
            }
        }
        Some(mask) => {
            for row in mask.set_indices() {
                f(row, group_indices[row]);
            }
        }
    }
}

/// The rows that count: not NULL and let through by the filter, where a NULL lets nothing through. `None`: all.
fn selected(array: &dyn Array, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let valid = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone());
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    match (valid, passed) {
        (Some(valid), Some(passed)) => Some(&valid & &passed),
        (valid, passed) => valid.or(passed),
    }
}

impl<T> GroupsAccumulator for GroupTotals<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Into<i128> + TryFrom<i128>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        let array = values[0].as_primitive::<T>();
        let mask = selected(array, opt_filter);
        let values = array.values();
        self.accumulate(group_indices, mask.as_ref(), |row| values[row].into(), |_| 1);
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.resize(total_num_groups);
        let (counts, rest) = match self.finish.wanted {
            AggregateKind::Sum => (None, values),
            AggregateKind::Average { .. } => (Some(values[0].as_primitive::<UInt64Type>().values()), &values[1..]),
        };
        let low = rest[0].as_primitive::<Decimal128Type>();
        let wraps = rest[1].as_primitive::<Int64Type>().values();
        let mask = selected(low, None);
        let low = low.values();
        self.accumulate(group_indices, mask.as_ref(), |row| low[row], |row| counts.map_or(1, |counts| counts[row]));
        if wraps.iter().any(|&w| w != 0) {
            for_rows(group_indices, mask.as_ref(), |row, group| {
                if wraps[row] != 0 {
                    self.wrapped(group, wraps[row]);
                }
            });
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (low, wraps, counts) = self.take(emit_to);
        let nulls = counts.nulls();
        let mut values = Vec::with_capacity(low.len());
        for (group, &low) in low.iter().enumerate() {
            let wraps = wraps.get(group).copied().unwrap_or(0);
            let value = match counts.of(group) {
                0 => T::Native::default(),
                count => {
                    let value = self.finish.value(Total { low, wraps }, count)?;
                    match T::Native::try_from(value) {
                        Ok(value) => value,
                        Err(_) => {
                            return internal_err!("{value} was found to fit but does not");
                        }
                    }
                }
            };
            values.push(value);
        }
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls);
        Ok(Arc::new(array.with_data_type(self.finish.data_type.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (low, wraps, counts) = self.take(emit_to);
        let nulls = counts.nulls();
        let counts = match counts {
            Counts::Any(_) => None,
            Counts::Number(number) => Some(number),
        };
        Ok(self.state_arrays(low, wraps, counts, nulls))
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<T>();
        let mask = selected(array, opt_filter);
        let low: Vec<i128> = array.values().iter().map(|&v| v.into()).collect();
        let counts = match self.finish.wanted {
            AggregateKind::Sum => None,
            AggregateKind::Average { .. } => Some(match &mask {
                None => vec![1; low.len()],
                Some(mask) => mask.iter().map(u64::from).collect(),
            }),
        };
        let nulls = mask.map(NullBuffer::new);
        Ok(self.state_arrays(low, Vec::new(), counts, nulls))
    }

    fn size(&self) -> usize {
        self.low.capacity() * size_of::<i128>()
            + self.wraps.capacity() * size_of::<i64>()
            + self.counts.capacity_bytes()
    }
}
