//! Reads a CSV file, or a range of its records, as batches.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Fields as SchemaFields, SchemaRef};

use super::Dialect;
use super::columns::{Fields, Misfit, readable};
use super::infer::pending_text;
use super::records::{Records, next_records};
use crate::error::{FileError, FileErrorKind, arrow_text, quoted};
use crate::producer::{Batches, Progress};
use crate::text::{TextBuffer, TextSource};

/// Text per batch, at most about; wide rows get fewer rows per batch.
const BATCH_BYTES: usize = 8 << 20;

/// What is read of one file.
#[derive(Debug, Clone)]
pub(crate) struct CsvPlan {
    pub dialect: Dialect,
    /// Fields per record.
    pub width: usize,
    /// The columns of the result.
    pub schema: SchemaRef,
    /// Which field of a record each of them is.
    pub positions: Vec<usize>,
    /// Which of them have types that were inferred from a part of the file: errors then say so.
    pub inferred: Vec<bool>,
    pub batch_rows: usize,
    /// Where data begins in the file; a piece that starts at 0 reads the header too.
    pub data_start: u64,
}

impl CsvPlan {
    /// Refuses types that no text can be read as.
    pub(crate) fn check_types(file: &Path, fields: &SchemaFields) -> Result<(), FileError> {
        match fields.iter().find(|f| !readable(f.data_type())) {
            None => Ok(()),
            Some(field) => {
                let message = format!("text cannot be read as {}; give another type", field.data_type());
                Err(FileError::new(FileErrorKind::Options, message).at(file).column(field.name()))
            }
        }
    }
}

/// The batches of `source`, which must start at a record (or at the file's start, where a header may stand).
pub(crate) fn read(source: &TextSource, plan: Arc<CsvPlan>, progress: Option<Progress>) -> Result<Batches, FileError> {
    let mut buffer = source.open(progress)?;
    let at_start = source.range.as_ref().is_none_or(|r| r.start == 0);
    if plan.dialect.header && at_start {
        let header = next_records(&mut buffer, &plan.dialect, None, 1, usize::MAX)?;
        buffer.consume(header.bytes);
    }
    let mut reader = Reader { buffer, plan };
    Ok(Box::new(std::iter::from_fn(move || reader.advance().transpose())))
}

struct Reader {
    buffer: TextBuffer,
    plan: Arc<CsvPlan>,
}

impl Reader {
    fn advance(&mut self) -> Result<Option<RecordBatch>, FileError> {
        loop {
            let plan = &self.plan;
            let records =
                next_records(&mut self.buffer, &plan.dialect, Some(plan.width), plan.batch_rows, BATCH_BYTES)?;
            if records.bytes == 0 {
                return Ok(None);
            }
            if records.rows == 0 {
                self.buffer.consume(records.bytes);
                continue;
            }
            self.buffer.check_utf8(records.bytes)?;
            let batch = self.batch(&records)?;
            self.buffer.consume(records.bytes);
            return Ok(Some(batch));
        }
    }

    fn batch(&mut self, records: &Records) -> Result<RecordBatch, FileError> {
        let plan = Arc::clone(&self.plan);
        let mut columns = Vec::with_capacity(plan.positions.len());
        for (i, position) in plan.positions.iter().enumerate() {
            let text = pending_text(&self.buffer, records.bytes)?;
            let fields = Fields { text, records, dialect: &plan.dialect, column: *position };
            match fields.build(plan.schema.field(i).data_type()) {
                Ok(column) => columns.push(column),
                Err(misfit) => return Err(self.misfit(records, i, &misfit)),
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(records.rows));
        RecordBatch::try_new_with_options(Arc::clone(&plan.schema), columns, &options)
            .map_err(|e| FileError::corrupt(self.buffer.path(), "CSV", arrow_text(&e)))
    }

    fn misfit(&mut self, records: &Records, column: usize, misfit: &Misfit) -> FileError {
        let field = self.plan.schema.field(column);
        let what = type_words(field.data_type());
        let message = if self.plan.inferred[column] {
            format!(
                "{} is not {what}, which is what the beginning of the file held here; give the column its type in the \
                 load options, for example {:?} as text",
                quoted(&misfit.value),
                field.name()
            )
        } else {
            format!(
                "{} is not {what}, the type given for the column; correct the value or give another type",
                quoted(&misfit.value)
            )
        };
        records
            .error_at(&mut self.buffer, misfit.row, self.plan.positions[column], FileErrorKind::Value, message)
            .column(field.name())
            .value(&misfit.value)
    }
}

fn type_words(t: &DataType) -> String {
    match t {
        DataType::Boolean => "a boolean".to_string(),
        DataType::Int64 => "a 64-bit integer".to_string(),
        DataType::Float64 => "a number".to_string(),
        DataType::Date32 => "a date (YYYY-MM-DD)".to_string(),
        DataType::Timestamp(_, None) => "a timestamp (YYYY-MM-DD HH:MM:SS)".to_string(),
        DataType::Timestamp(_, Some(_)) => "a timestamp with a zone".to_string(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            format!("a decimal of {p} digits, {s} of them after the point")
        }
        other => format!("of type {other}"),
    }
}
