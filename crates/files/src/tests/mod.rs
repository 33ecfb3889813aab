//! Tests of [`crate`]: round trips of every format, the error of every bad input, and pieces against the whole.

mod corrupt;
mod csv;
mod files;
mod json;
mod parquet;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::*;

/// A folder of files that goes away with the test.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        // Rewriting a file in place makes some file systems flush it, which tests with many files would wait for.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, content).expect("a file is written");
        path.to_str().expect("a UTF-8 path").to_string()
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

pub(super) fn open(path: &str, options: &ReadOptions) -> FileSet {
    FileSet::open(path, options).unwrap_or_else(|e| panic!("{e}"))
}

/// All rows of all producers, in order, as one batch.
pub(super) fn rows_of(set: &FileSet, parallelism: usize) -> Result<RecordBatch, FileError> {
    let mut batches = Vec::new();
    for producer in set.producers(parallelism) {
        for batch in producer {
            let batch = batch?;
            assert_eq!(&batch.schema(), set.schema());
            batches.push(batch);
        }
    }
    Ok(concat_batches(set.schema(), &batches).expect("batches of one schema"))
}

pub(super) fn read(path: &str, options: &ReadOptions) -> Result<RecordBatch, FileError> {
    rows_of(&FileSet::open(path, options)?, 1)
}

/// Reads a CSV text with the given options.
pub(super) fn csv(text: impl AsRef<[u8]>, options: &ReadOptions) -> Result<RecordBatch, FileError> {
    let folder = Folder::new();
    let path = folder.put("t.csv", text);
    read(&path, options).map_err(|mut e| {
        // Errors are compared by their text, which must not hold the folder's name.
        e.file = e.file.and_then(|f| f.file_name().map(PathBuf::from));
        e
    })
}

/// The error's sentence of reading a CSV text.
pub(super) fn csv_error(text: impl AsRef<[u8]>, options: &ReadOptions) -> String {
    match csv(text, options) {
        Ok(batch) => panic!("expected an error, got {batch:?}"),
        Err(e) => e.to_string(),
    }
}

/// The column as text, NULL as `None`.
pub(super) fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(name).unwrap_or_else(|| panic!("a column {name}"));
    let column = arrow::compute::cast(column, &DataType::Utf8).expect("a cast to text");
    column.as_string::<i32>().iter().map(|v| v.map(str::to_string)).collect()
}

pub(super) fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|v| Some(v.to_string())).collect()
}

/// A batch with a column of every type that tables have, NULLs in each.
pub(super) fn every_type(rows: usize) -> RecordBatch {
    let n = |i: usize| i % 7 != 3;
    let strings: StringViewArray = (0..rows)
        .map(|i| n(i).then(|| ["", "a", "quote \" here", "line\nend", "comma, and a long text"][i % 5]))
        .collect();
    let binary: BinaryViewArray = (0..rows).map(|i| n(i).then(|| vec![i as u8, 0xff, 0])).collect();
    let decimal: Decimal128Array = (0..rows).map(|i| n(i).then_some(i as i128 * 101 - 5000)).collect();
    let list = ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(
        (0..rows).map(|i| n(i).then(|| (0..i % 4).map(|x| Some(x as i32)).collect::<Vec<_>>())),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new((0..rows).map(|i| n(i).then_some(i % 2 == 0)).collect::<BooleanArray>())),
        ("i8", Arc::new((0..rows).map(|i| n(i).then_some(i as i8)).collect::<Int8Array>())),
        ("u16", Arc::new((0..rows).map(|i| n(i).then_some(i as u16)).collect::<UInt16Array>())),
        ("i64", Arc::new((0..rows).map(|i| n(i).then_some(i as i64 * -1_000_000_007)).collect::<Int64Array>())),
        ("f64", Arc::new((0..rows).map(|i| n(i).then_some(i as f64 / 3.0)).collect::<Float64Array>())),
        ("decimal", Arc::new(decimal.with_precision_and_scale(15, 2).expect("a precision"))),
        ("date", Arc::new((0..rows).map(|i| n(i).then_some(i as i32 * 31)).collect::<Date32Array>())),
        (
            "ts",
            Arc::new(
                (0..rows).map(|i| n(i).then_some(i as i64 * 86_399_123_456)).collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "tsz",
            Arc::new(
                (0..rows)
                    .map(|i| n(i).then_some(i as i64 * 3_600_000))
                    .collect::<TimestampMillisecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        ("text", Arc::new(strings)),
        ("bytes", Arc::new(binary)),
        ("list", Arc::new(list)),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, c)| c).collect()).expect("a batch")
}

pub(super) fn store(
    path: &Path,
    format: FileFormat,
    compression: Option<Compression>,
    options: &WriteOptions,
    batches: &[RecordBatch],
) -> WriteReport {
    let schema: SchemaRef = batches[0].schema();
    let mut writer = write(path, format, compression, options, &schema).unwrap_or_else(|e| panic!("{e}"));
    for batch in batches {
        writer.write(batch).unwrap_or_else(|e| panic!("{e}"));
    }
    writer.finish().unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn types_of(batch: &RecordBatch) -> Vec<(String, DataType)> {
    batch.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
}

pub(super) fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}
