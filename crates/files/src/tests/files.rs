//! Finding files: folders, globs, formats by name and by content.

use super::*;

fn fail(path: &str, options: &ReadOptions) -> FileError {
    match FileSet::open(path, options) {
        Ok(set) => panic!("expected an error, got {set:?}"),
        Err(e) => e,
    }
}

#[test]
fn missing_files_folders_and_patterns() {
    let folder = Folder::new();
    let base = folder.path().to_str().unwrap().to_string();
    let options = ReadOptions::default();
    let error = fail(&format!("{base}/none.csv"), &options);
    assert_eq!(error.kind, FileErrorKind::NotFound);
    assert_eq!(error.to_string(), format!("{base}/none.csv: there is no such file or folder"));
    let error = fail(&format!("{base}/*.csv"), &options);
    assert_eq!(error.to_string(), format!("no file matches the pattern \"{base}/*.csv\""));
    let error = fail(&base, &options);
    assert!(error.to_string().ends_with("the folder holds no Parquet, CSV, TSV, JSON lines or Arrow IPC file"));
    assert_eq!(fail("", &options).kind, FileErrorKind::NotFound);
    assert_eq!(fail(&format!("{base}/a[.csv"), &options).kind, FileErrorKind::Options);
    assert_eq!(fail("/dev/null", &options).kind, FileErrorKind::Unreadable);
}

#[test]
fn folders_are_sorted_and_skip_hidden_and_unknown() {
    let folder = Folder::new();
    for (name, value) in [("b.csv", 2), ("a.csv", 1), (".c.csv", 3), ("_d.csv", 4), ("notes.txt", 5)] {
        folder.put(name, format!("x\n{value}\n"));
    }
    std::fs::create_dir(folder.join("sub.csv")).unwrap();
    let base = folder.path().to_str().unwrap();
    let set = open(base, &ReadOptions::default());
    let names: Vec<_> = set.files().iter().map(|f| f.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["a.csv", "b.csv"]);
    assert_eq!(set.total_bytes(), 8);
    assert_eq!(texts(&rows_of(&set, 3).unwrap(), "x"), some(&["1", "2"]));
    let globbed = read(&format!("{base}/[ab].csv"), &ReadOptions::default()).unwrap();
    assert_eq!(texts(&globbed, "x"), some(&["1", "2"]));
}

#[test]
fn a_name_with_brackets_is_a_name_first() {
    let folder = Folder::new();
    let path = folder.put("a[1].csv", "x\n1\n");
    assert_eq!(read(&path, &ReadOptions::default()).unwrap().num_rows(), 1);
}

#[test]
fn mixed_formats_are_refused() {
    let folder = Folder::new();
    folder.put("a.csv", "x\n1\n");
    folder.put("b.jsonl", "{\"x\":1}\n");
    let base = folder.path().to_str().unwrap();
    let error = fail(base, &ReadOptions::default());
    assert_eq!(error.kind, FileErrorKind::Format);
    let text = error.to_string();
    assert!(text.contains("b.jsonl: is JSON lines while") && text.contains("a.csv is CSV"), "{text}");
    let options = ReadOptions { format: Some(FileFormat::JsonLines), ..ReadOptions::default() };
    assert_eq!(read(base, &options).unwrap().num_rows(), 1);
}

#[test]
fn formats_by_name() {
    for (name, format) in [
        ("x.parquet", Some(FileFormat::Parquet)),
        ("X.CSV", Some(FileFormat::Csv)),
        ("x.csv.gz", Some(FileFormat::Csv)),
        ("x.tsv.zst", Some(FileFormat::Tsv)),
        ("x.ndjson", Some(FileFormat::JsonLines)),
        ("x.json.gz", Some(FileFormat::JsonLines)),
        ("x.feather", Some(FileFormat::ArrowIpc)),
        ("x.gz", None),
        ("x", None),
    ] {
        assert_eq!(FileFormat::from_path(Path::new(name)), format, "{name}");
    }
    assert_eq!("NDJSON".parse::<FileFormat>().unwrap(), FileFormat::JsonLines);
    assert!("xls".parse::<FileFormat>().unwrap_err().to_string().contains("use parquet, csv, tsv, jsonl or arrow"));
    assert_eq!("zst".parse::<Compression>().unwrap(), Compression::Zstd);
    assert!("rar".parse::<Compression>().is_err());
}

#[test]
fn formats_by_content() {
    let folder = Folder::new();
    let batch = every_type(10);
    let options = WriteOptions::default();
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        store(&folder.join("data"), format, None, &options, std::slice::from_ref(&batch));
        assert_eq!(open(folder.join("data").to_str().unwrap(), &ReadOptions::default()).format(), format);
    }
    let zst = zstd::stream::encode_all(&b"{\"a\":1}\n"[..], 1).unwrap();
    for (content, format) in [
        (b"\n{\"a\":1}\n".to_vec(), FileFormat::JsonLines),
        (zst, FileFormat::JsonLines),
        (b"a,b\n1,2\n".to_vec(), FileFormat::Csv),
        (super::csv::gzip("a\tb\n1\t2\n"), FileFormat::Tsv),
    ] {
        let path = folder.put("data", content);
        assert_eq!(open(&path, &ReadOptions::default()).format(), format);
    }
    let path = folder.put("data", b"\0\0\0\0");
    let error = fail(&path, &ReadOptions::default()).to_string();
    assert!(error.contains("give the format (parquet, csv, tsv, jsonl or arrow)"), "{error}");
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let folder = Folder::new();
    let path = folder.put("a.jsonl", "{\"x\":1}\n");
    let options = ReadOptions { header: Some(true), ..ReadOptions::default() };
    assert!(fail(&path, &options).to_string().contains("the option header has no meaning for JSON lines files"));
    store(&folder.join("a.parquet"), FileFormat::Parquet, None, &WriteOptions::default(), &[every_type(1)]);
    let options = ReadOptions { types: vec![("i8".into(), DataType::Int8)], ..ReadOptions::default() };
    assert!(fail(folder.join("a.parquet").to_str().unwrap(), &options).to_string().contains("the option types"));
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.put("a.csv", "x\n1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user may read every file");
        return;
    }
    let error = fail(&path, &ReadOptions::default());
    assert_eq!(error.kind, FileErrorKind::Unreadable);
    assert!(error.to_string().contains("may not be read by this user"));
}
