//! Names and types of a CSV file's columns, from its header and its first records.

use arrow::array::timezone::Tz;
use arrow::array::types::{Date32Type, Float64Type};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, TimeUnit};

use super::Dialect;
use super::records::{FieldKind, Records, next_records};
use crate::error::{FileError, FileErrorKind};
use crate::surface::check_names;
use crate::text::{TextBuffer, TextSource};

/// Records looked at per step.
const STEP_ROWS: usize = 4096;

/// The kinds of values that a column was seen to hold, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Guess(u16);

impl Guess {
    const BOOL: u16 = 1;
    const INT: u16 = 2;
    /// An integer beyond 64 bits.
    const HUGE: u16 = 4;
    const FLOAT: u16 = 8;
    const DATE: u16 = 16;
    const MICROS: u16 = 32;
    const NANOS: u16 = 64;
    /// With a zone.
    const MICROS_ZONED: u16 = 128;
    const NANOS_ZONED: u16 = 256;
    const TEXT: u16 = 512;

    /// Adds a value that is neither NULL nor empty.
    pub(crate) fn add(&mut self, value: &str) {
        if self.0 & Guess::TEXT == 0 {
            self.0 |= classify(value.trim_ascii());
        }
    }

    pub(crate) fn merge(&mut self, other: Guess) {
        self.0 |= other.0;
    }

    /// The narrowest type that holds all that was seen: integers widen to floats, dates to timestamps, all to text.
    pub(crate) fn data_type(self) -> DataType {
        const DATES: u16 = Guess::DATE | Guess::MICROS;
        const DATES_NANOS: u16 = DATES | Guess::NANOS;
        const ZONED: u16 = Guess::MICROS_ZONED;
        const ZONED_NANOS: u16 = ZONED | Guess::NANOS_ZONED;
        const NUMBERS: u16 = Guess::INT | Guess::HUGE | Guess::FLOAT;
        let within = |set: u16| self.0 & !set == 0;
        let utc = || Some("UTC".into());
        match self.0 {
            0 => DataType::Utf8View,
            Guess::BOOL => DataType::Boolean,
            Guess::INT => DataType::Int64,
            Guess::DATE => DataType::Date32,
            // Without a float among them, digits beyond 64 bits are names rather than amounts: keep them all.
            set if within(NUMBERS) && set & Guess::FLOAT != 0 => DataType::Float64,
            _ if within(DATES) => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ if within(DATES_NANOS) => DataType::Timestamp(TimeUnit::Nanosecond, None),
            _ if within(ZONED) => DataType::Timestamp(TimeUnit::Microsecond, utc()),
            _ if within(ZONED_NANOS) => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
            _ => DataType::Utf8View,
        }
    }
}

/// Which kind of value `value` is. Says a kind only if the column builder of the kind's type reads the value.
fn classify(value: &str) -> u16 {
    let bytes = value.as_bytes();
    let Some(&first) = bytes.first() else {
        return Guess::TEXT;
    };
    let unsigned = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) {
        return if value.parse::<i64>().is_ok() { Guess::INT } else { Guess::HUGE };
    }
    if bytes.len() >= 10 && first.is_ascii_digit() && bytes[4] == b'-' && bytes[7] == b'-' {
        return classify_time(value);
    }
    match first {
        b'0'..=b'9' | b'-' | b'.' if unsigned.first().is_some_and(|b| b.is_ascii_digit() || *b == b'.') => {
            if Float64Type::parse(value).is_some() {
                Guess::FLOAT
            } else {
                Guess::TEXT
            }
        }
        b't' | b'T' | b'f' | b'F' if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => {
            Guess::BOOL
        }
        _ if matches!(value, "NaN" | "nan" | "inf" | "-inf") => Guess::FLOAT,
        _ => Guess::TEXT,
    }
}

fn classify_time(value: &str) -> u16 {
    let bytes = value.as_bytes();
    if bytes.len() == 10 {
        return if Date32Type::parse(value).is_some() { Guess::DATE } else { Guess::TEXT };
    }
    let clock = bytes.len() >= 19 && matches!(bytes[10], b' ' | b'T') && bytes[13] == b':' && bytes[16] == b':';
    if !clock {
        return Guess::TEXT;
    }
    let utc: Tz = match "+00:00".parse() {
        Ok(utc) => utc,
        Err(_) => return Guess::TEXT,
    };
    let Ok(time) = string_to_datetime(&utc, value) else {
        return Guess::TEXT;
    };
    let rest = &bytes[19..];
    let (digits, zone) = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            (digits, &fraction[digits..])
        }
        None => (0, rest),
    };
    match (digits, zone.is_empty()) {
        (0..=6, true) => Guess::MICROS,
        (0..=6, false) => Guess::MICROS_ZONED,
        (7..=9, _) if time.timestamp_nanos_opt().is_none() => Guess::TEXT,
        (7..=9, true) => Guess::NANOS,
        (7..=9, false) => Guess::NANOS_ZONED,
        _ => Guess::TEXT,
    }
}

/// What one file's beginning says about its columns.
#[derive(Debug, Clone)]
pub(crate) struct CsvShape {
    pub names: Vec<String>,
    pub guesses: Vec<Guess>,
    /// Rows and bytes that were looked at.
    pub rows: u64,
    pub bytes: u64,
    /// Whether that was the whole file.
    pub whole: bool,
    /// Where the records of data begin in the uncompressed text: after the header, if there is one.
    pub data_start: u64,
}

/// Looks at about the first `bytes_max` bytes of a file.
pub(crate) fn infer(source: &TextSource, dialect: &Dialect, bytes_max: u64) -> Result<CsvShape, FileError> {
    let mut buffer = source.open(None)?;
    let mut shape = CsvShape { names: Vec::new(), guesses: Vec::new(), rows: 0, bytes: 0, whole: false, data_start: 0 };
    let first = next_records(&mut buffer, dialect, None, 1, usize::MAX)?;
    if first.rows == 0 {
        let message = if dialect.header {
            "the file is empty: it has no header line to name its columns"
        } else {
            "the file is empty, so its columns cannot be known"
        };
        return Err(FileError::new(FileErrorKind::Schema, message).at(&source.path));
    }
    buffer.check_utf8(first.bytes)?;
    shape.names = names(&buffer, &first, dialect)?;
    shape.guesses = vec![Guess::default(); shape.names.len()];
    check_names(&source.path, shape.names.iter().map(String::as_str))?;
    if dialect.header {
        shape.data_start = (buffer.bom_bytes() + first.bytes) as u64;
        buffer.consume(first.bytes);
    }
    let width = shape.names.len();
    loop {
        let records = next_records(&mut buffer, dialect, Some(width), STEP_ROWS, 1 << 20)?;
        if records.bytes == 0 {
            shape.whole = true;
            return Ok(shape);
        }
        buffer.check_utf8(records.bytes)?;
        look(&buffer, &records, dialect, &mut shape.guesses)?;
        shape.rows += records.rows as u64;
        shape.bytes += records.bytes as u64;
        buffer.consume(records.bytes);
        if shape.bytes >= bytes_max {
            return Ok(shape);
        }
    }
}

fn names(buffer: &TextBuffer, first: &Records, dialect: &Dialect) -> Result<Vec<String>, FileError> {
    let text = pending_text(buffer, first.bytes)?;
    let mut scratch = String::new();
    let name = |(i, span): (usize, &super::records::Span)| {
        let name = span.text(text, dialect.quote.unwrap_or(b'"'), &mut scratch).trim();
        if dialect.header && !name.is_empty() { name.to_string() } else { format!("column_{}", i + 1) }
    };
    Ok(first.spans.iter().enumerate().map(name).collect())
}

fn look(buffer: &TextBuffer, records: &Records, dialect: &Dialect, guesses: &mut [Guess]) -> Result<(), FileError> {
    let text = pending_text(buffer, records.bytes)?;
    let mut scratch = String::new();
    for row in records.spans.chunks_exact(records.width) {
        for (span, guess) in row.iter().zip(guesses.iter_mut()) {
            let plain = span.kind == FieldKind::Plain;
            let raw = &text[span.range()];
            if raw.is_empty() || plain && (raw == dialect.null || raw.trim_ascii().is_empty()) {
                continue;
            }
            guess.add(span.text(text, dialect.quote.unwrap_or(b'"'), &mut scratch));
        }
    }
    Ok(())
}

/// The pending bytes before `end`, which were checked to be UTF-8.
pub(super) fn pending_text(buffer: &TextBuffer, end: usize) -> Result<&str, FileError> {
    std::str::from_utf8(&buffer.pending()[..end]).map_err(|e| FileError::corrupt(buffer.path(), "UTF-8 text", e))
}
