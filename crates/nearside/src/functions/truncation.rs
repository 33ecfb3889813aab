//! `date_trunc`: DataFusion's, and beside it decades, centuries and millennia, intervals, and PostgreSQL's other names
//! of units (`hours`, `mon`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, Timelike};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions::datetime;

use super::span_texts::unit_named;
use super::templates::moments;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, value_err};

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(DateTrunc {
        known: datetime::date_trunc(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    known: Arc<ScalarUDF>,
    signature: Signature,
}

/// Years of a unit of which DataFusion knows nothing.
fn years_of(unit: &str) -> Option<i32> {
    match unit {
        "decade" => Some(10),
        "century" => Some(100),
        "millennium" => Some(1000),
        _ => None,
    }
}

/// The first day of so many years: those of a decade begin with one of tens, of a century with 1.
fn first_day(year: i32, years: i32) -> Option<NaiveDate> {
    let first = match years {
        10 => year.div_euclid(10) * 10,
        _ => (year - 1).div_euclid(years) * years + 1,
    };
    NaiveDate::from_ymd_opt(first, 1, 1)
}

fn truncated_days(values: &ArrayRef, unit: &str, to: &DataType) -> Result<ArrayRef> {
    let mut found = Vec::with_capacity(values.len());
    for moment in moments(values)? {
        let Some((moment, _)) = moment else {
            found.push(None);
            continue;
        };
        match first_moment(moment, unit) {
            Some(first) => found.push(Some(first.and_utc().timestamp_micros())),
            None => return value_err!(DatetimeFieldOverflow, "date_trunc: the time is out of range"),
        }
    }
    let found = TimestampMicrosecondArray::from(found);
    // A time without a zone is one of the clocks of the zone that it gets.
    let cast = cast(&found, to)?;
    if cast.null_count() > found.null_count() {
        let to = sql_type(to);
        return value_err!(
            DatetimeFieldOverflow,
            "date_trunc gives a time that {to} has no room for; use TIMESTAMP(6)"
        );
    }
    Ok(cast)
}

/// Whether DataFusion truncates them, which counts in nanoseconds.
fn fits_nanoseconds(values: &ArrayRef) -> bool {
    const LAST: i64 = i64::MAX / 1000 - 400 * 86_400_000_000;
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let mut micros = values.as_primitive::<TimestampMicrosecondType>().iter().flatten();
            micros.all(|value| (-LAST..=LAST).contains(&value))
        }
        _ => true,
    }
}

/// The first moment of a unit.
fn first_moment(of: NaiveDateTime, unit: &str) -> Option<NaiveDateTime> {
    let clock = |hour, minute, second, micros| of.date().and_hms_micro_opt(hour, minute, second, micros);
    let micros = of.nanosecond() / 1000;
    let day = match unit {
        "microsecond" => return clock(of.hour(), of.minute(), of.second(), micros),
        "millisecond" => return clock(of.hour(), of.minute(), of.second(), micros / 1000 * 1000),
        "second" => return clock(of.hour(), of.minute(), of.second(), 0),
        "minute" => return clock(of.hour(), of.minute(), 0, 0),
        "hour" => return clock(of.hour(), 0, 0, 0),
        "day" => Some(of.date()),
        "week" => of.date().checked_sub_days(Days::new(of.weekday().num_days_from_monday().into())),
        "month" => of.date().with_day(1),
        "quarter" => NaiveDate::from_ymd_opt(of.year(), of.month0() / 3 * 3 + 1, 1),
        "year" => NaiveDate::from_ymd_opt(of.year(), 1, 1),
        unit => first_day(of.year(), years_of(unit)?),
    };
    day?.and_hms_opt(0, 0, 0)
}

fn truncated_spans(values: &ArrayRef, unit: &str) -> Result<ArrayRef> {
    const SECOND: i64 = 1_000_000_000;
    let months = match unit {
        "month" => Some(1),
        "quarter" => Some(3),
        "year" => Some(12),
        _ => years_of(unit).map(|years| years * 12),
    };
    let clock = match unit {
        "microsecond" => Some(1000),
        "millisecond" => Some(1_000_000),
        "second" => Some(SECOND),
        "minute" => Some(60 * SECOND),
        "hour" => Some(3600 * SECOND),
        _ => None,
    };
    let one = |value: IntervalMonthDayNano| match (months, clock) {
        (Some(unit), _) => IntervalMonthDayNano { months: value.months / unit * unit, days: 0, nanoseconds: 0 },
        (None, Some(unit)) => IntervalMonthDayNano { nanoseconds: value.nanoseconds / unit * unit, ..value },
        (None, None) => IntervalMonthDayNano { nanoseconds: 0, ..value },
    };
    if months.is_none() && clock.is_none() && unit != "day" {
        return value_err!(FeatureNotSupported, "unit \"{unit}\" not supported for type interval");
    }
    let values = cast(values, &SPAN)?;
    let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
    Ok(Arc::new(values.map(|value| value.map(one)).collect::<IntervalMonthDayNanoArray>()))
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        use DataType as T;
        let refused = || {
            let shown: Vec<String> = types.iter().map(sql_type).collect();
            let message = format!("date_trunc({}): it takes a unit and a time or an interval", shown.join(", "));
            Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
        };
        let [T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Null, value] = types else { return Err(refused()) };
        let value = match value {
            T::Timestamp(..) | T::Time32(_) | T::Time64(_) => value.clone(),
            // Days have a wider calendar than nanoseconds.
            T::Date32 | T::Date64 => T::Timestamp(TimeUnit::Microsecond, None),
            T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => T::Timestamp(TimeUnit::Nanosecond, None),
            T::Interval(_) | T::Duration(_) => SPAN,
            _ => return Err(refused()),
        };
        Ok(vec![T::Utf8, value])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [_, of] if *of.data_type() == SPAN => Ok(Arc::new(of.as_ref().clone().with_name(self.name()))),
            _ => self.known.inner().return_field_from_args(args),
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.known.inner().output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.inner().documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), value] = args.args.as_slice() else {
            return value_err!(FeatureNotSupported, "the unit of date_trunc has to be a constant");
        };
        let to = args.return_field.data_type().clone();
        let Some(unit) = unit.try_as_str().flatten() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&to)?));
        };
        let Some(unit) = unit_named(unit) else {
            return value_err!(InvalidParameterValue, "unit \"{unit}\" not recognized for date_trunc");
        };
        let is_span = to == SPAN;
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        if !is_span && years_of(unit).is_none() && fits_nanoseconds(&values) {
            args.args[0] = ColumnarValue::Scalar(ScalarValue::Utf8(Some(unit.to_string())));
            return self.known.inner().invoke_with_args(args);
        }
        let found = if is_span { truncated_spans(&values, unit)? } else { truncated_days(&values, unit, &to)? };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centuries_begin_with_1() {
        let year = |year, years| first_day(year, years).unwrap().year();
        assert_eq!([year(2024, 10), year(2024, 100), year(2000, 100), year(2001, 1000)], [2020, 2001, 1901, 2001]);
        assert_eq!([year(-5, 10), year(0, 100), year(-99, 100)], [-10, -99, -99]);
    }
}
