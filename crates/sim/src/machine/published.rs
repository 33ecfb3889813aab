//! The machines that the papers measured, from `data/machines.toml` (figures as printed).
//!
//! # How pairs get a class
//! Latency and bandwidth are printed per class of pairs, and the drawings of links are not in the papers' text, so a rule
//! stands for each machine:
//!
//! | machine | classes |
//! |---|---|
//! | ivybridge-ex-4, eris-intel-4, nbb-xeon-4 | local; all others one hop (fully connected) |
//! | ivybridge-ex-32, -16, westmere-ex-8 | local; the three others of a box of four one hop; all others the printed maximum |
//! | eris-amd-8, nbb-opteron-8 | local; the twin in the package; nodes of equal place in other packages one hop; others two |
//! | eris-sgi-64 | local; the second processor of the blade; then by links between blades (cubes of eight with long diagonals, in a square) |
//! | broadwell-2-\*, skylake-2-\* | a figure per pair is printed |
//!
//! # What was assumed
//! Where the papers say nothing: last-level caches and threads from data sheets, 64 GiB per node. No latencies were printed
//! for the machines of NBB; those of the same processor generation in the other tables stand in (westmere-ex-8 for the
//! X7560, eris-amd-8 for the Opteron 6168). Their controllers deliver what STREAM got on first-touch memory with all
//! threads, the mean of its four kernels; their remote figures are those for all threads of a node.
//!
//! # Limits
//! Split links of eris-amd-8 count as single ones: which pairs share a link is not told.

use toml::{Table, Value};

use super::{Coherence, Figures, Shape};

const TEXT: &str = include_str!("../../data/machines.toml");
const GIB: f64 = (1u64 << 30) as f64;
const GB: f64 = 1e9;
const MB: f64 = 1e6;

/// Per reading node and node of memory.
type Matrix = Vec<Vec<f64>>;

/// What the tables do not tell.
struct Facts {
    name: &'static str,
    packages: usize,
    nodes_per_package: usize,
    cores_per_node: usize,
    threads_per_core: usize,
    llc_kib: u64,
    memory_gib: u64,
    coherence: Coherence,
    pairs: Pairs,
}

/// Where the figures of a pair are.
enum Pairs {
    /// A class per pair, and the keys of each class in the tables of latencies and of bandwidths.
    ByClass { class: fn(usize, usize) -> usize, keys: &'static [&'static str], unit: Unit },
    /// Matrices.
    Printed,
    /// Latencies of another machine's classes; bandwidths of curves over threads.
    Curves {
        class: fn(usize, usize) -> usize,
        latencies: (&'static str, &'static [&'static str]),
        curves: &'static [&'static str],
        stream: &'static str,
    },
}

enum Unit {
    Gib,
    Gb,
}

const TWO: &[&str] = &["local", "hop1"];
const BOXES: &[&str] = &["local", "hop1", "max_hops"];
const DUAL: &[&str] = &["local", "hop1_full", "hop1_split_single", "hop2_split_single"];
const RACK: &[&str] = &["local", "second_processor", "numalink1", "numalink2", "numalink3", "numalink4"];
const FOREIGN: &[&str] = &["foreign_gib_s_by_threads"];
const FOREIGN_HOPS: &[&str] =
    &["foreign_hop1_gib_s_by_threads", "foreign_hop1_gib_s_by_threads", "foreign_hop2_gib_s_by_threads"];

fn connected(from: usize, to: usize) -> usize {
    usize::from(from != to)
}

fn boxes(from: usize, to: usize) -> usize {
    usize::from(from != to) + usize::from(from / 4 != to / 4)
}

fn dual(from: usize, to: usize) -> usize {
    match (from == to, from / 2 == to / 2, from % 2 == to % 2) {
        (true, ..) => 0,
        (_, true, _) => 1,
        (.., true) => 2,
        _ => 3,
    }
}

fn rack(from: usize, to: usize) -> usize {
    if from == to {
        return 0;
    }
    let (a, b) = (from / 2, to / 2);
    let in_cube = ((a % 8) ^ (b % 8)).count_ones();
    let cubes = ((a / 8) ^ (b / 8)).count_ones();
    1 + (in_cube.min(1 + (3 - in_cube)) + cubes) as usize
}

const fn uv_300(name: &'static str, packages: usize) -> Facts {
    Facts {
        name,
        packages,
        nodes_per_package: 1,
        cores_per_node: 15,
        threads_per_core: 2,
        llc_kib: 38_400,
        memory_gib: 64,
        coherence: Coherence::Directory,
        pairs: Pairs::ByClass { class: boxes, keys: BOXES, unit: Unit::Gib },
    }
}

const fn two_packages(name: &'static str, nodes_per_package: usize, cores: usize, llc_kib: u64, gib: u64) -> Facts {
    Facts {
        name,
        packages: 2,
        nodes_per_package,
        cores_per_node: cores,
        threads_per_core: 2,
        llc_kib,
        memory_gib: gib,
        coherence: Coherence::Directory,
        pairs: Pairs::Printed,
    }
}

const MACHINES: &[Facts] = &[
    Facts {
        name: "ivybridge-ex-4",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 15,
        threads_per_core: 2,
        llc_kib: 38_400,
        memory_gib: 64,
        coherence: Coherence::Directory,
        pairs: Pairs::ByClass { class: connected, keys: TWO, unit: Unit::Gib },
    },
    uv_300("ivybridge-ex-32", 32),
    uv_300("ivybridge-ex-16", 16),
    Facts {
        name: "westmere-ex-8",
        packages: 8,
        nodes_per_package: 1,
        cores_per_node: 10,
        threads_per_core: 2,
        llc_kib: 30_720,
        memory_gib: 64,
        coherence: Coherence::Broadcast,
        pairs: Pairs::ByClass { class: boxes, keys: BOXES, unit: Unit::Gib },
    },
    Facts {
        name: "eris-intel-4",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 10,
        threads_per_core: 2,
        llc_kib: 24_576,
        memory_gib: 32,
        coherence: Coherence::Broadcast,
        pairs: Pairs::ByClass { class: connected, keys: TWO, unit: Unit::Gb },
    },
    Facts {
        name: "eris-amd-8",
        packages: 4,
        nodes_per_package: 2,
        cores_per_node: 8,
        threads_per_core: 1,
        llc_kib: 6_144,
        memory_gib: 8,
        coherence: Coherence::Broadcast,
        pairs: Pairs::ByClass { class: dual, keys: DUAL, unit: Unit::Gb },
    },
    Facts {
        name: "eris-sgi-64",
        packages: 64,
        nodes_per_package: 1,
        cores_per_node: 8,
        threads_per_core: 1,
        llc_kib: 20_480,
        memory_gib: 128,
        coherence: Coherence::Directory,
        pairs: Pairs::ByClass { class: rack, keys: RACK, unit: Unit::Gb },
    },
    two_packages("broadwell-2-cod-off", 1, 22, 56_320, 32),
    two_packages("broadwell-2-cod-on", 2, 11, 28_160, 16),
    two_packages("skylake-2-snc-off", 1, 28, 39_424, 96),
    two_packages("skylake-2-snc-on", 2, 14, 19_712, 48),
    Facts {
        name: "nbb-xeon-4",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 8,
        threads_per_core: 2,
        llc_kib: 24_576,
        memory_gib: 64,
        coherence: Coherence::Broadcast,
        pairs: Pairs::Curves {
            class: connected,
            latencies: ("westmere-ex-8", TWO),
            curves: FOREIGN,
            stream: "stream_64_threads_mb_s",
        },
    },
    Facts {
        name: "nbb-opteron-8",
        packages: 4,
        nodes_per_package: 2,
        cores_per_node: 6,
        threads_per_core: 1,
        llc_kib: 6_144,
        memory_gib: 32,
        coherence: Coherence::Broadcast,
        pairs: Pairs::Curves {
            class: dual,
            latencies: ("eris-amd-8", DUAL),
            curves: FOREIGN_HOPS,
            stream: "stream_48_threads_mb_s",
        },
    },
];

/// The names of the published machines, in the order of the papers.
pub(super) fn names() -> Vec<&'static str> {
    MACHINES.iter().map(|facts| facts.name).collect()
}

/// The figures of a published machine; `None` for a name that is not one.
pub(super) fn find(name: &str) -> Option<Result<Figures, String>> {
    let facts = MACHINES.iter().find(|facts| facts.name == name)?;
    Some(facts.figures())
}

impl Facts {
    fn figures(&self) -> Result<Figures, String> {
        let all: Table = TEXT.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let printed = entry(&all, self.name)?;
        // Half of a machine has the figures of the whole.
        let figures = match printed.get("like").and_then(Value::as_str) {
            Some(whole) => entry(&all, whole)?,
            None => printed,
        };
        let nodes = self.packages * self.nodes_per_package;
        let [latency_ns, bandwidth] = self.matrices(&all, figures, nodes)?;
        let shape = Shape {
            packages: self.packages,
            nodes_per_package: self.nodes_per_package,
            cores_per_node: self.cores_per_node,
            threads_per_core: self.threads_per_core,
            llc_bytes: self.llc_kib << 10,
            memory_bytes: self.memory_gib << 30,
        };
        let total = figures.get("bandwidth_gib_s").and_then(|of| of.get("total_local")).and_then(number);
        Ok(Figures {
            name: self.name.to_owned(),
            source: printed.get("source").and_then(Value::as_str).unwrap_or_default().to_owned(),
            topology: shape.topology(&latency_ns)?,
            shape: Some(shape),
            coherence: self.coherence,
            latency_ns,
            bandwidth,
            // A half has half of what the whole reads.
            total_local: total.filter(|_| std::ptr::eq(printed, figures)).map(|gib_s| gib_s * GIB),
            links: Vec::new(),
            notes: self.notes(),
        })
    }

    /// Latencies and bandwidths.
    fn matrices(&self, all: &Table, figures: &Table, nodes: usize) -> Result<[Matrix; 2], String> {
        let square = |of: &dyn Fn(usize, usize) -> f64| -> Matrix {
            (0..nodes).map(|from| (0..nodes).map(|to| of(from, to)).collect()).collect()
        };
        match &self.pairs {
            Pairs::ByClass { class, keys, unit } => {
                let (table, unit) = match unit {
                    Unit::Gib => ("bandwidth_gib_s", GIB),
                    Unit::Gb => ("bandwidth_gb_s", GB),
                };
                let latencies = by_class(figures, "latency_ns", keys, 1.0)?;
                let bandwidths = by_class(figures, table, keys, unit)?;
                Ok([square(&|a, b| latencies[class(a, b)]), square(&|a, b| bandwidths[class(a, b)])])
            }
            Pairs::Printed => Ok([matrix(figures, "latency_ns", 1.0)?, matrix(figures, "bandwidth_mb_s", MB)?]),
            Pairs::Curves { class, latencies: (machine, keys), curves, stream } => {
                let latencies = by_class(entry(all, machine)?, "latency_ns", keys, 1.0)?;
                let kernels = by_class(figures, stream, &["copy", "scale", "add", "triad"], MB)?;
                let mut bandwidths = vec![kernels.iter().sum::<f64>() / (kernels.len() * nodes) as f64];
                for curve in *curves {
                    let points = figures.get(*curve).and_then(Value::as_array);
                    let last = points.and_then(|points| points.last()).and_then(number);
                    bandwidths.push(last.ok_or_else(|| format!("'{curve}' has no last figure"))? * GIB);
                }
                Ok([square(&|a, b| latencies[class(a, b)]), square(&|a, b| bandwidths[class(a, b)])])
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec!["classes of pairs by rule: the link graph is not in the paper's text".to_owned()];
        if matches!(self.pairs, Pairs::Printed) {
            notes = vec!["a figure per pair, as measured with Intel's Memory Latency Checker".to_owned()];
        }
        if let Pairs::Curves { latencies: (machine, _), .. } = self.pairs {
            notes.push(format!("latencies are those of {machine}; controllers deliver what STREAM got on first touch"));
        }
        notes
    }
}

fn entry<'a>(all: &'a Table, name: &str) -> Result<&'a Table, String> {
    all.get(name).and_then(Value::as_table).ok_or_else(|| format!("no machine '{name}' in the tables"))
}

/// The figures of these keys; a range counts as its middle.
fn by_class(of: &Table, table: &str, keys: &[&str], unit: f64) -> Result<Vec<f64>, String> {
    let figure = |key: &&str| {
        let value = of.get(table).and_then(|table| table.get(*key));
        value.and_then(number).map(|figure| figure * unit).ok_or_else(|| format!("no figure '{table}.{key}'"))
    };
    keys.iter().map(figure).collect()
}

fn matrix(of: &Table, key: &str, unit: f64) -> Result<Matrix, String> {
    let fault = || format!("no matrix '{key}'");
    let rows = of.get(key).and_then(Value::as_array).ok_or_else(fault)?;
    let row = |row: &Value| -> Result<Vec<f64>, String> {
        let figures = row.as_array().ok_or_else(fault)?;
        figures.iter().map(|figure| number(figure).map(|figure| figure * unit).ok_or_else(fault)).collect()
    };
    rows.iter().map(row).collect()
}

/// A number, or the middle of a range.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(figure) => Some(*figure),
        Value::Array(range) if range.len() == 2 => Some((number(&range[0])? + number(&range[1])?) / 2.0),
        _ => None,
    }
}
