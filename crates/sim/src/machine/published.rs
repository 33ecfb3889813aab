//! The machines that the papers measured: figures as [`numa`] has them, one list for all.
//!
//! # What was assumed
//! No latencies were printed for the machines of NBB; those of the same processor generation in the other tables stand
//! in (westmere-ex-8 for the X7560, eris-amd-8 for the Opteron 6168). Their bandwidths are those of Tables 2.4 and 2.5,
//! all threads of a node writing. A line that is written is read before and goes back after, so that a controller moves
//! [`MOVED_PER_WRITTEN`] bytes for each: by that count STREAM's copy (three bytes moved for two counted) moves 13.2
//! GB/s of a node of the Opteron, where Table 2.4 has 13.6. Links carry the two in opposite directions: what a node
//! pulls of another is what was printed.
//!
//! Cores are as much slower than the one that costs of code were measured on as their single-thread marks are lower
//! ([`SINGLE_THREAD`]). A mark is an average of users' runs, which differ by some 10% from cpu to cpu of a kind.

use numa::{Attributes, MachineDescription, NodeId, PublishedMachine, published_machines};

use super::{Figures, Shape};

/// Machines without printed latencies, and the one whose pairs of the same places stand in.
const LATENCIES_OF: [(&str, &str); 2] = [("nbb-xeon-4", "westmere-ex-8"), ("nbb-opteron-8", "eris-amd-8")];
/// Single-thread marks of PassMark's PerformanceTest 10 (list of 2022), and whose they are: the machine's own cpu's, or
/// of one of the same core and nominal clock where that one is not listed.
const SINGLE_THREAD: [(&str, f64, &str); 12] = [
    ("ivybridge-ex-4", 1621.0, "Xeon E5-2670 v2 at 2.50 GHz"),
    ("ivybridge-ex-32", 1794.0, "Xeon E5-2680 v2 at 2.80 GHz"),
    ("ivybridge-ex-16", 1794.0, "Xeon E5-2680 v2 at 2.80 GHz"),
    ("westmere-ex-8", 1147.0, "Xeon E5645 at 2.40 GHz"),
    ("eris-intel-4", 1139.0, "Xeon L5640 at 2.27 GHz"),
    ("eris-amd-8", 849.0, "Opteron 6274"),
    ("eris-sgi-64", 1393.0, "Xeon E5-4650L"),
    ("broadwell-2-cod-off", 1911.0, "Xeon E5-2699 v4"),
    ("broadwell-2-cod-on", 1911.0, "Xeon E5-2699 v4"),
    ("skylake-2-snc-off", 1996.0, "Xeon Platinum 8180"),
    ("skylake-2-snc-on", 1996.0, "Xeon Platinum 8180"),
    ("nbb-xeon-4", 1062.0, "Xeon E5520 at 2.27 GHz"),
];
/// The core of nbb-opteron-8 (Opteron 6168, 1.9 GHz) by its clock: the Opteron 2384 of the same core at 2.7 GHz has
/// 1,074.
const K10_MARK: f64 = 1074.0 * 1.9 / 2.7;
/// The core that costs of code were measured on, Zen 5 at 4.4 GHz: an EPYC 9654 (Zen 4, 3.7 GHz) has 2,893, and its
/// maker says that the next one does 17% more per cycle.
const MEASURED_MARK: f64 = 2893.0 / 3.7 * 1.17 * 4.4;
/// Bytes that a controller moves for a byte written: the line is read, and goes back.
pub const MOVED_PER_WRITTEN: f64 = 2.0;

/// The names of the published machines, in the order of the papers.
pub(super) fn names() -> Vec<&'static str> {
    published_machines().iter().map(|machine| machine.name).collect()
}

/// The figures of a published machine; `None` for a name that is not one.
pub(super) fn find(name: &str) -> Option<Result<Figures, String>> {
    published_machines().iter().find(|machine| machine.name == name).map(figures)
}

fn figures(machine: &PublishedMachine) -> Result<Figures, String> {
    let printed = attributes(machine.name)?;
    let shape = Shape {
        packages: machine.packages as usize,
        nodes_per_package: machine.nodes_per_package as usize,
        cores_per_node: machine.cores_per_node as usize,
        threads_per_core: machine.threads_per_core as usize,
        llc_bytes: machine.llc_bytes,
        memory_bytes: machine.memory_bytes,
    };
    let mut notes = printed.notes.clone();
    let other = LATENCIES_OF.iter().find(|(name, _)| *name == machine.name).map(|(_, other)| *other);
    let latency_ns = match other {
        None => square(&shape, "latency", &|from, to| printed.latency_ns(from, to))?,
        Some(other) => {
            notes.push(format!(
                "latencies are those of {other}; bandwidths are those of all threads of a node that write: local \
                 memory moves {MOVED_PER_WRITTEN} bytes for each of them, links carry one each way"
            ));
            let stand_in = attributes(other)?;
            square(&shape, "latency", &|from, to| stand_in.latency_ns(from, to))?
        }
    };
    let bandwidth = square(&shape, "bandwidth", &|from, to| {
        let of_writing = |written: f64| if from == to { written * MOVED_PER_WRITTEN } else { written };
        printed.read_bytes_per_second(from, to).or_else(|| printed.write_bytes_per_second(from, to).map(of_writing))
    })?;
    let hops = square(&shape, "hops", &|from, to| Some(f64::from(machine.hops(from, to))))?;
    let known = SINGLE_THREAD.iter().find(|(name, ..)| *name == machine.name);
    let (mark, cpu) = known.map_or((K10_MARK, "Opteron 2384 by its clock"), |(_, mark, cpu)| (*mark, *cpu));
    let core_slowness = MEASURED_MARK / mark;
    notes.push(format!(
        "assumed: code takes {core_slowness:.1} times as long as where it was measured, by the mark of {cpu}"
    ));
    Ok(Figures {
        name: machine.name.to_owned(),
        source: machine.source.to_owned(),
        topology: shape.topology(&latency_ns)?,
        shape: Some(shape),
        coherence: machine.coherence,
        latency_ns,
        bandwidth,
        total_local: machine.total_local,
        links: Vec::new(),
        hops: Some(hops),
        core_slowness,
        notes,
    })
}

fn attributes(name: &str) -> Result<Attributes, String> {
    let described = MachineDescription::parse(name).map_err(|error| error.to_string())?;
    described.attributes.ok_or_else(|| format!("no figures of '{name}' are printed"))
}

/// A figure per reading node and node of memory.
fn square(shape: &Shape, what: &str, figure: &dyn Fn(NodeId, NodeId) -> Option<f64>) -> Result<Vec<Vec<f64>>, String> {
    let node = |place: usize| NodeId(place as u32);
    let entry = |from: usize, to: usize| {
        figure(node(from), node(to)).ok_or_else(|| format!("no {what} from node {from} to node {to} is printed"))
    };
    let nodes = shape.nodes();
    (0..nodes).map(|from| (0..nodes).map(|to| entry(from, to)).collect()).collect()
}
