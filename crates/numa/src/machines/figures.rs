//! From a paper's figures to a machine: which class of pairs each pair of nodes is in, distances, matrices.
//!
//! Distances are latencies of a class of pairs relative to local ones, times ten, as the firmware's table means them.
//!
//! # Limits
//! The papers' bandwidths are taken as reading unless they say otherwise.

use super::{Coherence, MachineDescription, PublishedMachine};
use crate::attributes::{Attributes, ByThreads, Latency, Stream, TransferKind};
use crate::ids::NodeId;
use crate::topology::synthetic::Blueprint;

pub(super) const GIB: f64 = (1u64 << 30) as f64;
pub(super) const GB: f64 = 1e9;
const MB: f64 = 1e6;
/// Memory of a node where the paper does not tell.
const MEMORY_ASSUMED_GIB: u64 = 64;

/// A machine as a paper has it.
#[derive(Debug)]
pub(super) struct PaperMachine {
    pub(super) name: &'static str,
    pub(super) cpu: &'static str,
    pub(super) source: &'static str,
    pub(super) packages: u32,
    pub(super) nodes_per_package: u32,
    pub(super) cores_per_node: u32,
    pub(super) smt: u32,
    /// Last-level cache of a node, in KiB; 0 where neither the paper nor a data sheet at hand tells.
    pub(super) llc_kib: u64,
    /// Memory of a node in GiB; `None` where the paper does not tell.
    pub(super) memory_gib: Option<u64>,
    pub(super) coherence: Coherence,
    /// GiB/s of all nodes that read their own memory at once, where the paper prints them.
    pub(super) total_local_gib_s: Option<f64>,
    pub(super) links: Links,
    pub(super) figures: Figures,
    /// What else the paper says, and what was assumed.
    pub(super) notes: &'static [&'static str],
}

/// Which nodes are how far apart: a rule that stands for the paper's drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Links {
    /// Every node one hop from every other: classes local, one hop.
    FullyConnected,
    /// Chassis, or boxes, of four: classes local, same chassis, beyond.
    Chassis,
    /// Two nodes per package: classes local, same package, one hop, two hops.
    DualNodePackages,
    /// The same, where links between packages are split in two and, of a node's three neighbours in other packages, so
    /// many lie behind a link of which both halves are in use: classes local, same package, one hop single, one hop
    /// dual, two hops single, two hops dual.
    SplitPackages { dual: u32 },
    /// Blades of two nodes, cubes of eight blades with long diagonals, four cubes in a square: classes local, same
    /// blade, one to four hops.
    BladesOfARack,
    /// Classes local, same package, other package.
    SubDomains,
}

/// What a paper printed.
#[derive(Debug)]
pub(super) enum Figures {
    /// One latency and bandwidth per class of pairs.
    ByClass(&'static [Class]),
    /// One figure per pair of domains.
    Matrices(Matrices),
    /// Bandwidth per class for 1, 2, ... threads in GiB/s, and STREAM; no latencies, so distances are given.
    ByThreads { distances: &'static [u32], curves: &'static [&'static [f64]], streams: &'static [Streams] },
}

/// The figures of a class of pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) span: Span,
    pub(super) bytes_per_second: f64,
}

/// A range of latencies as printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) low_ns: f64,
    pub(super) high_ns: f64,
}

/// Rows are domains of cpus, columns domains of memory.
#[derive(Debug)]
pub(super) struct Matrices {
    pub(super) latency_ns: &'static [&'static [f64]],
    /// How far the fastest cpu is below the average and the slowest above.
    pub(super) below_above_ns: &'static [&'static [(f64, f64)]],
    pub(super) bandwidth_mb_s: &'static [&'static [f64]],
}

/// STREAM's kernels copy, scale, add, triad.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) striped: bool,
    pub(super) threads: u32,
    pub(super) mb_s: [f64; 4],
}

impl Links {
    /// The class of a pair of nodes; 0 is local.
    pub(super) fn class(self, from: u32, to: u32) -> usize {
        if from == to {
            return 0;
        }
        match self {
            Links::FullyConnected => 1,
            Links::Chassis => 1 + usize::from(from / 4 != to / 4),
            Links::DualNodePackages if from / 2 == to / 2 => 1,
            Links::DualNodePackages => 2 + usize::from(from % 2 != to % 2),
            Links::SplitPackages { .. } if from / 2 == to / 2 => 1,
            Links::SplitPackages { dual } => {
                // Each of the three ways to pair the four packages is one of these numbers.
                let pairing = (from / 2) ^ (to / 2);
                2 + 2 * usize::from(from % 2 != to % 2) + usize::from(pairing > 3 - dual)
            }
            Links::BladesOfARack => 1 + blade_hops(from / 2, to / 2),
            Links::SubDomains => 1 + usize::from(from / 2 != to / 2),
        }
    }
}

impl Links {
    /// How many links data crosses between two nodes, as the papers count them.
    pub(super) fn hops(self, from: u32, to: u32) -> u32 {
        let class = self.class(from, to) as u32;
        match (self, class) {
            (_, 0) => 0,
            // Two hops are the last classes.
            (Links::DualNodePackages, _) => 1 + class / 3,
            (Links::SplitPackages { .. }, _) => 1 + class / 4,
            // The second socket of a blade is behind the hub; of other blades NumaLinks are counted.
            (Links::BladesOfARack, _) => (class - 1).max(1),
            // Nothing is between the sub-domains of a package.
            (Links::SubDomains, _) => class - 1,
            (Links::FullyConnected | Links::Chassis, _) => class,
        }
    }
}

/// Hops between the blades of an SGI UV 2000 rack (Kissinger et al., ADMS 2014, section 2.2: cubes of eight blades,
/// enhanced, each blade linked to two other cubes; four hops at most).
fn blade_hops(from: u32, to: u32) -> usize {
    let in_cube = ((from % 8) ^ (to % 8)).count_ones();
    let cubes = ((from / 8) ^ (to / 8)).count_ones();
    // The long diagonal of the cube is one link.
    (in_cube.min(1 + (3 - in_cube)) + cubes) as usize
}

impl PaperMachine {
    /// What no probe tells of it.
    pub(super) fn facts(&self) -> PublishedMachine {
        PublishedMachine {
            name: self.name,
            cpu: self.cpu,
            source: self.source,
            packages: self.packages,
            nodes_per_package: self.nodes_per_package,
            cores_per_node: self.cores_per_node,
            threads_per_core: self.smt,
            llc_bytes: self.llc_kib << 10,
            memory_bytes: self.memory_gib.unwrap_or(MEMORY_ASSUMED_GIB) << 30,
            coherence: self.coherence,
            links: self.links,
            total_local: self.total_local_gib_s.map(|gib_s| gib_s * GIB),
        }
    }

    /// The machine and its figures.
    pub(super) fn describe(&self) -> MachineDescription {
        let blueprint = Blueprint {
            memory_bytes: self.memory_gib.unwrap_or(MEMORY_ASSUMED_GIB) << 30,
            l2_bytes: 256 << 10,
            l3_bytes: self.llc_kib << 10,
            cpu_model: Some(self.cpu.to_string()),
            ..Blueprint::new(self.packages, self.nodes_per_package, self.cores_per_node, self.smt)
        };
        let topology = blueprint.build(|from, to| self.distance(from, to));
        let mut attributes = Attributes::empty(topology.clone(), self.name, self.source);
        attributes.revision = concat!("nearside ", env!("CARGO_PKG_VERSION")).to_string();
        let nodes = blueprint.nodes();
        match &self.figures {
            Figures::ByClass(classes) => {
                let class = |from, to| classes[self.links.class(from, to)];
                attributes.latency = matrix(nodes, |from, to| Some(class(from, to).span.latency()));
                attributes.read = matrix(nodes, |from, to| Some(class(from, to).bytes_per_second));
            }
            Figures::Matrices(of) => {
                attributes.latency = matrix(nodes, |from, to| Some(of.latency(from as usize, to as usize)));
                attributes.read = matrix(nodes, |from, to| Some(of.bandwidth_mb_s[from as usize][to as usize] * MB));
            }
            Figures::ByThreads { curves, streams, .. } => {
                let curve = |from, to| curves[self.links.class(from, to)];
                attributes.write = matrix(nodes, |from, to| curve(from, to).last().map(|last| last * GIB));
                attributes.by_threads = self.curves(curves);
                attributes.stream = streams.iter().map(Streams::stream).collect();
            }
        }
        attributes.notes = self.notes();
        MachineDescription { topology, attributes: Some(attributes) }
    }

    /// By class, as firmware tells them: what differs within a class shows in the latencies.
    fn distance(&self, from: u32, to: u32) -> u32 {
        let class = self.links.class(from, to);
        let by_latency = |local: f64, remote: f64| ((10.0 * remote / local).round() as u32).max(11);
        match &self.figures {
            Figures::ByThreads { distances, .. } => distances[class],
            Figures::Matrices(of) => by_latency(of.average_ns(self.links, 0), of.average_ns(self.links, class)),
            Figures::ByClass(classes) => by_latency(classes[0].span.average_ns(), classes[class].span.average_ns()),
        }
    }

    /// The curves from node 0 to the first node of each class.
    fn curves(&self, curves: &[&'static [f64]]) -> Vec<ByThreads> {
        let nodes = self.packages * self.nodes_per_package;
        let target = |class: usize| (0..nodes).find(|to| self.links.class(0, *to) == class);
        let of = |(class, curve): (usize, &&'static [f64])| {
            Some(ByThreads {
                initiator: NodeId(0),
                target: NodeId(target(class)?),
                kind: TransferKind::Write,
                bytes_per_second: curve.iter().map(|gib_s| gib_s * GIB).collect(),
            })
        };
        curves.iter().enumerate().filter_map(of).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.notes.iter().map(|note| (*note).to_string()).collect();
        if self.memory_gib.is_none() {
            notes.push(format!("assumed: {MEMORY_ASSUMED_GIB} GiB of memory per node; the paper does not tell"));
        }
        if !matches!(self.figures, Figures::ByThreads { .. }) {
            notes.push(
                "distances are the latencies of a class of pairs relative to local ones, times ten; \
                 bandwidths stand as reading"
                    .to_string(),
            );
        }
        notes.push(
            "level 1 and 2 caches are assumed: 32 KiB and 256 KiB per core; so is the numbering of cpus".to_string(),
        );
        notes
    }
}

impl Span {
    fn average_ns(self) -> f64 {
        (self.low_ns + self.high_ns) / 2.0
    }

    fn latency(self) -> Latency {
        Latency { min_ns: self.low_ns, avg_ns: self.average_ns(), max_ns: self.high_ns }
    }
}

impl Matrices {
    /// The average latency of a class of pairs.
    fn average_ns(&self, links: Links, class: usize) -> f64 {
        let nodes = 0..self.latency_ns.len();
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let of: Vec<f64> = pairs
            .filter(|(from, to)| links.class(*from as u32, *to as u32) == class)
            .map(|(from, to)| self.latency_ns[from][to])
            .collect();
        of.iter().sum::<f64>() / of.len().max(1) as f64
    }

    fn latency(&self, from: usize, to: usize) -> Latency {
        let avg_ns = self.latency_ns[from][to];
        let (below, above) = self.below_above_ns[from][to];
        Latency { min_ns: avg_ns + below, avg_ns, max_ns: avg_ns + above }
    }
}

impl Streams {
    fn stream(&self) -> Stream {
        let [copy, scale, add, triad] = self.mb_s.map(|mb_s| mb_s * MB);
        let placement = if self.striped { "striped" } else { "first touch" }.to_string();
        Stream { placement, threads: self.threads, copy, scale, add, triad }
    }
}

/// A square matrix of `nodes` rows.
pub(super) fn matrix<T>(nodes: u32, entry: impl Fn(u32, u32) -> Option<T>) -> Vec<Vec<Option<T>>> {
    (0..nodes).map(|from| (0..nodes).map(|to| entry(from, to)).collect()).collect()
}
