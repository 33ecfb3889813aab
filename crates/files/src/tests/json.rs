//! JSON lines: inferred types, nested values, errors with their lines.

use super::*;

fn json(text: &str, options: &ReadOptions) -> Result<RecordBatch, FileError> {
    let folder = Folder::new();
    let path = folder.put("t.jsonl", text);
    read(&path, options).map_err(|mut e| {
        e.message = e.message.replace(&format!("{}/", folder.path().display()), "");
        e.file = e.file.and_then(|f| f.file_name().map(PathBuf::from));
        e
    })
}

fn json_error(text: &str, options: &ReadOptions) -> String {
    match json(text, options) {
        Ok(batch) => panic!("expected an error, got {batch:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn types_are_inferred_over_the_whole_file() {
    let text = "\u{feff}{\"z\":1,\"b\":true,\"s\":\"x\"}\r\n\n\
                {\"z\":2.5,\"b\":null,\"s\":7,\"u\":18446744073709551615}\n{\"new\":-1}";
    let batch = json(text, &ReadOptions::default()).unwrap();
    assert_eq!(
        types_of(&batch),
        [
            ("z".into(), DataType::Float64),
            ("b".into(), DataType::Boolean),
            ("s".into(), DataType::Utf8View),
            ("u".into(), DataType::UInt64),
            ("new".into(), DataType::Int64),
        ]
    );
    assert_eq!(texts(&batch, "s"), [Some("x".into()), Some("7".into()), None]);
    assert_eq!(texts(&batch, "new"), [None, None, Some("-1".into())]);
    assert_eq!(texts(&batch, "u"), [None, Some("18446744073709551615".into()), None]);
}

#[test]
fn nested_values() {
    let text = "{\"o\":{\"a\":1,\"l\":[{\"x\":\"p\"},null]},\"e\":[],\"n\":null}\n\
                {\"o\":null,\"e\":[1.5]}\n{\"o\":{\"b\":\"t\"}}\n";
    let batch = json(text, &ReadOptions::default()).unwrap();
    assert_eq!(batch.num_rows(), 3);
    let DataType::Struct(members) = batch.schema().field(0).data_type().clone() else { panic!("a struct") };
    assert_eq!(members.iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["a", "l", "b"]);
    assert_eq!(batch.schema().field(1).data_type(), &DataType::new_list(DataType::Float64, true));
    assert_eq!(batch.schema().field(2).data_type(), &DataType::Utf8View);
    assert_eq!(json("{\"a\":{}}\n{\"a\":{}}\n", &ReadOptions::default()).unwrap().num_rows(), 2);
}

#[test]
fn given_types_are_read() {
    let options = ReadOptions {
        types: vec![("d".into(), DataType::Date32), ("p".into(), DataType::Decimal128(10, 2)), ("t".into(), micros())],
        ..ReadOptions::default()
    };
    let text = "{\"d\":\"2024-01-02\",\"p\":1.25,\"t\":\"2024-01-02 03:04:05\"}\n{\"p\":\"7\"}\n";
    let batch = json(text, &options).unwrap();
    assert_eq!(texts(&batch, "d"), [Some("2024-01-02".into()), None]);
    assert_eq!(texts(&batch, "p"), some(&["1.25", "7.00"]));
    let bad = format!("{}{}", text.repeat(50), "\n{\"d\":\"tomorrow\"}\n");
    let error = json(&bad, &options).unwrap_err();
    assert_eq!((error.line, error.column.as_deref(), error.value.as_deref()), (Some(102), Some("d"), Some("tomorrow")));
    assert!(error.to_string().contains("a value is not of its column's type"), "{error}");
}

#[test]
fn bad_files_get_their_sentence() {
    let options = ReadOptions::default();
    assert_eq!(json_error("", &options), "t.jsonl: holds no JSON object, so its columns cannot be known");
    let error = json_error("{\"a\":1}\n{\"a\":\n", &options);
    assert!(error.starts_with("t.jsonl, line 2: is not one JSON object: EOF while parsing a value"), "{error}");
    let error = json_error("{\"a\":1}\n{\"a\":1}{\"a\":2}\n", &options);
    assert!(error.starts_with("t.jsonl, line 2: is not one JSON object: trailing characters at character"), "{error}");
    let error = json_error("[{\"a\":1}]\n", &options);
    assert!(error.starts_with("t.jsonl, line 1: each line must hold one JSON object"), "{error}");
    let error = json_error("{\"a\":{\"b\":1}}\n{\"a\":{\"b\":[2]}}\n", &options);
    assert!(
        error.starts_with("t.jsonl, line 2, column \"a.b\": is a list here and a plain value in line 1 of t.jsonl"),
        "{error}"
    );
    let others = ReadOptions { columns: Some(vec!["c".into()]), ..options.clone() };
    assert_eq!(json("{\"a\":1,\"c\":2}\n{\"a\":[],\"c\":3}\n", &others).unwrap().num_columns(), 1);
    let folder = Folder::new();
    let path = folder.put("t.jsonl", b"{\"a\":\"x\"}\n{\"a\":\"caf\xe9\"}\n");
    let error = read(&path, &options).unwrap_err().to_string();
    assert!(error.contains("line 2: is not valid UTF-8 (byte 0xe9)"), "{error}");
    let deep = format!("{{\"a\":{}1{}}}\n", "[".repeat(500), "]".repeat(500));
    assert!(json_error(&deep, &options).contains("recursion limit"));
}

#[test]
fn small_batches_and_several_files() {
    let folder = Folder::new();
    folder.put("1.jsonl", "{\"a\":1}\n".repeat(10));
    folder.put("2.jsonl.gz", super::csv::gzip(&"{\"b\":\"x\",\"a\":2.5}\n\n".repeat(10)));
    let options = ReadOptions { batch_rows: 3, ..ReadOptions::default() };
    let set = open(folder.path().to_str().unwrap(), &options);
    assert_eq!(set.row_estimate(), 20);
    assert!(set.producers(8).into_iter().flatten().all(|b| b.unwrap().num_rows() <= 3));
    let batch = rows_of(&set, 8).unwrap();
    assert_eq!(batch.num_rows(), 20);
    assert_eq!(texts(&batch, "a")[19].as_deref(), Some("2.5"));
    folder.put("3.jsonl", "\n{\"a\":{}}\n");
    let error = FileSet::open(folder.path().to_str().unwrap(), &options).unwrap_err().to_string();
    assert!(
        error.contains("3.jsonl, line 2, column \"a\": is an object here and a plain value in line 1 of"),
        "{error}"
    );
    assert!(error.contains("1.jsonl;"), "{error}");
}
