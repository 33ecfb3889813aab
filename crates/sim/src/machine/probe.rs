//! A machine from what a probe measured.
//!
//! # Limits
//! A probe does not tell how caches are kept coherent: a directory is assumed, which costs nothing; nor how fast cores
//! are: as fast as the one that costs of code were measured on. Memory of nodes without cpus counts; what their
//! (missing) cpus would read is filled in from the nearest row and never used.

use numa::{Attributes, Coherence, MachineDescription, NodeId};

use super::Figures;

/// The figures of a description, or what is missing.
pub(super) fn figures(name: &str, described: &MachineDescription) -> Result<Figures, String> {
    let Some(attributes) = &described.attributes else {
        return Err(
            "nothing is known of its latencies and bandwidths: give a file of 'nearside probe --json', or add \
                    latency=.. and bandwidth=.. to the specification"
                .to_owned(),
        );
    };
    let topology = described.topology.clone();
    let ids: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
    let latency_ns = matrix(attributes, &ids, "latency", &|from, to| attributes.latency_ns(from, to))?;
    let read =
        |from, to| attributes.read_bytes_per_second(from, to).or_else(|| attributes.write_bytes_per_second(from, to));
    let bandwidth = matrix(attributes, &ids, "bandwidth", &read)?;
    let mut notes = attributes.notes.clone();
    notes.push("coherence is not known: a directory is assumed".to_owned());
    Ok(Figures {
        name: if attributes.machine.is_empty() { name.to_owned() } else { attributes.machine.clone() },
        source: attributes.source.clone(),
        topology,
        shape: None,
        coherence: Coherence::Directory,
        latency_ns,
        bandwidth,
        total_local: None,
        links: Vec::new(),
        hops: None,
        core_slowness: 1.0,
        notes,
    })
}

/// A square matrix over all nodes.
fn matrix(
    attributes: &Attributes,
    ids: &[NodeId],
    what: &str,
    figure: &dyn Fn(NodeId, NodeId) -> Option<f64>,
) -> Result<Vec<Vec<f64>>, String> {
    let entry = |from: NodeId, to: NodeId| -> Result<f64, String> {
        // A node without cpus reads nothing: what its nearest neighbour reads stands in.
        let reader = if attributes.nodes.contains(&from) { Some(from) } else { attributes.nodes.first().copied() };
        // A node without memory holds nothing: the reader's own figure stands in.
        let held = if attributes.targets.contains(&to) { Some(to) } else { attributes.targets.first().copied() };
        reader.zip(held).and_then(|(from, to)| figure(from, to)).ok_or_else(|| {
            format!("its {what} from node {from} to node {to} is not known: probe again without --quick")
        })
    };
    ids.iter().map(|from| ids.iter().map(|to| entry(*from, *to)).collect()).collect()
}
