//! `nearside bench sched`, small and short: that it runs, checks its answers, and tells all that it promises.

use serde_json::Value;

use crate::program::run;

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
    assert_eq!(targets, [Some(400.0), Some(150.0), Some(20_000.0), None]);
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
