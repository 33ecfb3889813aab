//! A machine from a TOML specification.
//!
//! ```toml
//! name = "epyc-like"
//! packages = 2
//! nodes_per_package = 4
//! cores_per_node = 8
//! threads_per_core = 2                        # 1 if left out
//! core_slowness = 2.5                         # how much longer code takes than where it was measured; 1 if left out
//! llc_mb = 32                                 # per node, MiB; 32 if left out
//! memory_gb = 64                              # per node, GiB; 64 if left out
//! coherence = "directory"                     # or "broadcast"; directory if left out
//! latency_ns = [90, 120, 200]                 # local, same package, other package; or a row per node
//! bandwidth_gb_s = [50, 40, 30]               # as latency_ns
//! total_local_gb_s = 380                      # all nodes at once; left out: the sum
//! [[link]]                                    # optional; both directions
//! between = [0, 1]
//! gb_s = 40
//! ```

use numa::Coherence;
use serde::Deserialize;

use super::{Figures, Link, Shape};

const GB: f64 = 1e9;
const NODES_MAX: usize = 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Specification {
    name: Option<String>,
    packages: usize,
    #[serde(default = "one")]
    nodes_per_package: usize,
    cores_per_node: usize,
    #[serde(default = "one")]
    threads_per_core: usize,
    core_slowness: Option<f64>,
    llc_mb: Option<f64>,
    memory_gb: Option<f64>,
    coherence: Option<Coherence>,
    latency_ns: PerPair,
    bandwidth_gb_s: PerPair,
    total_local_gb_s: Option<f64>,
    #[serde(default)]
    link: Vec<TwoWay>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PerPair {
    ByClass(Vec<f64>),
    Rows(Vec<Vec<f64>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TwoWay {
    between: [usize; 2],
    gb_s: f64,
}

fn one() -> usize {
    1
}

/// Reads a specification; the error says what is wrong.
pub(super) fn parse(text: &str) -> Result<Figures, String> {
    let given: Specification = toml::from_str(text).map_err(|error| error.to_string())?;
    let shape = Shape {
        packages: given.packages,
        nodes_per_package: given.nodes_per_package,
        cores_per_node: given.cores_per_node,
        threads_per_core: given.threads_per_core,
        llc_bytes: (given.llc_mb.unwrap_or(32.0).max(0.0) * f64::from(1 << 20)) as u64,
        memory_bytes: (given.memory_gb.unwrap_or(64.0).max(1.0) * f64::from(1 << 30)) as u64,
    };
    let nodes = given.packages.saturating_mul(given.nodes_per_package);
    if nodes == 0 || nodes > NODES_MAX {
        return Err(format!("packages times nodes_per_package is {nodes}: 1 to {NODES_MAX} are possible"));
    }
    let latency_ns = given.latency_ns.matrix("latency_ns", &shape, 1.0)?;
    let bandwidth = given.bandwidth_gb_s.matrix("bandwidth_gb_s", &shape, GB)?;
    let one_way = |from, to, gb_s: f64| Link { from, to, bytes_per_second: gb_s * GB };
    let both = |link: &TwoWay| {
        let [a, b] = link.between;
        [one_way(a, b, link.gb_s), one_way(b, a, link.gb_s)]
    };
    if latency_ns.iter().flatten().any(|ns| ns.is_nan() || *ns <= 0.0) {
        return Err("every latency must be above zero".to_owned());
    }
    Ok(Figures {
        name: given.name.unwrap_or_else(|| "specification".to_owned()),
        source: "specification".to_owned(),
        topology: shape.topology(&latency_ns)?,
        shape: Some(shape),
        coherence: given.coherence.unwrap_or(Coherence::Directory),
        latency_ns,
        bandwidth,
        total_local: given.total_local_gb_s.map(|gb_s| gb_s * GB),
        links: given.link.iter().flat_map(both).collect(),
        hops: None,
        core_slowness: given.core_slowness.unwrap_or(1.0),
        notes: vec!["every figure was given, none measured".to_owned()],
    })
}

impl PerPair {
    fn matrix(&self, key: &str, shape: &Shape, unit: f64) -> Result<Vec<Vec<f64>>, String> {
        let nodes = shape.nodes();
        match self {
            PerPair::Rows(rows) if rows.len() == nodes && rows.iter().all(|row| row.len() == nodes) => {
                Ok(rows.iter().map(|row| row.iter().map(|figure| figure * unit).collect()).collect())
            }
            PerPair::Rows(_) => Err(format!("'{key}' needs {nodes} rows of {nodes} figures, one per node")),
            PerPair::ByClass(given) if (1..=3).contains(&given.len()) => {
                let class =
                    |from: usize, to: usize| match from / shape.nodes_per_package == to / shape.nodes_per_package {
                        _ if from == to => 0,
                        true => 1,
                        false => 2,
                    };
                let figure = |from, to| given[class(from, to).min(given.len() - 1)] * unit;
                Ok((0..nodes).map(|from| (0..nodes).map(|to| figure(from, to)).collect()).collect())
            }
            PerPair::ByClass(_) => {
                Err(format!("'{key}' takes 1 to 3 figures (local, same package, other package) or a row per node"))
            }
        }
    }
}
