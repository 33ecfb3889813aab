use placer::Reason;
use sched::{Preset, Settings};

use super::super::columns::{Static, range_scan};
use super::super::scan::{Hot, Placement, Scans};
use super::*;
use crate::{Constants, Options, Outcome};

const SECOND: u64 = 1_000_000_000;

/// One table whose columns are scanned, all alike or one alone.
fn scanned(columns: usize, weights: &[f64], lies: Static, period_ns: Option<u64>) -> Placed {
    let constants = Constants::default().on_cores(Machine::parse("ivybridge-ex-4").unwrap().core_slowness());
    let column = Column { table: 0, rows: 1e8, bytes: 1e8 * 21.0 / 8.0, dictionary_bytes: 0.0 };
    let all = vec![column; columns];
    Placed {
        clients: 64,
        statements: (0..columns).map(|column| range_scan(column, 1e8, 21.0, 1e-5, &constants)).collect(),
        phases: vec![Phase { until_ns: u64::MAX, weights: weights.to_vec() }],
        lies: lies.ranges(&all, &[0, 1, 2, 3]),
        columns: all,
        memory_bytes: None,
        period_ns,
        tick_ns: SECOND,
    }
}

fn run(what: Placed, seconds: u64) -> (PlacedClients, Outcome) {
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let settings = Settings::preset(Preset::Bound);
    let options =
        Options { settings, warm_up_ns: 0, measured_ns: seconds * SECOND, checked: true, ..Options::default() };
    let mut clients = PlacedClients::new(what, &machine);
    let outcome = crate::run(&machine, &options, &mut clients).unwrap();
    (clients, outcome)
}

#[test]
fn a_hot_column_is_divided_and_then_read_from_everywhere() {
    let (still, _) = run(scanned(4, &[1.0, 0.0, 0.0, 0.0], Static::RrColumns, None), 4);
    let (clients, outcome) = run(scanned(4, &[1.0, 0.0, 0.0, 0.0], Static::RrColumns, Some(SECOND)), 20);
    let [carried] = clients.log() else { panic!("{:?}", clients.log()) };
    assert!(matches!(carried.decision.reason, Reason::Dominates { .. }));
    assert_eq!(clients.lies()[0].iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // Three quarters of the column go, each byte once, and no faster than the pauses let them.
    let bytes = 1e8 * 21.0 / 8.0 * 0.75;
    assert!((carried.moved_bytes / bytes - 1.0).abs() < 1e-6);
    let took_ns = (carried.done_ns.unwrap() - carried.begun_ns) as f64;
    let least = bytes * Constants::default().move_ns_per_byte();
    assert!(took_ns > least * 4.0 && took_ns < least * 8.0, "{took_ns} and {least}");
    let before = still.ticks()[2].statements as f64;
    let after = clients.ticks()[15].statements as f64;
    assert!(after > 3.6 * before, "{before} and {after}");
    // The engine counts the mover's segments too: of six the first one's rows stay.
    let ended: u64 = clients.ticks().iter().map(|tick| tick.statements).sum();
    assert_eq!(outcome.statements, ended + 5);
}

#[test]
fn statements_find_what_has_moved_while_the_rest_is_on_its_way() {
    let (clients, _) = run(scanned(4, &[1.0, 0.0, 0.0, 0.0], Static::RrColumns, Some(SECOND)), 20);
    let carried = &clients.log()[0];
    let tick = |ns: u64| clients.ticks()[(ns / SECOND) as usize].statements;
    let begun = tick(carried.begun_ns - SECOND);
    let done = tick(carried.done_ns.unwrap() + 2 * SECOND);
    let between = tick((carried.begun_ns + carried.done_ns.unwrap()) / 2);
    assert!(begun < between && between < done, "{begun} {between} {done}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let of = || {
        let (clients, _) = run(scanned(8, &[9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], Static::Blocks, Some(SECOND)), 10);
        (clients.ticks().to_vec(), clients.log().to_vec())
    };
    assert_eq!(of(), of());
}

/// A tenth of the rows qualifies: entries of the dictionary come from all nodes until each has a copy.
#[test]
fn a_dictionary_that_is_read_from_afar_gets_copies() {
    let dictionary_bytes = 16e6;
    let constants = Constants::default().on_cores(Machine::parse("ivybridge-ex-4").unwrap().core_slowness());
    let of = |period_ns| {
        let what = scanned(4, &[1.0; 4], Static::Ivp(4), period_ns);
        let column = Column { bytes: what.columns[0].bytes + dictionary_bytes, dictionary_bytes, ..what.columns[0] };
        let statements = (0..4).map(|column| range_scan(column, 1e8, 21.0, 0.1, &constants)).collect();
        Placed { columns: vec![column; 4], statements, ..what }
    };
    let (still, _) = run(of(None), 8);
    let (clients, _) = run(of(Some(SECOND)), 60);
    let log = clients.log();
    assert!(log.iter().all(|of| of.decision.copies == Copies::Dictionary) && log.len() == 4, "{log:?}");
    assert!(log.iter().all(|of| (of.moved_bytes / (3.0 * dictionary_bytes) - 1.0).abs() < 1e-6), "{log:?}");
    assert_eq!(clients.lies(), of(None).lies);
    let rate = |ticks: &[Tick]| ticks.iter().map(|tick| tick.statements).sum::<u64>() as f64 / ticks.len() as f64;
    let (before, after) = (rate(&still.ticks()[3..8]), rate(&clients.ticks()[52..60]));
    assert!(after > 1.1 * before, "{before} and {after}");
}

/// Two ways to write a scan of the paper's: the one that follows its phases, and the one whose data moves.
#[test]
fn a_pass_reads_as_fast_as_the_scans_of_the_paper() {
    let machine = Machine::parse("ivybridge-ex-4").unwrap();
    let settings = Settings::preset(Preset::Bound);
    let options = Options { settings, warm_up_ns: SECOND, measured_ns: 2 * SECOND, ..Options::default() };
    for (theirs, ours) in [(Placement::RoundRobin, Static::RrColumns), (Placement::Ivp(4), Static::Ivp(4))] {
        let scans = Scans { clients: 64, columns: 16, bits: vec![21], placement: theirs, ..Scans::vldb(theirs) };
        let scans = Scans { hot: None::<Hot>, ..scans };
        let of_paper = crate::run(&machine, &options, &mut scans.workload()).unwrap();
        let mut clients = PlacedClients::new(scanned(16, &[1.0; 16], ours, None), &machine);
        let of_pass = crate::run(&machine, &options, &mut clients).unwrap();
        let ratio = of_pass.statements_per_second() / of_paper.statements_per_second();
        assert!((0.95..1.05).contains(&ratio), "{ours:?}: {ratio}");
    }
}
