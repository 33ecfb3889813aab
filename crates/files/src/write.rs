//! Writes one file in any of the formats.
//!
//! Invariant: the target appears whole or not at all. Bytes go to a hidden file beside it, which takes the target's
//! name when [`FileWriter::finish`] has put all of it on disk and disappears when the writer is dropped before.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter as IpcWriter, IpcWriteOptions};
use arrow::json::writer::{LineDelimited, Writer as JsonWriter, WriterBuilder as JsonWriterBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as ParquetCompression, ZstdLevel};

use crate::csv::CsvEncoder;
use crate::error::{FileError, FileErrorKind, arrow_text, parquet_text};
use crate::format::{Compression, FileFormat};
use crate::options::WriteOptions;
use crate::parquet_bytes::parquet_writer;
use crate::producer::caught;
use crate::surface::check_names;

/// What a finished file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteReport {
    /// Rows written.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
}

/// Starts writing `path`. Without a compression, text is compressed as its name says (`.gz`, `.zst`), Parquet with
/// zstd, Arrow IPC not at all.
///
/// # Errors
/// The folder cannot be written to, the compression is none of the format's, two columns have one name, or the format
/// has no place for a column's type.
pub fn write(
    path: &Path,
    format: FileFormat,
    compression: Option<Compression>,
    options: &WriteOptions,
    schema: &SchemaRef,
) -> Result<FileWriter, FileError> {
    options.check(format)?;
    check_names(path, schema.fields().iter().map(|f| f.name().as_str()))?;
    let compression = choose_compression(path, format, compression)?;
    let delimiter = options.delimiter.unwrap_or(format.delimiter());
    let (target, temporary, file) = create(path)?;
    // From here on, dropping the writer removes the temporary file.
    let mut writer = FileWriter {
        shown: path.to_path_buf(),
        target,
        temporary,
        schema: Arc::clone(schema),
        rows: 0,
        sink: Sink::Closed,
    };
    let out = BufWriter::with_capacity(1 << 20, file);
    writer.sink = guarded(path, || match format {
        FileFormat::Parquet => parquet_sink(path, out, compression, options, schema),
        FileFormat::ArrowIpc => ipc_sink(path, out, compression, schema),
        FileFormat::JsonLines => {
            let out = Output::new(out, compression).map_err(|e| FileError::writing(path, &e))?;
            // NULLs are spelled out, or a column of nothing else would be lost.
            Ok(Sink::Json(Box::new(JsonWriterBuilder::new().with_explicit_nulls(true).build(out))))
        }
        FileFormat::Csv | FileFormat::Tsv => {
            let fail = |e: io::Error| FileError::writing(path, &e);
            let mut out = Output::new(out, compression).map_err(fail)?;
            let mut encoder = CsvEncoder::new(delimiter, &options.null);
            if options.header {
                encoder.header(schema, &mut out).map_err(fail)?;
            }
            Ok(Sink::Csv(encoder, Box::new(out)))
        }
    })?;
    Ok(writer)
}

/// A file that is being written. Dropping it before [`FileWriter::finish`] leaves nothing behind.
pub struct FileWriter {
    /// The path as the caller gave it, for errors.
    shown: PathBuf,
    target: PathBuf,
    /// `None` when the target is no regular file (a pipe, `/dev/null`) and is written to at once.
    temporary: Option<PathBuf>,
    schema: SchemaRef,
    rows: u64,
    sink: Sink,
}

enum Sink {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Csv(CsvEncoder, Box<Output>),
    Json(Box<JsonWriter<Output, LineDelimited>>),
    /// With the schema as it is stored.
    Ipc(Box<IpcWriter<BufWriter<File>>>, SchemaRef),
    Closed,
}

impl FileWriter {
    /// Appends the rows of `batch`, whose columns must have the schema's types.
    ///
    /// # Errors
    /// The columns do not match, a value cannot be written, or the disk refuses.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        let types = batch.columns().iter().map(|c| c.data_type());
        if !types.eq(self.schema.fields().iter().map(|f| f.data_type())) {
            let message = "a batch has other column types than the file that is being written";
            return Err(FileError::new(FileErrorKind::Write, message).at(&self.shown));
        }
        let path = &self.shown;
        let sink = &mut self.sink;
        let schema = &self.schema;
        guarded(path, || match sink {
            Sink::Parquet(writer) => {
                let batch = with_schema(batch, schema).map_err(|e| write_error(path, &arrow_text(&e)))?;
                writer.write(&batch).map_err(|e| write_error(path, &parquet_text(&e)))
            }
            Sink::Csv(encoder, out) => encoder.batch(batch, out).map_err(|e| write_error(path, &arrow_text(&e))),
            Sink::Json(writer) => {
                let batch = with_schema(batch, schema).map_err(|e| write_error(path, &arrow_text(&e)))?;
                writer.write(&batch).map_err(|e| write_error(path, &arrow_text(&e)))
            }
            Sink::Ipc(writer, stored) => {
                let batch = compact(batch, stored).map_err(|e| write_error(path, &arrow_text(&e)))?;
                writer.write(&batch).map_err(|e| write_error(path, &arrow_text(&e)))
            }
            Sink::Closed => Err(write_error(path, "it is closed")),
        })?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Writes what is left, puts the file on disk and gives it its name.
    ///
    /// # Errors
    /// The disk refuses; the target is then as it was before.
    pub fn finish(mut self) -> Result<WriteReport, FileError> {
        let sink = std::mem::replace(&mut self.sink, Sink::Closed);
        let path = &self.shown;
        let io_fail = |e: io::Error| FileError::writing(path, &e);
        let out = guarded(path, || match sink {
            Sink::Parquet(writer) => writer.into_inner().map_err(|e| write_error(path, &parquet_text(&e))),
            Sink::Csv(_, out) => out.finish().map_err(io_fail),
            Sink::Json(mut writer) => {
                writer.finish().map_err(|e| write_error(path, &arrow_text(&e)))?;
                writer.into_inner().finish().map_err(io_fail)
            }
            Sink::Ipc(mut writer, _) => {
                writer.finish().map_err(|e| write_error(path, &arrow_text(&e)))?;
                writer.into_inner().map_err(|e| write_error(path, &arrow_text(&e)))
            }
            Sink::Closed => Err(write_error(path, "it is closed")),
        })?;
        let file = out.into_inner().map_err(|e| io_fail(e.into_error()))?;
        let bytes = file.metadata().map_err(io_fail)?.len();
        if let Some(temporary) = self.temporary.take() {
            // Without the sync, a crash could leave the new name with nothing behind it.
            let placed = file.sync_all().and_then(|()| std::fs::rename(&temporary, &self.target));
            if let Err(e) = placed {
                self.temporary = Some(temporary);
                return Err(io_fail(e));
            }
        }
        Ok(WriteReport { rows: self.rows, bytes })
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        self.sink = Sink::Closed;
        if let Some(temporary) = &self.temporary {
            // Nothing can be done about a failure here; the hidden name keeps it out of folders that are read.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter").field("target", &self.target).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Runs an encoder of other people's: where it panics on what it cannot encode, that becomes an error.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    caught(work).unwrap_or_else(|text| Err(write_error(path, &text)))
}

fn write_error(path: &Path, text: &str) -> FileError {
    FileError::new(FileErrorKind::Write, format!("cannot be written: {text}")).at(path)
}

fn choose_compression(path: &Path, format: FileFormat, given: Option<Compression>) -> Result<Compression, FileError> {
    use Compression as C;
    let allowed: &[C] = match format {
        FileFormat::Parquet => &[C::None, C::Gzip, C::Zstd, C::Snappy],
        FileFormat::ArrowIpc => &[C::None, C::Zstd, C::Lz4],
        _ => &[C::None, C::Gzip, C::Zstd],
    };
    let chosen = given.unwrap_or_else(|| match format {
        FileFormat::Parquet => C::Zstd,
        FileFormat::ArrowIpc => C::None,
        _ => C::from_path(path),
    });
    if allowed.contains(&chosen) {
        return Ok(chosen);
    }
    let names: Vec<String> = allowed.iter().map(C::to_string).collect();
    let message = format!("{format} files cannot be compressed with {chosen}; use {}", names.join(", "));
    Err(FileError::new(FileErrorKind::Options, message).at(path))
}

/// The real target, the temporary file's name (if there is one) and the opened file.
fn create(path: &Path) -> Result<(PathBuf, Option<PathBuf>, File), FileError> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let fail = |e: io::Error| FileError::writing(path, &e);
    // A link is written through, not replaced.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(metadata) = std::fs::metadata(&target) {
        if metadata.is_dir() {
            let message = "is a folder; give the name of a file in it";
            return Err(FileError::new(FileErrorKind::Write, message).at(path));
        }
        if !metadata.is_file() {
            let file = OpenOptions::new().write(true).open(&target).map_err(fail)?;
            return Ok((target, None, file));
        }
    }
    let Some(name) = target.file_name().map(|n| n.to_string_lossy().into_owned()) else {
        return Err(FileError::new(FileErrorKind::Write, "is not the name of a file").at(path));
    };
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = target.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(fail)?;
    Ok((target, Some(temporary), file))
}

fn parquet_sink(
    path: &Path,
    out: BufWriter<File>,
    compression: Compression,
    options: &WriteOptions,
    schema: &SchemaRef,
) -> Result<Sink, FileError> {
    let compression = match compression {
        Compression::Gzip => ParquetCompression::GZIP(Default::default()),
        Compression::Zstd => ParquetCompression::ZSTD(ZstdLevel::default()),
        Compression::Snappy => ParquetCompression::SNAPPY,
        _ => ParquetCompression::UNCOMPRESSED,
    };
    let writer = parquet_writer(out, compression, Some(options.row_group_rows), schema);
    Ok(Sink::Parquet(Box::new(writer.map_err(|error| error.at(path))?)))
}

fn ipc_sink(
    path: &Path,
    out: BufWriter<File>,
    compression: Compression,
    schema: &SchemaRef,
) -> Result<Sink, FileError> {
    let kind = match compression {
        Compression::Zstd => Some(CompressionType::ZSTD),
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        _ => None,
    };
    let stored: Vec<Field> = schema
        .fields()
        .iter()
        .map(|f| match f.data_type() {
            DataType::Utf8View => f.as_ref().clone().with_data_type(DataType::LargeUtf8),
            DataType::BinaryView => f.as_ref().clone().with_data_type(DataType::LargeBinary),
            _ => f.as_ref().clone(),
        })
        .collect();
    let stored = Arc::new(Schema::new(stored));
    let fail = |e: ArrowError| write_error(path, &arrow_text(&e));
    let options = IpcWriteOptions::default().try_with_compression(kind).map_err(fail)?;
    let writer = IpcWriter::try_new_with_options(out, &stored, options).map_err(fail)?;
    Ok(Sink::Ipc(Box::new(writer), stored))
}

/// The batch with the file's names: queries may carry others for the same columns.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())
}

/// The batch with views replaced by what `stored` says: a view array writes all its buffers, also what no row of a
/// filtered batch refers to.
fn compact(batch: &RecordBatch, stored: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch
        .columns()
        .iter()
        .zip(stored.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast_with_options(column, field.data_type(), &options),
        })
        .collect::<Result<Vec<_>, ArrowError>>()?;
    RecordBatch::try_new(Arc::clone(stored), columns)
}

/// Text on its way to a file, compressed or not.
enum Output {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn new(out: BufWriter<File>, compression: Compression) -> io::Result<Output> {
        Ok(match compression {
            Compression::Gzip => Output::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Output::Zstd(zstd::stream::write::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?),
            _ => Output::Plain(out),
        })
    }

    fn finish(self) -> io::Result<BufWriter<File>> {
        match self {
            Output::Plain(out) => Ok(out),
            Output::Gzip(out) => out.finish(),
            Output::Zstd(out) => out.finish(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(out) => out.write(data),
            Output::Gzip(out) => out.write(data),
            Output::Zstd(out) => out.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(out) => out.flush(),
            Output::Gzip(out) => out.flush(),
            Output::Zstd(out) => out.flush(),
        }
    }
}
