//! `nearside bench`, small and short: that each benchmark runs, checks its answers, and tells all that it promises.

use serde_json::Value;

use crate::program::{file, run};

/// Little of everything.
const SMALL: [&str; 16] = [
    "bench",
    "sched",
    "--tasks",
    "1000",
    "--turns",
    "1",
    "--elements",
    "20000",
    "--rows",
    "300000",
    "--clients",
    "2,8",
    "--seconds",
    "0.3",
    "--rounds",
    "1",
];

#[test]
fn one_run_gives_the_whole_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sched.json");
    let path = path.to_str().expect("UTF-8");
    let out = run(&[&SMALL[..], &["--threads", "2", "--seed", "7", "--json", path]].concat()).ok();
    for piece in
        ["machine", "revision", "2 in 1 thread group", "parked worker", "parallel_reduce", "rayon", "300,000 rows"]
    {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
    let lines = |begin: &str| out.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!((lines("parallel_"), lines("rr "), lines("ivp ")), (16, 2, 2), "{out}");

    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON");
    assert_eq!((&report["benchmark"], &report["source"]), (&"sched".into(), &"measured".into()));
    assert_eq!((&report["slots"], &report["plan"]["seed"]), (&2.into(), &7.into()));
    for field in ["machine", "revision"] {
        assert!(report[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {report}");
    }
    assert!(report["topology"].is_object() && report["debug_build"].is_boolean());
    let list = |name: &str| report[name].as_array().unwrap_or_else(|| panic!("no list {name}: {report}")).clone();
    let positive = |value: &Value| value.as_f64().is_some_and(|number| number > 0.0);
    let targets: Vec<_> = list("tasks").iter().map(|task| task["target_ns"].as_f64()).collect();
    assert_eq!(targets, [Some(400.0), Some(20_000.0), None]);
    assert!(list("tasks").iter().all(|task| positive(&task["ns"])));
    assert!(list("tasks").iter().all(|task| task["met"].is_boolean() == task["target_ns"].is_f64()));
    assert_eq!(list("loops").len(), 16);
    assert!(list("loops").iter().all(|row| positive(&row["ratio"]) && positive(&row["rival_ms"])), "{report}");
    let statements = list("statements");
    let points: Vec<_> = statements.iter().map(|row| (row["placement"].as_str(), row["clients"].as_u64())).collect();
    assert_eq!(points, [(Some("rr"), Some(2)), (Some("rr"), Some(8)), (Some("ivp"), Some(2)), (Some("ivp"), Some(8))]);
    for row in &statements {
        for field in ["statements", "per_second", "ratio", "resident_before_bytes", "resident_after_bytes"] {
            assert!(positive(&row[field]), "{field}: {row}");
        }
        let at = |percentile: &str| row["latency_ms"][percentile].as_f64().expect("a number");
        assert!(at("p5") > 0.0 && at("p5") <= at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{row}");
        assert_eq!(row["keeps_throughput"], row["ratio"].as_f64() >= Some(0.95), "{row}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_measured() {
    let sentence = run(&["bench", "sched", "--json", "/no/such/folder/sched.json"]).failed();
    assert!(sentence.contains("/no/such/folder/sched.json"), "{sentence}");
}

#[test]
fn what_the_machine_cannot_hold_is_refused_and_an_earlier_file_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sched.json");
    std::fs::write(&path, "earlier").expect("a file");
    let path = path.to_str().expect("UTF-8");
    let sentence = run(&["bench", "sched", "--json", path, "--elements", "1000000000000"]).failed();
    assert!(sentence.contains("--elements 1000000000000 takes"), "{sentence}");
    assert_eq!(std::fs::read_to_string(path).expect("it is there"), "earlier");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
}

/// Runs a benchmark with `--json`, asserts that the envelope is whole, and gives what it printed and its report.
fn report_of(name: &str, arguments: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let path = path.to_str().expect("UTF-8");
    let out = run(&[&["bench", name], arguments, &["--json", path]].concat()).ok();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON");
    assert_eq!((&report["benchmark"], &report["source"]), (&name.into(), &"measured".into()));
    for field in ["machine", "cpu_model", "revision", "version"] {
        assert!(report[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {report}");
    }
    assert!(report["cpus"].as_u64() > Some(0) && report["nodes"].as_u64() > Some(0));
    assert!(report["topology"].is_object() && report["arguments"].is_object() && report["debug_build"].is_boolean());
    let figures = report["figures"].as_array().expect("figures");
    assert!(!figures.is_empty());
    for figure in figures {
        assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure}");
        assert!(
            figure["unit"].is_string() && ["less", "more"].contains(&figure["better"].as_str().unwrap_or("")),
            "{figure}"
        );
        assert_eq!(figure["target"].is_f64(), figure["met"].is_boolean(), "{figure}");
    }
    for piece in ["machine", "revision", "threads"] {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
    (out, report)
}

fn names(report: &Value) -> Vec<&str> {
    report["figures"].as_array().expect("figures").iter().filter_map(|figure| figure["name"].as_str()).collect()
}

#[test]
fn scans_have_a_figure_per_selectivity() {
    let small = ["--rows", "70000", "--runs", "2", "--threads", "2", "--selectivity", "1e-05,0.1"];
    let (out, report) = report_of("scan", &small);
    assert!(out.contains("70,000 rows, 10 columns of 17 to 26 bits") && out.contains("0.001%"), "{out}");
    assert_eq!(names(&report), ["1e-05", "0.1"]);
    let figure = &report["figures"][1];
    assert_eq!(
        (figure["runs_s"].as_array().map(Vec::len), figure["columns"].as_array().map(Vec::len)),
        (Some(20), Some(10))
    );
    for column in figure["columns"].as_array().expect("columns") {
        assert!((6_500..7_500).contains(&column["rows"].as_u64().expect("rows")), "{column}");
    }
    assert_eq!((&report["figures"][0]["share_min"], &figure["share_min"]), (&0.6.into(), &Value::Null));
    assert_eq!(report["read_bytes_per_second"].is_f64(), figure["share_of_bandwidth"].is_f64());
}

#[test]
fn clients_that_scan_one_column_are_measured_with_and_without_sharing() {
    let small = ["--rows", "300000", "--runs", "1", "--threads", "2", "--selectivity", "1e-05", "--clients", "3,9"];
    let (out, report) = report_of("scan", &[&small[..], &["--seconds", "1", "--bits", "17"]].concat());
    assert!(out.contains("300,000 rows of 17 bits") && out.contains("statements/s"), "{out}");
    let ways = |clients| ["off", "on", "auto"].map(|way| format!("1e-05 {clients} clients {way}"));
    assert_eq!(names(&report), [ways(3), ways(9)].concat());
    assert_eq!((&report["figures"][0]["of_first"], &report["arguments"]["bits"]), (&1.0.into(), &17.into()));
}

#[test]
fn kernels_have_a_figure_per_width_path_and_place() {
    let small = ["--bits", "3,17", "--data", "1MiB", "--runs", "1", "--milliseconds", "1"];
    let (out, report) = report_of("kernels", &small);
    for piece in ["range", "member", "unpack", "gather", "compress", "scalar memory", "roof"] {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
    let names = names(&report);
    assert!(names.contains(&"range 3 scalar memory") && names.contains(&"gather 17 scalar cache"), "{names:?}");
    // Five kernels, two widths, two places; AVX2 for all of them, AVX-512 for two.
    assert!([20, 40, 48].contains(&names.len()), "{names:?}");
}

#[test]
fn point_queries_are_counted_and_checked() {
    for order in [&["--rows", "3000"][..], &["--rows", "3001", "--shuffled"]] {
        let (out, report) = report_of("point", &[order, &["--seconds", "0.1", "--range", "7"]].concat());
        assert!(out.contains("per second") && out.contains("p99 us"), "{out}");
        assert_eq!(names(&report), ["hit", "miss", "range"]);
        assert_eq!(report["figures"][0]["target"], 100_000.0);
        for figure in report["figures"].as_array().expect("figures") {
            assert!(
                figure["p50_us"].as_f64() <= figure["p99_us"].as_f64() && figure["queries"].as_u64() > Some(0),
                "{figure}"
            );
        }
    }
}

#[test]
fn writes_are_counted_and_checked() {
    let small = ["--rows", "1000", "--load-rows", "1000", "--seconds", "0.05", "--threads", "2", "--seed", "4"];
    let (out, report) = report_of("writes", &small);
    assert!(out.contains("statements of one row") && out.contains("scans beside writes by UPDATE"), "{out}");
    let of_one_row = ["SELECT", "INSERT", "UPDATE", "DELETE", "upsert"];
    let forms = ["text", "prepared"];
    let alone = forms.iter().flat_map(|form| of_one_row.iter().map(move |what| format!("{what} {form}")));
    let together = forms.iter().map(|form| format!("UPDATE {form} by 4 sessions"));
    let mut expected: Vec<String> = alone.chain(together).collect();
    let beside = ["scan at rest", "scan beside writes", "scan beside : at rest", "writes beside scans"];
    expected.extend(beside.map(String::from));
    expected.extend(beside.map(|name| format!("{name}, batches")));
    for from in ["table", "Parquet"] {
        for order in ["ascending", "shuffled"] {
            expected.extend([format!("load {from} {order}"), format!("load {from} {order} peak")]);
        }
    }
    assert_eq!(names(&report), expected);
    let of = |name: &str| {
        let mut figures = report["figures"].as_array().expect("figures").iter();
        figures.find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no figure {name}"))
    };
    assert_eq!((&of("SELECT prepared")["target"], &of("upsert prepared")["target"]), (&250e3.into(), &150e3.into()));
    assert_eq!(of("UPDATE text by 4 sessions")["target"], of("UPDATE text")["value"]);
    assert_eq!(of("load Parquet shuffled")["target"], 3e6);
    assert!(of("load table ascending peak")["stays_bytes"].as_u64() > Some(0));

    let few = ["--rows", "100", "--load-rows", "0", "--seconds", "0.05", "--write-rate", "50"];
    let (out, report) = report_of("writes", &few);
    assert!(!out.contains("load table") && names(&report).contains(&"DELETE text"), "{out}");
    let writes = report["figures"].as_array().expect("figures").iter().find(|f| f["name"] == "writes beside scans");
    assert_eq!(writes.expect("a figure")["asked_per_second"], 50.0);
    assert!(out.contains("by upserts of 100 rows by key, 50 rows per second"), "{out}");
}

#[test]
fn planning_has_a_figure_per_query() {
    let (out, report) = report_of("plan", &["--runs", "1"]);
    assert!(out.contains("bind and start") && out.contains("optimise"), "{out}");
    let names = names(&report);
    assert_eq!((names.len(), names[2], names[24]), (25, "three predicates, sixteen columns", "TPC-H query 22"));
    let targets: Vec<_> = [0, 1, 2, 3].map(|i| report["figures"][i]["target"].as_f64()).to_vec();
    assert_eq!(targets, [Some(20.0), None, Some(1000.0), Some(3000.0)]);
    assert!(
        report["figures"].as_array().expect("figures")[2..].iter().all(|figure| figure["bind_us"].as_f64() > Some(0.0)),
        "{report}"
    );
}

#[test]
fn queries_that_come_at_once_are_measured_both_ways() {
    let (out, report) = report_of("admission", &["--scale", "0.1", "--queries", "4", "--rounds", "1"]);
    assert!(out.contains("1 sets of 4 queries"), "{out}");
    let names = names(&report);
    assert_eq!((names.len(), names[0]), (12, "mean response, reckoned, fifo"));
    let value = |place: usize| report["figures"][place]["value"].as_f64().expect("a number");
    assert!((0..12).all(|place| value(place) > 0.0), "{report}");
    // Shortest first is never reckoned to respond later, nor to end at another time.
    assert!(value(2) <= 1.0 && (value(8) - 1.0).abs() < 1e-9, "{report}");
    let sentence = run(&["bench", "admission", "--scale", "0.001"]).failed();
    assert!(sentence.contains("take a larger scale"), "{sentence}");
}

#[test]
fn loads_are_processes_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("UTF-8");
    run(&["tpch", "--scale", "0.001", "--runs", "1", "--queries", "6", "--save", data]).ok();
    let (out, report) = report_of("load", &["--data", data, "--scale", "0.001", "--runs", "1", "--threads", "1"]);
    assert!(out.contains("MB/s read") && out.contains("scale 0.001 generated"), "{out}");
    assert_eq!(names(&report), [data, "scale 0.001 generated"]);
    let [files, generated] = [0, 1].map(|i| &report["figures"][i]);
    assert!(files["file_bytes"].as_u64() > Some(10_000) && generated["file_bytes"].is_null());
    assert_eq!((&files["rows"], &files["scale"]), (&generated["rows"], &0.001.into()));
    assert!(files["peak_bytes"].as_f64() >= files["resident_bytes"].as_f64());

    let missing = run(&["bench", "load", "--data", "/no/such/folder"]).failed();
    assert!(missing.contains("/no/such/folder holds no region.parquet"), "{missing}");
}

#[test]
fn queries_of_ones_own_are_timed_and_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (data, answers) = (of("data"), of("found"));
    std::fs::create_dir(&data).expect("a folder");
    let copy = format!("COPY (SELECT value AS n FROM generate_series(1, 10)) TO '{data}/numbers.parquet'");
    run(&["sql", "-c", &copy]).ok();
    let sum = file(folder.path(), "sum.sql", "-- All of them.\nSELECT sum(n) AS s, max(n) AS m FROM numbers;\n");
    let none = file(folder.path(), "none.sql", "SELECT n FROM numbers WHERE n > 10");
    let (out, report) = report_of("queries", &[&data, &sum, &none, "--runs", "2", "--answers", &answers]);
    assert!(out.contains("10 rows in 1 tables"), "{out}");
    assert_eq!(names(&report), ["sum", "none"]);
    assert_eq!((&report["figures"][0]["rows"], &report["figures"][1]["rows"]), (&1.into(), &0.into()));
    let read = |name: &str| std::fs::read_to_string(format!("{answers}/{name}.csv")).expect("an answer");
    assert_eq!((read("sum").as_str(), read("none").as_str()), ("s,m\n55,10\n", "n\n"));

    let wrong = file(folder.path(), "wrong.sql", "SELECT m FROM numbers");
    let sentence = run(&["bench", "queries", &data, &wrong]).failed();
    assert!(sentence.contains("query wrong") && sentence.contains("'m'"), "{sentence}");
    let sentence = run(&["bench", "queries", folder.path().to_str().expect("UTF-8"), &sum]).failed();
    assert!(sentence.contains("holds no Parquet file"), "{sentence}");
    let sentence = run(&["bench", "queries", &data, "/no/such.sql"]).failed();
    assert!(sentence.contains("/no/such.sql"), "{sentence}");
    let sentence = run(&["bench", "queries", &data, &sum, &sum]).failed();
    assert!(sentence.contains("'sum'"), "{sentence}");
}

#[test]
fn files_that_cannot_be_written_are_told_by_every_benchmark() {
    for name in ["scan", "kernels", "point", "writes", "plan", "load", "admission"] {
        let sentence = run(&["bench", name, "--json", "/no/such/folder/x.json"]).failed();
        assert!(sentence.contains("/no/such/folder/x.json"), "{name}: {sentence}");
    }
    let sentence = run(&["bench", "kernels", "--data", "1kB"]).failed();
    assert!(sentence.contains("--data is 1000 B: give at least 256.0 KiB"), "{sentence}");
}
