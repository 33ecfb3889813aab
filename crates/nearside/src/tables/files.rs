//! Files as tables: `SELECT .. FROM 'lineitem.parquet'` and external tables. Each statement reads them anew, piece by
//! piece, on workers.
//!
//! # Limits
//! Columns that are not asked for are not decoded; filters are evaluated after reading.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use exec::{ExecError, RowPieces, RowSource};
use files::{FileFormat, FileSet, Producer, ReadOptions};
use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Files behind a path, folder or glob.
#[derive(Debug)]
pub(crate) struct FileTable {
    path: String,
    options: ReadOptions,
    schema: SchemaRef,
    rows: u64,
    bytes: u64,
}

impl FileTable {
    /// Finds the files and their columns.
    pub(crate) fn open(path: &str, options: &ReadOptions) -> Result<FileTable> {
        let files = FileSet::open(path, options)?;
        Ok(FileTable {
            path: path.into(),
            options: options.clone(),
            schema: Arc::clone(files.schema()),
            rows: files.row_estimate(),
            bytes: files.total_bytes(),
        })
    }

    /// Names and types of the columns.
    pub(crate) fn columns(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// True for names that can only mean files: they hold a separator or wildcard, or end like a file we read.
    pub(crate) fn looks_like_path(name: &str) -> bool {
        name.contains(['/', '*', '?']) || FileFormat::from_path(Path::new(name)).is_some()
    }
}

impl RowSource for FileTable {
    fn describe(&self) -> String {
        format!("file '{}'", self.path)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn bytes(&self) -> u64 {
        // However short a file is, reading it may take long: not on the client's thread.
        self.bytes.max(READ_BYTES_MIN)
    }

    fn open(&self, columns: &[usize], threads: usize) -> Result<Box<dyn RowPieces>, ExecError> {
        // Rows can only be counted by reading some column.
        let read = if columns.is_empty() { &[0][..] } else { columns };
        let mut options = self.options.clone();
        options.columns = Some(read.iter().map(|&i| self.schema.field(i).name().clone()).collect());
        let files = sched::blocking(|| FileSet::open(&self.path, &options)).map_err(failed)?;
        let types = |schema: &Schema| schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        let expected = self.schema.project(read)?;
        if types(files.schema()) != types(&expected) {
            return Err(ExecError::Evaluation(format!(
                "the columns of '{}' changed while the statement was planned; run it again",
                self.path
            )));
        }
        let producers = files.producers(threads).into_iter().map(Mutex::new).collect();
        Ok(Box::new(FilePieces { producers, no_columns: columns.is_empty() }))
    }
}

/// What reading files counts as at least, in bytes: more than what a client's own thread runs.
const READ_BYTES_MIN: u64 = 1 << 20;

struct FilePieces {
    producers: Vec<Mutex<Producer>>,
    no_columns: bool,
}

impl RowPieces for FilePieces {
    fn pieces(&self) -> usize {
        self.producers.len()
    }

    fn next(&self, piece: usize) -> Result<Option<RecordBatch>, ExecError> {
        let Some(batch) = self.producers[piece].lock().next() else { return Ok(None) };
        let batch = batch.map_err(failed)?;
        if !self.no_columns {
            return Ok(Some(batch));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?))
    }
}

fn failed(error: impl Into<Error>) -> ExecError {
    ExecError::Expression(Box::new(error.into()))
}
