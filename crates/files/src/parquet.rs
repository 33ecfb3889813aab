//! Parquet files: schema, checks of the footer, and runs of row groups.
//!
//! Strings are decoded straight to views of the pages' buffers, dictionaries to their values. The footer is checked
//! against the file's length before anything is read by it.
//!
//! # Limits
//! A page may claim up to 2 GiB of uncompressed bytes, which is then reserved while it is decompressed. A schema nested
//! thousands of levels deep, which no writer makes, would exhaust the stack of the decoder.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use crate::error::{FileError, FileErrorKind, parquet_text};
use crate::producer::{Batches, Progress, guarded};
use crate::surface::{Adapter, check_names, surface_fields, surface_type};

const MAGIC: &[u8] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8] = b"PARE";

/// An opened Parquet file: its footer, decoded once for all producers.
#[derive(Clone)]
pub(crate) struct ParquetFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    /// Reads and checks the footer.
    pub(crate) fn open(path: &Path) -> Result<ParquetFile, FileError> {
        guarded(path, || {
            let file = File::open(path).map_err(|e| FileError::reading(path, &e))?;
            let bytes = file.metadata().map_err(|e| FileError::reading(path, &e))?.len();
            check_magic(path, bytes)?;
            let metadata = load(&file).map_err(|e| FileError::corrupt(path, "Parquet", parquet_text(&e)))?;
            check_footer(metadata.metadata(), bytes).map_err(|text| FileError::corrupt(path, "Parquet", text))?;
            check_names(path, metadata.schema().fields().iter().map(|f| f.name().as_str()))?;
            Ok(ParquetFile { path: path.to_path_buf(), metadata })
        })
    }

    /// Its columns as surface types.
    pub(crate) fn fields(&self) -> Fields {
        surface_fields(self.metadata.schema().fields())
    }

    pub(crate) fn rows(&self) -> u64 {
        self.group_rows().sum()
    }

    fn group_rows(&self) -> impl Iterator<Item = u64> + '_ {
        self.metadata.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0))
    }

    /// Compressed bytes of each row group.
    pub(crate) fn group_bytes(&self) -> Vec<u64> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|g| u64::try_from(g.compressed_size()).unwrap_or(0)).collect()
    }

    /// The batches of consecutive row groups in the shape of `schema`.
    ///
    /// `bytes` is what the run counts for in progress.
    pub(crate) fn read(
        &self,
        groups: Range<usize>,
        schema: SchemaRef,
        batch_rows: usize,
        bytes: u64,
        progress: Option<Progress>,
    ) -> Result<Batches, FileError> {
        let file = File::open(&self.path).map_err(|e| FileError::reading(&self.path, &e))?;
        let fail = |e: ParquetError| FileError::corrupt(&self.path, "Parquet", parquet_text(&e));
        let own = self.metadata.schema();
        let roots: Vec<usize> = own
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| schema.fields().find(f.name()).is_some())
            .map(|(i, _)| i)
            .collect();
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), roots);
        let rows = self.group_rows().skip(groups.start).take(groups.len()).sum();
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .with_row_groups(groups.collect())
            .build()
            .map_err(fail)?;
        let progress = Share { progress, bytes, rows, bytes_told: 0 };
        Ok(Box::new(Reader { path: self.path.clone(), reader, adapter: Adapter::new(schema), rows_read: 0, progress }))
    }
}

fn check_magic(path: &Path, bytes: u64) -> Result<(), FileError> {
    use std::io::{Read, Seek, SeekFrom};
    let fail = |e: std::io::Error| FileError::reading(path, &e);
    let not_parquet = |message: &str| Err(FileError::new(FileErrorKind::Corrupt, message).at(path));
    if bytes < 12 {
        return not_parquet("is too short to be a Parquet file");
    }
    let mut file = File::open(path).map_err(fail)?;
    let mut head = [0u8; 4];
    let mut tail = [0u8; 4];
    file.read_exact(&mut head).map_err(fail)?;
    file.seek(SeekFrom::End(-4)).map_err(fail)?;
    file.read_exact(&mut tail).map_err(fail)?;
    if head == MAGIC_ENCRYPTED || tail == MAGIC_ENCRYPTED {
        let message = "is an encrypted Parquet file, which Nearside does not read; decrypt it first";
        return Err(FileError::new(FileErrorKind::Format, message).at(path));
    }
    match (head == MAGIC, tail == MAGIC) {
        (true, true) => Ok(()),
        (true, false) => {
            not_parquet("ends too early to be a Parquet file: its footer is missing, it seems to be truncated")
        }
        _ => not_parquet("is not a Parquet file; give its format if it has another"),
    }
}

/// The footer with surface types asked for. The Arrow schema that writers embed may be one that this decoder does not
/// understand; the Parquet schema alone is enough then.
fn load(file: &File) -> Result<ArrowReaderMetadata, ParquetError> {
    let loaded = match ArrowReaderMetadata::load(file, ArrowReaderOptions::new()) {
        Ok(loaded) => loaded,
        Err(_) => ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))?,
    };
    let surface = |f: &Arc<Field>| Arc::new(f.as_ref().clone().with_data_type(surface_type(f.data_type())));
    let fields: Fields = loaded.schema().fields().iter().map(surface).collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    // Where a type cannot be decoded to its surface at once, it is cast after decoding.
    Ok(ArrowReaderMetadata::try_new(Arc::clone(loaded.metadata()), options).unwrap_or(loaded))
}

/// Refuses row groups and column chunks that do not lie within the file.
fn check_footer(metadata: &ParquetMetaData, bytes: u64) -> Result<(), String> {
    for (g, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 || group.compressed_size() < 0 {
            return Err(format!("row group {g} has a negative size"));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(i64::MAX).min(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let within = start >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end <= bytes));
            if !within {
                let name = column.column_path().string();
                return Err(format!("row group {g} says that column {name} lies beyond the end of the file"));
            }
        }
    }
    Ok(())
}

struct Reader {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    adapter: Adapter,
    rows_read: u64,
    progress: Share,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(Ok(batch)) => {
                self.rows_read += batch.num_rows() as u64;
                self.progress.rows_done(self.rows_read);
                Some(self.adapter.adapt(&self.path, &batch))
            }
            Some(Err(e)) => Some(Err(FileError::corrupt(&self.path, "Parquet", super::error::arrow_text(&e)))),
            None if self.rows_read != self.progress.rows => {
                let text = format!("its footer promises {} rows and {} are there", self.progress.rows, self.rows_read);
                // Told once: the producer ends after an error.
                Some(Err(FileError::corrupt(&self.path, "Parquet", text)))
            }
            None => {
                self.progress.finished();
                None
            }
        }
    }
}

/// Progress of a piece whose bytes are not seen one by one: told in proportion to its rows.
pub(crate) struct Share {
    pub progress: Option<Progress>,
    pub bytes: u64,
    pub rows: u64,
    pub bytes_told: u64,
}

impl Share {
    pub(crate) fn rows_done(&mut self, rows: u64) {
        let done = (u128::from(self.bytes) * u128::from(rows.min(self.rows)) / u128::from(self.rows.max(1))) as u64;
        self.tell(done);
    }

    pub(crate) fn finished(&mut self) {
        self.tell(self.bytes);
    }

    fn tell(&mut self, done: u64) {
        if let (Some(progress), true) = (&self.progress, done > self.bytes_told) {
            progress(done - self.bytes_told);
            self.bytes_told = done;
        }
    }
}
