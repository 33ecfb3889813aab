//! Points of tiny sizes, measured.

use std::sync::atomic::AtomicBool;

use lab::declaration::Experiment;
use lab::result::{Metric, Outcome};

use super::*;

const SECONDS: f64 = 0.2;

/// This machine; the kernel's balancing is left alone.
fn at_hand() -> AtHand {
    AtHand { balancing: "/no/such/folder/numa_balancing".into(), ..AtHand::discover().unwrap() }
}

fn run(at_hand: &AtHand, id: &str, set: &[&str]) -> Result<Outcome, RunError> {
    run_for(SECONDS, at_hand, id, set)
}

fn run_for(seconds: f64, at_hand: &AtHand, id: &str, set: &[&str]) -> Result<Outcome, RunError> {
    let experiment = Experiment::find(id).unwrap();
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    let point = experiment.grid_with(&experiment.read_settings(&set).unwrap()).unwrap().remove(0);
    let stop = AtomicBool::new(false);
    at_hand.measure(&point, Conditions { seed: 1, seconds, stop: &stop })
}

const TINY: [&str; 5] = ["rows=200_000", "columns=4", "clients=3", "bits_min=17", "bits_max=20"];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TINY.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn columns_are_measured_under_every_placement_and_strategy() {
    let at_hand = at_hand();
    for (placement, strategy) in [("rr", "os"), ("ivp", "target"), ("pp", "bound")] {
        let settings = [format!("placement={placement}"), format!("strategy={strategy}")];
        let settings = tiny(&[settings[0].as_str(), settings[1].as_str()]);
        let outcome = run(&at_hand, "vldb2015/fig08", &settings).unwrap();
        for metric in [Metric::Throughput, Metric::LatencyMean, Metric::MemoryUsed, Metric::CpuLoad] {
            assert!(outcome.metrics[&metric] > 0.0, "{placement} {strategy} {metric:?}: {outcome:?}");
        }
        // 200,000 rows of 17 to 20 bits.
        let gigabytes = outcome.metrics[&Metric::MemoryUsed];
        assert!((0.0015..0.003).contains(&gigabytes), "{placement}: {gigabytes}");
        assert!(!outcome.notes.iter().any(|note| note.contains("scaled")), "{:?}", outcome.notes);
    }
    // The same placement is loaded once.
    let tables = || at_hand.stored.lock().unwrap().as_ref().unwrap().database().table_names().len();
    assert_eq!(tables(), 3);
    run(&at_hand, "vldb2015/fig08", &tiny(&["placement=ivp", "strategy=bound", "parallel=false", "pruning=true"]))
        .unwrap();
    assert_eq!(tables(), 3);
}

#[test]
fn indexes_are_made_when_they_are_asked_for() {
    let at_hand = at_hand();
    let settings = tiny(&["selectivity=0.00001", "placement=rr", "strategy=bound"]);
    run(&at_hand, "vldb2015/fig08", &settings).unwrap();
    let indexes = || at_hand.stored.lock().unwrap().as_ref().unwrap().database().index_report().len();
    assert_eq!(indexes(), 0);
    let outcome = run(&at_hand, "vldb2015/fig14", &settings).unwrap();
    assert_eq!(indexes(), 4);
    assert!(outcome.metrics[&Metric::Throughput] > 0.0);
}

#[test]
fn too_much_is_scaled_and_says_so() {
    let at_hand = AtHand { memory_bytes: 50 << 20, ..at_hand() };
    let outcome = run(&at_hand, "vldb2015/fig11", &["clients=2", "placement=rr"]).unwrap();
    assert!(outcome.notes[0].starts_with("scaled to this machine's memory"), "{:?}", outcome.notes);
    assert!(outcome.metrics[&Metric::MemoryUsed] < 0.012, "{outcome:?}");
}

#[test]
fn half_of_the_cores_are_used() {
    let at_hand = at_hand();
    let cpus = at_hand.topology.usable_cpus().len();
    if at_hand.topology.cores().len() < 2 || cpus < 2 {
        eprintln!("skipped: this machine has one core");
        return;
    }
    match run(&at_hand, "vldb2015/fig11", &tiny(&["cpus_per_node=1", "placement=rr"])) {
        Ok(_) => {
            let stored = at_hand.stored.lock().unwrap();
            let stored = stored.as_ref().unwrap();
            assert_eq!(stored.cpus().len(), stored.database().scheduler().threads());
            assert!(stored.cpus().len() < cpus);
        }
        Err(RunError::Refused(reason)) => assert!(reason.contains("pinned"), "{reason}"),
        Err(other) => panic!("{other}"),
    }
    // The thread of the caller may still run everywhere.
    assert_eq!(Topology::discover().unwrap().usable_cpus().len(), cpus);
}

#[test]
fn what_makes_no_sense_here_is_refused() {
    let at_hand = at_hand();
    let nodes = at_hand.topology.nodes().len();
    let reason = |id: &str, set: &[&str]| run(&at_hand, id, set).unwrap_err().to_string();
    let many = format!("nodes={}", nodes + 1);
    assert!(reason("vldb2015/fig08", &tiny(&[many.as_str()])).contains("this machine has"));
    assert!(reason("vldb2015/fig08", &["bits_max=32"]).contains("31 bits"));
    assert!(reason("vldb2015/fig08", &tiny(&["dispatch_us=1.0"])).contains("assumptions of the simulator"));
    let many = format!("partitions={}", nodes + 1);
    assert!(reason("vldb2015/fig12", &tiny(&["placement=ivp", many.as_str()])).contains("one range per node"));
    assert!(reason("vldb2015/fig19-tpch", &[]).contains("simulated, not measured"));
    let route = ["nodes=0", "keys=10_000", "operation=route", "batch=1_000_000"];
    assert!(reason("eris2014/fig05", &route).contains("holds fewer"));
    assert!(reason("eris2014/fig05", &["nodes=0", "operation=lookup", "command_keys=2"]).contains("one key each"));
    let upserts = ["nodes=0", "operation=upsert", "design=single-ram"];
    assert!(reason("eris2014/fig08a", &upserts).contains("design=interleaved"));
    assert!(reason("eris2014/fig13", &["nodes=0", "transfers=at-once"]).contains("in-turn"));
    assert!(reason("subnuma2020/fig12", &["bits=32"]).contains("31 bits"));
    assert!(reason("subnuma2020/fig12", &["predicates=7+0"]).contains("6 columns"));
    if at_hand.topology.sub_domains().is_empty() {
        assert!(reason("subnuma2020/fig12", &["machine=skylake-2-snc-on"]).contains("this machine has none"));
    }
    assert!(reason("nbb2011/table52", &[]).contains("lab interference"));
    if nodes == 1 {
        assert!(reason("vldb2015/placing", &[]).contains("two nodes"));
        assert!(reason("vldb2015/fig08", &tiny(&["numa_balancing=true"])).contains("one node"));
    }
}

#[test]
fn rows_counts_and_joins_are_measured_where_there_are_no_sub_domains() {
    let at_hand = at_hand();
    if !at_hand.topology.sub_domains().is_empty() {
        eprintln!("skipped: this machine has sub-domains");
        return;
    }
    let tiny = ["rows=50_000", "range_pred=100", "connections=2", "workers=a", "machine=skylake-2-snc-off"];
    for id in ["subnuma2020/fig11", "subnuma2020/fig12", "subnuma2020/open-joins"] {
        let outcome = run(&at_hand, id, &tiny).unwrap();
        assert!(outcome.metrics[&Metric::Throughput] > 0.0, "{id}: {outcome:?}");
    }
    // All of them read the same two tables.
    let stored = at_hand.stored.lock().unwrap();
    let database = stored.as_ref().unwrap().database();
    assert_eq!((database.table_names().len(), database.index_report().len()), (2, 1));
    // The count of a statement is that of the rows that the tables have.
    let tables = database.table_names();
    let below = (100.0 / 50_000.0 * f64::from(1 << 26)).round();
    let sql = format!("SELECT count(*) FROM {} WHERE c0 < {below} OR c1 < {below} OR c2 < {below}", tables[0]);
    let counted = database.session().query(&sql).unwrap().collect_all().unwrap();
    let counted = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(counted[0].column(0)).value(0);
    assert!((150..500).contains(&counted), "{counted} of about 300");
}

#[test]
fn passes_over_a_column_have_a_rate() {
    let at_hand = at_hand();
    for name in ["single-ram", "interleaved", "units"] {
        let design = format!("design={name}");
        let outcome =
            run(&at_hand, "eris2014/fig09", &["nodes=0", "keys=1_000_000", "entry_bytes=2", &design]).unwrap();
        let [rate, passes] = [Metric::ScanRate, Metric::Throughput].map(|metric| outcome.metrics[&metric]);
        assert!(rate > 0.0 && (rate / (passes / 60.0 * 2e6 / 1e9) - 1.0).abs() < 1e-9, "{design}: {outcome:?}");
        assert!(!outcome.notes.iter().any(|note| note.contains("packed")), "{outcome:?}");
        assert_eq!(outcome.notes.iter().any(|note| note.contains("range of the column per node")), name == "units");
    }
    let wide = run(&at_hand, "eris2014/fig09", &["nodes=0", "keys=100_000", "design=interleaved"]).unwrap();
    assert!(wide.notes.iter().any(|note| note.contains("31 bits")), "{wide:?}");
}

#[test]
fn the_triad_has_a_rate_on_striped_and_on_other_memory() {
    let at_hand = AtHand { memory_bytes: 50 << 20, ..at_hand() };
    let ways = [["striped=true", "aware=true"], ["striped=true", "aware=false"], ["striped=false", "aware=false"]];
    for way in ways {
        for grain in ["adaptive_grain=true", "adaptive_grain=false"] {
            let outcome = run(&at_hand, "nbb2011/stream", &[way[0], way[1], grain]).unwrap();
            let [rate, time] = [Metric::ScanRate, Metric::RunTime].map(|metric| outcome.metrics[&metric]);
            // A fifth of 50 MiB in elements of 24 bytes.
            assert!(rate > 0.0 && (rate * time * 1e9 / 24.0 - 436_906.0).abs() < 1.0, "{way:?} {grain}: {outcome:?}");
            assert!(outcome.notes[0].contains("436,906 elements of 200,000,000"), "{:?}", outcome.notes);
        }
    }
    let query = run(&at_hand, "nbb2011/stream", &["task=query"]).unwrap_err();
    assert!(query.to_string().contains("the thesis' queries are simulated"), "{query}");
}

#[test]
fn placing_gives_time_and_memory() {
    let at_hand = at_hand();
    let part = portion(&at_hand.topology, &lab::declaration::MachineUse::default()).unwrap();
    let mut stored = KeptDatabase::new(at_hand.topology.clone(), &part.cpus).unwrap();
    let asked = lab::declaration::Placing {
        rows: 200_000,
        columns: 2,
        bits_min: 20,
        bits_max: 20,
        placement: lab::declaration::Placement::Pp,
    };
    let stop = AtomicBool::new(false);
    let conditions = Conditions { seed: 1, seconds: SECONDS, stop: &stop };
    let bench = Bench { stored: &mut stored, nodes: &part.nodes, memory_bytes: 1 << 30, conditions };
    let outcome = placing::placed(bench, &asked).unwrap();
    assert!(outcome.metrics[&Metric::RunTime] > 0.0);
    assert!((0.0009..0.002).contains(&outcome.metrics[&Metric::MemoryUsed]), "{outcome:?}");
    assert_eq!(stored.database().table_names(), Vec::<String>::new());
}

#[test]
fn one_hog_gets_what_one_hog_gets() {
    let at_hand = at_hand();
    let outcome = run(&at_hand, "nbb2011/fig52", &["k=1.0"]).unwrap();
    assert!((0.2..5.0).contains(&outcome.metrics[&Metric::Bandwidth]), "{outcome:?}");
    assert!(outcome.metrics[&Metric::MemoryTraffic] > 0.01);
    assert!(run(&at_hand, "nbb2011/fig52", &["k=1000.0"]).unwrap_err().to_string().contains("k = 1000"));
}

#[test]
fn a_stopped_point_has_no_outcome() {
    let at_hand = at_hand();
    let experiment = Experiment::find("vldb2015/fig08").unwrap();
    let point = experiment.grid_with(&experiment.read_settings(&[]).unwrap()).unwrap().remove(0);
    let stop = AtomicBool::new(true);
    let outcome = at_hand.measure(&point, Conditions { seed: 1, seconds: SECONDS, stop: &stop });
    assert_eq!(outcome, Err(RunError::Stopped));
}

#[test]
fn keys_are_looked_up_and_written() {
    let at_hand = at_hand();
    for operation in ["lookup", "upsert"] {
        for name in ["units", "interleaved"] {
            let operation = format!("operation={operation}");
            let design = format!("design={name}");
            let set = ["nodes=0", "keys=50_000", operation.as_str(), design.as_str()];
            let outcome = run(&at_hand, "eris2014/fig08a", &set).unwrap();
            assert!(outcome.metrics[&Metric::Throughput] > 0.0, "{operation} {design}: {outcome:?}");
            // The paper's tree has 25 bytes per dense key.
            let bytes = outcome.metrics[&Metric::MemoryUsed] * 1e9 / 50_000.0;
            assert!((8.0..25.0).contains(&bytes), "{operation} {design}: {outcome:?}");
            assert_eq!(outcome.notes.iter().any(|note| note.contains("outgoing buffers")), name == "units");
        }
    }
    // Figure 1: as many nodes as there are.
    let outcome = run(&at_hand, "eris2014/fig01-lookup", &["nodes=1", "keys=50_000"]).unwrap();
    assert!(outcome.metrics[&Metric::Throughput] > 0.0, "{outcome:?}");
}

#[test]
fn commands_are_routed_and_looked_up() {
    let at_hand = at_hand();
    for operation in ["route", "lookup"] {
        let operation = format!("operation={operation}");
        let set = ["nodes=0", "keys=50_000", "batch=16", operation.as_str()];
        let outcome = run(&at_hand, "eris2014/fig05", &set).unwrap();
        assert!(outcome.metrics[&Metric::Throughput] > 0.0, "{operation}: {outcome:?}");
        assert!(!outcome.notes.iter().any(|note| note.contains("outgoing buffers")), "{outcome:?}");
    }
}

#[test]
fn a_range_that_moves_is_measured_over_time() {
    let at_hand = at_hand();
    let set = [
        "nodes=0",
        "keys=70_000",
        "transfers=in-turn",
        "balancer=one_shot",
        "all_seconds=0.2",
        "each_seconds=0.4",
        "period_ms=10",
        "batch=500",
    ];
    // Two changes: on a busy machine a moment between two looks at the clock takes long.
    let outcome = run_for(1.0, &at_hand, "eris2014/fig13", &set).unwrap();
    assert!(outcome.over_time.len() > 3 && outcome.over_time.is_sorted_by(|a, b| a.0 < b.0), "{outcome:?}");
    assert!(outcome.metrics[&Metric::Throughput] > 0.0 && outcome.metrics[&Metric::Lowest] >= 0.0, "{outcome:?}");
    assert!(outcome.metrics.contains_key(&Metric::Regained) && outcome.metrics.contains_key(&Metric::MovedPairs));
}
