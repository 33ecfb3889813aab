//! Intervals as lengths of time: what they are compared by, and what a number times one is.
//!
//! As in PostgreSQL a month counts as 30 days and a day as 24 hours where intervals are compared: `INTERVAL '1 day'` is
//! equal to `INTERVAL '24 hours'`. Arrow compares months first, then days, then the rest. What is left over when months
//! or days are multiplied goes to the days and hours below them.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, DurationNanosecondType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast};

use crate::error::value_err;
use crate::functions::checked::division_by_zero;
use crate::functions::scaled_spans::scaled_by;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
const MONTH_DAYS: i128 = 30;

/// Of nanoseconds, of which an interval may have more than 64 bits hold.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

static LENGTH_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| made(Of::Length));
static OF_DIFFERENCE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| made(Of::Difference));
static TIMES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| made(Of::Product));
static OVER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| made(Of::Quotient));

fn made(of: Of) -> Arc<ScalarUDF> {
    let count = if matches!(of, Of::Length | Of::Difference) { 1 } else { 2 };
    Arc::new(ScalarUDF::from(Span { of, signature: Signature::any(count, Volatility::Immutable) }))
}

/// What is asked about an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Length,
    Difference,
    Product,
    Quotient,
}

/// Functions of intervals. They are in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Span {
    of: Of,
    signature: Signature,
}

/// What an interval is compared by.
pub(crate) fn length(interval: Expr) -> Expr {
    LENGTH_OF.call(vec![cast(interval, INTERVAL)])
}

/// The interval that a difference of two times is: whole days, and what is left of hours.
pub(crate) fn of_difference(difference: Expr) -> Expr {
    OF_DIFFERENCE.call(vec![difference])
}

/// An interval times a number.
pub(crate) fn times(interval: Expr, number: Expr) -> Expr {
    TIMES.call(vec![cast(interval, INTERVAL), cast(number, DataType::Float64)])
}

/// An interval divided by a number.
pub(crate) fn over(interval: Expr, number: Expr) -> Expr {
    OVER.call(vec![cast(interval, INTERVAL), cast(number, DataType::Float64)])
}

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        match self.of {
            Of::Length => "length_of_interval",
            Of::Difference => "interval",
            Of::Product => "*",
            Of::Quotient => "/",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.of == Of::Length { LENGTH } else { INTERVAL })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let array: ArrayRef = match (self.of, arrays.as_slice()) {
            (Of::Length, [intervals]) => lengths(intervals)?,
            (Of::Difference, [differences]) => in_days(differences)?,
            (Of::Product, [intervals, numbers]) => scaled(intervals, numbers, |value, by| value * by)?,
            (Of::Quotient, [intervals, numbers]) => {
                let both = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
                let mut both = both.zip(numbers.as_primitive::<Float64Type>());
                if both.any(|(interval, by)| interval.is_some() && by == Some(0.0)) {
                    return Err(division_by_zero());
                }
                scaled(intervals, numbers, |value, by| value / by)?
            }
            _ => return internal_err!("{} takes another number of arguments", self.name()),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

fn length_of(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
    days * DAY + i128::from(interval.nanoseconds)
}

fn in_days(differences: &ArrayRef) -> Result<ArrayRef> {
    let differences = arrow::compute::cast(differences, &DataType::Duration(TimeUnit::Nanosecond))?;
    let in_days = differences.as_primitive::<DurationNanosecondType>().unary::<_, IntervalMonthDayNanoType>(|length| {
        let day = DAY as i64;
        // The days of 64 bits of nanoseconds are fewer than 110,000.
        IntervalMonthDayNano::new(0, (length / day) as i32, length % day)
    });
    Ok(Arc::new(in_days))
}

/// What intervals, or differences of times, are compared by.
///
/// # Errors
/// Those of Arrow.
pub(crate) fn lengths(intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = arrow::compute::cast(intervals, &INTERVAL)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
    let lengths: Decimal128Array = intervals.map(|interval| interval.map(length_of)).collect();
    Ok(Arc::new(lengths.with_data_type(LENGTH)))
}

fn scaled(intervals: &ArrayRef, numbers: &ArrayRef, op: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let numbers = numbers.as_primitive::<Float64Type>();
    let mut values = Vec::with_capacity(intervals.len());
    for (interval, number) in intervals.iter().zip(numbers) {
        values.push(match (interval, number) {
            (Some(interval), Some(number)) => match scaled_by(interval, |value| op(value, number)) {
                Some(value) => Some(value),
                None => {
                    return value_err!(
                        DatetimeFieldOverflow,
                        "interval overflow: an interval times or over {number} does not fit INTERVAL"
                    );
                }
            },
            _ => None,
        });
    }
    Ok(Arc::new(values.into_iter().collect::<IntervalMonthDayNanoArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    #[test]
    fn lengths_have_the_order_of_time() {
        assert_eq!(length_of(interval(1, 0, 0)), length_of(interval(0, 30, 0)));
        assert_eq!(length_of(interval(0, 1, 0)), length_of(interval(0, 0, 24 * HOUR)));
        assert!(length_of(interval(0, 1, 0)) < length_of(interval(0, 0, 25 * HOUR)));
        assert!(length_of(interval(-1, 0, 0)) < length_of(interval(0, -29, 0)));
        assert!(length_of(interval(i32::MAX, i32::MAX, i64::MAX)) < 10i128.pow(38));
    }

    #[test]
    fn what_is_left_over_goes_down() {
        let by = |(months, days, nanoseconds), number: f64| {
            let scaled = scaled_by(interval(months, days, nanoseconds), |value| value * number)?;
            Some((scaled.months, scaled.days, scaled.nanoseconds))
        };
        assert_eq!(by((1, 0, 0), 1.5), Some((1, 15, 0)));
        assert_eq!(by((0, 1, 0), 1.5), Some((0, 1, 12 * HOUR)));
        assert_eq!(by((0, -1, 0), 0.5), Some((0, 0, -12 * HOUR)));
        assert_eq!(by((14, 3, HOUR), 2.0), Some((28, 6, 2 * HOUR)));
        assert_eq!(by((1, 0, 0), 1.0 / 3.0), Some((0, 10, 0)));
        assert_eq!(by((0, 0, HOUR), 1e30), None);
        assert_eq!(by((1, 0, 0), f64::NAN), None);
        assert_eq!(by((i32::MAX, 0, 0), 2.0), None);
    }
}
