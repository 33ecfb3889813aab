//! Writes batches as CSV that [`super::read`] reads back: NULL is the unquoted null text, an empty text is quoted.

use std::io::{self, Write};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::bytes::texts_of_bytes;

/// Turns batches into CSV text.
pub(crate) struct CsvEncoder {
    delimiter: u8,
    null: String,
    line: Vec<u8>,
}

impl CsvEncoder {
    pub(crate) fn new(delimiter: u8, null: &str) -> CsvEncoder {
        CsvEncoder { delimiter, null: null.to_string(), line: Vec::new() }
    }

    /// Writes the line of column names.
    pub(crate) fn header(&mut self, schema: &Schema, out: &mut impl Write) -> io::Result<()> {
        self.line.clear();
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                self.line.push(self.delimiter);
            }
            self.field(field.name());
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }

    /// Writes the rows of `batch`.
    pub(crate) fn batch(&mut self, batch: &RecordBatch, out: &mut impl Write) -> Result<(), ArrowError> {
        // No null text here: NULL is told by the array, so that a value that looks like it can be quoted.
        let options = FormatOptions::default().with_display_error(false);
        let texts = |array: &ArrayRef| Ok(texts_of_bytes(array)?.unwrap_or_else(|| array.clone()));
        let arrays = batch.columns().iter().map(texts).collect::<Result<Vec<_>, ArrowError>>()?;
        let columns =
            arrays.iter().map(|array| Column::new(array, &options)).collect::<Result<Vec<_>, ArrowError>>()?;
        let mut scratch = String::new();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    self.line.push(self.delimiter);
                }
                if column.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    self.line.extend_from_slice(self.null.as_bytes());
                    continue;
                }
                match &column.values {
                    Values::Text(array) => self.field(array.as_string_view().value(row)),
                    Values::Formatted(formatter) => {
                        scratch.clear();
                        formatter.value(row).write(&mut scratch)?;
                        self.field(&scratch);
                    }
                }
            }
            self.line.push(b'\n');
            out.write_all(&self.line)?;
        }
        Ok(())
    }

    fn field(&mut self, text: &str) {
        let special = |b: &u8| *b == self.delimiter || matches!(b, b'"' | b'\n' | b'\r');
        if text != self.null && !text.is_empty() && !text.as_bytes().iter().any(special) {
            self.line.extend_from_slice(text.as_bytes());
            return;
        }
        // An empty text that is not the null text would read back as NULL in all but text columns; quoting it is right
        // for every null text.
        self.line.push(b'"');
        for byte in text.bytes() {
            if byte == b'"' {
                self.line.push(b'"');
            }
            self.line.push(byte);
        }
        self.line.push(b'"');
    }
}

struct Column<'a> {
    /// Also of types that keep their NULLs elsewhere than in a bitmap.
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    /// Needs no formatting.
    Text(&'a ArrayRef),
    Formatted(ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, options: &FormatOptions<'a>) -> Result<Column<'a>, ArrowError> {
        let values = match array.data_type() {
            DataType::Utf8View => Values::Text(array),
            _ => Values::Formatted(ArrayFormatter::try_new(array.as_ref(), options)?),
        };
        Ok(Column { nulls: array.logical_nulls(), values })
    }
}
