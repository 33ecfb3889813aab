//! COPY's text and CSV: lines cut out of what arrives, values out of lines, and back.

use super::options::{CopyFormat, CopyOptions};
use crate::fault::{Fault, codes};
use crate::values::read;

/// How long a row may be.
const ROW_MAX: usize = 64 << 20;

fn bad(message: impl Into<String>) -> Fault {
    Fault::new(codes::BAD_COPY_FILE_FORMAT, message)
}

/// Rows of text or CSV, as their bytes arrive.
#[derive(Debug)]
pub struct RowReader {
    options: CopyOptions,
    buffer: Vec<u8>,
    /// What lies before it was given.
    start: usize,
    /// What lies before it holds no end of the row.
    scanned: usize,
    in_quotes: bool,
    /// The line on which the next row begins.
    line: u64,
    /// Ends of lines within the row.
    lines_within: u64,
    has_ended: bool,
}

/// A row's values, and the line that it begins on.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its values; `None` for NULL.
    pub values: Vec<Option<String>>,
    /// Counted from 1.
    pub line: u64,
}

impl RowReader {
    /// Nothing has arrived yet.
    pub fn new(options: CopyOptions) -> RowReader {
        RowReader {
            options,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            in_quotes: false,
            line: 1,
            lines_within: 0,
            has_ended: false,
        }
    }

    /// Bytes arrive. Rows that are whole have to be taken first.
    ///
    /// # Errors
    /// A row is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.len() + bytes.len() > ROW_MAX + bytes.len().min(ROW_MAX) {
            return Err(Fault::new(codes::LIMIT_EXCEEDED, format!("a row of COPY is longer than {ROW_MAX} bytes")));
        }
        self.buffer.extend(bytes);
        Ok(())
    }

    /// The next row that is whole; at the `end` also one without the end of a line.
    ///
    /// # Errors
    /// It is not as the format has it.
    pub fn next(&mut self, end: bool) -> Result<Option<Row>, Fault> {
        if self.has_ended {
            // What stands behind the mark of the end is left out, as PostgreSQL does.
            self.start = self.buffer.len();
            self.scanned = self.start;
            return Ok(None);
        }
        let Some((row_end, next)) = self.row_end(end) else { return Ok(None) };
        if end && row_end == self.start && next == row_end {
            return Ok(None);
        }
        let line = self.line;
        let bytes = &self.buffer[self.start..row_end];
        let parsed = match (bytes == b"\\.", self.options.format) {
            (true, _) => None,
            (_, CopyFormat::Csv) => Some(self.csv(bytes)),
            _ => Some(self.text(bytes)),
        };
        self.start = next;
        self.scanned = next;
        self.line += self.lines_within + 1;
        self.lines_within = 0;
        self.in_quotes = false;
        match parsed {
            None => {
                self.has_ended = true;
                Ok(None)
            }
            Some(values) => Ok(Some(Row { values: values?, line })),
        }
    }

    /// The line that was read last.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Where the row ends, and where the next one begins.
    fn row_end(&mut self, end: bool) -> Option<(usize, usize)> {
        let is_csv = self.options.format == CopyFormat::Csv;
        let (quote, escape) = (self.options.quote, self.options.escape);
        while let Some(&byte) = self.buffer.get(self.scanned) {
            let at = self.scanned;
            let next = self.buffer.get(at + 1).copied();
            let is_open = next.is_none() && !end;
            if is_csv {
                if self.in_quotes && byte == escape && escape != quote {
                    if is_open {
                        return None;
                    }
                    self.scanned += if next.is_some_and(|next| next == quote || next == escape) { 2 } else { 1 };
                    continue;
                }
                if byte == quote {
                    self.in_quotes = !self.in_quotes;
                }
            } else if byte == b'\\' {
                if is_open {
                    return None;
                }
                self.lines_within += u64::from(next == Some(b'\n'));
                self.scanned += 2;
                continue;
            }
            match byte {
                b'\n' | b'\r' if is_csv && self.in_quotes => self.lines_within += u64::from(byte == b'\n'),
                b'\n' => return Some((at, at + 1)),
                b'\r' if is_open => return None,
                b'\r' => return Some((at, at + 1 + usize::from(next == Some(b'\n')))),
                _ => {}
            }
            self.scanned += 1;
        }
        self.scanned = self.scanned.min(self.buffer.len());
        end.then_some((self.buffer.len(), self.buffer.len()))
    }

    fn text(&self, line: &[u8]) -> Result<Vec<Option<String>>, Fault> {
        let mut values = Vec::new();
        let mut rest = line;
        loop {
            let mut at = 0;
            while at < rest.len() && rest[at] != self.options.delimiter {
                at += if rest[at] == b'\\' { 2 } else { 1 };
            }
            let at = at.min(rest.len());
            let raw = &rest[..at];
            values.push(match raw == self.options.null.as_bytes() {
                true => None,
                false => Some(read::text(&unescaped(raw))?.to_string()),
            });
            match rest.get(at + 1..) {
                Some(behind) if at < rest.len() => rest = behind,
                _ => return Ok(values),
            }
        }
    }

    fn csv(&self, line: &[u8]) -> Result<Vec<Option<String>>, Fault> {
        let CopyOptions { delimiter, quote, escape, null, .. } = &self.options;
        let mut values = Vec::new();
        let mut value = Vec::new();
        let (mut was_quoted, mut in_quotes, mut at) = (false, false, 0);
        loop {
            let byte = line.get(at).copied();
            match byte {
                None if in_quotes => return Err(bad("unterminated CSV quoted field")),
                Some(byte) if in_quotes => {
                    let next = line.get(at + 1).copied();
                    if byte == *escape && next.is_some_and(|next| next == *quote || next == *escape) {
                        value.extend(next);
                        at += 1;
                    } else if byte == *quote {
                        in_quotes = false;
                    } else {
                        value.push(byte);
                    }
                }
                Some(byte) if byte == *quote => (was_quoted, in_quotes) = (true, true),
                Some(byte) if byte != *delimiter => value.push(byte),
                _ => {
                    let is_null = !was_quoted && value == null.as_bytes();
                    values.push(if is_null { None } else { Some(read::text(&value)?.to_string()) });
                    if byte.is_none() {
                        return Ok(values);
                    }
                    value.clear();
                    was_quoted = false;
                }
            }
            at += 1;
        }
    }
}

/// The bytes that a value of COPY's text stands for.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        let Some(escaped) = bytes.next() else {
            value.push(b'\\');
            break;
        };
        let mut digits = |first: u32, most: usize, radix: u32| {
            let mut sum = first;
            for _ in 0..most {
                let digit = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix));
                let Some(digit) = digit else { break };
                sum = sum * radix + digit;
                bytes.next();
            }
            sum as u8
        };
        value.push(match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => digits(u32::from(escaped - b'0'), 2, 8),
            b'x' if raw.is_empty() => b'x',
            b'x' => match bytes.peek().and_then(|byte| char::from(*byte).to_digit(16)) {
                Some(first) => {
                    bytes.next();
                    let second = bytes.peek().and_then(|byte| char::from(*byte).to_digit(16));
                    if second.is_some() {
                        bytes.next();
                    }
                    second.map_or(first, |second| first * 16 + second) as u8
                }
                None => b'x',
            },
            other => other,
        });
    }
    value
}

/// A value, `None` for NULL, as COPY writes it.
pub fn write_value(value: Option<&[u8]>, is_only: bool, options: &CopyOptions, to: &mut Vec<u8>) {
    let Some(value) = value else { return to.extend(options.null.bytes()) };
    if options.format == CopyFormat::Csv {
        let special =
            |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(*byte, b'\n' | b'\r');
        let is_end = is_only && value == b"\\.";
        if value != options.null.as_bytes() && !is_end && !value.iter().any(special) {
            return to.extend(value);
        }
        to.push(options.quote);
        for &byte in value {
            if byte == options.quote || byte == options.escape {
                to.push(options.escape);
            }
            to.push(byte);
        }
        to.push(options.quote);
        return;
    }
    for &byte in value {
        let escaped = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if other == options.delimiter => other,
            other => {
                to.push(other);
                continue;
            }
        };
        to.extend([b'\\', escaped]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{CopyStatement, copy_statement};
    use super::*;

    fn options(text: &str) -> CopyOptions {
        let CopyStatement { options, .. } = copy_statement(&format!("COPY t FROM STDIN {text}")).unwrap().unwrap();
        options
    }

    /// The rows of data that arrives in pieces of a length.
    fn rows(of: &str, data: &[u8], length: usize) -> Result<Vec<Row>, Fault> {
        let mut reader = RowReader::new(options(of));
        let mut rows = Vec::new();
        for piece in data.chunks(length) {
            reader.push(piece)?;
            while let Some(row) = reader.next(false)? {
                rows.push(row);
            }
        }
        while let Some(row) = reader.next(true)? {
            rows.push(row);
        }
        Ok(rows)
    }

    fn values(of: &str, data: &str) -> Vec<Vec<Option<String>>> {
        let whole = rows(of, data.as_bytes(), usize::MAX).unwrap();
        for length in [1, 2, 3, 7] {
            assert_eq!(rows(of, data.as_bytes(), length).unwrap(), whole, "{length} of {data:?}");
        }
        whole.into_iter().map(|row| row.values).collect()
    }

    fn some(all: &[&str]) -> Vec<Option<String>> {
        all.iter().map(|text| (*text != "NULL").then(|| (*text).to_string())).collect()
    }

    #[test]
    fn text_is_read_in_whatever_pieces_it_comes() {
        assert_eq!(values("", "1\ta\n2\t\\N\n"), [some(&["1", "a"]), some(&["2", "NULL"])]);
        assert_eq!(values("", "a\\tb\\\\\\x41\\101\\.\t\n\t"), [some(&["a\tb\\AA.", ""]), some(&["", ""])]);
        assert_eq!(values("", "a\\\nb\r\nc"), [some(&["a\nb"]), some(&["c"])]);
        assert_eq!(values("", "1\n\\.\n2\n"), [some(&["1"])]);
        assert_eq!(values("", ""), Vec::<Vec<Option<String>>>::new());
        assert_eq!(values("", "\n"), [some(&[""])]);
    }

    #[test]
    fn csv_is_read_in_whatever_pieces_it_comes() {
        assert_eq!(
            values("csv", "1,\"a,\"\"b\n\",\"\",\n2,x\"y,z\"w,,\n"),
            [some(&["1", "a,\"b\n", "", "NULL"]), some(&["2", "xy,zw", "NULL", "NULL"])]
        );
        assert_eq!(values("(format csv, escape E'\\\\')", "\"a\\\"b\\\\\",c\r\n"), [some(&["a\"b\\", "c"])]);
        assert_eq!(rows("csv", b"\"a\n\nb\"\nc\n", 2).unwrap()[1].line, 4);
        assert!(rows("csv", b"\"a\n", 9).is_err() && rows("csv", b"\xff\n", 9).is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        for of in ["", "csv", "csv delimiter ';' quote '''' escape '!' null 'no'", "delimiter '|' null ''"] {
            let of_data = options(of);
            let all = ["a", "", "\\N", "x\ty\n\"q\"\r\u{8}\\", "no", ";|'!,", "\\."];
            let mut data = Vec::new();
            for value in all {
                for column in [Some(value.as_bytes()), None] {
                    write_value(column, false, &of_data, &mut data);
                    data.push(of_data.delimiter);
                }
                data.pop();
                data.push(b'\n');
            }
            // A text of nothing is NULL where that is written as nothing.
            let expected = all.map(|value| {
                let is_null = value.is_empty() && of.contains("null ''");
                vec![(!is_null).then(|| value.to_string()), None]
            });
            assert_eq!(values(of, std::str::from_utf8(&data).unwrap()), expected, "{of}");
        }
    }
}
