//! `extract` and `date_part`: DataFusion's, and beside it what that has not, or has otherwise than PostgreSQL.
//!
//! Seconds and milliseconds have their fractions, as DOUBLE. The parts of an interval, and of the difference of two
//! times, are those of PostgreSQL: days, and hours, minutes and seconds within a day of a difference; a year of an
//! interval has 365.25 days in its `epoch`, a month 30. There are `decade`, `century` and `millennium`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationNanosecondType, Field, FieldRef, Float64Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::preimage::PreimageResult;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_functions::datetime::date_part::DatePartFunc;

use crate::error::Error;
use crate::error::codes::SqlState;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const DAY_SECONDS: f64 = 86_400.0;
const MONTH_DAYS: f64 = 30.0;
const YEAR_DAYS: f64 = 365.25;

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Parts { known: DatePartFunc::new() })
}

/// `date_part`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parts {
    known: DatePartFunc,
}

/// A part that is told otherwise than DataFusion tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Seconds of a minute in units of n nanoseconds.
    Seconds(i64),
    /// Years in units of n.
    Years(i32),
    /// Years of weeks.
    WeekYears,
}

impl Part {
    fn of(name: &str) -> Option<Part> {
        Some(match name.trim_matches(['\'', '"']).to_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Part::Seconds(SECOND),
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => {
                Part::Seconds(SECOND / 1000)
            }
            "year" | "years" | "y" | "yr" | "yrs" => Part::Years(1),
            "isoyear" => Part::WeekYears,
            "decade" | "decades" => Part::Years(10),
            "century" | "centuries" => Part::Years(100),
            "millennium" | "millennia" | "millenniums" => Part::Years(1000),
            _ => return None,
        })
    }
}

/// The name of a part, if it is a constant.
fn name_of(part: Option<&ScalarValue>) -> Option<&str> {
    part?.try_as_str().flatten()
}

fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// Years count from 1: the first century has the years 1 to 100, a decade the years of one number of tens. The year
/// before 1 is -1.
fn years(year: i32, unit: i32) -> i32 {
    match (unit, year > 0) {
        (1, true) => year,
        (1, false) => year - 1,
        (10, _) => year.div_euclid(unit),
        (_, true) => (year + unit - 1) / unit,
        (_, false) => -((unit - 1 - (year - 1)) / unit),
    }
}

/// A length of time.
#[derive(Debug, Clone, Copy)]
struct Span {
    months: i32,
    days: i32,
    nanoseconds: i64,
}

impl Span {
    /// A whole number of a part; `None` for parts that have fractions, and those that there are not.
    fn whole(self, part: &str) -> Option<i64> {
        let year = self.months / 12;
        Some(match part {
            "year" | "years" | "y" | "yr" | "yrs" => year.into(),
            "quarter" | "qtr" => (self.months % 12 / 3 + 1).into(),
            "month" | "months" | "mon" | "mons" => (self.months % 12).into(),
            "day" | "days" | "d" => self.days.into(),
            "hour" | "hours" | "h" | "hr" | "hrs" => self.nanoseconds / HOUR,
            "minute" | "minutes" | "m" | "min" | "mins" => self.nanoseconds % HOUR / MINUTE,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => self.nanoseconds % MINUTE / 1000,
            "nanosecond" | "nanoseconds" | "ns" => self.nanoseconds % MINUTE,
            _ => match Part::of(part)? {
                Part::Years(unit) => (year / unit).into(),
                Part::Seconds(_) | Part::WeekYears => return None,
            },
        })
    }

    /// A part with fractions.
    fn fraction(self, part: &str) -> Option<f64> {
        if part == "epoch" {
            let days = f64::from(self.months / 12) * YEAR_DAYS
                + f64::from(self.months % 12) * MONTH_DAYS
                + f64::from(self.days);
            return Some(days * DAY_SECONDS + self.nanoseconds as f64 / SECOND as f64);
        }
        match Part::of(part)? {
            Part::Seconds(unit) => Some((self.nanoseconds % MINUTE) as f64 / unit as f64),
            Part::Years(_) | Part::WeekYears => None,
        }
    }
}

/// The lengths of time of an array of intervals or of differences of times.
fn spans(array: &ArrayRef) -> Result<Vec<Option<Span>>> {
    if let DataType::Duration(_) = array.data_type() {
        let array = cast(array, &DataType::Duration(TimeUnit::Nanosecond))?;
        // The difference of two times has no months, and days of 24 hours.
        let of = |value: i64| Span { months: 0, days: (value / DAY) as i32, nanoseconds: value % DAY };
        return Ok(array.as_primitive::<DurationNanosecondType>().iter().map(|value| value.map(of)).collect());
    }
    let array = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let values = array.as_primitive::<IntervalMonthDayNanoType>().iter();
    let of = |value: <IntervalMonthDayNanoType as arrow::datatypes::ArrowPrimitiveType>::Native| Span {
        months: value.months,
        days: value.days,
        nanoseconds: value.nanoseconds,
    };
    Ok(values.map(|value| value.map(of)).collect())
}

fn of_spans(part: &str, array: &ArrayRef) -> Result<ArrayRef> {
    let part = part.trim_matches(['\'', '"']).to_lowercase();
    let spans = spans(array)?;
    let empty = Span { months: 0, days: 0, nanoseconds: 0 };
    if empty.fraction(&part).is_some() {
        let values = spans.into_iter().map(|span| span.and_then(|span| span.fraction(&part)));
        return Ok(Arc::new(values.collect::<Float64Array>()));
    }
    if empty.whole(&part).is_none() {
        let message =
            format!("an interval has no part '{part}'; year, month, day, hour, minute, second and epoch are some");
        return Err(Error::plan(SqlState::InvalidParameterValue, message).into_datafusion());
    }
    let values = spans.into_iter().map(|span| span.and_then(|span| span.whole(&part)));
    Ok(Arc::new(values.collect::<Int64Array>()))
}

impl ScalarUDFImpl for Parts {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let ([Some(_), _], [_, of]) = (args.scalar_arguments, args.arg_fields) else {
            return self.known.return_field_from_args(args);
        };
        let Some(name) = name_of(args.scalar_arguments[0]) else { return self.known.return_field_from_args(args) };
        let data_type = match Part::of(name) {
            Some(Part::Seconds(_)) => DataType::Float64,
            _ if is_span(of.data_type()) && !name.eq_ignore_ascii_case("epoch") => DataType::Int64,
            Some(Part::Years(_) | Part::WeekYears) => DataType::Int32,
            None => return self.known.return_field_from_args(args),
        };
        Ok(Arc::new(Field::new(self.name(), data_type, of.is_nullable())))
    }

    fn is_strict(&self) -> bool {
        self.known.is_strict()
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        // Years before 1 have other numbers there.
        let is_positive = matches!(literal, Expr::Literal(value, _)
            if matches!(value.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(1..)))));
        match is_positive {
            true => self.known.preimage(args, literal, info),
            false => Ok(PreimageResult::None),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(part), of] = args.args.as_slice() else { return self.known.invoke_with_args(args) };
        let Some(name) = name_of(Some(part)).map(str::to_string) else { return self.known.invoke_with_args(args) };
        let (span, part) = (is_span(&of.data_type()), Part::of(&name));
        let (is_scalar, rows) = (matches!(of, ColumnarValue::Scalar(_)), args.number_rows);
        if !span && part.is_none() {
            return self.known.invoke_with_args(args);
        }
        let array = if span {
            of_spans(&name, &of.to_array(if is_scalar { 1 } else { rows })?)?
        } else {
            let (other, number) = match part {
                Some(Part::Years(_)) => ("year", DataType::Int32),
                Some(Part::WeekYears) => ("isoyear", DataType::Int32),
                _ => ("nanosecond", DataType::Int64),
            };
            let field = Field::new("part", number, true);
            let asked = ScalarFunctionArgs {
                args: vec![ColumnarValue::Scalar(ScalarValue::from(other)), of.clone()],
                return_field: Arc::new(field),
                ..args
            };
            let found = self.known.invoke_with_args(asked)?.to_array(if is_scalar { 1 } else { rows })?;
            match part {
                Some(Part::Years(unit)) => {
                    Arc::new(found.as_primitive::<Int32Type>().unary::<_, Int32Type>(|year| years(year, unit)))
                        as ArrayRef
                }
                Some(Part::WeekYears) => {
                    Arc::new(found.as_primitive::<Int32Type>().unary::<_, Int32Type>(|year| years(year, 1)))
                }
                Some(Part::Seconds(unit)) => {
                    let values = found.as_primitive::<Int64Type>();
                    Arc::new(values.unary::<_, Float64Type>(|value| value as f64 / unit as f64))
                }
                None => return internal_err!("date_part: '{name}' is DataFusion's"),
            }
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_counted_as_postgresql_has_them() {
        let century = |year| years(year, 100);
        assert_eq!([1, 100, 101, 1900, 2000, 2001, 2024].map(century), [1, 1, 2, 19, 20, 21, 21]);
        assert_eq!([0, -1, -99, -100].map(century), [-1, -1, -1, -2]);
        assert_eq!([1990, 1999, 2024, -1].map(|year| years(year, 10)), [199, 199, 202, -1]);
        assert_eq!([1, 1000, 1001, 2024].map(|year| years(year, 1000)), [1, 1, 2, 3]);
        assert_eq!([2024, 1, 0, -43].map(|year| years(year, 1)), [2024, 1, -1, -44]);
    }

    #[test]
    fn arrays_of_one_value_and_none() {
        let array: ArrayRef =
            Arc::new(arrow::array::DurationSecondArray::from(vec![Some(-90_061), None, Some(3_000_000_000)]));
        let of = |part: &str| of_spans(part, &array).unwrap();
        let whole = |part: &str| of(part).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(whole("day"), [Some(-1), None, Some(34_722)]);
        assert_eq!(whole("HOUR"), [Some(-1), None, Some(5)]);
        assert_eq!(whole("minute"), [Some(-1), None, Some(20)]);
        let epoch = of("epoch");
        let epoch: Vec<_> = epoch.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(epoch, [Some(-90_061.0), None, Some(3e9)]);
        assert!(of_spans("dow", &array).is_err());
    }
}
