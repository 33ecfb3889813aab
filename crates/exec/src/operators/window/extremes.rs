//! Smallest and largest values over frames.
//!
//! A value is a number of which the largest counts: of integers, vids and floats one that the value is found in again,
//! of everything else its rank among
//! the column's values. Frames that only grow go on from row to row; any other
//! asks a tree.

use std::ops::Range;

use super::frames::WindowInput;
use super::places::{Argument, CHECK_ROWS, ColumnPieces, OrderedRows, filled};
use super::running::Running;
use super::sums::{FrameValues, count};
use super::tree::{Tree, TreeBuilder};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, NO_ROW, Vector};
use crate::keys::float::{of_ordered, ordered as number_of_float};
use crate::operators::aggregate::column::{Column, Values};
use crate::operators::sort::grouped;
use crate::plan::{AggregateCall, AggregateFunction, SortKey};
use crate::tasks::run::Run;

/// The values of `min` or `max`.
pub(super) fn column(input: &WindowInput<'_>, call: &AggregateCall) -> Result<ColumnPieces, ExecError> {
    let WindowInput { run, ordered, frames } = *input;
    let argument = ordered.argument(call.arguments[0]);
    let Argument { info: source, vector, .. } = argument;
    let smallest = matches!(call.function, AggregateFunction::Min);
    let ranked = RankedValues::where_needed(run, ordered, call.arguments[0])?;
    let (low, high) = source.bounds().unwrap_or((0, 0));
    let number = |place: usize| -> u64 {
        let (number, last) = match (&vector.data, &ranked) {
            (Data::Int(values), _) => (values[place].wrapping_sub(low) as u64, high.wrapping_sub(low) as u64),
            (Data::Vid(vids), _) => (u64::from(vids[place]), u64::from(u32::MAX)),
            (Data::Float(values), _) => (number_of_float(values[place]), u64::MAX),
            (Data::Arrow(_), Some(ranked)) => (u64::from(ranked.ranks[place]), u64::from(u32::MAX)),
            (Data::Arrow(_), None) => unreachable!("such values are ranked"),
        };
        if smallest { last - number } else { number }
    };
    let counted = FrameValues::new(ordered, Some(call.arguments[0]), call.filter);
    let counts = counted.prefix(run)?;
    let values = |range: Range<usize>, part: &mut [u64]| {
        for (to, position) in part.iter_mut().zip(range) {
            if counted.is(position) {
                *to = number(argument.at(position));
            }
        }
    };
    let largest = match frames.only_grow() {
        true => Largest::Running(Running::new(run, ordered, &values, u64::max)?),
        false => {
            let leaves = filled(run, ordered.len(), &|range: Range<usize>, part: &mut [u64]| {
                values(range, part);
                Ok(())
            })?;
            Largest::Tree(Tree::new(run, leaves, 0, u64::max)?)
        }
    };
    let info = ColumnInfo { field: call.field.clone(), kind: source.kind.clone(), nullable: true };
    let extremes = Extremes { info, low, high, smallest, vector, ranked };
    ordered.in_pieces(run, &|piece| {
        let (mut numbers, mut valid) = (Vec::with_capacity(piece.len()), Vec::with_capacity(piece.len()));
        let (mut cursor, mut growing) = (frames.cursor(), TreeBuilder::new(0));
        ordered.each(piece, |place| {
            let ranges = cursor.at(place);
            valid.push(count(counts.as_ref(), &ranges) > 0);
            numbers.push(match (&largest, ranges.parts()) {
                (Largest::Running(running), [range]) => running.of(range),
                (Largest::Running(_), _) => 0,
                (Largest::Tree(tree), [range]) => growing.of(tree, range.clone()),
                (Largest::Tree(tree), ranges) => tree.of_all(ranges),
            });
            Ok(())
        })?;
        extremes.column(numbers, valid)
    })
}

/// What numbers stand for.
struct Extremes<'a> {
    info: ColumnInfo,
    /// Bounds of integers.
    low: i64,
    high: i64,
    /// Numbers are counted from the largest value down.
    smallest: bool,
    vector: &'a Vector,
    ranked: Option<RankedValues>,
}

impl Extremes<'_> {
    /// The values of numbers that are valid.
    fn column(&self, numbers: Vec<u64>, valid: Vec<bool>) -> Result<Column, ExecError> {
        let of = |number: u64, last: u64| if self.smallest { last.wrapping_sub(number) } else { number };
        let both = || numbers.iter().zip(&valid);
        let values = match &self.info.kind {
            ColumnKind::Int { .. } => {
                let last = self.high.wrapping_sub(self.low) as u64;
                let value = |(&number, &valid): (&u64, &bool)| match valid {
                    true => self.low.wrapping_add(of(number, last) as i64),
                    false => self.low,
                };
                Values::Int(both().map(value).collect())
            }
            ColumnKind::Float => {
                let value =
                    |(&number, &valid): (&u64, &bool)| if valid { of_ordered(of(number, u64::MAX)) } else { 0.0 };
                Values::Float(both().map(value).collect())
            }
            ColumnKind::Vid(_) => {
                let value =
                    |(&number, &valid): (&u64, &bool)| if valid { of(number, u32::MAX.into()) as u32 } else { 0 };
                Values::Vid(both().map(value).collect())
            }
            ColumnKind::Arrow => {
                let Some(ranked) = &self.ranked else { unreachable!("such values are ranked") };
                let row = |(&number, &valid): (&u64, &bool)| match valid {
                    true => ranked.rows[of(number, u32::MAX.into()) as usize],
                    false => NO_ROW,
                };
                let rows: Vec<u32> = both().map(row).collect();
                let array = self.info.to_arrow(&self.vector.take(&rows, true));
                return Ok(Column::new(self.info.clone(), Values::Arrow(array), None));
            }
        };
        let valid = valid.contains(&false).then_some(valid);
        Ok(Column::new(self.info.clone(), values, valid))
    }
}

/// The largest numbers of frames.
enum Largest<F> {
    /// Of frames that only grow.
    Running(Running<u64, F>),
    Tree(Tree<u64, F>),
}

/// The values of a column by rank.
pub(super) struct RankedValues {
    /// The rank of a row's value.
    pub(super) ranks: Vec<u32>,
    /// A row that has the value of a rank.
    rows: Vec<u32>,
}

impl RankedValues {
    /// Of a column whose values are no numbers and can be ordered; of others nothing.
    pub(super) fn where_needed(
        run: &Run<'_>,
        ordered: &OrderedRows<'_>,
        column: usize,
    ) -> Result<Option<RankedValues>, ExecError> {
        match ordered.column(column).1.data {
            Data::Arrow(_) => RankedValues::new(run, ordered, column).map(Some),
            _ => Ok(None),
        }
    }

    /// Of a column that can be ordered; NULL has a rank too.
    fn new(run: &Run<'_>, ordered: &OrderedRows<'_>, column: usize) -> Result<RankedValues, ExecError> {
        let key = SortKey { column, descending: false, nulls_first: true };
        let sorted = grouped(run, ordered.rows, &[key], &[1])?;
        let starts = &sorted.starts[0];
        let mut ranks = vec![0; ordered.len()];
        let mut rows = Vec::with_capacity(starts.len());
        for (rank, bounds) in starts.windows(2).enumerate() {
            if rank.is_multiple_of(CHECK_ROWS) {
                run.check()?;
            }
            let group = &sorted.order[bounds[0] as usize..bounds[1] as usize];
            group.iter().for_each(|&row| ranks[row as usize] = rank as u32);
            rows.extend(group.first());
        }
        Ok(RankedValues { ranks, rows })
    }
}
