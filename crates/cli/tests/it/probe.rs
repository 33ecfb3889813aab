//! `nearside probe`: its tables and its files.

use std::time::Instant;

use serde_json::Value;

use crate::program::run;

#[test]
fn a_quick_probe_prints_tables_and_writes_what_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (json, csv, svg) = (file("a.json"), file("a.csv"), file("a.svg"));
    let started = Instant::now();
    let text = run(&["probe", "--quick", "--json", &json, "--csv", &csv, "--svg", &svg]).ok();
    // Ten seconds are promised of two cores of one's own; tests share theirs.
    assert!(started.elapsed().as_secs() < 40, "{:?}", started.elapsed());
    for title in ["Idle latency, ns", "Read bandwidth", "Write bandwidth", "Copy bandwidth", "Notes"] {
        assert!(text.contains(title), "{title} is missing:\n{text}");
    }
    let read = |name: &str| std::fs::read_to_string(name).expect("a file");
    let result: Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!((&result["format"], &result["source"], &result["quick"]), (&1.into(), &"measured".into(), &true.into()));
    assert!(result["topology"]["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()));
    assert!(read(&csv).starts_with("kind,initiator,target,threads,value,unit\nlatency_min,"));
    assert!(read(&svg).starts_with("<svg ") && read(&svg).trim_end().ends_with("</svg>"));
    // Other commands take it as this machine.
    let machine = run(&["topology", "--machine", &json, "--format", "json"]).ok();
    let machine: Value = serde_json::from_str(&machine).expect("JSON");
    assert_eq!(machine["nodes"], result["topology"]["nodes"]);
}

#[test]
fn a_file_that_cannot_be_written_fails_before_anything_is_measured() {
    let started = Instant::now();
    let sentence = run(&["probe", "--json", "/nonexistent/folder/a.json"]).failed();
    assert!(sentence.contains("cannot write '/nonexistent/folder/a.json'"), "{sentence}");
    assert!(started.elapsed().as_secs() < 5);
}
