//! Aggregates over the distinct values of frames: how often each value is in the frame is kept, and what comes and goes
//! changes that.
//!
//! # Limits
//! A task begins with an empty frame, so where frames hold many rows each task goes through that many first.

use std::collections::HashMap;
use std::ops::Range;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};

use super::extremes::RankedValues;
use super::frames::{Ranges, WindowInput};
use super::places::{CHECK_ROWS, ColumnPieces};
use super::sums::{FrameValues, finish, finished};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Data, Vector, ints_of_arrow, is_integer};
use crate::keys::float::ordered as number_of_float;
use crate::operators::aggregate::column::{Column, Values};
use crate::operators::aggregate::state::State;
use crate::plan::{AggregateCall, AggregateFunction};
use crate::tasks::run::Run;

/// What is added up of each distinct value.
enum Terms {
    Nothing,
    Integers(Vec<i64>),
    Wide(Vec<i128>),
    Floats(Vec<f64>),
}

/// The frame that a task is at.
#[derive(Default)]
struct Bag {
    ranges: [Range<usize>; 3],
    rows_by_value: HashMap<u64, u32>,
    sum: i128,
    wraps: i64,
    float: f64,
}

/// The values of a count, a sum or an average of distinct values.
pub(super) fn column(input: &WindowInput<'_>, call: &AggregateCall) -> Result<ColumnPieces, ExecError> {
    let WindowInput { run, ordered, frames } = *input;
    let argument = call.arguments[0];
    let vector = ordered.column(argument).1;
    let counts_only = matches!(call.function, AggregateFunction::Count);
    let ranked = RankedValues::where_needed(run, ordered, argument)?;
    let value = |row: usize| match (&vector.data, &ranked) {
        (Data::Int(values), _) => values[row] as u64,
        (Data::Vid(vids), _) => u64::from(vids[row]),
        (Data::Float(values), _) => number_of_float(values[row] + 0.0),
        (Data::Arrow(_), Some(ranked)) => u64::from(ranked.ranks[row]),
        (Data::Arrow(_), None) => unreachable!("such values are ranked"),
    };
    let terms = if counts_only { Terms::Nothing } else { terms(vector, call)? };
    if matches!(terms, Terms::Floats(_)) && !frames.only_grow() {
        return Err(ExecError::Evaluation(format!(
            "{}: floats that leave a frame cannot be taken off a sum of distinct values; let the frame begin with \
             UNBOUNDED PRECEDING, or \
             cast the argument to DECIMAL",
            call.field.name()
        )));
    }
    let counted = FrameValues::new(ordered, Some(argument), call.filter);
    let finish = if counts_only { None } else { Some(finish(ordered, call)?) };
    let average = matches!(call.function, AggregateFunction::Avg);
    let count_info = ColumnInfo::plain(call.field.clone());
    ordered.in_pieces(run, &|piece| {
        let (mut cursor, mut bag) = (frames.cursor(), Bag::default());
        let (mut counts, mut sums, mut wraps, mut floats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        ordered.each(piece, |place| {
            bag.go_to(run, &cursor.at(place), &|position, enters, bag: &mut Bag| {
                if counted.is(position) {
                    let row = ordered.order[position] as usize;
                    bag.change(value(row), row, enters, &terms);
                }
            })?;
            counts.push(bag.rows_by_value.len() as i64);
            sums.push(bag.sum);
            wraps.push(bag.wraps);
            floats.push(bag.float);
            Ok(())
        })?;
        let Some(finish) = &finish else { return Ok(Column::new(count_info.clone(), Values::Int(counts), None)) };
        let state = match terms {
            Terms::Floats(_) => State::Float(floats),
            _ => State::Exact(sums, wraps),
        };
        finished(finish, &state, &counts, average)
    })
}

fn terms(vector: &Vector, call: &AggregateCall) -> Result<Terms, ExecError> {
    Ok(match &vector.data {
        Data::Int(values) => Terms::Integers(values.clone()),
        Data::Float(values) => Terms::Floats(values.clone()),
        Data::Vid(_) => Terms::Nothing,
        Data::Arrow(array) => match array.data_type() {
            DataType::Float32 | DataType::Float16 => {
                Terms::Floats(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().values().to_vec())
            }
            DataType::Decimal128(..) => Terms::Wide(array.as_primitive::<Decimal128Type>().values().to_vec()),
            DataType::UInt64 => {
                let wide = cast(array, &DataType::Decimal128(38, 0))?;
                Terms::Wide(wide.as_primitive::<Decimal128Type>().values().to_vec())
            }
            other if is_integer(other) => Terms::Integers(ints_of_arrow(array.as_ref())),
            other => {
                let name = call.field.name();
                return Err(ExecError::Evaluation(format!("{name}: no sum over {other} here; cast the argument")));
            }
        },
    })
}

/// Takes the row at a position in, or out.
type Change<'a> = dyn Fn(usize, bool, &mut Bag) + 'a;

impl Bag {
    /// Holds the rows of some ranges from here on.
    fn go_to(&mut self, run: &Run<'_>, ranges: &Ranges, change: &Change<'_>) -> Result<(), ExecError> {
        for number in 0..self.ranges.len() {
            // A row that goes from one of the ranges to another is in both for a moment.
            let to = ranges.parts().get(number).cloned().unwrap_or_default();
            let from = std::mem::replace(&mut self.ranges[number], to.clone());
            let common = from.start.max(to.start)..from.end.min(to.end);
            if common.start >= common.end {
                self.each(run, from, false, change)?;
                self.each(run, to, true, change)?;
                continue;
            }
            self.each(run, from.start..common.start, false, change)?;
            self.each(run, common.end..from.end, false, change)?;
            self.each(run, to.start..common.start, true, change)?;
            self.each(run, common.end..to.end, true, change)?;
        }
        Ok(())
    }

    fn each(&mut self, run: &Run<'_>, rows: Range<usize>, enters: bool, change: &Change<'_>) -> Result<(), ExecError> {
        for (number, position) in rows.enumerate() {
            if number % CHECK_ROWS == CHECK_ROWS - 1 {
                run.check()?;
            }
            change(position, enters, self);
        }
        Ok(())
    }

    fn change(&mut self, value: u64, row: usize, enters: bool, terms: &Terms) {
        let rows = self.rows_by_value.entry(value).or_default();
        match enters {
            true => *rows += 1,
            false => *rows -= 1,
        }
        let alone = *rows == u32::from(enters);
        if *rows == 0 {
            self.rows_by_value.remove(&value);
        }
        if !alone {
            return;
        }
        let term = match terms {
            Terms::Nothing => return,
            Terms::Floats(values) => {
                self.float =
                    if self.rows_by_value.len() == 1 && enters { values[row] } else { self.float + values[row] };
                return;
            }
            Terms::Integers(values) => i128::from(values[row]),
            Terms::Wide(values) => values[row],
        };
        let (sum, over) = if enters { self.sum.overflowing_add(term) } else { self.sum.overflowing_sub(term) };
        self.sum = sum;
        if over {
            self.wraps += if (term < 0) == enters { -1 } else { 1 };
        }
    }
}
