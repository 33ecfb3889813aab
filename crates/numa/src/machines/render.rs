//! The figures of a machine as text: a table per matrix, STREAM, and the notes.

use std::fmt::Write;

use crate::attributes::Attributes;
use crate::ids::NodeId;
use crate::topology::render::{table, wrapped};

/// Where notes are broken.
const WIDTH: usize = 106;

/// Appends what is known of the machine's speed.
pub(super) fn figures(attributes: &Attributes, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write(attributes, out);
}

fn write(attributes: &Attributes, out: &mut String) -> std::fmt::Result {
    let ns = |from, to| attributes.latency_ns(from, to).map(|ns| format!("{ns:.0}"));
    matrix(attributes, "latency in ns (cpus of row, memory of column)", ns, out)?;
    let rate = |of: Option<f64>| of.map(|rate| format!("{:.1}", rate / 1e9));
    let read = |from, to| rate(attributes.read_bytes_per_second(from, to));
    matrix(attributes, "reading in GB/s (all cpus of row, memory of column)", read, out)?;
    let write = |from, to| rate(attributes.write_bytes_per_second(from, to));
    matrix(attributes, "writing in GB/s", write, out)?;
    let copy = |from, to| rate(attributes.copy_bytes_per_second(from, to));
    matrix(attributes, "copying in GB/s, read and written together", copy, out)?;
    if !attributes.stream.is_empty() {
        writeln!(out, "\nSTREAM in GB/s")?;
    }
    for run in &attributes.stream {
        let [copy, scale, add, triad] = [run.copy, run.scale, run.add, run.triad].map(|rate| rate / 1e9);
        writeln!(
            out,
            "  {}, threads {}: copy {copy:.1}, scale {scale:.1}, add {add:.1}, triad {triad:.1}",
            run.placement, run.threads
        )?;
    }
    writeln!(out, "\nfigures: {}", attributes.source)?;
    for note in &attributes.notes {
        writeln!(out, "  - {}", wrapped(note, WIDTH).join("\n    "))?;
    }
    Ok(())
}

/// A matrix with its title, where it has any figure; a dash where one is missing.
fn matrix(
    attributes: &Attributes,
    title: &str,
    figure: impl Fn(NodeId, NodeId) -> Option<String>,
    out: &mut String,
) -> std::fmt::Result {
    let any = attributes.nodes.iter().any(|from| attributes.targets.iter().any(|to| figure(*from, *to).is_some()));
    if !any {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    let cell = |from, to| figure(from, to).unwrap_or_else(|| "-".to_string());
    table(&attributes.nodes, &attributes.targets, cell, out)
}
