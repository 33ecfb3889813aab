//! `to_char`, `to_date`, `to_timestamp` and `to_number` with PostgreSQL's templates: `YYYY-MM-DD HH24:MI:SS`,
//! `FM999,999.00`.
//!
//! # Limits
//! Numbers that are read are DECIMAL(38, 10). Names of months and days are English ones.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Builder, StringViewArray, StringViewBuilder, TimestampNanosecondBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion_functions::datetime;

use super::defined::Defined;
use super::reading;
use super::texts::ANY_DIGITS;
use crate::error::{Error, value_err};

mod number;
mod parse;
mod read;
mod write;

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = |_: &[DataType]| DataType::Utf8View;
    let mut all: Vec<Arc<ScalarUDF>> = vec![
        Defined::new(&["to_char"], true, value_and_template, text, to_char).function(),
        Defined::new(&["to_date"], true, two_texts, |_| DataType::Date32, to_date).function(),
        Defined::new(&["to_number"], true, two_texts, |_| ANY_DIGITS, to_number).function(),
    ];
    let known = datetime::to_timestamp(&ConfigOptions::default());
    all.push(Arc::new(ScalarUDF::from(ToTimestamp { known })));
    all
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn value_and_template(types: &[DataType]) -> Result<Vec<DataType>, String> {
    use DataType as T;
    match types {
        [value, template] if is_text(template) || *template == T::Null => {
            let value = match value {
                T::Date32 | T::Date64 | T::Timestamp(..) => value.clone(),
                T::Interval(_) | T::Duration(_) => T::Interval(IntervalUnit::MonthDayNano),
                T::Time32(_) | T::Time64(_) => T::Time64(TimeUnit::Nanosecond),
                T::Null => T::Timestamp(TimeUnit::Microsecond, None),
                number if number.is_numeric() => number.clone(),
                _ => return Err("it writes times, intervals and numbers; cast the argument".into()),
            };
            Ok(vec![value, T::Utf8View])
        }
        _ => Err("it takes a value and a template, as in to_char(day, 'YYYY-MM-DD')".into()),
    }
}

fn two_texts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [text, template] if [text, template].iter().all(|of| is_text(of) || **of == DataType::Null) => {
            Ok(vec![DataType::Utf8View; 2])
        }
        _ => Err("it takes a text and a template, as in to_date('31 Jan 2024', 'DD Mon YYYY')".into()),
    }
}

fn texts_of(column: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(column, &DataType::Utf8View)?.as_string_view().clone())
}

/// Templates are taken apart once for rows that have the same.
struct Last<T> {
    text: Option<String>,
    parsed: Option<T>,
}

impl<T> Last<T> {
    fn new() -> Last<T> {
        Last { text: None, parsed: None }
    }

    fn of(&mut self, text: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<Option<&T>> {
        if self.text.as_deref() != Some(text) {
            self.parsed = Some(parse(text)?);
            self.text = Some(text.to_string());
        }
        Ok(self.parsed.as_ref())
    }
}

/// A local time and, where it is one of a zone, how many seconds that is ahead of UTC, and its name.
type Moment = (NaiveDateTime, Option<(i32, String)>);

/// The clocks' times of a column of times or days, with their zones.
pub(super) fn moments(values: &ArrayRef) -> Result<Vec<Option<Moment>>> {
    let zone = match values.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let values = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
    let zone: Option<Tz> = zone.as_deref().map(Tz::from_str).transpose()?;
    let mut found = Vec::with_capacity(values.len());
    for value in values.as_primitive::<TimestampMicrosecondType>() {
        let Some(value) = value else {
            found.push(None);
            continue;
        };
        let Some(utc) = DateTime::from_timestamp_micros(value) else {
            return value_err!(DatetimeFieldOverflow, "a timestamp lies outside of the calendar");
        };
        found.push(Some(match &zone {
            None => (utc.naive_utc(), None),
            Some(zone) => {
                let local = zone.from_utc_datetime(&utc.naive_utc());
                let seconds = local.offset().fix().local_minus_utc();
                let name = local.format("%Z").to_string();
                let name = if seconds == 0 && name.starts_with(['+', '-']) { "UTC".to_string() } else { name };
                (local.naive_local(), Some((seconds, name)))
            }
        }));
    }
    Ok(found)
}

fn to_char(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let templates = texts_of(&columns[1])?;
    match columns[0].data_type() {
        number if number.is_numeric() => numbers_to_char(&columns[0], &templates),
        DataType::Interval(_) | DataType::Time64(_) => spans_to_char(&columns[0], &templates),
        _ => {
            let mut last = Last::new();
            let mut found = StringViewBuilder::new();
            for (moment, template) in moments(&columns[0])?.into_iter().zip(&templates) {
                let (Some((moment, zone)), Some(template)) = (moment, template) else {
                    found.append_null();
                    continue;
                };
                let mut text = String::new();
                let parts = last.of(template, |template| Ok(parse::parts(template)))?;
                let fields = write::Fields::of_moment(moment, zone);
                parts.and_then(|parts| write::write(&fields, parts, &mut text));
                found.append_value(text);
            }
            Ok(Arc::new(found.finish()))
        }
    }
}

fn spans_to_char(values: &ArrayRef, templates: &StringViewArray) -> Result<ArrayRef> {
    let parts_of: Vec<Option<(i32, i32, i64)>> = match values.data_type() {
        DataType::Time64(_) => {
            values.as_primitive::<Time64NanosecondType>().iter().map(|value| value.map(|value| (0, 0, value))).collect()
        }
        _ => {
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            values.iter().map(|value| value.map(|value| (value.months, value.days, value.nanoseconds))).collect()
        }
    };
    let mut last = Last::new();
    let mut found = StringViewBuilder::new();
    for (span, template) in parts_of.into_iter().zip(templates) {
        let (Some((months, days, nanoseconds)), Some(template)) = (span, template) else {
            found.append_null();
            continue;
        };
        let mut text = String::new();
        let parts = last.of(template, |template| Ok(parse::parts(template)))?;
        let fields = write::Fields::of_span(months, days, nanoseconds);
        if parts.is_some_and(|parts| write::write(&fields, parts, &mut text).is_none()) {
            return value_err!(
                InvalidDatetimeFormat,
                "the template '{template}' asks for something that an interval has not"
            );
        }
        found.append_value(text);
    }
    Ok(Arc::new(found.finish()))
}

/// The digits of a number before and behind its point, rounded to so many behind it after it was multiplied by ten so
/// many times.
fn digits(text: &str, behind: usize, shifted: usize) -> (bool, String, String) {
    let (is_negative, bare) = text.strip_prefix('-').map_or((false, text), |bare| (true, bare));
    let (whole, fraction) = bare.split_once('.').unwrap_or((bare, ""));
    let mut whole = whole.to_string();
    let mut fraction = format!("{fraction:0<width$}", width = shifted + behind + 1);
    whole.push_str(&fraction[..shifted]);
    fraction.drain(..shifted);
    let up = fraction.as_bytes()[behind] >= b'5';
    fraction.truncate(behind);
    if up {
        let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let mut carries = true;
        for digit in all.iter_mut().rev() {
            match *digit {
                b'9' => *digit = b'0',
                _ => {
                    *digit += 1;
                    carries = false;
                    break;
                }
            }
        }
        let mut text: String = all.into_iter().map(char::from).collect();
        if carries {
            text.insert(0, '1');
        }
        fraction = text.split_off(text.len() - behind);
        whole = text;
    }
    (is_negative, whole, fraction)
}

fn numbers_to_char(values: &ArrayRef, templates: &StringViewArray) -> Result<ArrayRef> {
    let is_float = values.data_type().is_floating();
    let texts = texts_of(values)?;
    let floats = cast(values, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    let mut last = Last::new();
    let mut found = StringViewBuilder::new();
    for (row, template) in templates.iter().enumerate() {
        let Some(template) = template.filter(|_| texts.is_valid(row)) else {
            found.append_null();
            continue;
        };
        let parse = |template: &str| match number::Template::of(template) {
            Ok(parsed) => Ok(parsed),
            Err(why) => value_err!(SyntaxError, "the template '{template}' of a number: {why}"),
        };
        let Some(template) = last.of(template, parse)? else { continue };
        let value = floats.value(row);
        if is_float && !value.is_finite() {
            return value_err!(NumericValueOutOfRange, "to_char writes no {value} by a template");
        }
        let mut text = String::new();
        let (behind, shifted) = template.scales();
        if template.is_roman() {
            let rounded = value.round();
            template.write_roman((0.0..4000.0).contains(&rounded).then_some(rounded as u32), &mut text);
        } else if template.has_exponent() {
            let written = format!("{:.behind$e}", value.abs());
            let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
            template.write_exponent(value < 0.0, mantissa, exponent.parse().unwrap_or(0), &mut text);
        } else {
            let plain = match is_float {
                true => format!("{:.*}", behind + shifted, value),
                false => texts.value(row).to_string(),
            };
            let (is_negative, whole, fraction) = digits(&plain, behind, shifted);
            // An exact number that is rounded to zero has no sign.
            let is_zero = whole.bytes().chain(fraction.bytes()).all(|digit| digit == b'0');
            let is_negative = is_negative && (is_float || !is_zero);
            template.write(is_negative, &whole, &fraction, &mut text);
        }
        found.append_value(text);
    }
    Ok(Arc::new(found.finish()))
}

fn read_moment(text: &str, template: &str, last: &mut Last<Vec<parse::Part>>) -> Result<(NaiveDateTime, Option<i32>)> {
    let parts = last.of(template, |template| Ok(parse::parts(template)))?;
    match read::read(text, parts.map_or(&[], |parts| parts.as_slice())) {
        Ok(moment) => Ok(moment),
        Err(why) => value_err!(InvalidDatetimeFormat, "'{text}' cannot be read by the template '{template}': {why}"),
    }
}

fn to_date(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, templates) = (texts_of(&columns[0])?, texts_of(&columns[1])?);
    let mut last = Last::new();
    let mut found = Date32Builder::new();
    for (text, template) in texts.iter().zip(&templates) {
        let (Some(text), Some(template)) = (text, template) else {
            found.append_null();
            continue;
        };
        let (moment, _) = read_moment(text, template, &mut last)?;
        found.append_value(moment.date().num_days_from_ce() - NaiveDate::default().num_days_from_ce());
    }
    Ok(Arc::new(found.finish()))
}

fn to_number(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, templates) = (texts_of(&columns[0])?, texts_of(&columns[1])?);
    let mut found = StringViewBuilder::new();
    for (text, template) in texts.iter().zip(&templates) {
        let (Some(text), Some(template)) = (text, template) else {
            found.append_null();
            continue;
        };
        let read = number::Template::of(template).map(|template| template.read(text));
        match read {
            Ok(Some(number)) => found.append_value(number),
            Ok(None) => {
                return value_err!(
                    InvalidTextRepresentation,
                    "'{text}' cannot be read as a number by the template '{template}'"
                );
            }
            Err(why) => return value_err!(SyntaxError, "the template '{template}' of a number: {why}"),
        }
    }
    let found: ArrayRef = Arc::new(found.finish());
    reading::read(&found, &ANY_DIGITS, false).map_err(Error::into_datafusion)
}

/// Seconds since 1970 that are a time of ours; DataFusion takes the last one for those that are beyond it.
fn fits_nanoseconds(seconds: &ArrayRef) -> Result<()> {
    const LAST: f64 = 9_223_372_036.0;
    for value in cast(seconds, &DataType::Float64)?.as_primitive::<Float64Type>().iter().flatten() {
        if value.is_nan() {
            return value_err!(DatetimeFieldOverflow, "timestamp cannot be NaN");
        }
        if value.abs() > LAST {
            return value_err!(
                DatetimeFieldOverflow,
                "{value} seconds since 1970 are no time that TIMESTAMP has room for"
            );
        }
    }
    Ok(())
}

/// `to_timestamp`: DataFusion's, but for a text with a template.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    known: Arc<ScalarUDF>,
}

/// The instants of seconds since 1970, which no clock has a part in.
fn of_seconds(mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let to = args.return_field.data_type().clone();
    let local = DataType::Timestamp(TimeUnit::Nanosecond, None);
    args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(local));
    let found = datetime::to_timestamp(&ConfigOptions::default()).inner().invoke_with_args(args)?;
    match &to {
        DataType::Timestamp(unit, Some(_)) => {
            found.cast_to(&DataType::Timestamp(*unit, Some("+00:00".into())), None)?.cast_to(&to, None)
        }
        _ => found.cast_to(&to, None),
    }
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.inner().return_type(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let known = self.known.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(ToTimestamp { known: Arc::new(known) }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        if let ([value], [of]) = (args.args.as_slice(), types.as_slice())
            && of.is_numeric()
        {
            fits_nanoseconds(&value.to_array(args.number_rows)?)?;
            return of_seconds(args);
        }
        if types.len() != 2 || !types.iter().all(is_text) {
            return self.known.inner().invoke_with_args(args);
        }
        let to = args.return_field.data_type().clone();
        let zone = match &to {
            DataType::Timestamp(_, zone) => zone.as_deref().map(Tz::from_str).transpose()?,
            _ => None,
        };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let (texts, templates) = (texts_of(&columns[0])?, texts_of(&columns[1])?);
        let mut last = Last::new();
        let mut found = TimestampNanosecondBuilder::new();
        for (text, template) in texts.iter().zip(&templates) {
            let (Some(text), Some(template)) = (text, template) else {
                found.append_null();
                continue;
            };
            let (moment, offset) = read_moment(text, template, &mut last)?;
            let utc = match (offset, &zone) {
                (Some(seconds), _) => moment.checked_sub_signed(chrono::TimeDelta::seconds(seconds.into())),
                (None, Some(zone)) => zone.from_local_datetime(&moment).earliest().map(|local| local.naive_utc()),
                (None, None) => Some(moment),
            };
            match utc.and_then(|utc| utc.and_utc().timestamp_nanos_opt()) {
                Some(value) => found.append_value(value),
                None => return value_err!(DatetimeFieldOverflow, "'{text}' is no time that TIMESTAMP has room for"),
            }
        }
        let found: ArrayRef = Arc::new(found.finish());
        let utc = cast(&found, &DataType::Timestamp(TimeUnit::Nanosecond, zone.map(|_| "+00:00".into())))?;
        let found = cast(&utc, &to)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
