use std::sync::Arc;

use sched::{Affinity, Preset, SlotId};

use super::*;
use crate::workload::scan::{Placement, Scans};
use crate::workload::stream::{Lies, Pass};
use crate::workload::{At, Graph, RepeatedStatement, Task, TaskStage, near};

fn options(preset: Preset) -> Options {
    Options { settings: Settings::preset(preset), ..Options::default() }
}

fn scans(machine: &str, placement: Placement, options: &Options, clients: usize) -> Outcome {
    let machine = Machine::parse(machine).unwrap();
    run(&machine, options, &mut Scans { clients, ..Scans::vldb(placement) }.workload()).unwrap()
}

/// One task that reads `n` bytes of node 1 on node 0, or of its own.
fn reading(machine: &Machine, slots: u32, node: usize, bytes: f64, times: u64) -> RepeatedStatement {
    let _ = machine;
    let mut graph = Graph::new(bytes * f64::from(slots));
    for slot in 0..slots {
        graph.add(Task::new(Affinity::Slot(SlotId(slot)), TaskStage::cpu(0.0).read(node, bytes)));
    }
    RepeatedStatement::new(graph, 1, times)
}

#[test]
fn a_cpu_alone_reads_its_lines_per_latency_and_many_the_controller() {
    let machine = Machine::parse("2x1x8x1;latency=100,200;bandwidth=40G,10G").unwrap();
    let options = Options { warm_up_ns: 0, measured_ns: 60_000_000_000, ..options(Preset::Bound) };
    let rate = |slots, node| {
        let mut work = reading(&machine, slots, node, 1e9, 3);
        let outcome = run(&machine, &options, &mut work).unwrap();
        assert_eq!(outcome.statements, 3);
        assert_eq!(outcome.items, 3e9 * f64::from(slots));
        outcome.bytes_per_second() / 1e9
    };
    // 16 lines of 64 bytes per 100 ns are 10.24 GB/s; 200 ns away half of it.
    assert!((rate(1, 0) - 10.24).abs() < 0.01, "{}", rate(1, 0));
    assert!((rate(1, 1) - 5.12).abs() < 0.01);
    assert!((rate(8, 0) - 40.0).abs() < 0.1);
    assert!((rate(8, 1) - 10.0).abs() < 0.1, "what a node pulls from elsewhere");
}

#[test]
fn cpu_time_is_shared_by_the_threads_of_a_core() {
    let machine = Machine::parse("1x1x1x2;latency=100;bandwidth=40G").unwrap();
    let options = Options { warm_up_ns: 0, ..options(Preset::Bound) };
    let took = |slots: u32| {
        let mut graph = Graph::new(1.0);
        (0..slots).for_each(|slot| {
            graph.add(Task::new(Affinity::Slot(SlotId(slot)), TaskStage::cpu(1e8)));
        });
        run(&machine, &options, &mut RepeatedStatement::new(graph, 1, 1)).unwrap().latency.mean_ns() / 1e8
    };
    assert!((took(1) - 1.0).abs() < 0.01);
    assert!((took(2) - 2.0 / options.constants.smt_gain()).abs() < 0.01, "{}", took(2));
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let once = |seed| {
        let options = Options { seed, ..options(Preset::Target) };
        scans("westmere-ex-8", Placement::RoundRobin, &options, 200)
    };
    assert_eq!(once(7), once(7));
    assert_ne!(once(7), once(8));
}

#[test]
fn lazy_rates_come_out_as_exact_ones() {
    for (placement, preset) in [
        (Placement::RoundRobin, Preset::Os),
        (Placement::RoundRobin, Preset::Target),
        (Placement::Ivp(8), Preset::Bound),
    ] {
        let lazy = Options { measured_ns: 16_000_000_000, ..options(preset) };
        let exact = Options { resolve: Resolve::Exact, ..lazy.clone() };
        let lazy = scans("westmere-ex-8", placement, &lazy, 300);
        let exact = scans("westmere-ex-8", placement, &exact, 300);
        let ratio = lazy.statements_per_second() / exact.statements_per_second();
        assert!((ratio - 1.0).abs() < 0.03, "{placement:?} {preset}: {ratio}");
        assert!(lazy.solutions < exact.solutions / 2);
    }
}

#[test]
fn strategies_come_out_in_the_papers_order() {
    let of = |preset| scans("ivybridge-ex-4", Placement::RoundRobin, &options(preset), 1024).statements_per_second();
    let os = of(Preset::Os);
    let target = of(Preset::Target);
    let bound = of(Preset::Bound);
    assert!(bound / os > 4.0 && target / os > 4.0, "{os} {target} {bound}");
    let outcome = scans("ivybridge-ex-4", Placement::RoundRobin, &options(Preset::Bound), 1024);
    assert_eq!((outcome.remote_bytes(), outcome.stolen_across_nodes), (0.0, 0));
    // Stages count when they end, so a little of the warm-up is in it.
    assert!(outcome.nodes.iter().all(|node| node.load > 0.9 && node.load <= 1.05));
}

#[test]
fn interleaving_lies_between_one_node_and_the_owners() {
    let machine = Machine::parse("eris-sgi-64").unwrap().with_nodes(61).unwrap();
    let options = Options { warm_up_ns: 0, measured_ns: 10_000_000_000, ..options(Preset::Bound) };
    let layout = options.layout(&machine);
    let rate = |lies| {
        let graph = Pass::scan(64e9, lies, &options.constants).graph(&machine, &layout);
        run(&machine, &options, &mut RepeatedStatement::new(graph, 2, 4)).unwrap().bytes_per_second()
    };
    let single = rate(Lies::On(0));
    let interleaved = rate(Lies::Interleaved);
    let owned = rate(Lies::Owned);
    assert!(single < interleaved && interleaved < owned, "{single} {interleaved} {owned}");
    assert!(single <= 36.2e9 * 1.001);
}

struct Wrong;

impl Workload for Wrong {
    fn clients(&self) -> usize {
        1
    }

    fn next(&mut self, _: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        let mut graph = Graph::new(1.0);
        graph.add(Task::new(near(at.machine, 0), TaskStage::cpu(0.0).read(99, 1.0)));
        Some(Arc::new(graph))
    }
}

#[test]
fn what_cannot_run_is_said() {
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let error = run(&machine, &Options::default(), &mut Wrong).unwrap_err().to_string();
    assert!(error.contains("node 99") && error.contains("nodes 0 to 3"), "{error}");
    let none = Options { measured_ns: 0, ..Options::default() };
    assert!(matches!(run(&machine, &none, &mut Wrong), Err(SimError::NoTime)));
    let nobody = &mut RepeatedStatement::new(Graph::new(1.0), 0, 1);
    assert!(matches!(run(&machine, &Options::default(), nobody), Err(SimError::NoClients)));
    let empty = &mut RepeatedStatement::new(Graph::new(1.0), 1, 1);
    assert!(run(&machine, &Options::default(), empty).unwrap_err().to_string().contains("never ends"));
}

#[test]
fn statements_that_are_dispatched_one_after_the_other_are_no_more_than_that_gives() {
    let machine = Machine::parse("2x1x2x1;latency=100,200;bandwidth=10G,5G");
    let machine = machine.unwrap_or_else(|error| panic!("{error}"));
    let mut graph = Graph::new(1.0);
    (0..2).for_each(|node| {
        graph.add(Task::new(near(&machine, node), TaskStage::cpu(1_000.0)));
    });
    let per_second = |dispatch_ns| {
        let options = Options { dispatch_ns, ..options(Preset::Bound) };
        let outcome = run(&machine, &options, &mut RepeatedStatement::new(graph.clone(), 64, u64::MAX)).unwrap();
        outcome.statements_per_second()
    };
    // Two nodes for each.
    assert!((per_second(50_000) / 10_000.0 - 1.0).abs() < 0.01, "{}", per_second(50_000));
    assert!(per_second(0) > 50_000.0);
}

#[test]
fn tasks_where_everybody_rests_are_stolen_once_the_own_ones_are_done() {
    let machine = Machine::parse("1x2x2x1;latency=100,150;bandwidth=40G,40G").unwrap();
    let mut graph = Graph::new(1.0);
    for node in [1, 1, 0, 0] {
        graph.add(Task::new(near(&machine, node), TaskStage::cpu(1e6)).after([]));
    }
    let once = |resting: Vec<usize>| {
        let options = Options { warm_up_ns: 0, resting, checked: true, ..options(Preset::Target) };
        run(&machine, &options, &mut RepeatedStatement::new(graph.clone(), 1, 1)).unwrap()
    };
    let (all, half) = (once(Vec::new()), once(vec![1]));
    assert_eq!((all.stolen, half.stolen), (0, 2));
    assert_eq!((half.statements, half.nodes[1].busy), (1, 0.0));
    assert!(half.latency.mean_ns() > 1.9 * all.latency.mean_ns(), "two cpus do what four did");
}
