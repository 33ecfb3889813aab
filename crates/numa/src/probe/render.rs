//! Attributes as tables for people and as CSV for programs.
//!
//! Invariants: every table says its unit; what was not measured is a dash in a table and absent from the CSV.
//!
//! # Limits
//! Beyond [`TABLES_TARGETS_MAX`] nodes there are tables of the average latency only; CSV and JSON have the rest.

use std::fmt::Write;

use crate::attributes::{Attributes, Latency, TransferKind};
use crate::ids::NodeId;

/// More columns than this do not fit a terminal with the ranges in them: minimum and maximum get tables of their own.
const RANGES_TARGETS_MAX: usize = 4;
/// With more, those tables would be too much to read.
const TABLES_TARGETS_MAX: usize = 16;
/// What stands where nothing was measured.
const NONE: &str = "-";

/// Tables of everything, with units.
pub fn text(attributes: &Attributes) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "{}\n{}\n", heading(attributes), origin(attributes));
    latency(&mut out, attributes);
    matrix(&mut out, "Read bandwidth of all cpus, GB/s", attributes, &attributes.read, |r| gb(*r));
    matrix(&mut out, "Write bandwidth of all cpus, GB/s", attributes, &attributes.write, |r| gb(*r));
    let copy = "Copy bandwidth of all cpus, GB/s read and written";
    matrix(&mut out, copy, attributes, &attributes.copy, |r| gb(*r));
    stream(&mut out, attributes);
    by_threads(&mut out, attributes);
    loaded(&mut out, attributes);
    if !attributes.notes.is_empty() {
        out.push_str("\nNotes\n");
        for note in &attributes.notes {
            let _ = writeln!(out, "  - {note}");
        }
    }
    out
}

/// One figure per line: `kind,initiator,target,threads,value,unit`. Bandwidths are in bytes per second; STREAM has no
/// initiator and no target; a point of latency under load is two lines, its load and its latency, with the point's
/// number in the kind.
pub fn csv(attributes: &Attributes) -> String {
    let mut out = String::from("kind,initiator,target,threads,value,unit\n");
    let mut line = |kind: &str, pair: Option<(NodeId, NodeId)>, threads: Option<usize>, value: f64, unit: &str| {
        let (from, to) = pair.map_or((String::new(), String::new()), |(from, to)| (from.to_string(), to.to_string()));
        let threads = threads.map_or(String::new(), |threads| threads.to_string());
        let _ = writeln!(out, "{kind},{from},{to},{threads},{value},{unit}");
    };
    for (from, to, latency) in cells(attributes, &attributes.latency) {
        let figures = [("min", latency.min_ns), ("avg", latency.avg_ns), ("max", latency.max_ns)];
        for (which, ns) in figures {
            line(&format!("latency_{which}"), Some((from, to)), Some(1), ns, "ns");
        }
    }
    let matrices = [("read", &attributes.read), ("write", &attributes.write), ("copy", &attributes.copy)];
    for (kind, matrix) in matrices {
        for (from, to, rate) in cells(attributes, matrix) {
            line(kind, Some((from, to)), Some(usable_cpus(attributes, from)), *rate, "bytes/s");
        }
    }
    for s in &attributes.stream {
        for (kernel, rate) in [("copy", s.copy), ("scale", s.scale), ("add", s.add), ("triad", s.triad)] {
            let kind = format!("stream_{kernel}_{}", s.placement.replace(' ', "_"));
            line(&kind, None, Some(s.threads as usize), rate, "bytes/s");
        }
    }
    for curve in &attributes.by_threads {
        for (i, rate) in curve.bytes_per_second.iter().enumerate() {
            let kind = format!("{}_by_threads", verb(curve.kind));
            line(&kind, Some((curve.initiator, curve.target)), Some(i + 1), *rate, "bytes/s");
        }
    }
    for (pair, points) in loads(attributes) {
        for (i, (rate, ns)) in points.into_iter().enumerate() {
            line(&format!("load_{i}"), Some(pair), None, rate, "bytes/s");
            line(&format!("loaded_latency_{i}"), Some(pair), None, ns, "ns");
        }
    }
    out
}

/// The cpu model with the number of nodes and usable cpus.
pub(super) fn heading(attributes: &Attributes) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let nodes = plural(attributes.topology.nodes().len(), "node");
    let cpus = plural(attributes.topology.usable_cpus().len(), "usable cpu");
    format!("{}: {nodes}, {cpus}", attributes.machine)
}

/// Where the figures come from: a figure never goes without it.
pub(super) fn origin(attributes: &Attributes) -> String {
    let mut origin = attributes.source.clone();
    if !attributes.taken_at.is_empty() {
        let _ = write!(origin, " {}", attributes.taken_at);
    }
    if !attributes.revision.is_empty() {
        let _ = write!(origin, " by nearside {}", attributes.revision);
    }
    if attributes.quick {
        origin.push_str(", quick run");
    }
    origin
}

/// What a transfer is called.
pub(super) fn verb(kind: TransferKind) -> &'static str {
    match kind {
        TransferKind::Read => "read",
        TransferKind::Write => "write",
    }
}

/// A pair of nodes, initiator first, with its points `(bytes per second, nanoseconds)`.
pub(super) type Load = ((NodeId, NodeId), Vec<(f64, f64)>);

/// The points of latency under load by pair, in the order in which the pairs first occur.
pub(super) fn loads(attributes: &Attributes) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for point in &attributes.loaded {
        let pair = (point.initiator, point.target);
        let figures = (point.bytes_per_second, point.latency_ns);
        match loads.iter_mut().find(|(known, _)| *known == pair) {
            Some((_, points)) => points.push(figures),
            None => loads.push((pair, vec![figures])),
        }
    }
    loads
}

fn cells<'a, T>(
    attributes: &'a Attributes,
    matrix: &'a [Vec<Option<T>>],
) -> impl Iterator<Item = (NodeId, NodeId, &'a T)> {
    attributes.nodes.iter().zip(matrix).flat_map(|(from, row)| {
        attributes.targets.iter().zip(row).filter_map(|(to, cell)| cell.as_ref().map(|cell| (*from, *to, cell)))
    })
}

fn usable_cpus(attributes: &Attributes, node: NodeId) -> usize {
    let topology = &attributes.topology;
    topology.usable_cpus().iter().filter(|cpu| topology.node_of_cpu(**cpu) == Some(node)).count()
}

fn gb(bytes_per_second: f64) -> String {
    let gb = bytes_per_second / 1e9;
    // Slow and emulated memory should not read as nothing.
    if gb < 0.95 { format!("{gb:.3}") } else { format!("{gb:.1}") }
}

fn matrix<T>(
    out: &mut String,
    title: &str,
    attributes: &Attributes,
    matrix: &[Vec<Option<T>>],
    show: impl Fn(&T) -> String,
) {
    if matrix.is_empty() {
        return;
    }
    let head = std::iter::once("cpus of".to_string()).chain(attributes.targets.iter().map(|to| format!("memory {to}")));
    let mut rows = vec![head.collect::<Vec<_>>()];
    for (from, row) in attributes.nodes.iter().zip(matrix) {
        let cells = row.iter().map(|cell| cell.as_ref().map_or(NONE.to_string(), &show));
        rows.push(std::iter::once(format!("node {from}")).chain(cells).collect());
    }
    table(out, title, &rows);
}

fn latency(out: &mut String, attributes: &Attributes) {
    let differ = attributes.latency.iter().flatten().flatten().any(|l| l.min_ns < l.max_ns);
    let mut one = |of: &str, show: &dyn Fn(&Latency) -> String| {
        matrix(out, &format!("Idle latency, ns: {of} over the cpus"), attributes, &attributes.latency, show);
    };
    if differ && attributes.targets.len() <= RANGES_TARGETS_MAX {
        let show = |l: &Latency| format!("{:.1} ({:.1} to {:.1})", l.avg_ns, l.min_ns, l.max_ns);
        return one("average (minimum to maximum)", &show);
    }
    one("average", &|l| format!("{:.1}", l.avg_ns));
    if differ && attributes.targets.len() <= TABLES_TARGETS_MAX {
        one("minimum", &|l| format!("{:.1}", l.min_ns));
        one("maximum", &|l| format!("{:.1}", l.max_ns));
    }
}

fn stream(out: &mut String, attributes: &Attributes) {
    if attributes.stream.is_empty() {
        return;
    }
    let mut rows = vec![["placement", "threads", "copy", "scale", "add", "triad"].map(String::from).to_vec()];
    for s in &attributes.stream {
        let rates = [s.copy, s.scale, s.add, s.triad].map(gb);
        rows.push([s.placement.clone(), s.threads.to_string()].into_iter().chain(rates).collect());
    }
    table(out, "STREAM, GB/s", &rows);
}

fn by_threads(out: &mut String, attributes: &Attributes) {
    if attributes.by_threads.is_empty() {
        return;
    }
    let curves = &attributes.by_threads;
    let name = |c: &crate::ByThreads| format!("{} {} to {}", verb(c.kind), c.initiator, c.target);
    let mut rows = vec![std::iter::once("threads".to_string()).chain(curves.iter().map(name)).collect::<Vec<_>>()];
    for i in 0..curves.iter().map(|c| c.bytes_per_second.len()).max().unwrap_or(0) {
        let cells = curves.iter().map(|curve| match (curve.bytes_per_second.get(i), curve.bytes_per_second.first()) {
            (Some(rate), Some(one)) => format!("{} x{:.2}", gb(*rate), rate / one),
            _ => NONE.to_string(),
        });
        rows.push(std::iter::once((i + 1).to_string()).chain(cells).collect());
    }
    table(
        out,
        "Bandwidth by threads, GB/s and times that of one thread (cpus of a node to the memory of a node)",
        &rows,
    );
}

fn loaded(out: &mut String, attributes: &Attributes) {
    let loads = loads(attributes);
    if loads.is_empty() {
        return;
    }
    let name = |((from, to), _): &Load| [format!("load {from} to {to}"), "latency".to_string()];
    let mut rows = vec![loads.iter().flat_map(name).collect::<Vec<_>>()];
    for i in 0..loads.iter().map(|(_, points)| points.len()).max().unwrap_or(0) {
        let cell = |(_, points): &Load| match points.get(i) {
            Some((rate, ns)) => [gb(*rate), format!("{ns:.1}")],
            None => [NONE, NONE].map(String::from),
        };
        rows.push(loads.iter().flat_map(cell).collect());
    }
    table(out, "Latency under load, GB/s read by the other cpus of the node and ns seen by one", &rows);
}

/// Rows of cells, the first row the head, the columns as wide as they need to be and right-aligned.
fn table(out: &mut String, title: &str, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let _ = writeln!(out, "\n{title}");
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  "));
    }
}
