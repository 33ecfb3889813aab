//! What was measured of a machine, or printed of it in a paper: latencies and bandwidths between its nodes.
//!
//! Invariants: every matrix has a row per entry of `nodes` (where cpus are) and a column per entry of `targets` (where
//! memory is), or no rows at all where nothing is known; every number is finite and above zero; `source` and `revision`
//! say where the figures come from.
//!
//! # Limits
//! One number per pair of nodes: differences between the cpus of a node show in the minimum and maximum only.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::NodeId;
use crate::topology::Topology;

/// The format that this version writes, and the latest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The figures of one machine. Its JSON is what `nearside probe --json` writes and `--machine` takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    /// The version of this layout: 1.
    pub format: u32,
    /// What the machine is called: its cpu model, or its name among the published ones.
    pub machine: String,
    /// `measured`, or the paper and table.
    pub source: String,
    /// The revision of Nearside that measured or derived it.
    pub revision: String,
    /// When it was measured (UTC, RFC 3339); empty for published machines.
    pub taken_at: String,
    /// Whether it was measured by the quick run.
    pub quick: bool,
    /// The machine itself.
    pub topology: Topology,
    /// The initiators: nodes with cpus, ascending.
    pub nodes: Vec<NodeId>,
    /// The nodes with memory, ascending.
    pub targets: Vec<NodeId>,
    /// Idle latency, `[initiator][target]`.
    pub latency: Vec<Vec<Option<Latency>>>,
    /// Bytes per second that all cpus of a node read, `[initiator][target]`.
    pub read: Vec<Vec<Option<f64>>>,
    /// Bytes per second that all cpus of a node write, `[initiator][target]`.
    pub write: Vec<Vec<Option<f64>>>,
    /// Bytes per second, read and written together, that all cpus of a node copy, `[initiator][target]`.
    pub copy: Vec<Vec<Option<f64>>>,
    /// STREAM's four kernels.
    pub stream: Vec<Stream>,
    /// Bandwidth as the number of threads grows.
    pub by_threads: Vec<ByThreads>,
    /// Latency under load.
    pub loaded: Vec<LoadedLatency>,
    /// What a reader must know of the figures: what was derived, assumed, left out.
    pub notes: Vec<String>,
}

/// Idle latency of one node's memory, over the cpus of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Of the fastest cpu, in nanoseconds.
    pub min_ns: f64,
    /// Average over the cpus.
    pub avg_ns: f64,
    /// Of the slowest cpu.
    pub max_ns: f64,
}

/// STREAM's kernels, in bytes per second as STREAM counts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Where the arrays lay: `first touch` or `striped`.
    pub placement: String,
    /// How many threads ran.
    pub threads: u32,
    /// `c = a`.
    pub copy: f64,
    /// `b = s * c`.
    pub scale: f64,
    /// `c = a + b`.
    pub add: f64,
    /// `a = b + s * c`.
    pub triad: f64,
}

/// What threads do to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferKind {
    /// Read it.
    Read,
    /// Write it.
    Write,
}

/// Bandwidth of a pair of nodes for 1, 2, ... threads (NBB Tables 2.4 and 2.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByThreads {
    /// Where the threads ran.
    pub initiator: NodeId,
    /// Where the memory lay.
    pub target: NodeId,
    /// What they did.
    pub kind: TransferKind,
    /// Of all threads together: entry 0 for one thread, entry 1 for two, ...
    pub bytes_per_second: Vec<f64>,
}

/// Latency that one cpu sees while others read at a given rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedLatency {
    /// Where the cpus are.
    pub initiator: NodeId,
    /// Where the memory lies.
    pub target: NodeId,
    /// What the others read.
    pub bytes_per_second: f64,
    /// What the one saw.
    pub latency_ns: f64,
}

/// Why no attributes could be read.
#[derive(Debug, Error)]
pub enum AttributesError {
    /// The file could not be read.
    #[error("cannot read '{}': {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is no JSON of a probe.
    #[error("this is no result of 'nearside probe --json': {0}")]
    Json(String),
    /// It was written by a later version.
    #[error("the file has format {0}, this version reads formats up to {FORMAT}; use a newer nearside, or probe anew")]
    Newer(u32),
    /// Its figures do not fit together.
    #[error("the file's figures do not fit together: {0}; probe anew")]
    Unsound(String),
}

impl Attributes {
    /// Attributes of a machine of which nothing was measured yet: every list empty, initiators and targets as the
    /// topology has them.
    pub fn empty(topology: Topology, machine: impl Into<String>, source: impl Into<String>) -> Attributes {
        let ids = |with: &dyn Fn(NodeId) -> bool| -> Vec<NodeId> {
            topology.nodes().iter().map(|n| n.id).filter(|id| with(*id)).collect()
        };
        let nodes = ids(&|id| topology.node(id).is_some_and(|n| !n.cpus.is_empty()));
        let targets = ids(&|id| topology.usable_memory_nodes().contains(&id));
        Attributes {
            format: FORMAT,
            machine: machine.into(),
            source: source.into(),
            revision: String::new(),
            taken_at: String::new(),
            quick: false,
            nodes,
            targets,
            topology,
            latency: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            copy: Vec::new(),
            stream: Vec::new(),
            by_threads: Vec::new(),
            loaded: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Reads what [`to_json`](Attributes::to_json) wrote.
    ///
    /// # Errors
    /// It is no such JSON, of a later format, or its figures do not fit together.
    pub fn from_json(text: &str) -> Result<Attributes, AttributesError> {
        // The format comes first, because a later one may have any other fields.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let json = |e: serde_json::Error| AttributesError::Json(e.to_string());
        let head: Head = serde_json::from_str(text).map_err(json)?;
        if head.format > FORMAT {
            return Err(AttributesError::Newer(head.format));
        }
        let attributes: Attributes = serde_json::from_str(text).map_err(json)?;
        match attributes.fault() {
            Some(fault) => Err(AttributesError::Unsound(fault)),
            None => Ok(attributes),
        }
    }

    /// The JSON that [`from_json`](Attributes::from_json) reads, indented, with a line end.
    pub fn to_json(&self) -> String {
        // Plain data with string keys: writing it cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The average idle latency of `to`'s memory from `from`'s cpus, in nanoseconds.
    pub fn latency_ns(&self, from: NodeId, to: NodeId) -> Option<f64> {
        self.latency(from, to).map(|l| l.avg_ns)
    }

    /// The idle latency of `to`'s memory from `from`'s cpus.
    pub fn latency(&self, from: NodeId, to: NodeId) -> Option<Latency> {
        self.entry(&self.latency, from, to)
    }

    /// What all cpus of `from` read of `to`'s memory, in bytes per second.
    pub fn read_bytes_per_second(&self, from: NodeId, to: NodeId) -> Option<f64> {
        self.entry(&self.read, from, to)
    }

    /// What all cpus of `from` write to `to`'s memory, in bytes per second.
    pub fn write_bytes_per_second(&self, from: NodeId, to: NodeId) -> Option<f64> {
        self.entry(&self.write, from, to)
    }

    /// What all cpus of `from` copy within `to`'s memory, in bytes per second, read and written together.
    pub fn copy_bytes_per_second(&self, from: NodeId, to: NodeId) -> Option<f64> {
        self.entry(&self.copy, from, to)
    }

    fn entry<T: Copy>(&self, matrix: &[Vec<Option<T>>], from: NodeId, to: NodeId) -> Option<T> {
        let row = self.nodes.iter().position(|n| *n == from)?;
        let column = self.targets.iter().position(|n| *n == to)?;
        *matrix.get(row)?.get(column)?
    }

    /// The first invariant that does not hold.
    fn fault(&self) -> Option<String> {
        let there = |id: &NodeId| self.topology.node(*id).is_some();
        if let Some(id) = self.nodes.iter().chain(&self.targets).find(|id| !there(id)) {
            return Some(format!("node {id} is not in the machine"));
        }
        let latency = |l: &Latency| good(l.min_ns) && good(l.avg_ns) && good(l.max_ns);
        let rate = |r: &f64| good(*r);
        self.matrix_fault("latency", &self.latency, latency)
            .or_else(|| self.matrix_fault("read", &self.read, rate))
            .or_else(|| self.matrix_fault("write", &self.write, rate))
            .or_else(|| self.matrix_fault("copy", &self.copy, rate))
            .or_else(|| self.list_fault())
    }

    fn list_fault(&self) -> Option<String> {
        let there = |id: &NodeId| self.topology.node(*id).is_some();
        if !self.stream.iter().all(|s| [s.copy, s.scale, s.add, s.triad].into_iter().all(good)) {
            return Some("a figure of 'stream' is no rate".to_string());
        }
        let curve =
            |b: &ByThreads| there(&b.initiator) && there(&b.target) && b.bytes_per_second.iter().all(|r| good(*r));
        if !self.by_threads.iter().all(curve) {
            return Some(
                "a curve of 'by_threads' has a node that is not there or a figure that is no rate".to_string(),
            );
        }
        let loaded = |l: &LoadedLatency| {
            let rate = l.bytes_per_second.is_finite() && l.bytes_per_second >= 0.0;
            there(&l.initiator) && there(&l.target) && rate && good(l.latency_ns)
        };
        (!self.loaded.iter().all(loaded)).then(|| "a figure of 'loaded' is none".to_string())
    }

    fn matrix_fault<T>(&self, name: &str, matrix: &[Vec<Option<T>>], good: impl Fn(&T) -> bool) -> Option<String> {
        if matrix.is_empty() {
            return None;
        }
        let rows = self.nodes.len();
        let columns = self.targets.len();
        if matrix.len() != rows || matrix.iter().any(|row| row.len() != columns) {
            return Some(format!("'{name}' is not {rows} rows of {columns}"));
        }
        let bad = !matrix.iter().flatten().flatten().all(good);
        bad.then(|| format!("a figure of '{name}' is not above zero"))
    }
}

/// A figure that can be divided by.
fn good(figure: f64) -> bool {
    figure.is_finite() && figure > 0.0
}

#[cfg(test)]
mod tests;
