//! Decodes JSON lines to batches.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;

use crate::error::{FileError, FileErrorKind, arrow_text, shorten};
use crate::producer::{Batches, Progress};
use crate::text::{RECORD_BYTES_MAX, TextBuffer, TextSource, find_byte};

/// Text per batch, at most about.
const BATCH_BYTES: usize = 8 << 20;

/// A line within what is pending: its content and where the next one starts.
pub(super) struct Line {
    pub start: usize,
    pub end: usize,
    pub next: usize,
}

/// The line at `start`, reading on if need be; `None` at the text's end.
pub(super) fn next_line(buffer: &mut TextBuffer, start: usize) -> Result<Option<Line>, FileError> {
    let mut from = start;
    loop {
        let pending = buffer.pending();
        if let Some(end) = find_byte(pending, from, b'\n') {
            return Ok(Some(Line { start, end, next: end + 1 }));
        }
        if buffer.ended() {
            let end = pending.len();
            return Ok((end > start).then_some(Line { start, end, next: end }));
        }
        from = pending.len();
        if from - start > RECORD_BYTES_MAX {
            let message = format!("the line is longer than {} MiB", RECORD_BYTES_MAX >> 20);
            return Err(buffer.error_at(start, FileErrorKind::Record, message));
        }
        buffer.fill()?;
    }
}

/// Refuses given types that arrow-json cannot decode to.
pub(crate) fn check_types(file: &Path, schema: &SchemaRef) -> Result<(), FileError> {
    decoder(schema, 1).map(|_| ()).map_err(|e| {
        let message = format!("JSON cannot be read as one of the given types: {}", arrow_text(&e));
        FileError::new(FileErrorKind::Options, message).at(file)
    })
}

/// The batches of `source`.
pub(crate) fn read(
    source: &TextSource,
    schema: SchemaRef,
    batch_rows: usize,
    progress: Option<Progress>,
) -> Result<Batches, FileError> {
    let buffer = source.open(progress)?;
    let decoder =
        decoder(&schema, batch_rows).map_err(|e| FileError::corrupt(&source.path, "JSON lines", arrow_text(&e)))?;
    let mut reader = Reader { buffer, decoder, schema, batch_rows };
    Ok(Box::new(std::iter::from_fn(move || reader.advance().transpose())))
}

fn decoder(schema: &SchemaRef, batch_rows: usize) -> Result<Decoder, ArrowError> {
    // Columns that hold numbers in some lines and texts in others are text columns: numbers keep their spelling.
    ReaderBuilder::new(Arc::clone(schema)).with_batch_size(batch_rows).with_coerce_primitive(true).build_decoder()
}

struct Reader {
    buffer: TextBuffer,
    decoder: Decoder,
    schema: SchemaRef,
    batch_rows: usize,
}

impl Reader {
    fn advance(&mut self) -> Result<Option<RecordBatch>, FileError> {
        let mut at = 0;
        let mut rows = 0;
        while rows < self.batch_rows && at < BATCH_BYTES {
            let Some(line) = next_line(&mut self.buffer, at)? else {
                break;
            };
            let text = &self.buffer.pending()[line.start..line.end];
            if !text.trim_ascii().is_empty() {
                // The schema's inference saw that a line is one object; a file may have changed since.
                let decoded = self.decoder.decode(text);
                if let Err(e) = decoded {
                    return Err(self.error_at(line.start, &arrow_text(&e)));
                }
                rows += 1;
                if self.decoder.has_partial_record() || self.decoder.len() != rows {
                    return Err(self.error_at(line.start, "it is not one object"));
                }
            }
            at = line.next;
        }
        let batch = match self.decoder.flush() {
            Ok(batch) => batch,
            Err(e) => return Err(self.locate(at, &arrow_text(&e))),
        };
        self.buffer.consume(at);
        match batch {
            Some(batch) => Ok(Some(batch)),
            None if rows == 0 && at > 0 => self.advance(),
            None => Ok(None),
        }
    }

    /// Finds the line among the pending ones before `end` that does not decode, one by one.
    fn locate(&mut self, end: usize, text: &str) -> FileError {
        let mut at = 0;
        while at < end {
            let Ok(Some(line)) = next_line(&mut self.buffer, at) else {
                break;
            };
            for column in 0..self.schema.fields().len() {
                let Ok(one) = self.schema.project(&[column]) else {
                    continue;
                };
                let Ok(mut decoder) = decoder(&Arc::new(one), 1) else {
                    continue;
                };
                let text = &self.buffer.pending()[line.start..line.end];
                let Err(e) = decoder.decode(text).and_then(|_| decoder.flush()) else {
                    continue;
                };
                let name = self.schema.field(column).name().clone();
                let value = value_of(text, &name);
                let mut error = self.error_at(line.start, &arrow_text(&e)).column(&name);
                error.value = value;
                return error;
            }
            at = line.next;
        }
        self.error_at(0, text)
    }

    fn error_at(&mut self, offset: usize, text: &str) -> FileError {
        let message =
            format!("a value is not of its column's type: {}; give the column another type", shorten(text, 200));
        self.buffer.error_at(offset, FileErrorKind::Value, message)
    }
}

fn value_of(line: &[u8], name: &str) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(line).ok()?;
    object.get(name).map(|value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
