//! Machines that are not the one at hand: what `--machine` takes.
//!
//! A description is a probe's JSON file, the JSON of `nearside topology`, the name of a machine that a paper measured
//! (`published.rs`), or a short specification (`spec.rs` has the grammar).
//!
//! # Limits
//! A published machine is as exact as its paper: the notes of its attributes say what was derived or assumed.

mod figures;
mod published;
mod render;
mod spec;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strsim::levenshtein;
use thiserror::Error;

use crate::attributes::{Attributes, AttributesError};
use crate::ids::NodeId;
use crate::topology::Topology;

/// A description is no longer than this.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A machine, and what is known of its speed.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineDescription {
    /// What it is.
    pub topology: Topology,
    /// How fast it is; `None` where nothing tells.
    pub attributes: Option<Attributes>,
}

/// How a machine keeps its caches coherent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coherence {
    /// A directory knows who has a line: local accesses stay local.
    Directory,
    /// Every miss asks every node, which loads every link.
    Broadcast,
}

/// A machine that a paper measured: what no probe tells. Its figures are in what [`MachineDescription::parse`] makes of
/// the name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedMachine {
    /// What `--machine` takes.
    pub name: &'static str,
    /// Its cpus.
    pub cpu: &'static str,
    /// The paper and its table.
    pub source: &'static str,
    /// Packages; all are alike, and so are their nodes and cores.
    pub packages: u32,
    /// Nodes of a package.
    pub nodes_per_package: u32,
    /// Cores of a node.
    pub cores_per_node: u32,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
    /// Last-level cache of a node.
    pub llc_bytes: u64,
    /// Memory of a node.
    pub memory_bytes: u64,
    /// How its caches are kept coherent.
    pub coherence: Coherence,
    /// Bytes per second of all nodes that read their own memory at once, where the paper prints them.
    pub total_local: Option<f64>,
    links: figures::Links,
}

impl PublishedMachine {
    /// How many links data crosses between two nodes, as the paper counts them; 0 within a node.
    pub fn hops(&self, from: NodeId, to: NodeId) -> u32 {
        self.links.hops(from.0, to.0)
    }
}

/// Why a text describes no machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The file could not be read, or holds something else.
    #[error("'{}' describes no machine: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is neither a file, nor a name, nor a specification.
    #[error(
        "there is no machine '{name}'; did you mean '{nearest}'? Give a file of 'nearside probe --json', a \
         specification such as 4x2x8x2, or a name ('nearside topology --machine list' lists them)"
    )]
    Unknown {
        /// What was given.
        name: String,
        /// The published machine whose name is most like it.
        nearest: &'static str,
    },
    /// It looks like a specification, but is none.
    #[error("'{text}' specifies no machine: {reason}")]
    Specification {
        /// What was given.
        text: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
}

impl MachineDescription {
    /// Reads a description: the name of a published machine, a specification (it begins with a shape and names no
    /// file), or the path of a JSON file.
    ///
    /// ```
    /// let machine = numa::MachineDescription::parse("2x2x8x2;mem=64G")?;
    /// assert_eq!(machine.topology.nodes().len(), 4);
    /// assert!(numa::MachineDescription::parse("eris-sgi-64")?.attributes.is_some());
    /// # Ok::<(), numa::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// [`MachineError`], which says what would be right.
    pub fn parse(text: &str) -> Result<MachineDescription, MachineError> {
        let text = text.trim();
        if let Some(facts) = published::find(text) {
            return Ok(facts.describe());
        }
        let path = Path::new(text);
        let exists = path.exists();
        if !exists && is_specification(text) {
            return spec::parse(text).map_err(|reason| MachineError::Specification { text: text.to_string(), reason });
        }
        if exists || text.contains('/') || text.ends_with(".json") {
            return read(path).map_err(|reason| MachineError::File { path: path.to_path_buf(), reason });
        }
        // The beginning of a name is nearer than anything.
        let distance = |m: &PublishedMachine| (text.is_empty() || !m.name.starts_with(text), levenshtein(text, m.name));
        let nearest = published_machines().into_iter().min_by_key(distance).map_or("", |m| m.name);
        Err(MachineError::Unknown { name: text.to_string(), nearest })
    }
}

impl MachineDescription {
    /// The machine as text, then its figures as tables and what must be known of them.
    pub fn render_text(&self) -> String {
        let mut text = self.topology.render_text();
        if let Some(attributes) = &self.attributes {
            render::figures(attributes, &mut text);
        }
        text
    }
}

/// Whether a text begins with a shape, right or wrong.
fn is_specification(text: &str) -> bool {
    let shape = text.split(';').next().unwrap_or_default();
    shape.starts_with(|c: char| c.is_ascii_digit())
        && shape.chars().all(|c| c.is_ascii_digit() || matches!(c, 'x' | 'X' | ' ' | '.' | '-'))
}

/// The machines that [`MachineDescription::parse`] knows by name.
pub fn published_machines() -> Vec<PublishedMachine> {
    published::MACHINES.iter().map(figures::PaperMachine::facts).collect()
}

/// A probe's file, or a topology.
fn read(path: &Path) -> Result<MachineDescription, String> {
    let kind = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if !kind.is_file() {
        return Err("it is not a file; a recorded tree is read with --root".to_string());
    }
    if kind.len() > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    match Attributes::from_json(&text) {
        Ok(attributes) => {
            Ok(MachineDescription { topology: attributes.topology.clone(), attributes: Some(attributes) })
        }
        Err(AttributesError::Json(of_probe)) => match serde_json::from_str::<Topology>(&text) {
            Ok(topology) => Ok(MachineDescription { topology, attributes: None }),
            Err(of_topology) => Err(format!(
                "as a result of 'nearside probe --json': {of_probe}; as one of 'nearside topology --format json': \
                 {of_topology}"
            )),
        },
        Err(other) => Err(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
