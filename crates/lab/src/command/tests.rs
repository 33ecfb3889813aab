use std::sync::atomic::AtomicBool;

use numa::Topology;

use super::*;
use crate::claims::Verdict;
use crate::declaration::Point;
use crate::engine::Conditions;
use crate::result::{Metric, Outcome};

fn context<'a>(stop: &'a AtomicBool, measure: Option<&'a dyn Measure>) -> Context<'a> {
    Context { revision: "test".into(), threads: 1, progress: &|_| {}, stop, measure }
}

fn run_arguments(experiments: &[&str], results: &Path) -> RunArguments {
    RunArguments {
        experiments: experiments.iter().map(|id| id.to_string()).collect(),
        set: Vec::new(),
        kind: ResultKind::Simulated,
        full: false,
        seed: 1,
        seeds: 1,
        results: results.to_path_buf(),
    }
}

/// Measures by counting clients.
struct Clients;

impl Measure for Clients {
    fn machine(&self) -> (String, Topology) {
        ("at hand".into(), Topology::synthetic(1, 1, 2, 1))
    }

    fn measure(&self, point: &Point, _: Conditions<'_>) -> Result<Outcome, RunError> {
        let clients = point.named["clients"].as_integer().unwrap_or(0);
        Ok(Outcome::default().with(Metric::Throughput, clients as f64))
    }
}

#[test]
fn the_list_has_every_experiment() {
    let mut out = Vec::new();
    list(&mut out).expect("listed");
    let text = String::from_utf8(out).expect("text");
    for experiment in Experiment::all() {
        assert!(text.contains(&experiment.id), "{}", experiment.id);
    }
    assert!(text.contains("V1 ") && text.contains("ivybridge-ex-4"));
}

#[test]
fn a_run_prints_its_figures_and_keeps_them_for_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let mut out = Vec::new();
    let arguments = run_arguments(&["nbb2011/fig56", "nbb2011/fig52"], folder.path());
    run(&arguments, &context(&stop, None), &mut out).expect("run");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("(modelled)") && text.contains("gain share") && text.contains("q_beside"));
    let page = folder.path().join("report.html");
    let found = with_results(&Store::open(folder.path()).expect("opens")).expect("readable");
    let with: Vec<&str> = found.iter().filter(|(_, results)| !results.is_empty()).map(|(e, _)| e.id.as_str()).collect();
    assert_eq!(with, ["nbb2011/fig52", "nbb2011/fig56"]);
    write_text(&page, "x").expect("written");
    assert_eq!(std::fs::read_to_string(&page).expect("there"), "x");
}

#[test]
fn measured_runs_come_from_the_caller_and_are_kept_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let mut arguments = run_arguments(&["vldb2015/fig08"], folder.path());
    arguments.kind = ResultKind::Measured;
    arguments.set = vec!["strategy=bound".into()];
    let refused = run(&arguments, &context(&stop, None), &mut Vec::new()).expect_err("nothing measures").to_string();
    assert!(refused.contains("cannot measure"), "{refused}");
    let mut out = Vec::new();
    run(&arguments, &context(&stop, Some(&Clients)), &mut out).expect("run");
    assert!(String::from_utf8(out).expect("text").contains("(measured)"));
    let files = Store::open(folder.path()).expect("opens").files().expect("readable");
    assert_eq!(files.len(), 1);
    let (head, records) = &files[0];
    assert_eq!((head.kind, records.len()), (ResultKind::Measured, 6));
    assert!(head.machines.contains_key("at hand") && records.iter().all(|record| record.kind == ResultKind::Measured));
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let told = |arguments: &RunArguments| {
        run(arguments, &context(&stop, Some(&Clients)), &mut Vec::new()).expect_err("refused").to_string()
    };
    assert!(told(&run_arguments(&[], folder.path())).contains("which experiment"));
    assert!(told(&run_arguments(&["nbb2011/fig5"], folder.path())).contains("did you mean 'nbb2011/fig5"));
    let mut measured = run_arguments(&["nbb2011/fig56"], folder.path());
    measured.kind = ResultKind::Measured;
    assert!(told(&measured).contains("can be modelled, not measured"));
    let mut set = run_arguments(&["nbb2011/fig56"], folder.path());
    set.set = vec!["qq=1".into()];
    assert!(told(&set).contains("did you mean 'q'"));
    let nowhere = ClaimsArguments {
        only: vec!["N5".into()],
        full: false,
        json: Some(folder.path().join("none/claims.json")),
        sensitivity: false,
        seed: 1,
        seeds: 1,
        results: None,
    };
    let error = claims(&nowhere, &context(&stop, None), &mut Vec::new()).expect_err("no such folder").to_string();
    assert!(error.contains("cannot write"), "{error}");
}

#[test]
fn claims_are_printed_and_written_with_their_origin() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let path = folder.path().join("claims.json");
    let arguments = ClaimsArguments {
        only: vec!["N5".into(), "S2".into()],
        full: false,
        json: Some(path.clone()),
        sensitivity: false,
        seed: 1,
        seeds: 1,
        results: None,
    };
    let mut out = Vec::new();
    let evaluation = claims(&arguments, &context(&stop, None), &mut out).expect("judged");
    assert_eq!(evaluation.count(Verdict::ByConstruction), 1);
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("2 claims: 0 holds, 0 fitted, 0 misses, 0 not yet, 1 input, 1 by construction"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("there")).expect("JSON");
    assert_eq!(json["revision"], "test");
    assert_eq!(json["claims"][0]["id"], "S2");
    assert_eq!(json["claims"][0]["verdict"], "input");
    assert!(json["constants"]["task_ns"].is_number());
}

/// A few statements on a small machine.
const OWN: &str = r#"
id = "own/seeds"
title = "t"
kinds = ["simulated"]
found = "f"
metrics = ["throughput", "latency-mean"]
[source]
paper = "none"
section = "none"
figures = ["none"]
[machine]
name = "ivybridge-ex-4"
cpus_per_node = 2
[workload]
kind = "columns"
clients = 8
strategy = "os"
[length]
seconds = 0.5
short_seconds = 0.5
"#;

#[test]
fn several_seeds_are_kept_apart_and_told_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let own = folder.path().join("own.toml");
    std::fs::write(&own, OWN).expect("written");
    let mut arguments = run_arguments(&[own.to_str().expect("text")], folder.path());
    arguments.seeds = 3;
    let mut out = Vec::new();
    run(&arguments, &context(&stop, None), &mut out).expect("runs");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains(" \u{b1} "), "{text}");
    let (_, records) = Store::open(folder.path()).and_then(|store| store.files()).expect("kept").remove(0);
    assert_eq!(records.iter().map(|record| record.seed).collect::<Vec<_>>(), [1, 2, 3]);
    let claims_of = |seeds| ClaimsArguments {
        only: vec!["N4".into(), "N5".into()],
        full: false,
        json: None,
        sensitivity: false,
        seed: 1,
        seeds,
        results: Some(folder.path().to_path_buf()),
    };
    let mut out = Vec::new();
    let found = claims(&claims_of(2), &context(&stop, None), &mut out).expect("judged");
    let text = String::from_utf8(out).expect("text");
    assert!(
        text.contains("seeds 1, 2") && text.contains("Of 1 that were run with each seed, 1 have the same"),
        "{text}"
    );
    let n4 = &found.claims[0];
    let n5 = &found.claims[1];
    assert_eq!((n4.by_seed.len(), n4.deviations().len(), n5.by_seed.len()), (2, 2, 0));
    let one = claims(&claims_of(1), &context(&stop, None), &mut Vec::new()).expect("judged");
    assert_eq!(one.claims[0].values, n4.by_seed[0].values, "each seed is judged as if it were alone");
}
