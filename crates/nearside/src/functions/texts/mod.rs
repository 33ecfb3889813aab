//! How values are written as text, in casts and where a text is put together (`||`, `concat`), as PostgreSQL writes
//! them: `2024-01-31 12:34:56.789`, `1e+20`, `2`, `1 day 02:00:00`, `\x6162`, `{1,NULL}`. Arrow writes some of these
//! otherwise, and then texts that look alike to a reader are not equal. Integers, decimals of so many digits and truth
//! values are the same in both. Lists and rows: [`nested`].
//!
//! # Limits
//! Maps, and what is within them, are written as Arrow writes them.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationNanosecondType, Float32Type, Float64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, i256,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast as cast_expr,
};
use files::write_bytes;

use self::nested::is_list;
use super::uuids::{UUID, write_uuid};
use crate::error::value_err;

pub(crate) mod nested;

/// NUMERIC without digits: how many digits a value has behind the point is not known.
pub(crate) const ANY_DIGITS: DataType = DataType::Decimal128(38, 10);

/// Digits behind the point of values of a type of which no zeros are written at the end: NUMERIC without digits,
/// products of it, and sums of those. `None` for other types.
pub fn scale_of_any_digits(of: &DataType) -> Option<i32> {
    match of {
        DataType::Decimal128(38, scale @ 10) | DataType::Decimal256(42 | 52, scale @ 20) => Some((*scale).into()),
        _ => None,
    }
}

static TEXT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Text { signature: Signature::any(1, Volatility::Immutable) })));

/// The text of a value, which has the name of its argument. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Text {
    signature: Signature,
}

/// Whether Arrow writes values of a type otherwise.
pub(crate) fn is_written_here(data_type: &DataType) -> bool {
    use DataType as T;
    let time = matches!(data_type, T::Timestamp(..) | T::Time32(_) | T::Time64(_) | T::Date32 | T::Date64);
    let bytes = matches!(data_type, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_));
    let nested = is_list(data_type) || matches!(data_type, T::Struct(_));
    time || bytes
        || nested
        || scale_of_any_digits(data_type).is_some()
        || matches!(data_type, T::Float32 | T::Float64 | T::Interval(_) | T::Duration(_))
}

/// A value as a text of a type.
pub(crate) fn text_of(value: Expr, to: &DataType) -> Expr {
    let text = TEXT.call(vec![value]);
    if *to == DataType::Utf8View { text } else { cast_expr(text, to.clone()) }
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        "text_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("text_of takes one argument"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(text_of_value(value)?),
            ColumnarValue::Array(values) => ColumnarValue::Array(texts(values)?),
        })
    }
}

/// The text of a value of a type that [`is_written_here`].
///
/// # Errors
/// A time without a text.
pub(crate) fn text_of_value(value: &ScalarValue) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&texts(&value.to_array()?)?, 0)
}

/// The texts of a column's values as a cast to text has them; `None` for texts, and for types that have no other text
/// than Arrow's.
///
/// # Errors
/// A time without a text.
pub fn texts_of_values(column: &ArrayRef) -> crate::Result<Option<ArrayRef>> {
    if !is_written_here(column.data_type()) {
        return Ok(None);
    }
    Ok(Some(texts(column)?))
}

/// The texts of an array of values.
pub(super) fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! each {
        ($t:ty, $values:expr, $write:expr) => {{
            let write: fn(_, &mut String) = $write;
            written($values.as_primitive::<$t>().iter(), write)
        }};
    }
    Ok(match values.data_type() {
        DataType::Float64 => each!(Float64Type, values, |value, to| float(value, format!("{value:e}"), 15, to)),
        DataType::Float32 => {
            each!(Float32Type, values, |value: f32, to| float(value.into(), format!("{value:e}"), 6, to))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let values = cast(values, &DataType::Time64(TimeUnit::Nanosecond))?;
            each!(Time64NanosecondType, values, |value, to| clock(value, "", to))
        }
        DataType::Interval(_) => {
            let values = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            each!(IntervalMonthDayNanoType, values, |value: IntervalMonthDayNano, to| {
                span(value.months, value.days.into(), value.nanoseconds, to);
            })
        }
        DataType::Duration(_) => {
            let values = cast(values, &DataType::Duration(TimeUnit::Nanosecond))?;
            each!(DurationNanosecondType, values, |value, to| span(0, value / DAY, value % DAY, to))
        }
        DataType::Decimal128(_, scale) => {
            let scale = (*scale).into();
            written(values.as_primitive::<Decimal128Type>().iter(), |value: i128, to| {
                number(&value.to_string(), scale, to)
            })
        }
        DataType::Decimal256(_, scale) => {
            let scale = (*scale).into();
            written(values.as_primitive::<Decimal256Type>().iter(), |value: i256, to| {
                number(&value.to_string(), scale, to)
            })
        }
        data_type if *data_type == UUID => {
            written(values.as_fixed_size_binary().iter(), |bytes: &[u8], to| write_uuid(bytes, to))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let values = cast(values, &DataType::BinaryView)?;
            written(values.as_binary_view().iter(), |bytes: &[u8], to| write_bytes(bytes, to))
        }
        DataType::Timestamp(unit, zone) => return moments(values, unit, zone.as_deref()),
        DataType::Date32 | DataType::Date64 => {
            let values = cast(values, &DataType::Date32)?;
            let mut days = Vec::with_capacity(values.len());
            for value in values.as_primitive::<Date32Type>() {
                days.push(value.map(day_of).transpose()?);
            }
            written(days.into_iter(), day)
        }
        DataType::Struct(_) => nested::rows(values.as_struct())?,
        list if is_list(list) => nested::lists(values)?,
        other => return internal_err!("{other} is written by a cast"),
    })
}

pub(super) fn written<T>(values: impl Iterator<Item = Option<T>>, write: impl Fn(T, &mut String)) -> ArrayRef {
    let mut text = String::new();
    let mut texts = arrow::array::StringViewBuilder::new();
    for value in values {
        match value {
            None => texts.append_null(),
            Some(value) => {
                text.clear();
                write(value, &mut text);
                texts.append_value(&text);
            }
        }
    }
    let texts: StringViewArray = texts.finish();
    Arc::new(texts)
}

/// The digits of a number of which `scale` stand behind the point, without the zeros at their end, and how many of
/// those that are left stand there.
pub fn without_zeros(digits: &str, scale: i32) -> (&str, i32) {
    if digits == "0" {
        return (digits, 0);
    }
    let zeros = digits.bytes().rev().take_while(|digit| *digit == b'0').count();
    let zeros = zeros.min(usize::try_from(scale).unwrap_or(0));
    (&digits[..digits.len() - zeros], scale - zeros as i32)
}

/// A number, with its sign, of which `scale` digits stand behind the point, without zeros at its end.
fn number(digits: &str, scale: i32, to: &mut String) {
    let unsigned = digits.trim_start_matches('-');
    if unsigned.len() < digits.len() {
        to.push('-');
    }
    let (digits, scale) = without_zeros(unsigned, scale);
    let Ok(behind @ 1..) = usize::try_from(scale) else {
        to.push_str(digits);
        return;
    };
    match digits.len().checked_sub(behind) {
        Some(before @ 1..) => push(to, format_args!("{}.{}", &digits[..before], &digits[before..])),
        _ => push(to, format_args!("0.{digits:0>behind$}")),
    }
}

fn push(to: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = to.write_fmt(text);
}

/// A float by the fewest digits that tell it from others, which `scientific` has (`1.5e-7`). Those of `digits` digits
/// before the point or more have an exponent, and those with five zeros behind it.
fn float(value: f64, scientific: String, digits: i32, to: &mut String) {
    if value.is_nan() {
        return to.push_str("NaN");
    }
    if value.is_infinite() {
        return to.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return push(to, format_args!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let all: String = mantissa.chars().filter(|c| *c != '.').collect();
    to.push_str(sign);
    if exponent < 0 {
        to.push_str("0.");
        (1..-exponent).for_each(|_| to.push('0'));
        return to.push_str(&all);
    }
    let whole = exponent as usize + 1;
    if all.len() <= whole {
        to.push_str(&all);
        return (all.len()..whole).for_each(|_| to.push('0'));
    }
    push(to, format_args!("{}.{}", &all[..whole], &all[whole..]));
}

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Hours, minutes and seconds, which may be more than a day.
fn clock(nanoseconds: i64, sign: &str, to: &mut String) {
    let all = nanoseconds.unsigned_abs();
    let [hour, minute, second] = [HOUR, MINUTE, SECOND].map(i64::unsigned_abs);
    push(to, format_args!("{sign}{:02}:{:02}:{:02}", all / hour, all % hour / minute, all % minute / second));
    fraction((all % second) as u32, to);
}

/// What is behind the point of seconds, if there is something.
fn fraction(nanoseconds: u32, to: &mut String) {
    if nanoseconds > 0 {
        push(to, format_args!(".{nanoseconds:09}"));
        to.truncate(to.trim_end_matches('0').len());
    }
}

/// A length of time: `1 year 2 mons -3 days +04:05:06`.
fn span(months: i32, days: i64, nanoseconds: i64, to: &mut String) {
    let mut is_before = false;
    let parts = [(i64::from(months / 12), "year"), (i64::from(months % 12), "mon"), (days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let space = if to.is_empty() { "" } else { " " };
        let sign = if is_before && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        push(to, format_args!("{space}{sign}{value} {unit}{plural}"));
        is_before = value < 0;
    }
    if nanoseconds != 0 || to.is_empty() {
        if !to.is_empty() {
            to.push(' ');
        }
        clock(
            nanoseconds,
            if nanoseconds < 0 {
                "-"
            } else if is_before {
                "+"
            } else {
                ""
            },
            to,
        );
    }
}

/// Times of days, in their zone if they have one.
fn moments(values: &ArrayRef, unit: &TimeUnit, zone: Option<&str>) -> Result<ArrayRef> {
    let (values, per_second): (Box<dyn Iterator<Item = Option<i64>> + '_>, i64) = match unit {
        TimeUnit::Second => (Box::new(values.as_primitive::<TimestampSecondType>().iter()), 1),
        TimeUnit::Millisecond => (Box::new(values.as_primitive::<TimestampMillisecondType>().iter()), 1_000),
        TimeUnit::Microsecond => (Box::new(values.as_primitive::<TimestampMicrosecondType>().iter()), 1_000_000),
        TimeUnit::Nanosecond => (Box::new(values.as_primitive::<TimestampNanosecondType>().iter()), SECOND),
    };
    let zone: Option<Tz> = zone.map(str::parse).transpose()?;
    let mut text = String::new();
    let mut texts = arrow::array::StringViewBuilder::new();
    for value in values {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        let nanoseconds = value.rem_euclid(per_second) * (SECOND / per_second);
        let Some(utc) = DateTime::from_timestamp(value.div_euclid(per_second), nanoseconds as u32) else {
            return value_err!(
                DatetimeFieldOverflow,
                "a timestamp of {value} units lies outside of the calendar and has no text"
            );
        };
        text.clear();
        match &zone {
            None => moment(utc.naive_utc(), &mut text),
            Some(zone) => {
                let local = zone.from_utc_datetime(&utc.naive_utc());
                moment(local.naive_local(), &mut text);
                offset(local.offset().fix().local_minus_utc(), &mut text);
            }
        }
        if utc.year() <= 0 {
            text.push_str(" BC");
        }
        texts.append_value(&text);
    }
    let texts: StringViewArray = texts.finish();
    Ok(Arc::new(texts))
}

/// The date of a number of days since 1970.
fn day_of(days: i32) -> Result<NaiveDate> {
    match NaiveDate::from_num_days_from_ce_opt(days.saturating_add(DAYS_BEFORE_1970)) {
        Some(day) => Ok(day),
        None => value_err!(DatetimeFieldOverflow, "a date of {days} days lies outside of the calendar and has no text"),
    }
}

/// Days from the year 1, whose first day is day 1, to 1970.
const DAYS_BEFORE_1970: i32 = 719_163;

fn day(day: NaiveDate, to: &mut String) {
    year_month_day(day, to);
    if day.year() <= 0 {
        to.push_str(" BC");
    }
}

fn year_month_day(day: NaiveDate, to: &mut String) {
    // There is no year 0: the one before 1 is 1 BC.
    let year = if day.year() > 0 { day.year() } else { 1 - day.year() };
    push(to, format_args!("{year:04}-{:02}-{:02}", day.month(), day.day()));
}

fn moment(time: NaiveDateTime, to: &mut String) {
    year_month_day(time.date(), to);
    to.push(' ');
    push(to, format_args!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second()));
    fraction(time.nanosecond(), to);
}

/// How far a zone is from UTC: `+02`, `-03:30`.
fn offset(seconds: i32, to: &mut String) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    push(to, format_args!("{sign}{:02}", seconds / 3600));
    if seconds % 3600 != 0 {
        push(to, format_args!(":{:02}", seconds / 60 % 60));
    }
    if seconds % 60 != 0 {
        push(to, format_args!(":{:02}", seconds % 60));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DurationMillisecondArray, Float32Array, Float64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, TimestampSecondArray,
    };

    fn of(values: impl Array + 'static) -> Vec<Option<String>> {
        let values: ArrayRef = Arc::new(values);
        assert!(is_written_here(values.data_type()));
        let found = texts(&values).unwrap();
        found.as_string_view().iter().map(|text| text.map(str::to_string)).collect()
    }

    fn all(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some(text.to_string())).collect()
    }

    #[test]
    fn floats_have_the_fewest_digits() {
        let values = [2.0, 0.1, -0.0, 1e14, 1e15, 123456789012345678.0, 1e-4, 1.5e-5, -1234.5, f64::NAN, f64::INFINITY];
        let expected = [
            "2",
            "0.1",
            "-0",
            "100000000000000",
            "1e+15",
            "1.2345678901234568e+17",
            "0.0001",
            "1.5e-05",
            "-1234.5",
            "NaN",
            "Infinity",
        ];
        assert_eq!(of(Float64Array::from(values.to_vec())), all(&expected));
        let values = vec![0.1f32, 16777216.0, 100000.0, 999999.0, 1e-45, f32::NEG_INFINITY];
        let expected = ["0.1", "1.6777216e+07", "100000", "999999", "1e-45", "-Infinity"];
        assert_eq!(of(Float32Array::from(values)), all(&expected));
        assert_eq!(of(Float64Array::from(vec![None])), [None]);
    }

    #[test]
    fn every_finite_float_is_read_back() {
        let mut bits = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..20_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let value = f64::from_bits(bits);
            let text = of(Float64Array::from(vec![value])).pop().flatten().unwrap();
            let back: f64 = text.parse().unwrap();
            assert!(back.to_bits() == value.to_bits() || value.is_nan(), "{value:e} {text}");
        }
    }

    #[test]
    fn times_have_no_letters() {
        let values = vec![Some(1_706_704_496_789_000), None, Some(0), Some(-1), Some(-62_135_596_800_000_001)];
        let expected = [
            Some("2024-01-31 12:34:56.789"),
            None,
            Some("1970-01-01 00:00:00"),
            Some("1969-12-31 23:59:59.999999"),
            Some("0001-12-31 23:59:59.999999 BC"),
        ];
        let expected: Vec<Option<String>> = expected.map(|text| text.map(str::to_string)).to_vec();
        assert_eq!(of(TimestampMicrosecondArray::from(values)), expected);
        for (zone, text) in [
            ("UTC", "2024-07-01 10:00:00+00"),
            ("+05:30", "2024-07-01 15:30:00+05:30"),
            ("Europe/Berlin", "2024-07-01 12:00:00+02"),
            ("-03:00", "2024-07-01 07:00:00-03"),
        ] {
            assert_eq!(of(TimestampSecondArray::from(vec![1_719_828_000]).with_timezone(zone)), all(&[text]));
        }
        assert_eq!(of(Time64MicrosecondArray::from(vec![0, 36_672_500_000])), all(&["00:00:00", "10:11:12.5"]));
    }

    #[test]
    fn lengths_of_time_read_as_postgresqls() {
        let of_parts = |(months, days, nanoseconds)| IntervalMonthDayNano { months, days, nanoseconds };
        let values = [
            (0, 0, 0),
            (14, 3, 4 * HOUR + 5 * MINUTE + 6_789_000_000),
            (0, 1, 0),
            (0, -1, 2 * HOUR),
            (-1, 0, 0),
            (-14, 3, -1),
            (0, 0, 27 * HOUR),
            (1, -1, 0),
        ];
        let expected = [
            "00:00:00",
            "1 year 2 mons 3 days 04:05:06.789",
            "1 day",
            "-1 days +02:00:00",
            "-1 mons",
            "-1 years -2 mons +3 days -00:00:00.000000001",
            "27:00:00",
            "1 mon -1 days",
        ];
        assert_eq!(of(IntervalMonthDayNanoArray::from(values.map(of_parts).to_vec())), all(&expected));
        let values = vec![-5_187_723_000, 0, 167_400_000];
        assert_eq!(
            of(DurationMillisecondArray::from(values)),
            all(&["-60 days -01:02:03", "00:00:00", "1 day 22:30:00"])
        );
    }
}
