//! Tests of the answer check: what must pass, and that every kind of difference is found.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringViewArray};

use super::*;
use crate::tpch::queries::{QUERIES, query};

fn column(name: &str, comparison: Comparison) -> Column {
    Column { name: name.to_string(), comparison }
}

fn rows(text: &str) -> Vec<Vec<String>> {
    text.split('/').map(|line| line.split('|').map(str::to_string).collect()).collect()
}

#[test]
fn every_answer_is_rectangular_and_sorted_in_groups() {
    for (scale, answers) in &ANSWERS {
        for (query, answer) in QUERIES.iter().zip(answers) {
            let expected = parse(answer);
            let width = answer.lines().next().unwrap().split('|').count();
            assert!(!expected.is_empty(), "scale {scale} query {}", query.number);
            assert!(expected.iter().all(|row| row.len() == width), "scale {scale} query {}", query.number);
            let columns_used = query.sort_columns.iter().chain(query.quotient_columns);
            assert!(columns_used.into_iter().all(|&i| i < width), "query {}", query.number);
            // A sort key never comes back once another followed it, or the key is not the one of ORDER BY.
            let keys: Vec<Vec<&String>> =
                expected.iter().map(|row| query.sort_columns.iter().map(|&i| &row[i]).collect()).collect();
            let mut runs = keys.clone();
            runs.dedup();
            let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
            assert_eq!(runs.len(), distinct.len(), "scale {scale} query {}", query.number);
        }
    }
}

#[test]
fn numbers_are_equal_by_value() {
    let exact = |a, b| equal(Comparison::Exact, a, b);
    assert!(exact("380456.00", "380456") && exact("0.0", "0") && exact("-0.00", "0") && exact(".5", "0.50"));
    assert!(exact("-1.50", "-1.5") && exact("", ""));
    assert!(!exact("1", "-1") && !exact("1.1", "1.01") && !exact("10", "1") && !exact("", "0"));
    // Thirty digits stay exact.
    assert!(!exact("123456789012345678901234567.01", "123456789012345678901234567.02"));
}

#[test]
fn quotients_may_lack_digits_but_not_value() {
    let near = |digit, a, b| equal(Comparison::Near(digit), a, b);
    assert!(near(1e-6, "0.049985", "0.049985295838397614"));
    assert!(near(0.0, "0.04998529", "0.049985295838397614"));
    assert!(!near(1e-6, "0.049983", "0.049985295838397614"));
    assert!(!near(0.0, "0.0499", "0.049985295838397614"));
    assert!(near(1e-6, "", "") && !near(1e-6, "", "1") && !near(1e-6, "NaN", "1"));
}

#[test]
fn ties_may_come_in_any_order_and_nothing_else() {
    let columns = [column("k", Comparison::Exact), column("v", Comparison::Text)];
    let expected = rows("3|a/2|b/2|c/1|d");
    assert_eq!(compare(&[0], &columns, &rows("3.0|a/2.0|c/2|b/1|d"), &expected), Ok(()));
    let swapped = compare(&[0], &columns, &rows("2|b/3|a/2|c/1|d"), &expected);
    assert_eq!(swapped, Err("row 1, column k: expected 3, got 2".to_string()));
    let twice = compare(&[0], &columns, &rows("3|a/2|b/2|b/1|d"), &expected);
    assert_eq!(twice, Err("row 3, column v: expected c, got b".to_string()));
    // Without a sort key the order counts.
    assert!(compare(&[], &columns, &rows("3|a/2|c/2|b/1|d"), &expected).is_err());
}

#[test]
fn wrong_shapes_are_told() {
    let columns = [column("k", Comparison::Exact)];
    assert_eq!(compare(&[0], &columns, &rows("1"), &rows("1/2")), Err("1 rows, expected 2".into()));
    assert_eq!(compare(&[0], &columns, &rows("1/2/3"), &rows("1/2")), Err("3 rows, expected 2".into()));
    let both = compare(&[0], &columns, &rows("9"), &rows("1/2"));
    assert_eq!(both, Err("1 rows, expected 2; row 1, column k: expected 1, got 9".into()));
    assert_eq!(compare(&[0], &columns, &rows("1"), &rows("1|2")), Err("1 columns, expected 2".into()));
    assert_eq!(compare(&[0], &columns, &[], &rows("1")), Err("0 rows, expected 1".into()));
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

fn check_one(number: u8, scale: f64, batch: RecordBatch) -> Check {
    check(query(number).unwrap(), scale, Text::OfTheAnswers, &batch.schema(), &[batch])
}

#[test]
fn results_are_checked_as_arrow() {
    let decimal = |value: Option<i128>, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap())
    };
    // Query 6 at scale 0.01 is 1193053.2253.
    assert_eq!(check_one(6, 0.01, batch(vec![("revenue", decimal(Some(11_930_532_253), 4))])), Check::Ok);
    assert_eq!(check_one(6, 0.01, batch(vec![("r", decimal(Some(1_193_053_225_300), 6))])), Check::Ok);
    let wrong = check_one(6, 0.01, batch(vec![("revenue", decimal(Some(11_930_532_254), 4))]));
    assert_eq!(wrong, Check::Differs("row 1, column revenue: expected 1193053.2253, got 1193053.2254".into()));
    assert!(!wrong.passes());
    let float: ArrayRef = Arc::new(Float64Array::from(vec![1_193_053.225_299_9]));
    assert_eq!(check_one(6, 0.01, batch(vec![("revenue", float)])), Check::Ok);
    // Query 17 at scale 0.01 is NULL.
    assert_eq!(check_one(17, 0.01, batch(vec![("avg_yearly", decimal(None, 6))])), Check::Ok);
    let zero = check_one(17, 0.01, batch(vec![("avg_yearly", decimal(Some(0), 6))]));
    assert_eq!(zero, Check::Differs("row 1, column avg_yearly: expected NULL, got 0.000000".into()));
    // Query 21 at scale 0.01: names and counts.
    let name: ArrayRef = Arc::new(StringViewArray::from(vec!["Supplier#000000074"]));
    let count: ArrayRef = Arc::new(Int64Array::from(vec![9]));
    assert_eq!(check_one(21, 0.01, batch(vec![("s_name", name), ("numwait", count)])), Check::Ok);
    assert_eq!(check_one(6, 0.5, batch(vec![("revenue", decimal(Some(1), 4))])), Check::NoAnswer);
}

#[test]
fn another_generators_text_is_left_out_and_told() {
    let row = |name: &str, address: &str| {
        let name: ArrayRef = Arc::new(StringViewArray::from(vec![name]));
        let address: ArrayRef = Arc::new(StringViewArray::from(vec![address]));
        batch(vec![("s_name", name), ("s_address", address)])
    };
    let check =
        |text, batch: &RecordBatch| check(query(20).unwrap(), 0.01, text, &batch.schema(), std::slice::from_ref(batch));
    let same = row("Supplier#000000013", "kgTZjbt4CAa4c3SlirlBLqIL41YbCj");
    let other = row("Supplier#000000013", "HK71HQyWoqRWOX8GI FpgAifW,2PoH");
    let wrong = row("Supplier#000000014", "kgTZjbt4CAa4c3SlirlBLqIL41YbCj");
    assert_eq!(check(Text::OfTheAnswers, &same), Check::Ok);
    assert!(matches!(check(Text::OfTheAnswers, &other), Check::Differs(_)));
    assert_eq!(check(Text::Other, &other), Check::OkButText);
    assert!(matches!(check(Text::Other, &wrong), Check::Differs(_)));
    let counts = super::check(query(13).unwrap(), 0.01, Text::Other, &same.schema(), &[]);
    assert_eq!(counts, Check::NoAnswerForText);
    assert!(counts.passes() && !counts.was_compared());
}
