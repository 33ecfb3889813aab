//! A Parquet file as bytes that are taken while it is written, for whoever sends it somewhere.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::error::{FileError, FileErrorKind, parquet_text};
use crate::producer::caught;

/// How much of a file is held before it is written down.
const GROUP_BYTES: usize = 64 << 20;

/// Bytes that were written and are not taken yet.
#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
pub struct ParquetBytes {
    /// `None` once it has ended.
    writer: Option<ArrowWriter<Written>>,
    written: Written,
}

impl ParquetBytes {
    /// A file of these columns; two may have one name.
    ///
    /// # Errors
    /// Parquet has no place for a column's type.
    pub fn new(schema: &SchemaRef) -> Result<ParquetBytes, FileError> {
        if let Some(field) = schema.fields().iter().find(|field| has_interval(field.data_type())) {
            let message = format!("column '{}' has intervals, which Parquet has not; cast it to TEXT", field.name());
            return Err(FileError::new(FileErrorKind::Write, message));
        }
        let written = Written::default();
        let writer = parquet_writer(written.clone(), Compression::SNAPPY, None, schema)?;
        Ok(ParquetBytes { writer: Some(writer), written })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// A value that Parquet does not have.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        wrote(caught(|| {
            writer.write(batch)?;
            match writer.in_progress_size() > GROUP_BYTES {
                true => writer.flush(),
                false => Ok(()),
            }
        }))
    }

    /// Writes what stands at the end of a file.
    ///
    /// # Errors
    /// As [`ParquetBytes::write`].
    pub fn finish(&mut self) -> Result<(), FileError> {
        match self.writer.take() {
            Some(writer) => wrote(caught(|| writer.close().map(|_| ()))),
            None => Ok(()),
        }
    }

    /// Takes the bytes that were written since they were taken.
    pub fn take(&self, to: &mut Vec<u8>) {
        to.append(&mut self.written.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether values of a type are intervals, or hold some.
fn has_interval(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) => true,
        DataType::List(of) | DataType::LargeList(of) => has_interval(of.data_type()),
        DataType::Struct(fields) => fields.iter().any(|of| has_interval(of.data_type())),
        _ => false,
    }
}

fn wrote(written: Result<Result<(), ParquetError>, String>) -> Result<(), FileError> {
    let written = written.and_then(|written| written.map_err(|error| parquet_text(&error)));
    written.map_err(|text| FileError::new(FileErrorKind::Write, text))
}

/// A writer of Parquet, with as many rows to a group where that is said.
///
/// # Errors
/// Parquet has no place for a column's type.
pub(crate) fn parquet_writer<W: Write + Send>(
    out: W,
    compression: Compression,
    group_rows: Option<usize>,
    schema: &SchemaRef,
) -> Result<ArrowWriter<W>, FileError> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(group_rows)
        .set_created_by(format!("nearside {}", env!("CARGO_PKG_VERSION")));
    // The writer panics on types that it has no place for.
    let made = caught(|| ArrowWriter::try_new(out, Arc::clone(schema), Some(properties.build())));
    made.and_then(|made| made.map_err(|error| parquet_text(&error))).map_err(|text| {
        let message = format!("a column's type cannot be stored in Parquet, cast it in the query: {text}");
        FileError::new(FileErrorKind::Write, message)
    })
}
