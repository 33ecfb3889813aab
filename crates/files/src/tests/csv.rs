//! CSV: types, quotes, NULLs, errors with their places, and pieces against the whole.

use arrow::datatypes::{DataType, TimeUnit};
use proptest::prelude::*;

use super::*;

fn plain() -> ReadOptions {
    ReadOptions::default()
}

fn type_of(values: &[&str]) -> DataType {
    let batch = csv(format!("a,b\n{}", values.iter().map(|v| format!("{v},x\n")).collect::<String>()), &plain());
    batch.unwrap_or_else(|e| panic!("{e}")).schema().field(0).data_type().clone()
}

#[test]
fn types_are_inferred_and_widen() {
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for (values, expected) in [
        (&["1", "-20", ""][..], DataType::Int64),
        (&["1", "2.5", "1e3"], DataType::Float64),
        (&["NaN", "-inf", "12345678901234567890"], DataType::Float64),
        (&["12345678901234567890", "1"], DataType::Utf8View),
        (&["true", "FALSE"], DataType::Boolean),
        (&["true", "1"], DataType::Utf8View),
        (&["2024-02-29", "1969-12-31"], DataType::Date32),
        (&["2023-02-29"], DataType::Utf8View),
        (&["2024-02-29 01:02:03", "2024-02-29"], micros()),
        (&["2024-02-29T01:02:03.123456"], micros()),
        (&["2024-02-29T01:02:03.123456789"], nanos),
        (&["9999-01-01T01:02:03.123456789"], DataType::Utf8View),
        (&["2024-02-29T01:02:03Z", "2024-02-29 01:02:03+02:00"], zoned),
        (&["2024-02-29T01:02:03Z", "2024-02-29 01:02:03"], DataType::Utf8View),
        (&["1", "2", "three"], DataType::Utf8View),
        (&["", ""], DataType::Utf8View),
        (&["-", "1"], DataType::Utf8View),
        (&["\"12\"", "13"], DataType::Int64),
        (&[" 12 ", "13"], DataType::Int64),
    ] {
        assert_eq!(type_of(values), expected, "{values:?}");
    }
}

#[test]
fn values_are_what_the_text_says() {
    let batch = csv(
        "\u{feff}i,f,d,t,z,b,s\r\n1,2.5,2024-01-02,2024-01-02 \
         03:04:05.5,2024-01-02T03:00:00+02:00,true,\"a,\"\"b\"\"\r\nc\"\r\n,,,,,,\r\n-7,1e3,1970-01-01,1970-01-01 \
         00:00:00,1970-01-01T00:00:00Z,false,\"\"\r\n",
        &plain(),
    )
    .unwrap();
    assert_eq!(batch.num_rows(), 3);
    assert_eq!(texts(&batch, "i"), [Some("1".into()), None, Some("-7".into())]);
    assert_eq!(texts(&batch, "f"), [Some("2.5".into()), None, Some("1000.0".into())]);
    assert_eq!(texts(&batch, "d"), [Some("2024-01-02".into()), None, Some("1970-01-01".into())]);
    assert_eq!(texts(&batch, "t")[0].as_deref(), Some("2024-01-02T03:04:05.500"));
    assert_eq!(texts(&batch, "z")[0].as_deref(), Some("2024-01-02T01:00:00Z"));
    assert_eq!(texts(&batch, "b"), [Some("true".into()), None, Some("false".into())]);
    // An empty field is NULL, a quoted empty one an empty text.
    assert_eq!(texts(&batch, "s"), [Some("a,\"b\"\r\nc".into()), None, Some("".into())]);
}

#[test]
fn given_types_are_read() {
    let types = vec![
        ("d".to_string(), DataType::Decimal128(10, 2)),
        ("u".to_string(), DataType::UInt8),
        ("s".to_string(), DataType::Utf8),
        ("t".to_string(), DataType::Time64(TimeUnit::Microsecond)),
        ("x".to_string(), DataType::Binary),
    ];
    let options = ReadOptions { types, ..plain() };
    let batch = csv("d,u,s,t,x\n12.340,255,007,12:30:00,ab\n-1,0,,,\n", &options).unwrap();
    assert_eq!(texts(&batch, "d"), some(&["12.34", "-1.00"]));
    assert_eq!(texts(&batch, "u"), some(&["255", "0"]));
    assert_eq!(texts(&batch, "s"), [Some("007".into()), None]);
    assert_eq!(texts(&batch, "t"), [Some("12:30:00".into()), None]);
    assert_eq!(batch.column(4).data_type(), &DataType::BinaryView);
    assert_eq!(batch.column(4).as_binary_view().value(0), b"ab");

    for value in
        ["12.345", "123456789.00", "1.2.3", "1e99999", "e5", "1e-3", "1.2345e1", "12e20", "--1", &"9".repeat(300)]
    {
        let text = csv_error(format!("d,u,s,t,x\n{value},1,a,,\n"), &options);
        assert!(text.contains("is not a decimal of 10 digits, 2 of them after the point, the type given"), "{text}");
    }
    for (value, read) in [
        ("1.5e1", "15.00"),
        ("1200e-2", "12.00"),
        ("-0.10", "-0.10"),
        ("+7", "7.00"),
        ("0e-9", "0.00"),
        ("99999999.99", "99999999.99"),
        (".5", "0.50"),
        ("5.", "5.00"),
    ] {
        let batch = csv(format!("d,u,s,t,x\n{value},1,a,,\n"), &options).unwrap();
        assert_eq!(texts(&batch, "d"), some(&[read]), "{value}");
    }
    let text = csv_error("d,u,s,t,x\n1,256,a,,\n", &options);
    assert_eq!(
        text,
        "t.csv, line 2, column \"u\": \"256\" is not of type UInt8, the type given for the column; correct the value \
         or give another type"
    );
    let nested = ReadOptions { types: vec![("a".into(), DataType::new_list(DataType::Int8, true))], ..plain() };
    assert!(csv_error("a\n1\n", &nested).contains("text cannot be read as List"));
    let unknown = ReadOptions { types: vec![("b".into(), DataType::Int8)], ..plain() };
    assert!(csv_error("a\n1\n", &unknown).contains("no such column; the columns are a"));
}

#[test]
fn nulls_follow_the_null_text() {
    let options = ReadOptions { null: Some("NA".into()), ..plain() };
    let batch = csv("i,s\n1,NA\nNA,\"NA\"\n,\n\"\",x\n", &options).unwrap();
    assert_eq!(texts(&batch, "i"), [Some("1".into()), None, None, None]);
    assert_eq!(texts(&batch, "s"), [None, Some("NA".into()), Some("".into()), Some("x".into())]);
}

#[test]
fn one_column_keeps_its_blank_lines_and_others_skip_them() {
    assert_eq!(texts(&csv("a\n1\n\n3\n", &plain()).unwrap(), "a"), [Some("1".into()), None, Some("3".into())]);
    assert_eq!(csv("a,b\n1,2\n\n3,4\n\r\n", &plain()).unwrap().num_rows(), 2);
}

#[test]
fn dialects() {
    let options = ReadOptions { delimiter: Some(b'|'), quote: Some(b'\''), header: Some(false), ..plain() };
    let batch = csv("1|'a|''b'|5\" pipe\n2|c|\n", &options).unwrap();
    assert_eq!(texts(&batch, "column_2"), some(&["a|'b", "c"]));
    assert_eq!(texts(&batch, "column_3"), [Some("5\" pipe".into()), None]);
    let raw = ReadOptions { quote: Some(0), ..plain() };
    assert_eq!(texts(&csv("a,b\n\"x,\"y\n", &raw).unwrap(), "a"), some(&["\"x"]));
    let folder = Folder::new();
    let path = folder.put("t.tsv", "a\tb\n1\tx,y\n");
    assert_eq!(texts(&read(&path, &plain()).unwrap(), "b"), some(&["x,y"]));
    for (delimiter, quote) in [(Some(b'"'), None), (Some(b'\n'), None), (None, Some(b',')), (Some(0xe9), None)] {
        let options = ReadOptions { delimiter, quote, ..plain() };
        let error = csv("a,b\n1,2\n", &options);
        // A quote that equals the default delimiter is only known with the format.
        assert!(error.is_err(), "{delimiter:?} {quote:?}");
    }
}

#[test]
fn columns_are_chosen_and_ordered() {
    let columns =
        |names: &[&str]| ReadOptions { columns: Some(names.iter().map(|n| n.to_string()).collect()), ..plain() };
    let batch = csv("a,b,c\n1,2,3\n", &columns(&["c", "a"])).unwrap();
    assert_eq!(batch.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["c", "a"]);
    assert_eq!(texts(&batch, "c"), some(&["3"]));
    assert_eq!(
        csv_error("a,b\n1,2\n", &columns(&["x"])),
        "t.csv, column \"x\": there is no such column; the columns are a, b"
    );
    assert!(csv_error("a,b\n1,2\n", &columns(&["a", "a"])).contains("names it twice"));
    assert!(csv_error("a,b\n1,2\n", &columns(&[])).contains("is empty"));
}

#[test]
fn bad_files_get_their_sentence() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "t.csv: the file is empty: it has no header line to name its columns"),
        (
            b"a,b,a\n1,2,3\n",
            "t.csv, column \"a\": columns 1 and 3 have the same name \"a\"; rename one of them in the file",
        ),
        (b"a,b\n1,2\n\"x\ny\",4\n1,2,3\n", "t.csv, line 5: expected 2 fields, found 3"),
        (b"a,b\n1,2\n\n7\n", "t.csv, line 4: expected 2 fields, found 1"),
        (b"a,b\n1,\"2\n3,4\n", "t.csv, line 2: a quote opens here and is never closed"),
        (
            b"a,b\n1,2\n3,\"x\"y\n",
            "t.csv, line 3: a quoted field goes on after its closing quote; a quote inside a quoted field must be \
             doubled, and ',' must follow its end",
        ),
        (b"a,b\n1,2\n3,caf\xe9\n", "t.csv, line 3: is not valid UTF-8 (byte 0xe9); convert the file to UTF-8"),
        (b"a\xe9,b\n1,2\n", "t.csv, line 1: is not valid UTF-8 (byte 0xe9); convert the file to UTF-8"),
        (b"\xff\xfea\0,\0b\0", "t.csv, line 1: is UTF-16 text; convert the file to UTF-8"),
    ];
    for (text, expected) in cases {
        assert_eq!(csv_error(text, &plain()), *expected);
    }
    let headless = ReadOptions { header: Some(false), ..plain() };
    assert_eq!(csv_error("", &headless), "t.csv: the file is empty, so its columns cannot be known");
}

#[test]
fn header_only_is_a_table_without_rows() {
    for text in ["a,b", "a,b\n", "a,b\r\n"] {
        let batch = csv(text, &plain()).unwrap();
        assert_eq!(batch.num_rows(), 0);
        assert_eq!(types_of(&batch), [("a".into(), DataType::Utf8View), ("b".into(), DataType::Utf8View)]);
    }
}

/// More than the sample of integers, then a value that is none.
#[test]
fn a_late_misfit_names_file_line_column_and_value() {
    let folder = Folder::new();
    let mut text = String::from("id,name\n");
    let row = format!("1,\"{}\n\"\n", "x".repeat(1000));
    let rows = (33 << 20) / row.len();
    for _ in 0..rows {
        text.push_str(&row);
    }
    text.push_str("n/a,y\n");
    let path = folder.put("big.csv", &text);
    let set = open(&path, &plain()).with_piece_bytes_min(1 << 20);
    let line = 2 + rows as u64 * 2;
    assert!(set.row_estimate().abs_diff(rows as u64) < 100, "{} of {rows}", set.row_estimate());
    // The line must be right also when the piece does not start at the file's start.
    for parallelism in [1, 4] {
        let error = rows_of(&set, parallelism).unwrap_err();
        assert_eq!((error.kind, error.line, error.column.as_deref()), (FileErrorKind::Value, Some(line), Some("id")));
        assert_eq!(error.value.as_deref(), Some("n/a"));
        let text = error.to_string();
        assert!(
            text.contains("\"n/a\" is not a 64-bit integer, which is what the beginning of the file held"),
            "{text}"
        );
        assert!(text.contains("give the column its type"), "{text}");
    }
    let options = ReadOptions { types: vec![("id".into(), DataType::Utf8View)], ..plain() };
    let all = rows_of(&open(&path, &options).with_piece_bytes_min(1 << 20), 4).unwrap();
    assert_eq!(all.num_rows(), rows + 1);
}

#[test]
fn several_files_agree_or_say_why_not() {
    let folder = Folder::new();
    folder.put("1.csv", "a,b\n1,x\n");
    folder.put("2.csv.gz", gzip("b,a\ny,2.5\n"));
    let batch = read(folder.path().to_str().unwrap(), &plain()).unwrap();
    assert_eq!(texts(&batch, "a"), some(&["1.0", "2.5"]));
    assert_eq!(texts(&batch, "b"), some(&["x", "y"]));
    folder.put("3.csv", "a,c\n1,x\n");
    let error = FileSet::open(folder.path().to_str().unwrap(), &plain()).unwrap_err().to_string();
    assert!(error.contains("3.csv") && error.contains("lacks the column \"b\"") && error.contains("1.csv"), "{error}");
    folder.put("3.csv", "a,b,c\n1,x,2\n");
    let error = FileSet::open(folder.path().to_str().unwrap(), &plain()).unwrap_err().to_string();
    assert!(
        error.contains("3.csv") && error.contains("has the column \"c\"") && error.contains("1.csv lacks"),
        "{error}"
    );
}

pub(super) fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

#[test]
fn compressed_text_is_told_by_its_bytes() {
    let folder = Folder::new();
    let text = "a,b\n1,2\n3,4\n";
    let zst = zstd::stream::encode_all(text.as_bytes(), 1).unwrap();
    // Two members, as `cat a.gz b.gz` makes them.
    let two = [gzip("a,b\n1,2\n"), gzip("3,4\n")].concat();
    for (name, content) in [("a.csv.gz", gzip(text)), ("b.csv.zst", zst), ("c.csv", two), ("d.csv.gz", text.into())] {
        let path = folder.put(name, content);
        assert_eq!(texts(&read(&path, &plain()).unwrap(), "b"), some(&["2", "4"]), "{name}");
    }
    let mut cut = gzip(&"1,2\n".repeat(10_000));
    cut.truncate(cut.len() - 10);
    let path = folder.put("e.csv.gz", cut);
    let error = read(&path, &plain()).unwrap_err().to_string();
    assert!(error.contains("e.csv.gz: ends too early, it seems to be truncated"), "{error}");
    let options = ReadOptions { compression: Some(Compression::Snappy), ..plain() };
    assert!(read(&path, &options).unwrap_err().to_string().contains("with gzip or zstd, not snappy"));
}

#[test]
fn progress_adds_up() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let folder = Folder::new();
    let path = folder.put("t.csv", format!("a,b\n{}", "1,\"x\ny\"\n".repeat(5000)));
    let told = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&told);
    let set = open(&path, &plain()).with_piece_bytes_min(1000).with_progress(Arc::new(move |bytes| {
        sum.fetch_add(bytes, Ordering::Relaxed);
    }));
    assert!(set.producers(4).len() > 4);
    assert_eq!(rows_of(&set, 4).unwrap().num_rows(), 5000);
    assert_eq!(told.load(Ordering::Relaxed), set.total_bytes());
    assert_eq!(set.row_estimate(), 5000);
}

/// A field as it may stand in a file.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c0-9 \"]{0,6}".prop_map(|s| s.trim_start_matches('"').to_string()),
        "[a-c\",\n\r]{0,12}".prop_map(|s| format!("\"{}\"", s.replace('"', "\"\""))),
        Just(String::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However a file is cut, its rows are those of one piece; and the values are those that were written.
    #[test]
    fn pieces_are_the_whole(
        rows in prop::collection::vec((field(), field()), 0..60),
        crlf: bool,
        final_end: bool,
        bom: bool,
        pieces in 2usize..9,
        batch_rows in 1usize..40,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = String::from(if bom { "\u{feff}\"h\n1\",k" } else { "\"h\n1\",k" });
        for (a, b) in &rows {
            text.push_str(end);
            text.push_str(&format!("{a},{b}"));
        }
        if final_end {
            text.push_str(end);
        }
        let folder = Folder::new();
        let path = folder.put("t.csv", &text);
        let types = vec![("h\n1".to_string(), DataType::Utf8View), ("k".to_string(), DataType::Utf8View)];
        let options = ReadOptions { types, batch_rows, ..ReadOptions::default() };
        let whole = rows_of(&open(&path, &options), 1).unwrap();
        let cut = rows_of(&open(&path, &options).with_piece_bytes_min(1), pieces).unwrap();
        prop_assert_eq!(&whole, &cut);
        prop_assert_eq!(whole.num_rows(), rows.len());
        let value = |raw: &str| match raw.strip_prefix('"') {
            Some(quoted) => Some(quoted[..quoted.len() - 1].replace("\"\"", "\"")),
            None => (!raw.is_empty()).then(|| raw.to_string()),
        };
        let expected: Vec<_> = rows.iter().map(|(a, _)| value(a)).collect();
        prop_assert_eq!(texts(&whole, "h\n1"), expected);
        let expected: Vec<_> = rows.iter().map(|(_, b)| value(b)).collect();
        prop_assert_eq!(texts(&whole, "k"), expected);
    }

    /// Any bytes at all give rows or an error, and the same rows or an error in pieces.
    #[test]
    fn any_bytes_do_no_harm(text in "[a1,\"\n\r\t\\x00é]{0,80}", noise in prop::collection::vec(any::<u8>(), 0..8)) {
        let folder = Folder::new();
        let path = folder.put("t.csv", [text.as_bytes(), &noise].concat());
        let options = ReadOptions { batch_rows: 3, ..ReadOptions::default() };
        if let Ok(set) = FileSet::open(&path, &options) {
            let whole = rows_of(&set, 1);
            let cut = rows_of(&set.with_piece_bytes_min(1), 3);
            prop_assert_eq!(whole.is_ok(), cut.is_ok());
            if let (Ok(whole), Ok(cut)) = (whole, cut) {
                prop_assert_eq!(whole, cut);
            }
        }
    }
}
