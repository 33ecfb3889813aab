//! `(a, b) OVERLAPS (c, d)`: whether two spans of time have a point in common. A span is written by its two ends, in
//! either order, or by one end and how long it is. It has its first point but not its last, unless that is the same.

use std::mem::swap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;

use super::defined::Defined;
use crate::error::value_err;

/// What the operator is a call of.
pub(crate) const NAME: &str = "overlaps";

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY: i64 = 86_400_000_000_000;

/// The function behind the operator.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Defined::new(&[NAME], false, takes, |_| DataType::Boolean, overlaps).function()
}

/// The type of all ends, and INTERVAL where a length stands for one.
fn takes(types: &[DataType]) -> Result<Vec<DataType>, String> {
    if types.len() != 4 {
        return Err("there are two ends on either side".into());
    }
    let is_length = |place: usize| place % 2 == 1 && matches!(types[place], DataType::Interval(_));
    let mut common: Option<DataType> = None;
    for (place, of) in types.iter().enumerate() {
        if is_length(place) || *of == DataType::Null {
            continue;
        }
        common = Some(match (common, of) {
            (None, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(TimeUnit::Nanosecond)) => of.clone(),
            (None, DataType::Time32(_) | DataType::Time64(_)) => DataType::Time64(TimeUnit::Nanosecond),
            (Some(DataType::Time64(unit)), DataType::Time32(_) | DataType::Time64(_)) => DataType::Time64(unit),
            (Some(DataType::Date32), DataType::Date32 | DataType::Timestamp(..)) => of.clone(),
            (Some(known @ DataType::Timestamp(..)), DataType::Date32) => known,
            (Some(DataType::Timestamp(unit, zone)), DataType::Timestamp(other, other_zone)) => {
                DataType::Timestamp(unit.max(*other), zone.or(other_zone.clone()))
            }
            (_, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) => {
                return Err("the type of a text is not known; write DATE, TIME or TIMESTAMP before it".into());
            }
            _ => return Err("it takes days, times, or times of day, the second of two may be an interval".into()),
        });
    }
    let has_length = (0..4).any(is_length);
    let common = match common {
        // A day and an interval are a time.
        Some(DataType::Date32) if has_length => DataType::Timestamp(TimeUnit::Microsecond, None),
        Some(known) => known,
        None => return Err("the type of NULL is not known; write NULL::DATE, or of which type it is".into()),
    };
    Ok((0..4).map(|place| if is_length(place) { INTERVAL } else { common.clone() }).collect())
}

fn overlaps(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let first = (numbers(&columns[0])?, numbers(&end(&columns[0], &columns[1])?)?);
    let second = (numbers(&columns[2])?, numbers(&end(&columns[2], &columns[3])?)?);
    let at = |of: &Int64Array, row: usize| of.is_valid(row).then(|| of.value(row));
    let rows = 0..columns[0].len();
    let found =
        rows.map(|row| common((at(&first.0, row), at(&first.1, row)), (at(&second.0, row), at(&second.1, row))));
    Ok(Arc::new(found.collect::<BooleanArray>()))
}

/// Whether they have a point in common, if what is known of them tells that.
fn common(first: (Option<i64>, Option<i64>), second: (Option<i64>, Option<i64>)) -> Option<bool> {
    let mut early = in_order(first)?;
    let mut late = in_order(second)?;
    if early.0 > late.0 {
        swap(&mut early, &mut late);
    }
    if early.0 == late.0 {
        return early.1.and(late.1).map(|_| true);
    }
    // What begins first has to last until the other begins.
    match early.1 {
        None => None,
        Some(end) if late.0 < end => Some(true),
        Some(_) => late.1.map(|_| false),
    }
}

/// The first end and the last; one that is known is the first.
fn in_order(span: (Option<i64>, Option<i64>)) -> Option<(i64, Option<i64>)> {
    match span {
        (Some(from), Some(to)) => Some((from.min(to), Some(from.max(to)))),
        (Some(one), None) | (None, Some(one)) => Some((one, None)),
        (None, None) => None,
    }
}

/// The other end, where a length may stand for it.
fn end(from: &ArrayRef, to: &ArrayRef) -> Result<ArrayRef> {
    if *to.data_type() != INTERVAL {
        return Ok(Arc::clone(to));
    }
    if matches!(from.data_type(), DataType::Time64(_)) {
        // Times of day go round, whole days change nothing.
        let lengths = to.as_primitive::<IntervalMonthDayNanoType>();
        let from = numbers(from)?;
        let ends =
            from.iter().zip(lengths).map(|(from, length)| Some((from? + length?.nanoseconds % DAY).rem_euclid(DAY)));
        return Ok(Arc::new(ends.collect::<Int64Array>()));
    }
    match add(from, to) {
        Ok(to) => Ok(to),
        Err(_) => value_err!(DatetimeFieldOverflow, "the end of a span in OVERLAPS lies outside of the calendar"),
    }
}

fn numbers(column: &ArrayRef) -> Result<Int64Array> {
    let days = match column.data_type() {
        DataType::Date32 => cast(column, &DataType::Int32)?,
        _ => Arc::clone(column),
    };
    Ok(cast(&days, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_not_known_leave_it_open_where_they_matter() {
        let spans = [
            (((Some(1), Some(3)), (Some(2), Some(4))), Some(true)),
            (((Some(3), Some(1)), (Some(4), Some(2))), Some(true)),
            (((Some(1), Some(2)), (Some(2), Some(3))), Some(false)),
            (((Some(2), Some(2)), (Some(2), Some(3))), Some(true)),
            (((None, Some(2)), (Some(2), Some(3))), None),
            (((Some(5), None), (Some(2), Some(9))), Some(true)),
            (((Some(5), None), (Some(2), Some(4))), None),
            (((Some(1), None), (Some(2), Some(4))), None),
            (((None, None), (Some(2), Some(4))), None),
        ];
        for ((first, second), expected) in spans {
            assert_eq!(common(first, second), expected, "{first:?} {second:?}");
            assert_eq!(common(second, first), expected, "{second:?} {first:?}");
        }
    }
}
