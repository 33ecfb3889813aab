//! Writers: what is written is read back, and failures leave nothing behind.

use arrow::compute::cast;

use super::*;

fn names_in(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_str().unwrap().to_string()).collect();
    names.sort();
    names
}

#[test]
fn binary_formats_round_trip() {
    let folder = Folder::new();
    let batches = [every_type(500), every_type(3), every_type(0)];
    let whole = concat_batches(&batches[0].schema(), &batches).unwrap();
    use Compression as C;
    for (format, compressions) in [
        (FileFormat::Parquet, &[C::None, C::Gzip, C::Zstd, C::Snappy][..]),
        (FileFormat::ArrowIpc, &[C::None, C::Zstd, C::Lz4]),
    ] {
        for compression in compressions {
            let path = folder.join(&format!("t.{}", format.extension()));
            let options = WriteOptions { row_group_rows: 100, ..WriteOptions::default() };
            let report = store(&path, format, Some(*compression), &options, &batches);
            assert_eq!(report, WriteReport { rows: 503, bytes: std::fs::metadata(&path).unwrap().len() });
            assert_eq!(read(path.to_str().unwrap(), &ReadOptions::default()).unwrap(), whole, "{format} {compression}");
        }
    }
    assert_eq!(names_in(&folder), ["t.arrow", "t.parquet"]);
}

/// Text has no types: columns are compared after a cast, and those that text cannot hold as they look.
fn assert_same_text(written: &RecordBatch, read: &RecordBatch) {
    assert_eq!(read.num_rows(), written.num_rows());
    for (field, column) in written.schema().fields().iter().zip(written.columns()) {
        let back = read.column_by_name(field.name()).unwrap();
        let (a, b) = match field.data_type() {
            DataType::List(_) | DataType::BinaryView => continue,
            t => (Arc::clone(column), cast(back, t).unwrap()),
        };
        assert_eq!(&a, &b, "{}", field.name());
    }
}

#[test]
fn text_formats_round_trip() {
    let folder = Folder::new();
    let batches = [every_type(100), every_type(40)];
    let whole = concat_batches(&batches[0].schema(), &batches).unwrap();
    for (name, format) in [("t.csv", FileFormat::Csv), ("t.tsv", FileFormat::Tsv), ("t.jsonl", FileFormat::JsonLines)] {
        for (suffix, compression) in [("", Compression::None), (".gz", Compression::Gzip), (".zst", Compression::Zstd)]
        {
            let path = folder.join(&format!("{name}{suffix}"));
            store(&path, format, None, &WriteOptions::default(), &batches);
            let set = open(path.to_str().unwrap(), &ReadOptions::default());
            assert_eq!(set.files()[0].compression, compression);
            assert_same_text(&whole, &rows_of(&set, 1).unwrap());
        }
    }
}

#[test]
fn csv_text_is_exact() {
    let folder = Folder::new();
    let batch = every_type(4);
    let path = folder.join("t.csv");
    store(&path, FileFormat::Csv, None, &WriteOptions::default(), std::slice::from_ref(&batch));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "bool,i8,u16,i64,f64,decimal,date,ts,tsz,text,bytes,list\n\
         true,0,0,0,0.0,-50.00,1970-01-01,1970-01-01T00:00:00,1970-01-01T00:00:00Z,\"\",\\x00ff00,[]\n\
         false,1,1,-1000000007,0.3333333333333333,-48.99,1970-02-01,\
                1970-01-01T23:59:59.123456,1970-01-01T01:00:00Z,a,\\x01ff00,[0]\n\
         true,2,2,-2000000014,0.6666666666666666,-47.98,1970-03-04,1970-01-02T23:59:58.246912,1970-01-01T02:00:00Z,\
         \"quote \"\" here\",\\x02ff00,\"[0, 1]\"\n\
         ,,,,,,,,,,,\n"
    );
    let words: ArrayRef = Arc::new(StringViewArray::from(vec![Some("NA"), None, Some(""), Some("a;b")]));
    let nothing: ArrayRef = Arc::new(NullArray::new(4));
    let batch = RecordBatch::try_from_iter([("w", words), ("n;", nothing)]).unwrap();
    let options = WriteOptions { header: true, delimiter: Some(b';'), null: "NA".into(), ..WriteOptions::default() };
    store(&path, FileFormat::Csv, None, &options, std::slice::from_ref(&batch));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "w;\"n;\"\n\"NA\";NA\nNA;NA\n\"\";NA\n\"a;b\";NA\n");
    let options = ReadOptions { delimiter: Some(b';'), null: Some("NA".into()), ..ReadOptions::default() };
    let back = read(path.to_str().unwrap(), &options).unwrap();
    assert_eq!(texts(&back, "w"), [Some("NA".into()), None, Some("".into()), Some("a;b".into())]);
}

#[test]
fn one_nullable_column_round_trips() {
    let folder = Folder::new();
    let path = folder.join("t.csv");
    let words: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some(""), Some("x"), None]));
    let batch = RecordBatch::try_from_iter([("w", words)]).unwrap();
    store(&path, FileFormat::Csv, None, &WriteOptions::default(), std::slice::from_ref(&batch));
    let back = read(path.to_str().unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!(back.column(0), batch.column(0));
}

#[test]
fn an_abandoned_or_failed_file_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.join("t.csv");
    std::fs::write(&path, "old").unwrap();
    let batch = every_type(10);
    for format in [FileFormat::Csv, FileFormat::Parquet, FileFormat::JsonLines, FileFormat::ArrowIpc] {
        let mut writer = write(&path, format, None, &WriteOptions::default(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let other = batch.project(&[0]).unwrap();
        assert!(writer.write(&other).unwrap_err().to_string().contains("other column types"));
        assert_eq!(names_in(&folder).len(), 2);
        drop(writer);
        assert_eq!(names_in(&folder), ["t.csv"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
    store(&path, FileFormat::Csv, None, &WriteOptions::default(), &[batch.project(&[1]).unwrap()]);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("i8\n0\n"));
}

#[test]
fn refusals() {
    let folder = Folder::new();
    let batch = every_type(1);
    let schema = batch.schema();
    let refuse = |name: &str, format, compression, options: &WriteOptions, schema: &SchemaRef| {
        write(&folder.join(name), format, compression, options, schema).unwrap_err().to_string()
    };
    let options = WriteOptions::default();
    let text = refuse("a.parquet", FileFormat::Parquet, Some(Compression::Lz4), &options, &schema);
    assert!(text.contains("Parquet files cannot be compressed with lz4; use none, gzip, zstd, snappy"), "{text}");
    assert!(refuse("no/a.csv", FileFormat::Csv, None, &options, &schema).contains("cannot be written"));
    assert!(refuse(".", FileFormat::Csv, None, &options, &schema).contains("is a folder"));
    let twice = Arc::new(Schema::new(vec![schema.field(0).clone(), schema.field(0).clone()]));
    assert!(refuse("a.csv", FileFormat::Csv, None, &options, &twice).contains("have the same name \"bool\""));
    let null = WriteOptions { null: "a,b".into(), ..WriteOptions::default() };
    assert!(refuse("a.csv", FileFormat::Csv, None, &null, &schema).contains("must not hold the delimiter"));
    let union = DataType::Union(
        arrow::datatypes::UnionFields::from_fields([Field::new("a", DataType::Int8, true)]),
        arrow::datatypes::UnionMode::Dense,
    );
    let odd = Arc::new(Schema::new(vec![Field::new("u", union, true)]));
    let text = refuse("a.parquet", FileFormat::Parquet, None, &options, &odd);
    assert!(text.contains("a column's type cannot be stored in Parquet, cast it in the query"), "{text}");
    assert_eq!(names_in(&folder), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn links_and_devices_are_written_through() {
    let folder = Folder::new();
    let real = folder.put("real.csv", "old");
    std::os::unix::fs::symlink(&real, folder.join("link.csv")).unwrap();
    let batch = every_type(1).project(&[1]).unwrap();
    store(&folder.join("link.csv"), FileFormat::Csv, None, &WriteOptions::default(), std::slice::from_ref(&batch));
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "i8\n0\n");
    assert!(std::fs::symlink_metadata(folder.join("link.csv")).unwrap().is_symlink());
    store(Path::new("/dev/null"), FileFormat::Csv, None, &WriteOptions::default(), std::slice::from_ref(&batch));
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}
