//! The average of intervals: the sum of their months, days and times each, over how many there are, of which what is
//! left over goes to the parts below, as where an interval is divided.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;

use crate::error::value_err;
use crate::functions::scaled_spans::divided;

/// A million intervals have more than 64 bits hold.
const NANOSECONDS: DataType = DataType::Decimal128(38, 0);
pub(super) const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The states of an average.
pub(super) fn state(name: &str) -> Vec<FieldRef> {
    let field = |part: &str, of: DataType| Arc::new(Field::new(format!("{name}[{part}]"), of, true));
    vec![
        field("months", DataType::Int64),
        field("days", DataType::Int64),
        field("nanoseconds", NANOSECONDS),
        field("count", DataType::Int64),
    ]
}

/// The sums of some intervals' parts.
#[derive(Debug, Default)]
pub(super) struct SpanAverage {
    months: i64,
    days: i64,
    nanoseconds: i128,
    count: i64,
}

impl SpanAverage {
    /// Adds intervals, or takes them away.
    fn add(&mut self, values: &[ArrayRef], sign: i64) {
        for interval in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.nanoseconds += i128::from(sign) * i128::from(interval.nanoseconds);
            self.months += sign * i64::from(interval.months);
            self.days += sign * i64::from(interval.days);
            self.count += sign;
        }
    }
}

fn out_of_range<T>() -> Result<T> {
    value_err!(DatetimeFieldOverflow, "interval overflow in avg: the total does not fit INTERVAL; take fewer at a time")
}

impl Accumulator for SpanAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (part, place) in [(&mut self.months, 0), (&mut self.days, 1), (&mut self.count, 3)] {
            *part += states[place].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        }
        self.nanoseconds += states[2].as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let number = |part| ScalarValue::Int64(Some(part));
        let nanoseconds = ScalarValue::Decimal128(Some(self.nanoseconds), 38, 0);
        Ok(vec![number(self.months), number(self.days), nanoseconds, number(self.count)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let (Ok(months), Ok(days)) = (i32::try_from(self.months), i32::try_from(self.days)) else {
            return out_of_range();
        };
        let Some(mut average) = divided(IntervalMonthDayNano { months, days, nanoseconds: 0 }, self.count as f64)
        else {
            return out_of_range();
        };
        // To microseconds, which PostgreSQL's intervals have.
        let microseconds = (self.nanoseconds as f64 / self.count as f64 / 1e3).round_ties_even();
        let sum = i128::from(average.nanoseconds) + microseconds as i128 * 1000;
        let Ok(nanoseconds) = i64::try_from(sum) else { return out_of_range() };
        average.nanoseconds = nanoseconds;
        Ok(ScalarValue::IntervalMonthDayNano(Some(average)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
