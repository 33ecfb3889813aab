use sched::Settings;
use sched::policy::Layout;

use super::lookup::{Commands, Index, Lookups, ROUND_KEYS};
use super::query::{Input, Query};
use super::scan::{Placement, Scans};
use super::*;

fn with_at<R>(machine: &Machine, parallelism: u16, use_it: impl FnOnce(&mut At<'_>) -> R) -> R {
    let layout = Layout::new(machine.topology(), None, sched::Split::default());
    let constants = Constants::default();
    let mut random = Random::new(1);
    let settings = Settings { parallelism, ..Settings::default() };
    use_it(&mut At {
        now_ns: 0,
        active: 1024,
        turn: 0,
        machine,
        layout: &layout,
        settings,
        constants: &constants,
        took_ns: &[],
        random: &mut random,
    })
}

fn bytes(graph: &Graph) -> f64 {
    graph.tasks.iter().flat_map(|task| &task.stages).map(TaskStage::bytes).sum()
}

#[test]
fn a_scan_reads_its_codes_once_however_it_is_cut() {
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let codes = 1e8 * 17.0 / 8.0;
    for placement in [Placement::RoundRobin, Placement::Blocks, Placement::Ivp(4), Placement::Pp(4)] {
        for parallelism in [0, 1] {
            let scans = Scans::vldb(placement);
            let graph = with_at(&machine, parallelism, |at| scans.graph(0, 8, at));
            assert_eq!(graph.fault(&machine), None);
            assert!((bytes(&graph) / codes - 1.0).abs() < 0.01, "{placement:?}: {}", bytes(&graph));
            assert_eq!(graph.tasks.len() == 1, parallelism == 1);
        }
    }
}

#[test]
fn scans_share_what_they_read_where_more_run_than_there_are_columns() {
    let read = |name: &str, placement, clients| {
        let machine = Machine::parse(name).unwrap();
        let scans = Scans { shares_cache: true, clients, ..Scans::vldb(placement) };
        bytes(&with_at(&machine, 0, |at| scans.graph(0, 32, at))) / (1e8 * 17.0 / 8.0)
    };
    assert!((read("ivybridge-ex-4", Placement::RoundRobin, 1024) - 1.0).abs() < 0.01, "forty columns, thirty cpus");
    assert!((read("ivybridge-ex-32", Placement::RoundRobin, 1024) * 6.0 - 1.0).abs() < 0.05, "five columns");
    assert!((read("ivybridge-ex-32", Placement::Ivp(32), 1024) - 1.0).abs() < 0.01, "ranges of all columns");
    assert!((read("ivybridge-ex-32", Placement::RoundRobin, 4) - 1.0).abs() < 0.01, "four clients");
}

#[test]
fn partitions_and_parts_lie_on_their_nodes() {
    let scans = Scans::vldb(Placement::Ivp(4));
    assert_eq!(scans.nodes_of(0, 4), [0, 1, 2, 3]);
    assert_eq!(Scans::vldb(Placement::Ivp(2)).nodes_of(1, 4), [2, 3]);
    assert_eq!(Scans::vldb(Placement::RoundRobin).nodes_of(5, 4), [1]);
    assert_eq!(Scans::vldb(Placement::Blocks).nodes_of(159, 4), [3]);
    assert_eq!(Scans::vldb(Placement::Blocks).nodes_of(80, 4), [2]);
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let graph = with_at(&machine, 0, |at| scans.graph(0, 4, at));
    for (task, node) in graph.tasks.iter().zip([0, 1, 2, 3]) {
        assert_eq!(task.affinity, near(&machine, node));
        assert!(task.stages[0].streamed.iter().all(|(of, _)| *of == node));
    }
}

#[test]
fn parts_repeat_values_in_their_dictionaries() {
    let ivp = Scans::vldb(Placement::Ivp(4)).memory_bytes();
    let pp = Scans::vldb(Placement::Pp(4)).memory_bytes();
    assert!(pp / ivp > 1.02 && pp / ivp < 1.5, "{}", pp / ivp);
}

#[test]
fn the_index_is_used_as_the_product_uses_it() {
    let constants = Constants::default();
    let uses =
        |selectivity| Scans { selectivity, index: true, ..Scans::vldb(Placement::RoundRobin) }.uses_index(&constants);
    assert_eq!([1e-5, 1e-3, 1e-2, 1e-1].map(uses), [true, true, false, false]);
    assert!(!Scans { selectivity: 1e-5, ..Scans::vldb(Placement::RoundRobin) }.uses_index(&constants));
}

#[test]
fn units_have_more_of_their_tree_in_cache() {
    let machine = Machine::parse("eris-amd-8").unwrap();
    let shared = Lookups::new(1e9, Index::Shared);
    let units = Lookups::new(1e9, Index::Units { commands: Commands::of_batches(128.0), processing: true });
    assert!((shared.level_bytes().iter().sum::<f64>() / 25e9 - 1.0).abs() < 0.1, "about 25 GB, as the paper says");
    assert!(units.misses(&machine) < shared.misses(&machine));
    assert!(units.miss_ratio(&machine) < shared.miss_ratio(&machine));
    assert_eq!(units.shared_hits(&machine), 0.0);
    assert!(shared.shared_hits(&machine) > 0.5);
    let small_pages = |lookups: &Lookups| Lookups { page_bytes: 4096.0, ..lookups.clone() };
    // Page tables take of the cache, and nodes share less of them than of what every look-up passes.
    assert!(small_pages(&shared).misses(&machine) >= shared.misses(&machine));
    assert!(small_pages(&shared).shared_hits(&machine) < shared.shared_hits(&machine));
    let [far, near] = [1e9, 1e4].map(|keys| Lookups { keys, ..small_pages(&shared) });
    assert!(far.hits(&machine).windows(2).all(|pair| pair[0] >= pair[1] - 1e-9), "upper levels are asked for more");
    assert!(near.hits(&machine).iter().all(|hit| *hit == 1.0), "all of a small index is held");
}

#[test]
fn an_upsert_is_a_look_up_that_carries_and_writes_more() {
    let machine = Machine::parse("eris-amd-8").unwrap();
    let layout = Layout::new(machine.topology(), None, sched::Split::default());
    let constants = Constants::default();
    for index in [Index::Shared, Index::Units { commands: Commands::of_batches(128.0), processing: true }] {
        let moved = |lookups: Lookups| bytes(&lookups.graph(&machine, &layout, &constants)) / (64.0 * ROUND_KEYS);
        let read = moved(Lookups::new(1e9, index));
        let written = moved(Lookups::upserts(1e9, index));
        // A line that goes back, and where it is sent a value of eight bytes: written, read before that, and taken.
        let sent = if index == Index::Shared { 0.0 } else { 24.0 };
        assert!((written - read - sent - 64.0).abs() < 4.0, "{index:?}: {read} and {written}");
    }
    let small = |lookups: Lookups| lookups.misses(&machine);
    let keys = 250_000.0;
    assert!(small(Lookups::upserts(keys, Index::Shared)) > small(Lookups::new(keys, Index::Shared)) + 0.5);
    let units = Index::Units { commands: Commands::of_batches(128.0), processing: true };
    assert_eq!(small(Lookups::upserts(keys, units)), small(Lookups::new(keys, units)));
}

#[test]
fn a_round_fills_no_more_of_a_buffer_than_it_has() {
    let singly = |buffer| Commands { buffer, keys: 1.0 };
    assert_eq!(singly(128.0).of(10_000.0, 20.0), (10_000.0, 500.0), "20 of 128");
    assert_eq!(singly(8.0).of(10_000.0, 20.0), (10_000.0, 1250.0));
    assert_eq!(Commands::of_batches(128.0).of(10_000.0, 20.0), (500.0, 500.0), "a command of 20 keys each");
    assert_eq!(Commands { buffer: 2.0, keys: 5.0 }.of(10_000.0, 20.0), (2_000.0, 1_000.0));
    assert_eq!(Commands::of_batches(128.0).of(100.0, 0.2), (100.0, 100.0), "fewer keys than units");
}

#[test]
fn queries_cut_their_inputs_and_merge() {
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let inputs = vec![Input::local(1, 1e6, 1e5), Input::anywhere(vec![0, 2], 2e6, 1e5)];
    let query = Query { inputs, merge_ns: 10.0, tasks: None, kind: 2 };
    let graph = query.graph(&machine, 3, &Constants::default());
    assert_eq!((graph.tasks.len(), graph.kind), (7, 2));
    assert!((bytes(&graph) - 3e6).abs() < 1.0);
    assert_eq!(graph.tasks[6].after.len(), 6);
    assert_eq!(graph.tasks[0].affinity, near(&machine, 1));
    assert_eq!(graph.tasks[3].affinity, Affinity::Anywhere);
}
