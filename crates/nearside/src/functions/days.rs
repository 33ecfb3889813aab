//! A number of days since 1970-01-01 as a DATE, within the calendar.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Date32Array};
use arrow::datatypes::{DataType, Int64Type};
use chrono::{NaiveDate, TimeDelta};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::value_err;

static DAY: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Day { signature: Signature::any(1, Volatility::Immutable) })));

/// The day of a number of days, a BIGINT. The function is in no registry.
pub(crate) fn date_of(days: Expr) -> Expr {
    DAY.call(vec![days])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Day {
    signature: Signature,
}

/// A day that the calendar has: others have no text.
fn day(days: i64) -> Result<i32> {
    let is_known = TimeDelta::try_days(days).and_then(|days| NaiveDate::default().checked_add_signed(days)).is_some();
    match i32::try_from(days) {
        Ok(day) if is_known => Ok(day),
        _ => value_err!(
            DatetimeFieldOverflow,
            "the day {days} days from 1970-01-01 lies outside of the calendar; add or take away fewer days"
        ),
    }
}

impl ScalarUDFImpl for Day {
    fn name(&self) -> &str {
        "date_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let read = |days: &ArrayRef| -> Result<ArrayRef> {
            let days = days.as_primitive::<Int64Type>().iter().map(|days| days.map(day).transpose());
            Ok(Arc::new(days.collect::<Result<Date32Array>>()?))
        };
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(days) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&read(&days.to_array()?)?, 0)?)
            }
            ColumnarValue::Array(days) => ColumnarValue::Array(read(days)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_end_where_the_calendar_does() {
        let last = NaiveDate::MAX.signed_duration_since(NaiveDate::default()).num_days();
        let first = NaiveDate::MIN.signed_duration_since(NaiveDate::default()).num_days();
        for days in [0, 1, -1, last, first] {
            assert_eq!(day(days).unwrap(), days as i32);
        }
        for days in [last + 1, first - 1, i64::MAX, i64::MIN, 1 << 32] {
            assert!(day(days).is_err(), "{days}");
        }
    }
}
