use super::value::Value;
use super::{DEPTH_MAX, normal, number, scan};

/// Values in the order that PostgreSQL gives them.
const IN_ORDER: [&str; 20] = [
    "[]",
    "null",
    r#""""#,
    r#""a""#,
    r#""ab""#,
    "-100.5",
    "-2",
    "-0.03",
    "0",
    "0.001",
    "0.5",
    "9",
    "10",
    "10.25",
    "false",
    "true",
    "[[]]",
    "[1, 2]",
    "{}",
    r#"{"a": 1}"#,
];

#[test]
fn normal_forms_are_those_of_postgresql() {
    for (written, expected) in [
        (r#" { "b" : 1 , "a":2, "b": 3,"aa":[ ] } "#, r#"{"a": 2, "b": 3, "aa": []}"#),
        ("1e2", "100"),
        ("1.50", "1.50"),
        ("1.50e1", "15.0"),
        ("-0", "0"),
        ("-0.0", "0.0"),
        ("100e-2", "1.00"),
        ("1E-3", "0.001"),
        ("0e5", "0"),
        (r#""\u00e4\ud83d\ude00\/\n\u0001""#, "\"ä😀/\\n\\u0001\""),
    ] {
        assert_eq!(normal(written).unwrap(), expected, "{written}");
    }
    for wrong in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "tru",
        "nulll",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\u{1}\"",
        "1 2",
        "[1 2]",
        "{\"a\":1,}",
        "NaN",
        "1a",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "1e999999",
        "1e99999999999999999999",
    ] {
        assert!(normal(wrong).is_err(), "{wrong}");
    }
    // JSON takes escapes that are no characters, since it keeps what is written.
    for text in ["\"\\u0000\"", "\"\\ud800\"", "1e999999"] {
        scan::check(text).unwrap();
    }
}

#[test]
fn what_nests_deeply_is_refused() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(normal(&nested(DEPTH_MAX)).is_ok() && scan::check(&nested(DEPTH_MAX)).is_ok());
    for depth in [DEPTH_MAX + 1, 1_000_000] {
        assert!(normal(&nested(depth)).is_err() && scan::check(&nested(depth)).is_err());
    }
}

#[test]
fn keys_are_in_the_order_of_values() {
    let keys: Vec<Vec<u8>> = IN_ORDER.iter().map(|text| Value::read(text).unwrap().key()).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    for (left, right) in [("1.0", "1"), ("1e2", "100.00"), (r#"{"a":[1.50]}"#, r#"{"a":[1.5]}"#)] {
        let (left, right) = (Value::read(left).unwrap(), Value::read(right).unwrap());
        assert!(left.is_equal(&right) && left.key() == right.key());
    }
}

#[test]
fn keys_of_numbers_compare_as_numbers() {
    let mut numbers: Vec<i64> = (0..400).map(|n: i64| (n * 7919) % 20011 - 10000).collect();
    numbers.extend([-1, 0, 1, 10, 100, 1000]);
    for (at, left) in numbers.iter().enumerate() {
        for right in &numbers[at..] {
            for scale in ["", "e-3"] {
                let text = |n: i64| number::normal(&format!("{n}{scale}")).unwrap();
                let key = |n: i64| {
                    let mut key = Vec::new();
                    number::write_key(&text(n), &mut key);
                    key
                };
                assert_eq!(key(*left).cmp(&key(*right)), left.cmp(right), "{left} {right}");
            }
        }
    }
}

/// A document of a number that says what it is.
fn document(seed: &mut u64, depth: usize) -> Value {
    let mut next = |below: u64| {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) % below
    };
    let kind = next(if depth > 3 { 5 } else { 8 });
    match kind {
        0 => Value::Null,
        1 => Value::Truth(next(2) == 0),
        2 => Value::Number(format!("{}.{}", next(100), next(10))),
        3 | 4 => Value::Text(["", "a", "b\"", "{\\", "],", "ä"][next(6) as usize].to_string()),
        5 => {
            let count = next(4);
            Value::Array((0..count).map(|_| document(seed, depth + 1)).collect())
        }
        _ => {
            let count = next(5);
            let names: Vec<&str> =
                (0..count).map(|_| ["a", "b", "b\"", "x\\", "long", "{"][next(6) as usize]).collect();
            let all = names.into_iter().map(|name| (name.to_string(), document(seed, depth + 1)));
            super::value::object(all.collect())
        }
    }
}

#[test]
fn the_scan_finds_what_the_tree_has() {
    let mut seed = 7;
    for _ in 0..3000 {
        let tree = document(&mut seed, 0);
        let text = tree.text();
        scan::check(&text).unwrap();
        assert_eq!(Value::read(&text).unwrap(), tree, "{text}");
        for key in ["a", "b", "b\"", "x\\", "long", "{", "none"] {
            assert_eq!(scan::field(&text, key), tree.field(key).map(Value::text).as_deref(), "{text} {key}");
        }
        if let Value::Array(all) = &tree {
            assert_eq!(scan::elements(&text), all.iter().map(Value::text).collect::<Vec<_>>());
            for at in -5_i64..5 {
                let place = if at < 0 { at + all.len() as i64 } else { at };
                let expected = usize::try_from(place).ok().and_then(|at| all.get(at)).map(Value::text);
                assert_eq!(scan::element(&text, at), expected.as_deref(), "{text} {at}");
            }
        }
    }
}
