use std::time::Duration;

use super::plan::{LOAD_SHARES, Tempo};
use super::team::Timing;
use super::*;
use crate::attributes::{ByThreads, Latency, LoadedLatency, Stream, TransferKind};
use crate::ids::NodeId;
use crate::sys::deny::without_calls;

/// So short and small that an unoptimised test is done in a second.
const TINY: Tempo = Tempo {
    total: Duration::from_millis(600),
    deadline: Duration::from_secs(20),
    latency: Timing { windows: 2, window: Duration::from_millis(1) },
    bandwidth: Timing { windows: 2, window: Duration::from_millis(1) },
    latency_cpus: 2,
    thread_points: 4,
    buffer_bytes_min: 4 << 20,
    buffer_bytes_max: 4 << 20,
};

fn tiny(topology: &Topology) -> Attributes {
    run::run(topology, &TINY, &SystemClock::new(), &mut |_, _| {})
}

/// A machine of two packages with four nodes each, with figures that follow its distances.
pub(super) fn eight_nodes() -> Attributes {
    let topology = Topology::synthetic(2, 4, 8, 2);
    let distance = |a: NodeId, b: NodeId| f64::from(topology.distance(a, b));
    let nodes: Vec<NodeId> = topology.nodes().iter().map(|n| n.id).collect();
    let matrix = |figure: &dyn Fn(f64) -> f64| -> Vec<Vec<Option<f64>>> {
        nodes.iter().map(|a| nodes.iter().map(|b| Some(figure(distance(*a, *b)))).collect()).collect()
    };
    let ns = matrix(&|d| 85.0 + 9.5 * (d - 10.0));
    let latency = |ns: Option<f64>| ns.map(|ns| Latency { min_ns: ns - 3.0, avg_ns: ns, max_ns: ns + 4.5 });
    let curve = |target: u32, kind, one: f64| ByThreads {
        initiator: NodeId(0),
        target: NodeId(target),
        kind,
        bytes_per_second: (1..=16).map(|n| one * 4e9 * (1.0 - 0.75f64.powi(n))).collect(),
    };
    let mut attributes = Attributes::empty(topology.clone(), "A model <8 nodes & more>", "measured");
    attributes.revision = "0.1.0 (abcdef)".to_string();
    attributes.taken_at = utc(1_795_000_000);
    attributes.latency = ns.into_iter().map(|row| row.into_iter().map(latency).collect()).collect();
    attributes.read = matrix(&|d| 45e9 * 10.0 / d);
    attributes.write = matrix(&|d| 30e9 * 10.0 / d);
    attributes.copy = matrix(&|d| 38e9 * 10.0 / d);
    attributes.write[1][3] = None;
    for (placement, scale) in [("first touch", 1.0), ("striped", 0.45)] {
        let rate = |gb: f64| gb * 1e9 * scale;
        let copy = rate(250.0);
        let scale = rate(248.0);
        let add = rate(262.0);
        let triad = rate(261.0);
        attributes.stream.push(Stream { placement: placement.to_string(), threads: 128, copy, scale, add, triad });
    }
    attributes.by_threads = vec![
        curve(0, TransferKind::Read, 11.0),
        curve(0, TransferKind::Write, 7.5),
        curve(1, TransferKind::Read, 9.0),
        curve(1, TransferKind::Write, 6.0),
        curve(4, TransferKind::Read, 5.0),
        curve(4, TransferKind::Write, 3.5),
    ];
    for (target, idle, full) in [(0u32, 85.0, 42e9), (4, 190.0, 18e9)] {
        attributes.loaded.extend(LOAD_SHARES.iter().map(|share| LoadedLatency {
            initiator: NodeId(0),
            target: NodeId(target),
            bytes_per_second: full * share,
            latency_ns: idle / (1.02 - 0.75 * share * share),
        }));
    }
    attributes.notes.push("figures are made up".to_string());
    attributes
}

#[test]
fn this_machine_is_probed() {
    let topology = Topology::discover().expect("a machine");
    let result = tiny(&topology);
    let node = topology.usable_memory_nodes()[0];
    let from = topology.node_of_cpu(topology.usable_cpus()[0]).expect("a node");
    let told = format!("{:?}", result.notes);
    let latency = result.latency(from, node).expect(&told);
    assert!(latency.min_ns > 0.0 && latency.min_ns <= latency.avg_ns && latency.avg_ns <= latency.max_ns);
    for figure in [
        result.read_bytes_per_second(from, node),
        result.write_bytes_per_second(from, node),
        result.copy_bytes_per_second(from, node),
    ] {
        assert!(figure.expect(&told) > 1e6);
    }
    if crate::PageMap::read(&[]).is_measured() {
        // On several nodes too: each memory is where it was asked for, so no pair is left out.
        let usable = |from: &NodeId| topology.usable_cpus().iter().any(|cpu| topology.node_of_cpu(*cpu) == Some(*from));
        for from in result.nodes.iter().filter(|from| usable(from)) {
            for to in &result.targets {
                assert!(result.latency(*from, *to).is_some(), "{from} to {to}: {told}");
                assert!(result.copy_bytes_per_second(*from, *to).is_some(), "{from} to {to}: {told}");
            }
        }
    }
    assert_eq!(result.stream.iter().map(|s| s.placement.as_str()).collect::<Vec<_>>(), ["first touch", "striped"]);
    assert!(!result.by_threads.is_empty());
    let back = Attributes::from_json(&result.to_json()).expect("what it wrote");
    assert_eq!(back, result);
}

#[test]
fn a_container_that_refuses_everything_still_gets_figures_of_one_node() {
    let calls = [libc::SYS_mbind, libc::SYS_move_pages, libc::SYS_sched_setaffinity];
    without_calls(&calls, libc::EPERM, || {
        let topology = Topology::discover().expect("a machine");
        let result = tiny(&topology);
        assert!(result.notes.iter().any(|n| n.contains("could not be pinned")), "{:?}", result.notes);
        let figures = result.read.iter().flatten().flatten().count();
        if topology.nodes().len() == 1 {
            assert_eq!(figures, 1);
        } else {
            assert_eq!(figures, 0, "nobody tells where memory lies");
            assert!(result.notes.iter().any(|n| n.contains("was not measured")), "{:?}", result.notes);
        }
    });
}

#[test]
fn memory_of_a_node_that_is_not_there_is_left_out_with_a_note() {
    // Two nodes are believed, this machine has one: the page map says that node 1's memory is not there.
    let topology = Topology::synthetic(2, 1, 1, 1);
    let real = Topology::discover().expect("a machine");
    if real.nodes().len() > 1 || !crate::PageMap::read(&[]).is_measured() {
        eprintln!("skipped: needs a machine of one node that tells where pages lie");
        return;
    }
    let result = tiny(&topology);
    assert!(result.read.iter().all(|row| row[1].is_none()), "{:?}", result.read);
    assert!(result.latency.iter().all(|row| row[1].is_none()));
    let note = result.notes.iter().find(|n| n.starts_with("memory of node 1 was not measured: "));
    assert!(note.is_some_and(|n| n.contains("on node 0")), "{:?}", result.notes);
    assert!(result.read[0][0].is_some());
}

#[test]
fn what_is_too_late_is_left_out_and_counted() {
    let topology = Topology::discover().expect("a machine");
    let late = Tempo { deadline: Duration::ZERO, ..TINY };
    let result = run::run(&topology, &late, &SystemClock::new(), &mut |_, _| {});
    assert_eq!(result.read.iter().flatten().flatten().count(), 0);
    assert!(result.stream.is_empty() && result.by_threads.is_empty() && result.loaded.is_empty());
    let note = result.notes.iter().find_map(|n| n.strip_suffix(" measurements were left out: the time was over"));
    // For each node of memory four matrices at least; for one three kinds of curves; STREAM twice.
    let cells = 4 * topology.usable_memory_nodes().len() + 3 + 2;
    assert!(note.and_then(|n| n.parse().ok()).is_some_and(|n: usize| n >= cells), "{:?}", result.notes);
}

#[test]
fn progress_grows_to_the_end() {
    let topology = Topology::discover().expect("a machine");
    let mut shares = Vec::new();
    run::run(&topology, &TINY, &SystemClock::new(), &mut |what, share| {
        assert!(!what.is_empty());
        shares.push(share);
    });
    assert!(shares.is_sorted() && shares.iter().all(|s| (0.0..=1.0).contains(s)), "{shares:?}");
    assert_eq!((shares.first(), shares.last()), (Some(&0.0), Some(&1.0)));
}

#[test]
fn tables_have_units_origin_and_every_figure() {
    let attributes = eight_nodes();
    let text = text(&attributes);
    for expected in [
        "A model <8 nodes & more>: 8 nodes, 128 usable cpus",
        "measured 2026-11-18T11:06:40Z by nearside 0.1.0 (abcdef)",
        "Idle latency, ns: average over the cpus\n",
        "Idle latency, ns: minimum over the cpus\n  cpus of  memory 0",
        "   node 0      89.5     108.5     108.5     108.5     194.0",
        "Read bandwidth of all cpus, GB/s",
        "STREAM, GB/s",
        "first touch      128  250.0  248.0  262.0  261.0",
        "Latency under load, GB/s",
        "  - figures are made up",
    ] {
        assert!(text.contains(expected), "no '{expected}' in\n{text}");
    }
    let write = text.split("Write bandwidth").nth(1).and_then(|t| t.split("\n\n").next()).expect("a table");
    let rows: Vec<&str> = write.lines().skip(1).collect();
    assert_eq!(rows.len(), 9, "{write}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "columns do not line up:\n{write}");
    assert!(rows[2].split_whitespace().any(|cell| cell == "-"), "{}", rows[2]);
    // One thread, then the factor.
    assert!(text.contains("11.0 x1.00") && text.contains("19.2 x1.75"), "{text}");
}

#[test]
fn few_nodes_show_the_range_beside_the_average() {
    let mut attributes = eight_nodes();
    attributes.targets.truncate(2);
    attributes.latency.iter_mut().for_each(|row| row.truncate(2));
    let text = text(&attributes);
    assert!(text.contains("over the cpus") && text.contains("85.0 (82.0 to 89.5)  104.0 (101.0 to 108.5)"), "{text}");
}

#[test]
fn slow_memory_does_not_read_as_nothing() {
    let mut attributes = eight_nodes();
    attributes.read[0][0] = Some(2.5e6);
    assert!(text(&attributes).contains("0.003"));
}

#[test]
fn csv_has_one_figure_per_line() {
    let attributes = eight_nodes();
    let csv = csv(&attributes);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("kind,initiator,target,threads,value,unit"));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == 6 && line[4].parse::<f64>().is_ok()));
    let count = |kind: &str| lines.iter().filter(|line| line[0] == kind).count();
    assert_eq!((count("latency_avg"), count("read"), count("write"), count("copy")), (64, 64, 63, 64));
    assert_eq!((count("read_by_threads"), count("write_by_threads")), (48, 48));
    assert_eq!((count("load_0"), count("loaded_latency_7")), (2, 2));
    let line = |start: [&str; 4]| lines.iter().find(|line| line[..4] == start).map(|line| (line[4], line[5]));
    assert_eq!(line(["read", "0", "0", "16"]), Some(("45000000000", "bytes/s")));
    assert_eq!(line(["latency_max", "0", "0", "1"]), Some(("89.5", "ns")));
    assert_eq!(line(["stream_triad_first_touch", "", "", "128"]), Some(("261000000000", "bytes/s")));
    assert_eq!(line(["read_by_threads", "0", "4", "1"]), Some(("5000000000", "bytes/s")));
}

#[test]
fn dates_are_right() {
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_799, "2000-02-29T23:59:59Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(utc(seconds), expected);
    }
}
