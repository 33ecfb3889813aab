use std::sync::atomic::AtomicBool;

use toml::Table;

use super::*;
use crate::declaration::Experiment;

/// Runs the point of an experiment with these settings for `n` virtual seconds.
fn outcome(id: &str, set: &[&str], seconds: f64) -> Result<Outcome, RunError> {
    let experiment = Experiment::find(id).expect("ours");
    let given: Vec<String> = set.iter().map(|text| text.to_string()).collect();
    let set: Table = experiment.read_settings(&given).expect("known names");
    let point = experiment.point_with(&set).expect("sound");
    let stop = AtomicBool::new(false);
    SimEngine::default().run(&point, Conditions { seed: 3, seconds, stop: &stop })
}

fn figure(id: &str, set: &[&str], seconds: f64, metric: Metric) -> f64 {
    outcome(id, set, seconds).expect("runs").metrics[&metric]
}

#[test]
fn every_experiment_that_can_be_simulated_has_a_point_that_runs_or_says_what_is_missing() {
    for experiment in Experiment::all().iter().filter(|e| e.runs_as(ResultKind::Simulated)) {
        let small = ["clients=4", "connections=4", "keys=1000000", "rows=1000000", "range_pred=1000"].map(String::from);
        let known = |text: &&String| experiment.read_settings(std::slice::from_ref(*text)).is_ok();
        let set: Vec<String> = small.iter().filter(known).cloned().collect();
        let set = experiment.read_settings(&set).expect("filtered");
        let points = experiment.grid_with(&set).expect("sound");
        let stop = AtomicBool::new(false);
        let point = &points[points.len() / 2];
        match SimEngine::default().run(point, Conditions { seed: 1, seconds: 0.01, stop: &stop }) {
            Ok(found) => assert!(experiment.metrics.iter().any(|m| found.metrics.contains_key(m)), "{}", experiment.id),
            Err(RunError::Failed(reason)) => assert!(reason.contains("longer than"), "{}: {reason}", experiment.id),
            Err(RunError::NotYet(reason)) => assert!(reason.contains("thesis prints"), "{}: {reason}", experiment.id),
            Err(other) => panic!("{}: {other}", experiment.id),
        }
    }
}

#[test]
fn the_same_point_and_seed_give_the_same_figures() {
    let run = || outcome("vldb2015/fig08", &["clients=16", "strategy=target"], 0.1).expect("runs");
    assert_eq!(run(), run());
}

#[test]
fn knowing_the_nodes_pays_on_four_sockets() {
    let throughput = |strategy: &str| {
        figure("vldb2015/fig08", &["clients=128", &format!("strategy={strategy}")], 1.0, Metric::Throughput)
    };
    let os = throughput("os");
    let bound = throughput("bound");
    assert!(bound > 2.0 * os, "{bound} and {os}");
}

#[test]
fn units_read_more_than_interleaving_gives_and_that_more_than_one_node() {
    let rate = |design: &str| figure("eris2014/fig12-scan", &[&format!("design={design}")], 0.5, Metric::ScanRate);
    let single = rate("single-ram");
    let interleaved = rate("interleaved");
    let units = rate("units");
    assert!(units > interleaved && interleaved > single, "{single} {interleaved} {units}");
}

#[test]
fn what_the_simulator_cannot_do_is_refused_with_the_reason() {
    let told = |id: &str, set: &[&str]| outcome(id, set, 0.01).expect_err("refused").to_string();
    assert!(told("vldb2015/fig08", &["numa_balancing=true"]).contains("no kernel"));
    assert!(told("vldb2015/fig08", &["machine=nowhere"]).contains("there is no machine"));
    assert!(told("vldb2015/fig08", &["nodes=9"]).contains("1 to 4"));
    assert!(told("nbb2011/fig43", &["cpus_per_node=9"]).contains("multiple of 2"));
    assert!(told("nbb2011/fig45", &["cpus_per_node=2"]).contains("query 3"));
    assert!(told("subnuma2020/fig12", &["machine=skylake-2-snc-off", "workers=b"]).contains("no second sub-domain"));
    assert!(told("eris2014/fig11", &["design=single-ram"]).contains("not simulated"));
}

#[test]
fn half_the_cores_and_fewer_nodes_are_what_is_used() {
    let used = |set: &[&str]| {
        let experiment = Experiment::find("vldb2015/fig08").expect("ours");
        let given: Vec<String> = set.iter().map(|text| text.to_string()).collect();
        let point = experiment.point_with(&experiment.read_settings(&given).expect("known")).expect("sound");
        let machine = machine_of(&point.settings.machine).expect("a machine");
        (machine.node_count(), machine.cpus())
    };
    assert_eq!(used(&[]), (4, 120));
    assert_eq!(used(&["cores=half"]), (4, 56));
    assert_eq!(used(&["nodes=2"]), (2, 60));
    assert_eq!(used(&["cpus_per_node=10"]), (4, 40));
    assert_eq!(used(&["cpus_per_node=20"]), (4, 80));
}

#[test]
fn physical_partitioning_repeats_dictionaries() {
    let used =
        |placement: &str| figure("vldb2015/placing", &[&format!("placement={placement}")], 3600.0, Metric::MemoryUsed);
    assert!(used("pp") > used("ivp"));
    let error = outcome("vldb2015/placing", &[], 0.001).expect_err("too short").to_string();
    assert!(error.contains("longer than the 0.001 virtual seconds"), "{error}");
}

#[test]
fn a_large_result_takes_its_share_of_a_statement() {
    let share = |selectivity: &str, metric| {
        figure("vldb2015/fig14", &["clients=64", &format!("selectivity={selectivity}")], 0.5, metric)
    };
    assert!(share("0.00001", Metric::LookupShare) > 0.0);
    assert!(share("0.01", Metric::ScanShare) > 0.0 && share("0.01", Metric::LookupShare) == 0.0);
    assert!(share("0.1", Metric::OutputShare) > share("0.01", Metric::OutputShare));
}

#[test]
fn workers_of_one_sub_domain_read_one_table_after_the_other_and_move_more_for_the_neighbours() {
    let run = |set: &[&str]| outcome("subnuma2020/fig12", set, 5.0).expect("runs").metrics;
    let both = run(&["workers=both"]);
    let one = run(&["workers=a"]);
    assert!(one[&Metric::Throughput] < 0.8 * both[&Metric::Throughput], "as many cpus would do as well");
    let own = run(&["workers=a", "predicates=6+0"]);
    let next = run(&["workers=a", "predicates=0+6"]);
    assert!((next[&Metric::Throughput] / own[&Metric::Throughput] - 1.0).abs() < 0.02);
    assert!(next[&Metric::MemoryTraffic] > 1.5 * own[&Metric::MemoryTraffic]);
}

#[test]
fn uniting_lists_in_turn_moves_more_than_at_once_and_bits_move_nothing() {
    let took = |set: &str| {
        let set = ["workers=a", "predicates=6+0", "range_pred=1000000", set];
        1.0 / figure("subnuma2020/fig14", &set, 10.0, Metric::Throughput)
    };
    // Without a system nothing is assumed of how it unites.
    let [bitmap, at_once, in_turn] = ["system=", "unions=at-once", "unions=in-turn"].map(took);
    assert!(in_turn > 1.05 * at_once && at_once > 1.02 * bitmap, "{bitmap} {at_once} {in_turn}");
}

#[test]
fn threads_that_nothing_pins_may_be_on_any_cpu() {
    let spread = |aware: &str| figure("nbb2011/fig41", &["cpus_per_node=2", aware], 3.0, Metric::RunSpread);
    assert_eq!(spread("aware=true"), 0.0);
    assert!(spread("aware=false") > 0.02, "some nodes have more threads than others, by chance");
}
