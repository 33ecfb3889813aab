//! Files that are read together as one table: found, checked, and cut into producers.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use crate::csv::{self, CsvPlan, CsvShape, Dialect};
use crate::discover::discover;
use crate::error::{FileError, FileErrorKind, list_names};
use crate::format::{Compression, FileFormat};
use crate::ipc::IpcFile;
use crate::json;
use crate::options::ReadOptions;
use crate::parquet::ParquetFile;
use crate::producer::{Producer, Progress};
use crate::runs::{cut_runs, with_shares};
use crate::surface::{agree, project, surface_type};
use crate::text::TextSource;

/// CSV types are inferred from this much of each file at most, and of all files together.
const SAMPLE_BYTES_FILE: u64 = 32 << 20;
const SAMPLE_BYTES_ALL: u64 = 256 << 20;
/// A CSV file is not cut into pieces smaller than this.
const PIECE_BYTES_MIN: u64 = 8 << 20;
/// Pieces per thread: pieces take unequal time, and a thread that is done early should find another.
const PIECES_PER_THREAD: u64 = 4;

/// One file of a [`FileSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// How its text is compressed; `None` for Parquet and Arrow IPC, which compress within.
    pub compression: Compression,
}

/// What was learnt about the files when they were opened.
enum Contents {
    Csv { plans: Vec<Arc<CsvPlan>> },
    Json,
    Parquet(Vec<ParquetFile>),
    Ipc(Vec<IpcFile>),
}

/// Files of one format whose rows follow each other, with their common schema.
pub struct FileSet {
    format: FileFormat,
    files: Vec<SourceFile>,
    schema: SchemaRef,
    rows: u64,
    contents: Contents,
    batch_rows: usize,
    /// The least bytes per CSV piece; smaller in tests.
    piece_bytes_min: u64,
    progress: Option<Progress>,
}

impl FileSet {
    /// Opens what `path` means: a file, a folder (its files of known formats, sorted by name, hidden ones skipped) or a
    /// glob. Reads footers, infers the types of text files; no thread is started.
    ///
    /// # Errors
    /// Nothing matches, a file cannot be read or is damaged, formats are mixed, schemas disagree, or an option does
    /// not apply.
    pub fn open(path: &str, options: &ReadOptions) -> Result<FileSet, FileError> {
        let (paths, format) = discover(path, options.format)?;
        options.check(format)?;
        let files = paths.into_iter().map(|p| source_file(p, format, options)).collect::<Result<Vec<_>, _>>()?;
        let mut set = match format {
            FileFormat::Csv | FileFormat::Tsv => open_csv(format, files, options)?,
            FileFormat::JsonLines => open_json(files, options)?,
            FileFormat::Parquet => open_parquet(files, options)?,
            FileFormat::ArrowIpc => open_ipc(files, options)?,
        };
        set.batch_rows = options.batch_rows();
        Ok(set)
    }

    /// The same files, telling `progress` of the bytes consumed: calls add up to about [`FileSet::total_bytes`].
    pub fn with_progress(mut self, progress: Progress) -> FileSet {
        self.progress = Some(progress);
        self
    }

    /// The columns that batches have, as surface types, in the order of the first file or of the asked-for columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The files, in the order of their rows.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Their format.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// Their bytes on disk.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    /// How many rows there are: exact for Parquet, Arrow IPC and JSON lines, guessed from the beginning of large CSV
    /// files, and low for those of them that are compressed.
    pub fn row_estimate(&self) -> u64 {
        self.rows
    }

    /// Cuts the files into pieces for about `parallelism` threads. Concatenated in order, their batches are the files'
    /// rows. Large uncompressed CSV files are scanned once for where records begin.
    pub fn producers(&self, parallelism: usize) -> Vec<Producer> {
        let mut producers = Vec::new();
        for (i, file) in self.files.iter().enumerate() {
            let pieces = self.pieces_of(file, parallelism);
            match &self.contents {
                Contents::Csv { plans } => self.csv_producers(file, &plans[i], pieces, &mut producers),
                Contents::Json => {
                    let schema = Arc::clone(&self.schema);
                    let rows = self.batch_rows;
                    let progress = self.progress.clone();
                    let source = text_source(file, None);
                    producers.push(Producer::new(&file.path, file.bytes, move || {
                        json::read(&source, schema, rows, progress)
                    }));
                }
                Contents::Parquet(opened) => {
                    let runs = cut_runs(&opened[i].group_bytes(), pieces);
                    for (run, bytes) in with_shares(runs, &opened[i].group_bytes(), file.bytes) {
                        let opened = opened[i].clone();
                        let schema = Arc::clone(&self.schema);
                        let rows = self.batch_rows;
                        let progress = self.progress.clone();
                        producers.push(Producer::new(&file.path, bytes, move || {
                            opened.read(run, schema, rows, bytes, progress)
                        }));
                    }
                }
                Contents::Ipc(opened) => {
                    let sizes = opened[i].piece_bytes();
                    for (run, bytes) in with_shares(cut_runs(&sizes, pieces), &sizes, file.bytes) {
                        let opened = opened[i].clone();
                        let schema = Arc::clone(&self.schema);
                        let rows = self.batch_rows;
                        let progress = self.progress.clone();
                        producers.push(Producer::new(&file.path, bytes, move || {
                            opened.read(run, schema, rows, bytes, progress)
                        }));
                    }
                }
            }
        }
        producers
    }

    /// How many pieces a file should make: its share of all, at least one.
    fn pieces_of(&self, file: &SourceFile, parallelism: usize) -> usize {
        if parallelism <= 1 {
            return 1;
        }
        let wanted = u128::from(PIECES_PER_THREAD) * parallelism as u128;
        let share = (wanted * u128::from(file.bytes)).div_ceil(u128::from(self.total_bytes().max(1)));
        usize::try_from(share).unwrap_or(usize::MAX).max(1)
    }

    fn csv_producers(&self, file: &SourceFile, plan: &Arc<CsvPlan>, pieces: usize, producers: &mut Vec<Producer>) {
        let whole = file.compression != Compression::None;
        let most = usize::try_from(file.bytes / self.piece_bytes_min).unwrap_or(usize::MAX).max(1);
        let pieces = if whole { 1 } else { pieces.min(most) };
        let ranges = csv::split(&file.path, file.bytes, pieces, plan.data_start, &plan.dialect);
        // A file that cannot be scanned is read in one piece, which then tells why.
        let ranges: Vec<Option<Range<u64>>> = match ranges {
            Ok(ranges) if ranges.len() > 1 => ranges.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        for range in ranges {
            let bytes = range.as_ref().map_or(file.bytes, |r| r.end - r.start);
            let source = text_source(file, range);
            let plan = Arc::clone(plan);
            let progress = self.progress.clone();
            producers.push(Producer::new(&file.path, bytes, move || csv::read(&source, plan, progress)));
        }
    }

    #[cfg(test)]
    pub(crate) fn with_piece_bytes_min(mut self, bytes: u64) -> FileSet {
        self.piece_bytes_min = bytes;
        self
    }

    fn new(format: FileFormat, files: Vec<SourceFile>, fields: Fields, rows: u64, contents: Contents) -> FileSet {
        FileSet {
            format,
            files,
            schema: Arc::new(Schema::new(fields)),
            rows,
            contents,
            batch_rows: 0,
            piece_bytes_min: PIECE_BYTES_MIN,
            progress: None,
        }
    }
}

impl std::fmt::Debug for FileSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSet")
            .field("format", &self.format)
            .field("files", &self.files)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

fn source_file(path: PathBuf, format: FileFormat, options: &ReadOptions) -> Result<SourceFile, FileError> {
    let bytes = std::fs::metadata(&path).map_err(|e| FileError::reading(&path, &e))?.len();
    let compression = match options.compression {
        _ if !format.is_text() => Compression::None,
        Some(compression) => compression,
        None => Compression::of_file(&path)?,
    };
    Ok(SourceFile { path, bytes, compression })
}

fn text_source(file: &SourceFile, range: Option<Range<u64>>) -> TextSource {
    TextSource { path: file.path.clone(), compression: file.compression, range }
}

fn open_csv(format: FileFormat, files: Vec<SourceFile>, options: &ReadOptions) -> Result<FileSet, FileError> {
    let dialect = Dialect::new(format, options);
    let sample = (SAMPLE_BYTES_ALL / files.len() as u64).clamp(1 << 20, SAMPLE_BYTES_FILE);
    let mut shapes = Vec::with_capacity(files.len());
    for file in &files {
        shapes.push(csv::infer(&text_source(file, None), &dialect, sample)?);
    }
    let fields = csv_fields(&files, &shapes, options)?;
    let fields = project(&files[0].path, &fields, options.columns.as_deref())?;
    CsvPlan::check_types(&files[0].path, &fields)?;
    let schema = Arc::new(Schema::new(fields.clone()));
    let plans = shapes.iter().map(|shape| {
        let position = |f: &Arc<Field>| shape.names.iter().position(|n| n == f.name()).unwrap_or(0);
        let inferred = |f: &Arc<Field>| !options.types.iter().any(|(name, _)| name == f.name());
        Arc::new(CsvPlan {
            dialect: dialect.clone(),
            width: shape.names.len(),
            schema: Arc::clone(&schema),
            positions: fields.iter().map(position).collect(),
            inferred: fields.iter().map(inferred).collect(),
            batch_rows: options.batch_rows(),
            data_start: shape.data_start,
        })
    });
    let plans = plans.collect();
    let rows = files.iter().zip(&shapes).map(|(file, shape)| estimate_rows(file, shape)).sum();
    Ok(FileSet::new(format, files, fields, rows, Contents::Csv { plans }))
}

fn estimate_rows(file: &SourceFile, shape: &CsvShape) -> u64 {
    let bytes = if shape.whole { shape.bytes } else { file.bytes.max(shape.bytes) };
    (u128::from(shape.rows) * u128::from(bytes) / u128::from(shape.bytes.max(1))) as u64
}

/// The fields of all files: names by the first one, types that hold what was seen in any.
fn csv_fields(files: &[SourceFile], shapes: &[CsvShape], options: &ReadOptions) -> Result<Fields, FileError> {
    let first = &shapes[0];
    let named = |shape: &CsvShape| -> Fields {
        shape.names.iter().map(|n| Arc::new(Field::new(n, DataType::Utf8View, true))).collect()
    };
    let names: Vec<(&Path, Fields)> = files.iter().zip(shapes).map(|(f, s)| (f.path.as_path(), named(s))).collect();
    agree(&names)?;
    check_given(&files[0].path, &names[0].1, options)?;
    let field = |(i, name): (usize, &String)| {
        if let Some((_, given)) = options.types.iter().find(|(column, _)| column == name) {
            return Arc::new(Field::new(name, surface_type(given), true));
        }
        let mut guess = first.guesses[i];
        for other in &shapes[1..] {
            if let Some(at) = other.names.iter().position(|n| n == name) {
                guess.merge(other.guesses[at]);
            }
        }
        Arc::new(Field::new(name, guess.data_type(), true))
    };
    Ok(first.names.iter().enumerate().map(field).collect())
}

/// Refuses types given for columns that are not there.
fn check_given(file: &Path, fields: &Fields, options: &ReadOptions) -> Result<(), FileError> {
    for (column, _) in &options.types {
        if fields.find(column).is_none() {
            let names = list_names(fields.iter().map(|f| f.name().as_str()));
            let message = format!("a type is given for it and there is no such column; the columns are {names}");
            return Err(FileError::new(FileErrorKind::Options, message).at(file).column(column));
        }
    }
    Ok(())
}

fn open_json(files: Vec<SourceFile>, options: &ReadOptions) -> Result<FileSet, FileError> {
    let given: Vec<&str> = options.types.iter().map(|(name, _)| name.as_str()).collect();
    let mut root = json::Guess::default();
    let mut rows = 0;
    for (i, file) in files.iter().enumerate() {
        rows += json::infer(&text_source(file, None), i, &mut root, &given)?;
    }
    let first = &files[0].path;
    let paths: Vec<&Path> = files.iter().map(|f| f.path.as_path()).collect();
    let types: Vec<_> = options.types.iter().map(|(name, t)| (name.clone(), surface_type(t))).collect();
    let fields = root.fields(&types, options.columns.as_deref(), &paths)?;
    if fields.is_empty() {
        let message = "holds no JSON object, so its columns cannot be known";
        return Err(FileError::new(FileErrorKind::Schema, message).at(first));
    }
    check_given(first, &fields, options)?;
    let fields = project(first, &fields, options.columns.as_deref())?;
    json::check_types(first, &Arc::new(Schema::new(fields.clone())))?;
    Ok(FileSet::new(FileFormat::JsonLines, files, fields, rows, Contents::Json))
}

fn open_parquet(files: Vec<SourceFile>, options: &ReadOptions) -> Result<FileSet, FileError> {
    let opened = files.iter().map(|f| ParquetFile::open(&f.path)).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<(&Path, Fields)> = files.iter().zip(&opened).map(|(f, o)| (f.path.as_path(), o.fields())).collect();
    let fields = project(&files[0].path, &agree(&all)?, options.columns.as_deref())?;
    let rows = opened.iter().map(ParquetFile::rows).sum();
    Ok(FileSet::new(FileFormat::Parquet, files, fields, rows, Contents::Parquet(opened)))
}

fn open_ipc(files: Vec<SourceFile>, options: &ReadOptions) -> Result<FileSet, FileError> {
    let opened = files.iter().map(|f| IpcFile::open(&f.path)).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<(&Path, Fields)> =
        files.iter().zip(&opened).map(|(f, o)| (f.path.as_path(), o.fields().clone())).collect();
    let fields = project(&files[0].path, &agree(&all)?, options.columns.as_deref())?;
    let rows = opened.iter().map(IpcFile::rows).sum();
    Ok(FileSet::new(FileFormat::ArrowIpc, files, fields, rows, Contents::Ipc(opened)))
}
