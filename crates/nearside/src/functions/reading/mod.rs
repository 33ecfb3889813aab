//! How texts are read as values of other types, as PostgreSQL reads them. Every text that becomes a value is read here:
//! one that is written in a statement, a parameter's, and those of a column.
//!
//! Truth values, dates, intervals, bytes and lists are read here and in the modules beside it ([`moment_texts`],
//! [`span_texts`], [`lists`]). Times are written anew in the one form that Arrow does not take for something else,
//! and numbers without the blanks around them; then Arrow reads them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewBuilder};
use arrow::array::{BooleanBuilder, Date32Builder, FixedSizeBinaryBuilder, IntervalMonthDayNanoBuilder};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use chrono::{Datelike, NaiveDate, NaiveTime, TimeDelta};
use datafusion_common::{Result as DfResult, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use files::read_bytes;

use super::moment_texts::{self, DAY, Fault, Moment};
use super::span_texts;
use super::texts::nested::is_list;
use super::uuids::{UUID, read_uuid};
use super::zones::instant;
use crate::error::codes::{SqlState, unreadable};
use crate::error::types::sql_type;
use crate::error::{Error, Result};

mod lists;

/// Whether texts are read as values of a type in another way than Arrow's.
pub(crate) fn is_read_here(to: &DataType) -> bool {
    is_read_whole(to) || is_read_after(to)
}

/// Whether what is made of a text here is the value.
pub(crate) fn is_read_whole(to: &DataType) -> bool {
    use DataType as T;
    let bytes = matches!(to, T::Binary | T::LargeBinary | T::BinaryView);
    bytes || *to == UUID || is_list(to) || matches!(to, T::Boolean | T::Date32 | T::Date64 | T::Interval(_))
}

/// Whether what is made of a text here is a text that Arrow reads.
fn is_read_after(to: &DataType) -> bool {
    matches!(to, DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) || to.is_numeric()
}

/// A text that Arrow reads as a time, a time of day or a number, as PostgreSQL reads this one; `None` where that is the
/// text itself, as it is for other types.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub(crate) fn for_arrow(text: &str, to: &DataType) -> Result<Option<String>, (SqlState, String)> {
    let read = match to {
        DataType::Timestamp(unit, zone) => moment(text, *unit, zone.as_deref()),
        DataType::Time32(_) | DataType::Time64(_) => moment_texts::read_clock(text).and_then(|clock| match clock {
            DAY.. => Err(Fault::Refused("a time of day ends before 24:00:00")),
            clock => Ok(clock_text(clock)),
        }),
        _ if to.is_numeric() => {
            let bare = text.trim();
            if to.is_floating() && is_out_of_range(bare, to) {
                let message = format!("'{text}' does not fit {}; TRY_CAST makes NULL of it", sql_type(to));
                return Err((SqlState::NumericValueOutOfRange, message));
            }
            let written_out = if to.is_decimal() { without_exponent(bare) } else { None };
            return Ok(written_out.or_else(|| (bare.len() < text.len()).then(|| bare.to_string())));
        }
        _ => return Ok(None),
    };
    read.map(Some).map_err(|fault| told(text, to, fault))
}

/// Whether a number's text would become infinite, or zero, as a float.
fn is_out_of_range(text: &str, to: &DataType) -> bool {
    let read = match to {
        DataType::Float32 => text.parse::<f32>().map(f64::from),
        _ => text.parse::<f64>(),
    };
    let Ok(read) = read else { return false };
    let digits = text.split(['e', 'E']).next().unwrap_or(text);
    match read {
        // The word is one, digits are none.
        infinite if infinite.is_infinite() => digits.contains(|c: char| c.is_ascii_digit()),
        0.0 => digits.contains(|c: char| matches!(c, '1'..='9')),
        _ => false,
    }
}

/// What is wrong with a text.
fn told(text: &str, to: &DataType, fault: Fault) -> (SqlState, String) {
    let is_clock = matches!(to, DataType::Time32(_) | DataType::Time64(_));
    let to = sql_type(to);
    match fault {
        Fault::Shape if is_clock => (
            SqlState::InvalidDatetimeFormat,
            format!("'{text}' cannot be read as TIME; write hours, minutes and seconds, as in 10:30:00"),
        ),
        Fault::Shape => {
            (SqlState::InvalidDatetimeFormat, format!("'{text}' cannot be read as {to}; TRY_CAST makes NULL of it"))
        }
        Fault::Range => (
            SqlState::DatetimeFieldOverflow,
            format!("'{text}' cannot be read as {to}: a number in it is out of its range"),
        ),
        Fault::Refused(why) => (SqlState::FeatureNotSupported, format!("'{text}' cannot be read as {to}: {why}")),
    }
}

fn clock_text(clock: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    let seconds = clock / SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match clock % SECOND {
        0 => format!("{hour:02}:{minute:02}:{second:02}"),
        rest => format!("{hour:02}:{minute:02}:{second:02}.{rest:09}"),
    }
}

/// The digits of `1.5e3`; `None` where there is no exponent, or one that no decimal has room for.
fn without_exponent(text: &str) -> Option<String> {
    const EXPONENT_MAX: usize = 80;
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, digits) = match mantissa.as_bytes().first()? {
        b'-' => ("-", &mantissa[1..]),
        b'+' => ("", &mantissa[1..]),
        _ => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    let places = usize::try_from(exponent.unsigned_abs()).ok().filter(|places| *places <= EXPONENT_MAX)?;
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    Some(match exponent < 0 {
        true => {
            let padded = format!("{}{whole}", "0".repeat(places));
            let point = padded.len() - places;
            format!("{sign}{}.{}{fraction}", &padded[..point], &padded[point..])
        }
        false => {
            let padded = format!("{fraction}{}", "0".repeat(places));
            format!("{sign}{whole}{}.{}", &padded[..places], &padded[places..])
        }
    })
}

/// A time with seconds, rounded to a unit; as UTC has it where it is to be an instant, by the clocks of the zone in the
/// text or else of the one that it is told in, and without an offset where it is to be none.
fn moment(text: &str, unit: TimeUnit, told_in: Option<&str>) -> Result<String, Fault> {
    let Moment { day, clock, zone } = moment_texts::read(text)?;
    let mut day = day.ok_or(Fault::Shape)?;
    // Arrow reads years of four digits.
    if !(1..=9999).contains(&day.year()) {
        return Err(Fault::Range);
    }
    let mut clock = rounded(clock.unwrap_or(0), unit, day.year() >= 2000);
    if clock >= DAY {
        day = day.succ_opt().ok_or(Fault::Range)?;
        clock = 0;
    }
    let Some(told_in) = told_in else { return Ok(format!("{day} {}", clock_text(clock))) };
    match zone {
        Some(offset) if offset.starts_with(['+', '-']) => Ok(format!("{day} {}{offset}", clock_text(clock))),
        zone => {
            let named = zone.as_deref().unwrap_or(told_in);
            // What names no zone is told by Arrow.
            let Ok(zone) = named.parse::<Tz>() else { return Ok(format!("{day} {} {named}", clock_text(clock))) };
            let local = day.and_time(NaiveTime::MIN).checked_add_signed(TimeDelta::nanoseconds(clock));
            let utc = local.and_then(|local| instant(local, &zone)).ok_or(Fault::Range)?;
            Ok(format!("{}+00:00", utc.format("%Y-%m-%d %H:%M:%S%.9f")))
        }
    }
}

/// A clock's nanoseconds rounded to a unit, away from the year 2000 where two are equally near. A text is rounded to
/// microseconds first, to the even one, as PostgreSQL does.
fn rounded(clock: i64, unit: TimeUnit, is_late: bool) -> i64 {
    const MICROSECOND: i64 = 1_000;
    let nearest = |clock: i64, to: i64, is_up: bool| {
        let rest = clock.rem_euclid(to);
        clock - rest + if rest > to - rest || (rest == to - rest && is_up) { to } else { 0 }
    };
    let to = match unit {
        TimeUnit::Nanosecond => return clock,
        TimeUnit::Microsecond => MICROSECOND,
        TimeUnit::Millisecond => 1_000 * MICROSECOND,
        TimeUnit::Second => 1_000_000 * MICROSECOND,
    };
    let is_odd = clock.div_euclid(MICROSECOND) % 2 != 0;
    nearest(nearest(clock, MICROSECOND, is_odd), to, is_late)
}

/// The days since 1970 of a date.
fn day(text: &str) -> Result<i32, Fault> {
    let day = moment_texts::read(text)?.day.ok_or(Fault::Shape)?;
    Ok(day.num_days_from_ce() - NaiveDate::default().num_days_from_ce())
}

fn span(text: &str) -> Result<IntervalMonthDayNano, Fault> {
    const INFINITE: [&str; 3] = ["infinity", "-infinity", "+infinity"];
    if INFINITE.contains(&text.trim().to_lowercase().as_str()) {
        return Err(Fault::Refused("there are no infinite intervals; use NULL"));
    }
    span_texts::read(text, None, false).map_err(|fault| match fault {
        span_texts::Fault::Shape => Fault::Shape,
        span_texts::Fault::Range => Fault::Range,
    })
}

/// Truth values by any beginning that no other has: `t`, `yes`, `of`.
fn truth(text: &str) -> Option<bool> {
    let bare = text.trim().to_lowercase();
    match bare.as_str() {
        "1" | "on" => return Some(true),
        "0" | "of" | "off" => return Some(false),
        "" => return None,
        _ => {}
    }
    let begins = |word: &str| word.starts_with(&bare);
    match (begins("true") || begins("yes"), begins("false") || begins("no")) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// The values of an array of texts; where `tries`, what cannot be read is NULL.
///
/// # Errors
/// A text that cannot be read.
pub(crate) fn read(texts: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef> {
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    if !is_read_here(to) {
        return Ok(cast_with_options(texts, to, &options)?);
    }
    let texts = cast(texts, &DataType::Utf8View)?;
    if is_list(to) {
        return lists::lists(&texts, to, tries);
    }
    macro_rules! each {
        ($values:expr, $read:expr) => {{
            let mut values = $values;
            for text in texts.as_string_view() {
                match text.map($read) {
                    None => values.append_null(),
                    Some(Ok(value)) => values.append_value(value),
                    Some(Err(_)) if tries => values.append_null(),
                    Some(Err((code, message))) => return Err(Error::execution(code, message)),
                }
            }
            let values: ArrayRef = Arc::new(values.finish());
            values
        }};
    }
    let values = match to {
        DataType::Boolean => each!(BooleanBuilder::new(), |text| truth(text).ok_or_else(|| {
            let message = format!("'{text}' cannot be read as BOOLEAN; TRY_CAST makes NULL of it");
            (SqlState::InvalidTextRepresentation, message)
        })),
        DataType::Date32 | DataType::Date64 => {
            each!(Date32Builder::new(), |text| day(text).map_err(|fault| told(text, to, fault)))
        }
        DataType::Interval(_) => {
            each!(IntervalMonthDayNanoBuilder::new(), |text| span(text).map_err(|fault| told(text, to, fault)))
        }
        _ if *to == UUID => {
            let mut values = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
            for text in texts.as_string_view() {
                match text.map(|text| read_uuid(text).ok_or(text)) {
                    Some(Ok(bytes)) => values.append_value(bytes)?,
                    Some(Err(text)) if !tries => {
                        let message = format!("'{text}' cannot be read as UUID; it has 32 hexadecimal digits");
                        return Err(Error::execution(SqlState::InvalidTextRepresentation, message));
                    }
                    _ => values.append_null(),
                }
            }
            Arc::new(values.finish())
        }
        _ if is_read_whole(to) => each!(BinaryViewBuilder::with_capacity(texts.len()), |text| {
            read_bytes(text).map_err(|message| (unreadable(text, to), message))
        }),
        _ => each!(StringViewBuilder::with_capacity(texts.len()), |text| {
            for_arrow(text, to).map(|found| found.map_or(Cow::Borrowed(text), Cow::Owned))
        }),
    };
    Ok(if values.data_type() == to { values } else { cast_with_options(&values, to, &options)? })
}

/// The value of one text.
///
/// # Errors
/// A text that cannot be read.
pub(crate) fn read_one(text: &str, to: &DataType) -> Result<ScalarValue> {
    let text = ScalarValue::Utf8View(Some(text.to_string())).to_array()?;
    Ok(ScalarValue::try_from_array(&read(&text, to, false)?, 0)?)
}

/// The values of texts that are known when a statement runs only, in the place of a cast.
pub(crate) fn reading(texts: Expr, to: &DataType, tries: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Reading { to: to.clone(), tries, signature }).call(vec![texts])
}

/// It has the name of its argument, as a cast has, and is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Reading {
    to: DataType,
    tries: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Reading {
    fn name(&self) -> &str {
        "value_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("value_of takes one argument"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let read = |texts: &ArrayRef| read(texts, &self.to, self.tries).map_err(Error::into_datafusion);
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(text) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&read(&text.to_array()?)?, 0)?)
            }
            ColumnarValue::Array(texts) => ColumnarValue::Array(read(texts)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str, to: &DataType) -> String {
        read_one(text, to).map_or_else(|error| error.to_string(), |value| value.to_string())
    }

    #[test]
    fn a_time_without_a_zone_has_no_offset() {
        let to = DataType::Timestamp(TimeUnit::Second, None);
        let expected = read_one("2024-01-31 10:00:00", &to).unwrap();
        for text in [
            "2024-01-31 10:00",
            " 2024-01-31T10:00 ",
            "2024-01-31 10:00+02",
            "2024-01-31 10:00:00+02:30",
            "2024-01-31 10:00:00 -08",
            "2024-01-31T10:00:00Z",
            "2024-01-31 10:00:00 Europe/Berlin",
        ] {
            assert_eq!(read_one(text, &to).unwrap(), expected, "{text}");
        }
        let day = read_one("2024-01-31 00:00:00", &to).unwrap();
        assert_eq!(read_one("2024-01-31", &to).unwrap(), day);
        for wrong in ["2024-01-31 10:00 nowhere", "10:00", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9} 10:00"] {
            assert!(read_one(wrong, &to).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fractions_are_rounded_away_from_2000() {
        for (text, unit, same) in [
            ("2024-01-31 23:59:59.5", TimeUnit::Second, "2024-02-01"),
            ("2024-01-31 23:59:59.499999", TimeUnit::Second, "2024-01-31 23:59:59"),
            ("2024-01-31 10:00:00.4999996", TimeUnit::Second, "2024-01-31 10:00:01"),
            ("1999-01-31 10:00:00.5", TimeUnit::Second, "1999-01-31 10:00:00"),
            ("1999-01-31 10:00:00.500001", TimeUnit::Second, "1999-01-31 10:00:01"),
            ("2024-01-31 10:00:00.0005", TimeUnit::Millisecond, "2024-01-31 10:00:00.001"),
            ("2024-01-31 10:00:00.0000005", TimeUnit::Microsecond, "2024-01-31 10:00:00"),
            ("2024-01-31 10:00:00.0000015", TimeUnit::Microsecond, "2024-01-31 10:00:00.000002"),
        ] {
            let to = DataType::Timestamp(unit, None);
            assert_eq!(read_one(text, &to).unwrap(), read_one(same, &to).unwrap(), "{text}");
        }
    }

    #[test]
    fn a_time_with_a_zone_keeps_its_offset() {
        let to = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        let expected = read_one("2024-01-31 08:00:00Z", &to).unwrap();
        for text in ["2024-01-31 10:00+02:00", "2024-01-31 10:00:00+02:00", "2024-01-31 08:00"] {
            assert_eq!(read_one(text, &to).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn digits_are_hours_minutes_and_seconds() {
        let to = DataType::Time64(TimeUnit::Nanosecond);
        for (text, same) in [("1030", "10:30:00"), ("103015", "10:30:15"), (" 1030 ", "10:30"), ("10:30:15.5", "")] {
            let same = if same.is_empty() { text } else { same };
            assert_eq!(read_one(text, &to).unwrap(), read_one(same, &to).unwrap(), "{text}");
        }
        for wrong in ["10", "1", "-5", "+1030", "12345", "1234567"] {
            assert!(text_of(wrong, &to).contains("cannot be read as TIME"), "{wrong}");
        }
        assert!(read_one("2561", &to).is_err());
    }

    #[test]
    fn floats_out_of_their_range_are_no_infinities() {
        for (text, real, double) in [
            ("1e40", true, false),
            ("1e400", true, true),
            ("-1e-50", true, false),
            ("1e-400", true, true),
            ("0e999", false, false),
            ("0.000", false, false),
            ("inf", false, false),
            ("-Infinity", false, false),
            ("NaN", false, false),
            ("1.5", false, false),
        ] {
            assert_eq!(read_one(text, &DataType::Float32).is_err(), real, "{text}");
            assert_eq!(read_one(text, &DataType::Float64).is_err(), double, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_null_where_it_is_tried() {
        let texts = |all: [&str; 2]| -> ArrayRef { Arc::new(arrow::array::StringViewArray::from(all.to_vec())) };
        for (to, good, wrong) in [
            (DataType::BinaryView, "\\x41", "\\x4"),
            (DataType::Time64(TimeUnit::Nanosecond), "1030", "10"),
            (DataType::Timestamp(TimeUnit::Second, None), "2024-01-31 10:00+02", "nowhere"),
            (DataType::Int32, "7", "x"),
        ] {
            let found = read(&texts([good, wrong]), &to, true).unwrap();
            assert_eq!((found.is_null(0), found.is_null(1)), (false, true), "{to}");
            assert!(read(&texts([good, wrong]), &to, false).is_err(), "{to}");
        }
    }
}
