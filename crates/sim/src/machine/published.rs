//! The machines that the papers measured: figures as [`numa`] has them, one list for all.
//!
//! # What was assumed
//! No latencies were printed for the machines of NBB; those of the same processor generation in the other tables stand
//! in (westmere-ex-8 for the X7560, eris-amd-8 for the Opteron 6168). Their controllers deliver what STREAM got on
//! first-touch memory with all threads, the mean of its four kernels; their remote figures are those for all threads of
//! a node.
//!
//! # Limits
//! Split links of eris-amd-8 count as single ones: which pairs share a link is not told.

use numa::{Attributes, MachineDescription, NodeId, PublishedMachine, published_machines};

use super::{Figures, Shape};

/// Machines without printed latencies, and the one whose pairs of the same places stand in.
const LATENCIES_OF: [(&str, &str); 2] = [("nbb-xeon-4", "westmere-ex-8"), ("nbb-opteron-8", "eris-amd-8")];
/// What [`numa`] calls memory that lies where it was first touched.
const FIRST_TOUCH: &str = "first touch";

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
            notes.push(format!("latencies are those of {other}; controllers deliver what STREAM got on first touch"));
            let stand_in = attributes(other)?;
            square(&shape, "latency", &|from, to| stand_in.latency_ns(from, to))?
        }
    };
    let controller = all_threads(&printed).map(|total| total / shape.nodes() as f64);
    let bandwidth = square(&shape, "bandwidth", &|from, to| {
        let written = || printed.write_bytes_per_second(from, to);
        let local = controller.filter(|_| from == to);
        printed.read_bytes_per_second(from, to).or(local).or_else(written)
    })?;
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
        notes,
    })
}

fn attributes(name: &str) -> Result<Attributes, String> {
    let described = MachineDescription::parse(name).map_err(|error| error.to_string())?;
    described.attributes.ok_or_else(|| format!("no figures of '{name}' are printed"))
}

/// What all nodes move at once where only STREAM was printed: on first-touch memory, with the most threads, the mean of
/// the kernels.
fn all_threads(printed: &Attributes) -> Option<f64> {
    let first_touch = printed.stream.iter().filter(|stream| stream.placement == FIRST_TOUCH);
    let most = first_touch.max_by_key(|stream| stream.threads)?;
    Some((most.copy + most.scale + most.add + most.triad) / 4.0)
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
