//! Parquet and Arrow IPC: pieces, surface types, schemas of several files.

use std::sync::atomic::{AtomicU64, Ordering};

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow::datatypes::Int32Type;
use arrow::ipc::writer::StreamWriter;

use super::*;

fn put_parquet(path: &Path, batch: &RecordBatch, group_rows: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn row_groups_are_read_in_pieces_and_in_order() {
    let folder = Folder::new();
    let batch = every_type(1000);
    for name in ["a.parquet", "b.parquet"] {
        put_parquet(&folder.join(name), &batch, 70);
    }
    let told = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&told);
    let options = ReadOptions { batch_rows: 32, ..ReadOptions::default() };
    let set = open(folder.path().to_str().unwrap(), &options).with_progress(Arc::new(move |bytes| {
        sum.fetch_add(bytes, Ordering::Relaxed);
    }));
    assert_eq!(set.row_estimate(), 2000);
    let both = concat_batches(set.schema(), [&batch, &batch]).unwrap();
    for (parallelism, pieces) in [(1, 2), (2, 8), (100, 30)] {
        told.store(0, Ordering::Relaxed);
        assert_eq!(set.producers(parallelism).len(), pieces);
        assert_eq!(rows_of(&set, parallelism).unwrap(), both);
        assert_eq!(told.load(Ordering::Relaxed), set.total_bytes());
    }
    let options = ReadOptions { columns: Some(vec!["text".into(), "i8".into()]), ..ReadOptions::default() };
    let some = read(folder.path().to_str().unwrap(), &options).unwrap();
    assert_eq!(some, both.project(&[9, 1]).unwrap());
}

#[test]
fn file_types_become_surface_types_and_metadata_goes() {
    let folder = Folder::new();
    let words = ["x", "a longer text than fits inline", "x"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(words.to_vec())),
        Arc::new(LargeStringArray::from(words.to_vec())),
        Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(BinaryArray::from_iter_values(words)),
        Arc::new(LargeBinaryArray::from_iter_values(words)),
    ];
    let meta = std::collections::HashMap::from([("PARQUET:field_id".to_string(), "7".to_string())]);
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), false).with_metadata(meta.clone()))
        .collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, meta));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    put_parquet(&folder.join("a.parquet"), &batch, 2);
    let mut stream = StreamWriter::try_new(std::fs::File::create(folder.join("b.arrow")).unwrap(), &schema).unwrap();
    stream.write(&batch).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();
    for (name, rows) in [("a.parquet", 3), ("b.arrow", 6)] {
        let set = open(folder.join(name).to_str().unwrap(), &ReadOptions::default());
        assert_eq!(set.row_estimate(), rows, "{name}");
        let read = rows_of(&set, 2).unwrap();
        assert_eq!(read.num_rows() as u64, rows);
        assert!(read.schema().metadata().is_empty());
        for (i, field) in read.schema().fields().iter().enumerate() {
            let expected = if i < 3 { DataType::Utf8View } else { DataType::BinaryView };
            assert_eq!(field.data_type(), &expected, "{name} {i}");
            assert!(field.metadata().is_empty() && !field.is_nullable());
        }
        assert_eq!(texts(&read, "c2")[1].as_deref(), Some(words[1]));
    }
}

#[test]
fn several_files_agree_by_name_and_type() {
    let folder = Folder::new();
    let table = |columns: Vec<(&str, ArrayRef)>| RecordBatch::try_from_iter(columns).unwrap();
    let ints = || Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef;
    let words = || Arc::new(StringArray::from(vec![Some("p"), None])) as ArrayRef;
    put_parquet(&folder.join("1.parquet"), &table(vec![("i", ints()), ("s", words())]), 10);
    put_parquet(&folder.join("2.parquet"), &table(vec![("s", words()), ("i", ints())]), 10);
    let base = folder.path().to_str().unwrap();
    let batch = read(base, &ReadOptions::default()).unwrap();
    assert_eq!(texts(&batch, "i"), some(&["1", "2", "1", "2"]));
    assert_eq!(batch.schema().field(0).name(), "i");

    put_parquet(&folder.join("3.parquet"), &table(vec![("i", words()), ("s", words())]), 10);
    let error = FileSet::open(base, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("3.parquet, column \"i\": the type is Utf8View while it is Int32 in"), "{error}");
    assert!(error.contains("1.parquet"), "{error}");
    put_parquet(&folder.join("3.parquet"), &table(vec![("i", ints())]), 10);
    let error = FileSet::open(base, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("3.parquet, column \"s\": lacks the column \"s\" that"), "{error}");
}

#[test]
fn ipc_files_are_cut_between_batches() {
    let folder = Folder::new();
    let batches: Vec<RecordBatch> = (0..10).map(|i| every_type(20 + i)).collect();
    let whole = concat_batches(&batches[0].schema(), &batches).unwrap();
    for compression in [Compression::None, Compression::Zstd, Compression::Lz4] {
        let path = folder.join("t.arrow");
        let report = store(&path, FileFormat::ArrowIpc, Some(compression), &WriteOptions::default(), &batches);
        let options = ReadOptions { batch_rows: 15, ..ReadOptions::default() };
        let set = open(path.to_str().unwrap(), &options);
        assert_eq!(set.row_estimate(), report.rows);
        assert_eq!(set.producers(2).len(), 8);
        assert!(set.producers(2).into_iter().flatten().all(|b| b.unwrap().num_rows() <= 15));
        for parallelism in [1, 2, 9] {
            assert_eq!(rows_of(&set, parallelism).unwrap(), whole);
        }
    }
}

#[test]
fn tables_without_rows() {
    let folder = Folder::new();
    let empty = every_type(0);
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        let path = folder.join(&format!("t.{}", format.extension()));
        store(&path, format, None, &WriteOptions::default(), std::slice::from_ref(&empty));
        let set = open(path.to_str().unwrap(), &ReadOptions::default());
        assert_eq!(set.producers(4).len(), 1);
        assert_eq!(rows_of(&set, 4).unwrap(), empty);
    }
}
