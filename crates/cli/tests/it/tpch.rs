//! `nearside tpch`: the whole way from nothing to checked answers.

use serde_json::Value;

use crate::program::{run, run_with};

fn json(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("the file was written")).expect("JSON")
}

#[test]
fn all_answers_are_right_generated_and_from_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("times.json");
    let path = path.to_str().expect("UTF-8");
    let data = folder.path().join("data");
    let data = data.to_str().expect("UTF-8");
    let out = run(&["tpch", "--scale", "0.01", "--runs", "2", "--json", path, "--save", data]).ok();
    for piece in ["machine", "lineitem", "60,175", "total", "resident", "all 22 ok"] {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
    let report = json(path);
    assert_eq!(report["scale"], 0.01);
    for field in ["threads", "load_s", "resident_bytes", "peak_resident_bytes"] {
        assert!(report[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {report}");
    }
    assert!(report["peak_resident_bytes"].as_u64() >= report["resident_bytes"].as_u64());
    for field in ["machine", "revision"] {
        assert!(report[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {report}");
    }
    let queries = report["queries"].as_array().expect("queries");
    assert_eq!(queries.len(), 22);
    for (i, query) in queries.iter().enumerate() {
        assert_eq!(query["query"], i + 1);
        assert_eq!(query["check"], "ok", "{query}");
        assert!(query["best_s"].as_f64() > Some(0.0) && query["best_s"].as_f64() <= query["median_s"].as_f64());
        assert!(query["rows"].as_u64() > Some(0), "{query}");
    }
    // The same from the files, whose scale is found out.
    let out = run(&["tpch", "--data", data, "--runs", "1", "--json", path]).ok();
    assert!(out.contains("all 22 ok") && out.contains("60,175"), "{out}");
    assert_eq!(json(path)["scale"], 0.01);
    every_operator_is_native(data);
}

/// EXPLAIN of all queries names no operator of DataFusion's.
fn every_operator_is_native(data: &str) {
    let mut files: Vec<_> = std::fs::read_dir("../tools/queries")
        .expect("the queries")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 22);
    let mut script = String::new();
    for file in files {
        let query = std::fs::read_to_string(file).expect("a query");
        script += &format!("EXPLAIN {};\n", query.trim().trim_end_matches(';'));
    }
    let loads: Vec<String> = TINY.iter().map(|(table, _)| format!("{table}={data}/{table}.parquet")).collect();
    let mut args = vec!["sql", "--format", "csv"];
    loads.iter().for_each(|load| args.extend(["--load", load]));
    let out = run_with(&args, script.as_bytes()).ok();
    assert_eq!(out.lines().filter(|line| line.starts_with("operator,")).count(), 22, "{out}");
    let foreign: Vec<&str> = out.lines().filter(|line| line.contains("datafusion")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn chosen_queries_run_on_chosen_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let data = data.to_str().expect("UTF-8");
    // Not a scale with answers: loads and runs all the same, and says so.
    let out = run(&["tpch", "--scale", "0.002", "--queries", "6,1", "--runs", "1", "--threads", "1"]).ok();
    let lines: Vec<&str> = out.lines().filter(|line| line.ends_with("no answer for this scale")).collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].trim_start().starts_with("6 ") && lines[1].trim_start().starts_with("1 "), "{out}");
    let missing = run(&["tpch", "--data", data]).failed();
    assert!(missing.contains("region.parquet"), "{missing}");
    // Tables that are too small make wrong answers, and wrong answers make exit code 1.
    let mut script = String::new();
    for (table, columns) in TINY {
        script += &format!("COPY (SELECT {columns}) TO '{data}/{table}.parquet';\n");
    }
    run_with(&["sql"], script.as_bytes()).ok();
    let scale = run(&["tpch", "--data", data, "--scale", "0.01", "--queries", "6"]).failed();
    assert!(scale.contains("0.01"), "{scale}");
}

/// One row per table, with the columns that query 6 and loading need.
const TINY: [(&str, &str); 8] = [
    ("region", "1 AS r_regionkey"),
    ("nation", "1 AS n_nationkey"),
    ("supplier", "1 AS s_suppkey"),
    ("part", "1 AS p_partkey"),
    ("partsupp", "1 AS ps_partkey"),
    ("customer", "1 AS c_custkey"),
    ("orders", "1 AS o_orderkey"),
    ("lineitem", "1 AS l_orderkey"),
];

#[test]
fn data_from_parquet_is_checked_and_wrong_answers_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("UTF-8");
    // A hundred suppliers say scale 0.01; query 6 over one made-up line item is then wrong, query 5 lacks columns.
    let mut script = String::new();
    for (table, columns) in TINY {
        let query = match table {
            "supplier" => "SELECT value AS s_suppkey FROM generate_series(1, 100)".to_string(),
            "lineitem" => "SELECT 1.00 AS l_extendedprice, 0.06 AS l_discount, DATE '1994-06-01' AS l_shipdate, \
                           1 AS l_quantity"
                .to_string(),
            _ => format!("SELECT {columns}"),
        };
        script += &format!("COPY ({query}) TO '{data}/{table}.parquet';\n");
    }
    run_with(&["sql"], script.as_bytes()).ok();
    let json_path = format!("{data}/out.json");
    let run = run(&["tpch", "--data", data, "--queries", "6,5", "--json", &json_path]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("differs: row 1, column revenue: expected 1193053.2253"), "{}", run.out);
    assert!(run.out.contains("failed: ") && run.out.contains("2 of 2 failed"), "{}", run.out);
    let report = json(&json_path);
    assert_eq!(report["scale"], 0.01);
    assert!(report["queries"][1]["best_s"].is_null(), "{report}");
}

#[test]
fn an_unwritable_file_is_told_before_the_work() {
    let sentence = run(&["tpch", "--json", "/nonexistent/folder/x.json"]).failed();
    assert!(sentence.contains("/nonexistent/folder/x.json"), "{sentence}");
}
