//! Small machines, few keys, short times.

use sched::{Preset, Settings};

use super::*;
use crate::run::{Options, Outcome, run};

const MS: u64 = 1_000_000;

fn machine(text: &str) -> Machine {
    Machine::parse(text).unwrap()
}

/// Two nodes of four cpus.
fn two_nodes() -> Machine {
    machine("2x1x4x1;latency=100,200;bandwidth=40G,10G")
}

fn short(balancer: Algorithm, transfers: Transfers) -> Shifting {
    Shifting {
        transfers,
        period_ns: 20 * MS,
        all_ns: 100 * MS,
        each_ns: 400 * MS,
        tick_ns: 20 * MS,
        ..Shifting::new(1 << 22, balancer)
    }
}

fn options(seed: u64, ms: u64) -> Options {
    let settings = Settings::preset(Preset::Bound);
    Options { seed, warm_up_ns: 0, measured_ns: ms * MS, settings, checked: true, ..Options::default() }
}

fn ran(machine: &Machine, what: Shifting, seed: u64, ms: u64) -> (ShiftingClients, Outcome) {
    let options = options(seed, ms);
    let mut clients = ShiftingClients::new(what, machine, &options.layout(machine));
    let outcome = run(machine, &options, &mut clients).unwrap();
    (clients, outcome)
}

/// Per unit, the share of what is looked up that it owns.
fn shares(clients: &ShiftingClients, changes: u32) -> Vec<f64> {
    let (hot, end) = clients.what.hot(changes);
    let table = clients.table();
    let mut shares = vec![0.0; clients.homes.len()];
    for range in 0..table.ranges() {
        let keys = table.last(range).min(end - 1).saturating_add(1).saturating_sub(table.firsts()[range].max(hot));
        shares[table.owners()[range]] += keys as f64 / (end - hot) as f64;
    }
    shares
}

#[test]
fn the_paper_says_what_is_looked_up_when() {
    let what = Shifting::new(512 << 20, Algorithm::Off);
    let million = 1 << 20;
    assert_eq!(what.hot(0), (0, 512 * million));
    assert_eq!(what.hot(1), (128 * million, 384 * million));
    assert_eq!(what.hot(5), (96 * million, 352 * million), "four times 8 million to the left");
    let seconds = [0, 9, 10, 29, 30, 50, 70, 90, 109, 500];
    assert_eq!(seconds.map(|at| what.changes_at(at * 1000 * MS)), [0, 0, 1, 1, 2, 3, 4, 5, 5, 5]);
}

#[test]
fn look_ups_go_to_the_owners_of_their_keys_and_none_is_lost() {
    let machine = two_nodes();
    let options = options(1, 1);
    let constants = Constants::default();
    let mut clients =
        ShiftingClients::new(short(Algorithm::Off, Transfers::AtOnce), &machine, &options.layout(&machine));
    clients.table = clients.table.moved(100_000, 2_500_000, 7).moved(3_000_000, u64::MAX, 0);
    for changes in 0..=CHANGES {
        let mix = clients.mix_at(changes);
        let (hot, end) = clients.what.hot(changes);
        assert_eq!(mix.all, end - hot);
        let mut expected = [0; 8];
        (hot..end).step_by(64).for_each(|key| expected[clients.table.owner_of(key)] += 64);
        assert!(mix.keys.iter().zip(expected).all(|(keys, expected)| keys.abs_diff(expected) <= 128));
        let graph = clients.statement(1, &mix, &machine, &constants);
        assert_eq!(graph.fault(&machine), None);
        // Each key is read from its buffer once, at its owner.
        let mut sent = [0.0; 8];
        for task in graph.tasks.iter().filter(|task| !task.after.is_empty()) {
            let Affinity::Slot(slot) = task.affinity else { panic!("{task:?}") };
            sent[slot.0 as usize] += task.stages[0].bytes() / clients.index.sent_bytes(1.0, 8.0, &constants);
        }
        assert!((sent.iter().sum::<f64>() / clients.lookups() - 1.0).abs() < 1e-9);
        for (sent, keys) in sent.iter().zip(&mix.keys) {
            assert!((sent / clients.lookups() - *keys as f64 / mix.all as f64).abs() < 1e-9);
        }
    }
}

#[test]
fn look_ups_and_keys_are_conserved_and_a_seed_decides_all() {
    let machine = two_nodes();
    for transfers in [Transfers::AtOnce, Transfers::InTurn] {
        for balancer in [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(3)] {
            let what = short(balancer, transfers);
            let (clients, outcome) = ran(&machine, what, 1, 1500);
            let ticked: f64 = clients.ticks().iter().map(|tick| tick.lookups).sum();
            assert_eq!(ticked, outcome.items, "each look-up counts once");
            assert!(outcome.checks > 0);
            let moves = clients.moves();
            let moved: u64 = clients.ticks().iter().map(|tick| tick.moved).sum();
            assert_eq!(moved, moves.linked + moves.copied);
            assert!(moves.cycles > 0 && moves.linked > 0 && moves.copied > 0, "{balancer}: {moves:?}");
            let table = clients.table();
            let owned: u64 =
                (0..table.ranges()).map(|range| what.pairs(table.firsts()[range], table.last(range))).sum();
            assert_eq!(owned, what.keys, "each key has one owner");
            let (again, same) = ran(&machine, what, 1, 1500);
            assert_eq!((again.ticks(), again.table(), same.events), (clients.ticks(), table, outcome.events));
            let (other, _) = ran(&machine, what, 2, 1500);
            assert_ne!(other.table(), table, "samples differ by the seed");
        }
    }
}

#[test]
fn balancers_spread_what_is_looked_up_and_throughput_comes_back() {
    let machine = two_nodes();
    let last = |clients: &ShiftingClients| clients.ticks().iter().rev().skip(1).take(5).map(|tick| tick.lookups).sum();
    let (off, _) = ran(&machine, short(Algorithm::Off, Transfers::AtOnce), 1, 480);
    assert_eq!((off.moves(), off.table().owners().len()), (Moves::default(), 8));
    assert!(deviation(&shares(&off, 1)) > 0.9);
    let unbalanced: f64 = last(&off);
    for balancer in [Algorithm::OneShot, Algorithm::MovingAverage(1)] {
        let (clients, _) = ran(&machine, short(balancer, Transfers::AtOnce), 1, 480);
        let shares = shares(&clients, 1);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(deviation(&shares) < 0.35, "{balancer}: {shares:?}");
        let balanced: f64 = last(&clients);
        assert!(balanced > 1.3 * unbalanced, "{balancer}: {balanced} and {unbalanced}");
    }
}

#[test]
fn within_a_node_everything_is_linked_and_costs_what_links_cost() {
    let (clients, _) =
        ran(&machine("1x1x8x1;latency=100;bandwidth=40G"), short(Algorithm::OneShot, Transfers::AtOnce), 1, 400);
    assert_eq!(clients.moves().copied, 0);
    assert!(clients.moves().linked > 1 << 20, "{:?}", clients.moves());
    let constants = Constants::default();
    let machine = two_nodes();
    let clients =
        ShiftingClients::new(short(Algorithm::Off, Transfers::AtOnce), &machine, &options(1, 1).layout(&machine));
    let transfer = |from, to| Transfer { from, to, first: 0, last: 9_999 };
    let linked = clients.piece(transfer(0, 3), 10_000.0, &constants);
    let copied = clients.piece(transfer(0, 4), 10_000.0, &constants);
    assert!(linked.urgent && copied.urgent && linked.items == 0.0);
    let bytes = |graph: &Graph| graph.tasks.iter().flat_map(|task| &task.stages).map(TaskStage::bytes).sum::<f64>();
    assert_eq!(bytes(&linked), 0.0);
    assert!(bytes(&copied) > 10_000.0 * STREAMED_BYTES);
    let cpu = |graph: &Graph| graph.tasks[1].stages[0].cpu_ns;
    assert_eq!(cpu(&linked), 10_000.0 * constants.link_ns_per_pair());
    assert_eq!(cpu(&copied), 10_000.0 * constants.copy_ns_per_pair());
}

#[test]
fn urgent_statements_go_first() {
    let machine = machine("1x1x1x1;latency=100;bandwidth=40G");
    /// A client that keeps the cpu busy, and one that asks late.
    struct Two(Vec<(usize, u64)>);
    impl Workload for Two {
        fn clients(&self) -> usize {
            4
        }
        fn next(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
            self.0.push((client, at.now_ns));
            if client == 3 && at.now_ns < 10 * MS {
                return None;
            }
            let mut graph = Graph { urgent: client == 3, ..Graph::new(1.0) };
            graph.add(Task::new(Affinity::Anywhere, TaskStage::cpu(MS as f64)));
            Some(Arc::new(graph))
        }
        fn asks_again_ns(&self, _: usize) -> Option<u64> {
            Some(10 * MS)
        }
    }
    let mut two = Two(Vec::new());
    run(&machine, &options(1, 20), &mut two).unwrap();
    let asked: Vec<u64> = two.0.iter().filter(|(client, _)| *client == 3).map(|(_, at)| *at).collect();
    assert_eq!(asked[..2], [0, 10 * MS]);
    // What runs ends, then its own: not the two that have waited longer.
    assert!(asked[2] < 12 * MS + MS / 2, "{asked:?}");
}
