use std::sync::atomic::AtomicBool;

use super::command::{PlacerArguments, placer};
use super::suite::{TIERED, case, settings_of};
use super::*;
use crate::command::Context;

fn judged(name: &str, machine: &str, dispatch_ns: u64) -> Verdict {
    let machine = Machine::parse(machine).unwrap();
    let options = Options { settings: settings_of(&machine), dispatch_ns, ..Options::default() }.on(&machine);
    judge(&case(name, &machine, &options.constants).unwrap(), &machine, &options).unwrap()
}

/// Whatever it begins with: 95% of the best, nothing goes back soon, no worse than round-robin but while it moves.
#[test]
fn on_four_sockets_it_comes_near_the_best_placement_that_does_not_change() {
    for name in ["uniform", "skewed", "one-hot-column", "shifting-skew", "joins"] {
        let verdict = judged(name, "ivybridge-ex-4", 0);
        assert!(verdict.misses.is_empty(), "{name}: {:?}", verdict.misses);
    }
}

/// What is hot comes back from memory without cpus, and what is cold goes there.
#[test]
fn memory_without_cpus_has_what_is_cold() {
    let verdict = judged("tiers", TIERED, 0);
    assert!(verdict.misses.is_empty(), "{:?}", verdict.misses);
    let without = |nodes: &[usize]| nodes.iter().all(|node| *node >= 2);
    let comes = verdict.actions.iter().filter(|of| without(&of.from) && !without(&of.to)).count();
    let goes = verdict.actions.iter().filter(|of| !without(&of.from) && without(&of.to)).count();
    assert!(comes > 0 && goes > 0, "{:#?}", verdict.actions);
    assert!(verdict.of_best > 1.2, "what does not change leaves hot columns there: {}", verdict.of_best);
}

/// Half of the columns are hot and lie on half of the nodes: the skew is smoothed out (V12).
#[test]
fn skew_of_half_of_the_columns_is_smoothed_out() {
    let verdict = judged("v12", "ivybridge-ex-4", 0);
    assert!(verdict.of_best >= NEAR, "{}", verdict.of_best);
}

/// Where ranges cost what the paper measured, columns in turn are the best, and nothing is done (V6, V8).
#[test]
fn it_leaves_alone_what_round_robin_does_best() {
    let verdict = judged("uniform-many", "ivybridge-ex-4", 17_000);
    assert!(verdict.misses.is_empty() && verdict.actions.is_empty(), "{:#?}", verdict.actions);
}

/// One table for 32 clients, three for 64 (V17, V18): both end in ranges over all nodes.
#[test]
fn aggregations_spread_over_the_machine() {
    for name in ["tpch-q1", "bw-eml"] {
        let verdict = judged(name, "ivybridge-ex-4", 0);
        assert!(verdict.misses.is_empty(), "{name}: {:?}", verdict.misses);
        assert!(
            verdict.tried[0].by_phase[0] < 0.6 * verdict.best_static().by_phase[0],
            "{name}: there was something to do"
        );
    }
}

/// Short, as the tests are; `nearside lab placer --search N` goes on.
#[test]
fn random_workloads_do_not_make_it_lose() {
    for seed in (1..9).filter(|seed| !LOST.contains(seed)) {
        let verdict = of_seed(seed);
        assert!(verdict.misses.is_empty(), "seed {seed}: {:?}\n{}", verdict.misses, search::draw(seed).about);
    }
}

/// What the search found: seeds with which something is missed. Who mends one sees it here, and takes it out.
const LOST: [u64; 1] = [269];

#[test]
fn what_the_search_found_is_known() {
    for seed in LOST {
        let found = of_seed(seed);
        assert!(!found.misses.is_empty(), "seed {seed}: {}", found.of_best);
    }
}

fn of_seed(seed: u64) -> Verdict {
    let drawn = search::draw(seed);
    judge(&drawn.case, &drawn.machine, &drawn.options).unwrap()
}

#[test]
fn a_run_below_round_robin_is_seen() {
    let rr = [100.0];
    let moving = |at_s, done_s| Action {
        at_s,
        done_s,
        column: 0,
        from: vec![0],
        to: vec![1],
        why: String::new(),
        moved_bytes: 1.0,
    };
    let ticks: Vec<f64> = (0..100).map(|tick| if (40..60).contains(&tick) { 80.0 } else { 100.0 }).collect();
    let below_s = |actions: &[Action]| below(&ticks, 0.5, &[(0.0, 50.0)], &rr, actions);
    assert!(below_s(&[]) > 8.0, "{}", below_s(&[]));
    assert_eq!(below_s(&[moving(19.0, Some(31.0))]), 0.0, "data was on its way");
    let slow = vec![80.0; 100];
    assert_eq!(below(&slow, 0.5, &[(0.0, 50.0)], &rr, &[]), 0.0, "it was never there");
}

fn command(arguments: PlacerArguments) -> Result<(command::Judged, String), String> {
    let stop = AtomicBool::new(false);
    let context = Context { revision: "r".into(), threads: 2, progress: &|_| {}, stop: &stop, measure: None };
    let mut out = Vec::new();
    let judged = placer(&arguments, &context, &mut out).map_err(|error| error.to_string())?;
    Ok((judged, String::from_utf8(out).unwrap()))
}

fn asked(workload: &str) -> PlacerArguments {
    PlacerArguments {
        workloads: vec![workload.into()],
        machines: vec!["ivybridge-ex-4".into()],
        dispatch_us: 0.0,
        search: 0,
        seed: 1,
        json: None,
        draw: None,
    }
}

#[test]
fn the_command_prints_writes_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let (json, draw) = (folder.path().join("a.json"), folder.path().join("a.svg"));
    let arguments = PlacerArguments { json: Some(json.clone()), draw: Some(draw.clone()), ..asked("shifting-skew") };
    let (judged, text) = command(arguments).unwrap();
    let actions = judged.suite[0].actions.len();
    assert!(actions > 0 && text.contains("shifting-skew  ivybridge-ex-4"), "{text}");
    let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(read["suite"][0]["actions"].as_array().unwrap().len(), actions);
    let picture = std::fs::read_to_string(draw).unwrap();
    assert!(picture.starts_with("<svg xmlns") && picture.matches("fill=\"#c9d7ea\"").count() == actions);
}

#[test]
fn what_cannot_be_judged_is_told() {
    assert!(command(asked("nothing")).unwrap_err().contains("choose of uniform"));
    let two =
        PlacerArguments { draw: Some("x.svg".into()), workloads: vec!["uniform".into(), "v12".into()], ..asked("") };
    assert!(command(two).unwrap_err().contains("one workload"));
}
