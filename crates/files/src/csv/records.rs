//! Cuts text into records and fields without copying.

use super::Dialect;
use crate::error::{FileError, FileErrorKind};
use crate::text::{RECORD_BYTES_MAX, TextBuffer, find_byte, find_either};

/// How a field stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Plain,
    Quoted,
    /// Quoted, with doubled quotes inside.
    Escaped,
}

/// A field's bytes, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
    pub kind: FieldKind,
}

impl Span {
    fn new(start: usize, end: usize, kind: FieldKind) -> Span {
        // Callers keep what is pending below 4 GiB.
        Span { start: start as u32, end: end as u32, kind }
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The field's text, unescaped into `scratch` if need be.
    pub(super) fn text<'a>(self, text: &'a str, quote: u8, scratch: &'a mut String) -> &'a str {
        let raw = &text[self.range()];
        if self.kind != FieldKind::Escaped {
            return raw;
        }
        scratch.clear();
        let quote = quote as char;
        let mut rest = raw;
        while let Some(at) = rest.find(quote) {
            scratch.push_str(&rest[..=at]);
            // Quotes are ASCII and stand in pairs here, by how the field's end was found.
            rest = &rest[(at + 2).min(rest.len())..];
        }
        scratch.push_str(rest);
        scratch
    }
}

/// What is wrong with a record, and where.
enum Fault {
    Unclosed(usize),
    AfterQuote(usize),
}

/// Reads the fields of the record at `at` into `spans` and returns where the next one starts; `None`, and `spans` as
/// they were, if `data` ends within the record and more may come.
fn record(
    dialect: &Dialect,
    data: &[u8],
    at: usize,
    ended: bool,
    spans: &mut Vec<Span>,
) -> Result<Option<usize>, Fault> {
    let before = spans.len();
    let next = fields(dialect, data, at, ended, spans)?;
    if next.is_none() {
        spans.truncate(before);
    }
    Ok(next)
}

fn fields(
    dialect: &Dialect,
    data: &[u8],
    mut at: usize,
    ended: bool,
    spans: &mut Vec<Span>,
) -> Result<Option<usize>, Fault> {
    loop {
        if dialect.quote.is_some() && data.get(at).copied() == dialect.quote {
            let Some((span, after)) = quoted(dialect, data, at, ended)? else {
                return Ok(None);
            };
            spans.push(span);
            match data.get(after) {
                None => return Ok(Some(after)),
                Some(&b) if b == dialect.delimiter => at = after + 1,
                Some(b'\n') => return Ok(Some(after + 1)),
                Some(b'\r') => match data.get(after + 1) {
                    Some(b'\n') => return Ok(Some(after + 2)),
                    None if ended => return Ok(Some(after + 1)),
                    None => return Ok(None),
                    Some(_) => return Err(Fault::AfterQuote(after)),
                },
                Some(_) => return Err(Fault::AfterQuote(after)),
            }
            continue;
        }
        match find_either(data, at, dialect.delimiter, b'\n') {
            Some(end) if data[end] != b'\n' => {
                spans.push(Span::new(at, end, FieldKind::Plain));
                at = end + 1;
            }
            Some(end) => {
                spans.push(Span::new(at, trim_return(data, at, end), FieldKind::Plain));
                return Ok(Some(end + 1));
            }
            None if ended => {
                spans.push(Span::new(at, trim_return(data, at, data.len()), FieldKind::Plain));
                return Ok(Some(data.len()));
            }
            None => return Ok(None),
        }
    }
}

fn trim_return(data: &[u8], start: usize, end: usize) -> usize {
    if end > start && data[end - 1] == b'\r' { end - 1 } else { end }
}

/// The quoted field that opens at `at`, and what follows its closing quote.
fn quoted(dialect: &Dialect, data: &[u8], at: usize, ended: bool) -> Result<Option<(Span, usize)>, Fault> {
    let quote = dialect.quote.unwrap_or(b'"');
    let mut kind = FieldKind::Quoted;
    let mut from = at + 1;
    loop {
        let Some(close) = find_byte(data, from, quote) else {
            return if ended { Err(Fault::Unclosed(at)) } else { Ok(None) };
        };
        match data.get(close + 1) {
            Some(&b) if b == quote => {
                kind = FieldKind::Escaped;
                from = close + 2;
            }
            None if !ended => return Ok(None),
            _ => return Ok(Some((Span::new(at + 1, close, kind), close + 1))),
        }
    }
}

/// The records of a run of text: fields row by row, all of one width.
pub(super) struct Records {
    pub spans: Vec<Span>,
    pub width: usize,
    pub rows: usize,
    /// Bytes of the buffer that they take.
    pub bytes: usize,
}

impl Records {
    /// An error about the field of `row` and `column`.
    pub(super) fn error_at(
        &self,
        buffer: &mut TextBuffer,
        row: usize,
        column: usize,
        kind: FileErrorKind,
        message: String,
    ) -> FileError {
        let span = self.spans[row * self.width + column];
        buffer.error_at(span.start as usize, kind, message)
    }
}

/// Reads on until `rows_max` records or about `bytes_max` bytes are complete, or the text ends. All records must have
/// `width` fields, or, without one, as many as the first. The caller consumes `Records::bytes` when it is done.
pub(super) fn next_records(
    buffer: &mut TextBuffer,
    dialect: &Dialect,
    width: Option<usize>,
    rows_max: usize,
    bytes_max: usize,
) -> Result<Records, FileError> {
    let mut records = Records { spans: Vec::new(), width: width.unwrap_or(0), rows: 0, bytes: 0 };
    records.spans.reserve(records.width * rows_max.min(4096));
    while records.rows < rows_max && records.bytes < bytes_max {
        let before = records.spans.len();
        if records.bytes >= buffer.pending().len() {
            if buffer.ended() {
                break;
            }
            buffer.fill()?;
            continue;
        }
        let step = record(dialect, buffer.pending(), records.bytes, buffer.ended(), &mut records.spans);
        match step {
            Ok(Some(next)) => {
                let start = records.bytes;
                let fields = records.spans.len() - before;
                let blank = fields == 1 && next > start && {
                    let only = records.spans[before];
                    only.kind == FieldKind::Plain && only.is_empty()
                };
                if blank && records.width != 1 {
                    records.spans.truncate(before);
                } else if records.width == 0 {
                    records.width = fields;
                    records.rows += 1;
                } else if fields != records.width {
                    return Err(wrong_width(buffer, start, records.width, fields));
                } else {
                    records.rows += 1;
                }
                records.bytes = next;
            }
            Ok(None) => {
                if buffer.pending().len() - records.bytes > RECORD_BYTES_MAX {
                    let message =
                        format!("the record is longer than {} MiB; is a quote left open here?", RECORD_BYTES_MAX >> 20);
                    return Err(buffer.error_at(records.bytes, FileErrorKind::Record, message));
                }
                buffer.fill()?;
            }
            Err(fault) => return Err(explain(buffer, dialect, &fault)),
        }
    }
    Ok(records)
}

fn explain(buffer: &mut TextBuffer, dialect: &Dialect, fault: &Fault) -> FileError {
    match *fault {
        Fault::Unclosed(at) => {
            let message = "a quote opens here and is never closed";
            buffer.error_at(at, FileErrorKind::Record, message)
        }
        Fault::AfterQuote(at) => {
            let delimiter = match dialect.delimiter {
                b'\t' => "a tab".to_string(),
                other => format!("{:?}", other as char),
            };
            let message = format!(
                "a quoted field goes on after its closing quote; a quote inside a quoted field must be doubled, and \
                 {delimiter} must follow its end"
            );
            buffer.error_at(at, FileErrorKind::Record, message)
        }
    }
}

fn wrong_width(buffer: &mut TextBuffer, start: usize, expected: usize, found: usize) -> FileError {
    let fields = |n: usize| {
        if n == 1 { "1 field".to_string() } else { format!("{n} fields") }
    };
    let message = format!("expected {}, found {found}", fields(expected));
    buffer.error_at(start, FileErrorKind::Record, message)
}
