//! Tests of the three output formats.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Int64Array, NullArray, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, TimeUnit};
use arrow::error::ArrowError;

use super::*;

fn batch() -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-300)]));
    let s: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a,\"b\""), Some(""), None]));
    let d: ArrayRef =
        Arc::new(Decimal128Array::from(vec![Some(150), Some(-5), None]).with_precision_and_scale(15, 2).unwrap());
    let t: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), Some(1_500_000), None]));
    RecordBatch::try_from_iter([("n", n), ("s", s), ("d", d), ("t", t)]).unwrap()
}

fn write(format: Format, terminal_width: Option<usize>, batches: &[RecordBatch]) -> (u64, String) {
    let mut out = Vec::new();
    let schema = batches[0].schema();
    let batches = batches.iter().cloned().map(Ok::<_, ArrowError>);
    let rows = write_result(&mut out, format, terminal_width, &schema, batches).unwrap();
    (rows, String::from_utf8(out).unwrap())
}

#[test]
fn csv_tells_null_from_empty_and_quotes_what_needs_it() {
    let (rows, text) = write(Format::Csv, None, &[batch(), batch()]);
    assert_eq!(rows, 6);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "n,s,d,t");
    assert_eq!(lines[1], "1,\"a,\"\"b\"\"\",1.50,1970-01-01 00:00:00");
    assert_eq!(lines[2], ",\"\",-0.05,1970-01-01 00:00:01.5");
    assert_eq!(lines[3], "-300,,,");
}

#[test]
fn csv_of_nothing_but_null_is_empty() {
    let schema =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Null, true), Field::new("s", DataType::Utf8, true)]));
    let columns: Vec<ArrayRef> = vec![Arc::new(NullArray::new(2)), Arc::new(StringArray::from(vec![Some(""), None]))];
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    assert_eq!(write(Format::Csv, None, &[batch]).1, "a,s\n,\"\"\n,\n");
}

#[test]
fn json_is_one_array_with_explicit_nulls() {
    let (rows, text) = write(Format::Json, None, &[batch(), batch()]);
    assert_eq!(rows, 6);
    assert_eq!(text.matches('\n').count(), 1);
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let parsed = parsed.as_array().unwrap();
    assert_eq!(parsed.len(), 6);
    assert_eq!(parsed[0]["s"], "a,\"b\"");
    assert_eq!(parsed[0]["d"].to_string(), "1.5");
    assert!(text.contains("\"d\":1.50"), "decimals keep their digits: {text}");
    assert_eq!(parsed[1]["n"], serde_json::Value::Null);
    assert!(parsed[1].as_object().unwrap().contains_key("n"));
}

#[test]
fn json_of_no_rows_is_an_empty_array() {
    let schema = batch().schema();
    let mut out = Vec::new();
    let none = std::iter::empty::<Result<RecordBatch, ArrowError>>();
    assert_eq!(write_result(&mut out, Format::Json, None, &schema, none).unwrap(), 0);
    assert_eq!(out, b"[]\n");
}

#[test]
fn tables_align_and_never_cut_off_a_terminal() {
    let (_, text) = write(Format::Table, None, &[batch()]);
    let expected = " n    | s     | d     | t
------+-------+-------+-----------------------
    1 | a,\"b\" |  1.50 | 1970-01-01 00:00:00
 NULL |       | -0.05 | 1970-01-01 00:00:01.5
 -300 | NULL  |  NULL | NULL
";
    let expected = expected.replace(" n    |", "    n |").replace("| d     |", "|     d |");
    assert_eq!(text, expected);
    let wide: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(500)]));
    let (_, text) = write(Format::Table, None, &[RecordBatch::try_from_iter([("w", wide)]).unwrap()]);
    assert!(text.contains(&"x".repeat(500)));
}

#[test]
fn terminals_get_rows_that_fit() {
    let wide: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(500), "漢".repeat(50)]));
    let wider: ArrayRef = Arc::new(StringViewArray::from(vec!["y".repeat(600), "z".to_string()]));
    let short: ArrayRef = Arc::new(Int64Array::from(vec![1, 22]));
    let batch = RecordBatch::try_from_iter([("w", wide), ("n", short), ("v", wider)]).unwrap();
    let (_, text) = write(Format::Table, Some(80), &[batch]);
    for line in text.lines() {
        assert!(display_width(line) <= 80, "{} wide: {line}", display_width(line));
    }
    assert!(text.contains('…') && text.contains(" 22 "), "{text}");
}

#[test]
fn later_wide_values_push_their_own_line_only() {
    let first: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; WIDTH_ROWS]));
    let later: ArrayRef = Arc::new(StringViewArray::from(vec!["later and wider"]));
    let batches = [first, later].map(|column| RecordBatch::try_from_iter([("c", column)]).unwrap());
    let (rows, text) = write(Format::Table, None, &batches);
    assert_eq!(rows, WIDTH_ROWS as u64 + 1);
    assert_eq!(text.lines().nth(1), Some("---"));
    assert_eq!(text.lines().last(), Some(" later and wider"));
}

#[test]
fn control_characters_are_shown_not_obeyed() {
    let column: ArrayRef = Arc::new(StringViewArray::from(vec!["a\nb\u{1b}[31m"]));
    let (_, text) = write(Format::Table, None, &[RecordBatch::try_from_iter([("c\t", column)]).unwrap()]);
    assert!(text.contains(r"a\nb\u{1b}[31m") && text.contains(r"c\t"), "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn an_error_in_the_stream_is_reported() {
    let schema = Schema::new(vec![Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true)]);
    for format in [Format::Table, Format::Csv, Format::Json] {
        let failing = std::iter::once(Err::<RecordBatch, _>(ArrowError::ComputeError("boom".into())));
        let error = write_result(&mut Vec::new(), format, None, &schema, failing).unwrap_err();
        assert!(error.to_string().contains("boom"));
    }
}

#[test]
fn fitting_shrinks_the_widest_first() {
    let mut widths = vec![5, 100, 20];
    fit(&mut widths, 60);
    assert_eq!(widths[0], 5);
    assert!(widths.iter().sum::<usize>() + 9 <= 61, "{widths:?}");
    let mut hopeless = vec![50; 40];
    fit(&mut hopeless, 80);
    assert_eq!(hopeless, vec![WIDTH_MIN; 40]);
    let mut fits = vec![10, 10];
    fit(&mut fits, 80);
    assert_eq!(fits, vec![10, 10]);
}
