//! Counts, sums and averages over frames.
//!
//! What can be taken away again exactly (counts, integers, decimals) is a difference of two *prefixes*: the sum of all
//! rows up to a position, over all
//! partitions. Sums of integers are in 64 bits where the bounds of the column times the rows prove that those are
//! enough, else in 128; of decimals of more than 28 digits
//! in 192. Floats are summed by a tree, since a difference of sums of floats is another number.

use std::ops::{Add, Range, Sub};

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};

use super::frames::{Frames, Ranges, WindowInput};
use super::places::{Argument, ColumnPieces, OrderedRows, PIECE_BITS, PIECE_ROWS, filled};
use super::tree::{Tree, TreeBuilder};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Data, Vector, ints_of_arrow, is_integer};
use crate::operators::aggregate::column::{Column, Values};
use crate::operators::aggregate::finish::Finish;
use crate::operators::aggregate::state::State;
use crate::plan::{AggregateCall, AggregateFunction};
use crate::tasks::run::Run;

/// Sums of all rows before a position.
pub(super) struct Prefix<S> {
    /// By position: of the rows of its piece up to it.
    within: Vec<S>,
    /// By piece: of all rows before it.
    before: Vec<S>,
}

impl<S: Copy + Default + Send + Sync + Add<Output = S> + Sub<Output = S>> Prefix<S> {
    /// Of the values by position.
    pub(super) fn new(
        run: &Run<'_>,
        rows: usize,
        value: &(dyn Fn(Range<usize>, &mut [S]) + Sync),
    ) -> Result<Prefix<S>, ExecError> {
        let within = filled(run, rows, &|range, part: &mut [S]| {
            value(range, part);
            let mut sum = S::default();
            for value in part {
                sum = sum + *value;
                *value = sum;
            }
            Ok(())
        })?;
        let mut sum = S::default();
        let mut before = vec![sum];
        for piece in within.chunks(PIECE_ROWS) {
            sum = sum + piece[piece.len() - 1];
            before.push(sum);
        }
        Ok(Prefix { within, before })
    }

    #[inline]
    fn up_to(&self, end: usize) -> S {
        match end {
            0 => S::default(),
            _ => self.before[(end - 1) >> PIECE_BITS] + self.within[end - 1],
        }
    }

    /// Of some rows.
    #[inline]
    pub(super) fn of(&self, ranges: &Ranges) -> S {
        let of = |range: &Range<usize>| self.up_to(range.end) - self.up_to(range.start);
        ranges.parts().iter().fold(S::default(), |all, range| all + of(range))
    }
}

/// 64 bits of which the true sum is known to fit; sums of all rows may wrap, differences are right again.
#[derive(Debug, Clone, Copy, Default)]
struct Narrow(i64);

/// The same in 128 bits.
#[derive(Debug, Clone, Copy, Default)]
struct Exact(i128);

/// 128 bits and how often they wrapped.
#[derive(Debug, Clone, Copy, Default)]
struct Wide {
    low: i128,
    wraps: i64,
}

macro_rules! wrapping {
    ($($t:ty)*) => {$(
        impl Add for $t {
            type Output = $t;
            #[inline]
            fn add(self, other: $t) -> $t {
                Self(self.0.wrapping_add(other.0))
            }
        }
        impl Sub for $t {
            type Output = $t;
            #[inline]
            fn sub(self, other: $t) -> $t {
                Self(self.0.wrapping_sub(other.0))
            }
        }
    )*};
}

wrapping!(Narrow Exact);

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Wide) -> Wide {
        let (low, over) = self.low.overflowing_add(other.low);
        let over = if over { if other.low < 0 { -1 } else { 1 } } else { 0 };
        Wide { low, wraps: self.wraps + other.wraps + over }
    }
}

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, other: Wide) -> Wide {
        let (low, over) = self.low.overflowing_sub(other.low);
        let over = if over { if other.low < 0 { 1 } else { -1 } } else { 0 };
        Wide { low, wraps: self.wraps - other.wraps + over }
    }
}

/// The rows that count: where the argument is not NULL and the filter is TRUE.
pub(super) struct FrameValues<'a> {
    ordered: &'a OrderedRows<'a>,
    argument: Option<Argument<'a>>,
    filter: Option<Argument<'a>>,
}

impl<'a> FrameValues<'a> {
    /// Of a call.
    pub(super) fn new(ordered: &'a OrderedRows<'a>, argument: Option<usize>, filter: Option<usize>) -> FrameValues<'a> {
        let nullable = argument.map(|column| ordered.argument(column)).filter(|argument| argument.info.nullable);
        FrameValues { ordered, argument: nullable, filter: filter.map(|column| ordered.argument(column)) }
    }

    /// Do all rows?
    pub(super) fn all(&self) -> bool {
        self.argument.is_none() && self.filter.is_none()
    }

    /// Does the row at a position?
    #[inline]
    pub(super) fn is(&self, position: usize) -> bool {
        self.argument.is_none_or(|argument| argument.is_valid(position))
            && self.filter.is_none_or(|filter| is_true(filter.vector, filter.at(position)))
    }

    /// How many do.
    pub(super) fn prefix(&self, run: &Run<'_>) -> Result<Option<Prefix<u32>>, ExecError> {
        if self.all() {
            return Ok(None);
        }
        let counts = |range: Range<usize>, part: &mut [u32]| {
            part.iter_mut().zip(range).for_each(|(count, position)| *count = u32::from(self.is(position)));
        };
        Prefix::new(run, self.ordered.len(), &counts).map(Some)
    }
}

fn is_true(vector: &Vector, row: usize) -> bool {
    match &vector.data {
        Data::Int(values) => values[row] != 0 && vector.is_valid(row),
        Data::Arrow(array) => array.is_valid(row) && array.as_boolean().value(row),
        _ => unreachable!("a filter is boolean"),
    }
}

/// Rows of a frame that count.
#[inline]
pub(super) fn count(counts: Option<&Prefix<u32>>, ranges: &Ranges) -> i64 {
    match counts {
        Some(counts) => i64::from(counts.of(ranges)),
        None => ranges.parts().iter().map(|range| range.len() as i64).sum(),
    }
}

/// The values of a count, a sum or an average.
pub(super) fn column(input: &WindowInput<'_>, call: &AggregateCall) -> Result<ColumnPieces, ExecError> {
    let WindowInput { run, ordered, frames } = *input;
    let counts_rows = matches!(call.function, AggregateFunction::CountRows);
    let argument = call.arguments.first().copied().filter(|_| !counts_rows);
    let counted = FrameValues::new(ordered, argument, call.filter);
    let counts = counted.prefix(run)?;
    if matches!(call.function, AggregateFunction::Count | AggregateFunction::CountRows) {
        let info = ColumnInfo::plain(call.field.clone());
        return ordered.in_pieces(run, &|piece| {
            let mut values = Vec::with_capacity(piece.len());
            let mut cursor = frames.cursor();
            ordered.each(piece, |place| {
                values.push(count(counts.as_ref(), &cursor.at(place)));
                Ok(())
            })?;
            Ok(Column::new(info.clone(), Values::Int(values), None))
        });
    }
    let sums = FrameSums { run, ordered, call, frames, counted, counts, finish: finish(ordered, call)? };
    let Some(argument) = argument.map(|column| ordered.argument(column)) else { unreachable!("a sum has an argument") };
    let Argument { info, vector, .. } = argument;
    let rows = ordered.len() as u64;
    match &vector.data {
        Data::Int(values) => {
            let (low, high) = info.bounds().unwrap_or((i64::MIN, i64::MAX));
            let largest = low.unsigned_abs().max(high.unsigned_abs());
            match largest.checked_mul(rows).is_some_and(|most| most <= i64::MAX as u64) {
                true => sums.narrow(&|position| Narrow(values[argument.at(position)])),
                false => sums.exact(&|position| Exact(i128::from(values[argument.at(position)]))),
            }
        }
        Data::Float(values) => sums.floats(&|position| values[argument.at(position)]),
        Data::Vid(_) => unreachable!("there is no sum of texts"),
        Data::Arrow(array) => match array.data_type() {
            DataType::Float32 | DataType::Float16 => {
                let wide = cast(array, &DataType::Float64)?;
                let values = wide.as_primitive::<Float64Type>().values();
                sums.floats(&|position| values[argument.at(position)])
            }
            DataType::Decimal128(digits, _) => {
                let values = array.as_primitive::<Decimal128Type>().values();
                // Up to 28 digits, 2^32 rows stay far below 2^127.
                match *digits > 28 {
                    true => sums.wide(&|position| Wide { low: values[argument.at(position)], wraps: 0 }),
                    false => sums.exact(&|position| Exact(values[argument.at(position)])),
                }
            }
            DataType::UInt64 | DataType::Decimal32(..) | DataType::Decimal64(..) => {
                let scale =
                    if let DataType::Decimal32(_, s) | DataType::Decimal64(_, s) = array.data_type() { *s } else { 0 };
                let wide = cast(array, &DataType::Decimal128(38, scale))?;
                let values = wide.as_primitive::<Decimal128Type>().values();
                sums.exact(&|position| Exact(values[argument.at(position)]))
            }
            other if is_integer(other) => {
                let values = ints_of_arrow(array.as_ref());
                sums.exact(&|position| Exact(i128::from(values[argument.at(position)])))
            }
            other => {
                let name = call.field.name();
                Err(ExecError::Evaluation(format!("{name}: no sum over {other} here; cast the argument")))
            }
        },
    }
}

/// How the results of a sum or an average are made.
pub(super) fn finish(ordered: &OrderedRows<'_>, call: &AggregateCall) -> Result<Finish, ExecError> {
    match call.function {
        AggregateFunction::Avg => Finish::average(call, ordered.column(call.arguments[0]).0.data_type()),
        _ => Finish::sum(call),
    }
}

/// A sum or an average.
struct FrameSums<'a> {
    run: &'a Run<'a>,
    ordered: &'a OrderedRows<'a>,
    call: &'a AggregateCall,
    frames: &'a Frames<'a>,
    counted: FrameValues<'a>,
    counts: Option<Prefix<u32>>,
    finish: Finish,
}

impl FrameSums<'_> {
    fn prefix<S>(&self, value: &(dyn Fn(usize) -> S + Sync)) -> Result<Prefix<S>, ExecError>
    where
        S: Copy + Default + Send + Sync + Add<Output = S> + Sub<Output = S>,
    {
        let all = self.counted.all();
        Prefix::new(self.run, self.ordered.len(), &|range: Range<usize>, part: &mut [S]| {
            for (to, position) in part.iter_mut().zip(range) {
                if all || self.counted.is(position) {
                    *to = value(position);
                }
            }
        })
    }

    fn narrow(&self, value: &(dyn Fn(usize) -> Narrow + Sync)) -> Result<ColumnPieces, ExecError> {
        let prefix = self.prefix(value)?;
        self.results(&|piece| {
            self.by_frame(piece, |ranges| prefix.of(ranges).0).map(|(sums, counts)| (State::Sum(sums), counts))
        })
    }

    fn exact(&self, value: &(dyn Fn(usize) -> Exact + Sync)) -> Result<ColumnPieces, ExecError> {
        let prefix = self.prefix(value)?;
        self.results(&|piece| {
            let (sums, counts) = self.by_frame(piece, |ranges| prefix.of(ranges).0)?;
            Ok((State::Exact(sums, Vec::new()), counts))
        })
    }

    fn wide(&self, value: &(dyn Fn(usize) -> Wide + Sync)) -> Result<ColumnPieces, ExecError> {
        let prefix = self.prefix(value)?;
        self.results(&|piece| {
            let (sums, counts) = self.by_frame(piece, |ranges| prefix.of(ranges))?;
            Ok((State::Exact(sums.iter().map(|s| s.low).collect(), sums.iter().map(|s| s.wraps).collect()), counts))
        })
    }

    fn floats(&self, value: &(dyn Fn(usize) -> f64 + Sync)) -> Result<ColumnPieces, ExecError> {
        let leaves = filled(self.run, self.ordered.len(), &|range: Range<usize>, part: &mut [f64]| {
            for (to, position) in part.iter_mut().zip(range) {
                if self.counted.is(position) {
                    *to = value(position);
                }
            }
            Ok(())
        })?;
        let tree = Tree::new(self.run, leaves, 0.0, |a: f64, b: f64| a + b)?;
        self.results(&|piece| {
            let mut growing = TreeBuilder::new(0.0);
            let sum = |ranges: &Ranges| match ranges.parts() {
                [range] => growing.of(&tree, range.clone()),
                ranges => tree.of_all(ranges),
            };
            let (sums, counts) = self.by_frame(piece, sum)?;
            Ok((State::Float(sums), counts))
        })
    }

    /// What every frame gives, and how many of its rows count.
    fn by_frame<T>(
        &self,
        piece: Range<usize>,
        mut sum: impl FnMut(&Ranges) -> T,
    ) -> Result<(Vec<T>, Vec<i64>), ExecError> {
        let (mut sums, mut counts) = (Vec::with_capacity(piece.len()), Vec::with_capacity(piece.len()));
        let mut cursor = self.frames.cursor();
        self.ordered.each(piece, |place| {
            let ranges = cursor.at(place);
            sums.push(sum(&ranges));
            counts.push(count(self.counts.as_ref(), &ranges));
            Ok(())
        })?;
        Ok((sums, counts))
    }

    fn results(
        &self,
        state: &(dyn Fn(Range<usize>) -> Result<(State, Vec<i64>), ExecError> + Sync),
    ) -> Result<ColumnPieces, ExecError> {
        let average = matches!(self.call.function, AggregateFunction::Avg);
        self.ordered.in_pieces(self.run, &|piece| {
            let (state, counts) = state(piece)?;
            finished(&self.finish, &state, &counts, average)
        })
    }
}

/// The results of sums and counts; NULL where no row counts.
pub(super) fn finished(finish: &Finish, state: &State, counts: &[i64], average: bool) -> Result<Column, ExecError> {
    let values = finish.values(state, average.then_some(counts), average)?;
    let valid = counts.contains(&0).then(|| counts.iter().map(|&n| n > 0).collect());
    Ok(Column::new(ColumnInfo::plain(finish.field().clone()), values, valid))
}
