//! How texts are read as values of other types, as PostgreSQL reads them. Every text that becomes a value is read here:
//! one that is written in a statement, a parameter's, and those of a column.
//!
//! Arrow reads most types as PostgreSQL does. Bytes are read by [`read_bytes`]; times and times of day are written anew
//! where Arrow would take them for something else, and then read by Arrow.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewBuilder};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::DataType;
use datafusion_common::{Result as DfResult, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use files::read_bytes;

use crate::error::codes::unreadable;
use crate::error::{Error, Result};

/// Whether texts are read as values of a type in another way than Arrow's.
pub(crate) fn is_read_here(to: &DataType) -> bool {
    use DataType as T;
    matches!(to, T::Binary | T::LargeBinary | T::BinaryView | T::Timestamp(..) | T::Time32(_) | T::Time64(_))
}

/// A text that Arrow reads as a time, or a time of day, as PostgreSQL reads this one; `None` where that is the text
/// itself, as it is for other types.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub(crate) fn for_arrow(text: &str, to: &DataType) -> Result<Option<String>, String> {
    match to {
        DataType::Timestamp(_, zone) => Ok(moment(text.trim(), zone.is_some())),
        DataType::Time32(_) | DataType::Time64(_) => time_of_day(text),
        _ => Ok(None),
    }
}

/// A time with seconds, and without an offset where it is to have no zone.
fn moment(text: &str, has_zone: bool) -> Option<String> {
    let (day, behind) = text.split_at_checked(10)?;
    let is_day = day.bytes().enumerate().all(|(at, c)| if at == 4 || at == 7 { c == b'-' } else { c.is_ascii_digit() });
    if !is_day {
        return None;
    }
    let from = usize::from(behind.starts_with([' ', 'T', 't']));
    let is_clock = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
    let clock = behind[from..].find(|c| !is_clock(c)).map_or(behind, |length| &behind[..from + length]);
    let offset = &behind[clock.len()..];
    let seconds = if is_short(&clock[from..]) { ":00" } else { "" };
    let kept = if has_zone || !is_offset(offset.trim()) { offset } else { "" };
    (!seconds.is_empty() || kept.len() < offset.len()).then(|| format!("{day}{clock}{seconds}{kept}"))
}

/// `10:00`.
fn is_short(clock: &str) -> bool {
    let shape = |(at, c): (usize, u8)| if at == 2 { c == b':' } else { c.is_ascii_digit() };
    clock.len() == 5 && clock.bytes().enumerate().all(shape)
}

/// `+02`, `-03:30`, `Z` or the name of a zone.
fn is_offset(text: &str) -> bool {
    let digits = |offset: &str| !offset.is_empty() && offset.bytes().all(|c| c.is_ascii_digit() || c == b':');
    matches!(text, "Z" | "z") || text.strip_prefix(['+', '-']).is_some_and(digits) || text.parse::<Tz>().is_ok()
}

/// Four digits are hours and minutes, six have seconds; Arrow takes any number for one of its units.
fn time_of_day(text: &str) -> Result<Option<String>, String> {
    let bare = text.trim();
    let digits = bare.strip_prefix(['+', '-']).unwrap_or(bare);
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Ok(None);
    }
    match bare.len() {
        4 if digits.len() == 4 => Ok(Some(format!("{}:{}:00", &bare[..2], &bare[2..]))),
        6 if digits.len() == 6 => Ok(Some(format!("{}:{}:{}", &bare[..2], &bare[2..4], &bare[4..]))),
        _ => Err(format!("'{text}' cannot be read as TIME; write hours, minutes and seconds, as in 10:30:00")),
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
    let all = texts.as_string_view();
    if !matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) {
        let mut rewritten = StringViewBuilder::with_capacity(all.len());
        for text in all {
            match text.map(|text| Ok::<_, String>(for_arrow(text, to)?.map_or(Cow::Borrowed(text), Cow::Owned))) {
                None => rewritten.append_null(),
                Some(Ok(text)) => rewritten.append_value(text),
                Some(Err(_)) if tries => rewritten.append_null(),
                Some(Err(message)) => return Err(Error::execution(unreadable(text.unwrap_or_default(), to), message)),
            }
        }
        return Ok(cast_with_options(&rewritten.finish(), to, &options)?);
    }
    let mut bytes = BinaryViewBuilder::with_capacity(all.len());
    for text in all {
        match text.map(read_bytes) {
            None => bytes.append_null(),
            Some(Ok(read)) => bytes.append_value(read),
            Some(Err(_)) if tries => bytes.append_null(),
            Some(Err(message)) => return Err(Error::execution(unreadable(text.unwrap_or_default(), to), message)),
        }
    }
    let bytes: ArrayRef = Arc::new(bytes.finish());
    Ok(cast(&bytes, to)?)
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
    use arrow::datatypes::TimeUnit;

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
        for wrong in ["2024-01-31 10:00 nowhere", "2024-01-31 1000", "10:00", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9} 10:00"] {
            assert!(read_one(wrong, &to).is_err(), "{wrong}");
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
