//! A machine as the simulator sees it: nodes, cpus, caches, memory controllers, links and routes, coherence.
//!
//! Three ways lead to one: a published machine by name (`published.rs`, figures as `numa` has them), a specification
//! (`spec.rs`, TOML) and a probe's JSON (`probe.rs`, what `nearside probe --json` writes). All end in [`Figures`],
//! which are checked once, here.
//!
//! Nodes are numbered from 0 by their place in [`numa::Topology::nodes`]; [`Machine::node_id`] gives the kernel's
//! number.
//!
//! # The rule for remote memory
//! A printed remote bandwidth of a pair of nodes is what the reading node pulls when it reads from there alone. Reading
//! from several places, it shares its way out by time: with `r(j)` read of node `j` and `B(j)` printed for it, the sum
//! of `r(j) / B(j)` over all remote `j` is at most 1. So distances are averaged harmonically, weighted by the bytes
//! that come from each. This holds for every machine and experiment; [`Machine::resources`] is where it is coded.
//!
//! Invariants: matrices are square, every figure is finite and above zero, every route leads over links that exist.
//!
//! # Limits
//! One controller per node. The papers' drawings of links are not in their text, so published machines have no links,
//! but a class per pair of nodes; explicit links come from specifications.

mod links;
mod probe;
mod published;
mod spec;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numa::{Coherence, MachineDescription, NodeId, Topology};
use thiserror::Error;

use crate::constants::Constants;
use crate::flow::Resource;

pub use links::Link;
pub use published::MOVED_PER_WRITTEN;

/// A specification file is no longer than this.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Why there is no such machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The name is that of no published machine, no specification and no file.
    #[error(transparent)]
    Unknown(#[from] numa::MachineError),
    /// A file could not be read, or holds something else.
    #[error("'{}' describes no machine: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The figures do not make a machine.
    #[error("machine '{name}': {reason}")]
    Figures {
        /// The machine.
        name: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// What is known of a machine before it is checked. Matrices are `[reading node][memory's node]`, by place.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) topology: Topology,
    /// Of regular machines, so that smaller ones can be made of them.
    pub(crate) shape: Option<Shape>,
    pub(crate) coherence: Coherence,
    pub(crate) latency_ns: Vec<Vec<f64>>,
    /// Bytes per second: local ones on the diagonal, what a node pulls from one other node elsewhere.
    pub(crate) bandwidth: Vec<Vec<f64>>,
    /// All nodes reading locally at once, where that was printed.
    pub(crate) total_local: Option<f64>,
    pub(crate) links: Vec<Link>,
    /// How many links data crosses, where that was printed.
    pub(crate) hops: Option<Vec<Vec<f64>>>,
    /// See [`Machine::core_slowness`].
    pub(crate) core_slowness: f64,
    pub(crate) notes: Vec<String>,
}

/// A regular machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) packages: usize,
    pub(crate) nodes_per_package: usize,
    pub(crate) cores_per_node: usize,
    pub(crate) threads_per_core: usize,
    pub(crate) llc_bytes: u64,
    pub(crate) memory_bytes: u64,
}

/// A virtual machine. Immutable; figures in bytes, bytes per second and nanoseconds.
#[derive(Clone, Debug)]
pub struct Machine {
    figures: Figures,
    topology: Arc<Topology>,
    nodes: Vec<NodeFacts>,
    /// Per pair, the links on the way.
    routes: Vec<Vec<Vec<usize>>>,
    /// Per pair, how many links data crosses, for the cost of coherence.
    hops: Vec<Vec<f64>>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// The kernel's number.
    pub id: NodeId,
    /// Usable cpus (hardware threads).
    pub cpus: usize,
    /// Their cores.
    pub cores: usize,
    /// Last-level cache of all its cpus.
    pub llc_bytes: u64,
    /// What its memory delivers.
    pub controller_bytes_per_second: f64,
}

impl Machine {
    /// A machine from the name of a published one, the path of a `.toml` specification or of a probe's JSON, or a short
    /// specification with latencies and bandwidths (`2x2x8x2;latency=80,120,200;bandwidth=60G,40G,20G`).
    ///
    /// # Errors
    /// [`MachineError`], which says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Machine, MachineError> {
        let text = text.trim();
        if let Some(figures) = published::find(text) {
            return Machine::checked(figures.map_err(|reason| unsound(text, reason))?);
        }
        if text.ends_with(".toml") {
            return Machine::from_specification_file(Path::new(text));
        }
        let described = MachineDescription::parse(text)?;
        Machine::from_description(text, &described)
    }

    /// A machine from the text of a TOML specification; `docs/design/sim.md` has its fields.
    ///
    /// # Errors
    /// [`MachineError::Figures`].
    pub fn from_specification(text: &str) -> Result<Machine, MachineError> {
        Machine::checked(spec::parse(text).map_err(|reason| unsound("specification", reason))?)
    }

    /// A machine from what a probe measured, or another description with figures.
    ///
    /// # Errors
    /// [`MachineError::Figures`] where latencies or bandwidths are missing.
    pub fn from_description(name: &str, described: &MachineDescription) -> Result<Machine, MachineError> {
        Machine::checked(probe::figures(name, described).map_err(|reason| unsound(name, reason))?)
    }

    /// The names of the published machines.
    pub fn published() -> Vec<&'static str> {
        published::names()
    }

    fn from_specification_file(path: &Path) -> Result<Machine, MachineError> {
        let fault = |reason: String| MachineError::File { path: path.to_path_buf(), reason };
        let length = std::fs::metadata(path).map_err(|e| fault(e.to_string()))?.len();
        if length > FILE_BYTES_MAX {
            return Err(fault(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
        Machine::checked(spec::parse(&text).map_err(fault)?)
    }

    fn checked(figures: Figures) -> Result<Machine, MachineError> {
        if let Some(reason) = figures.fault() {
            return Err(unsound(&figures.name, reason));
        }
        let topology = Arc::new(figures.topology.clone());
        let (routes, hops) = links::routes(&figures).map_err(|reason| unsound(&figures.name, reason))?;
        let nodes = (0..figures.latency_ns.len()).map(|node| figures.node(node)).collect();
        Ok(Machine { topology, nodes, routes, hops, figures })
    }

    /// The same machine with its first nodes only, as a batch system gives them out.
    ///
    /// # Errors
    /// The machine is irregular, or `nodes` is 0, more than it has, or no whole number of packages.
    pub fn with_nodes(&self, nodes: usize) -> Result<Machine, MachineError> {
        let shape = self.regular()?;
        if nodes == 0 || nodes > self.nodes.len() || !nodes.is_multiple_of(shape.nodes_per_package) {
            let most = self.nodes.len();
            let step = shape.nodes_per_package;
            let reason = format!("cannot be cut to {nodes} nodes: 1 to {most} in steps of {step} are possible");
            return Err(unsound(&self.figures.name, reason));
        }
        let cut = |matrix: &[Vec<f64>]| matrix[..nodes].iter().map(|row| row[..nodes].to_vec()).collect();
        let mut figures = self.figures.clone();
        figures.latency_ns = cut(&self.figures.latency_ns);
        figures.bandwidth = cut(&self.figures.bandwidth);
        figures.total_local = figures.total_local.map(|total| total * nodes as f64 / self.nodes.len() as f64);
        figures.hops = self.figures.hops.as_deref().map(cut);
        figures.links.retain(|link| link.from < nodes && link.to < nodes);
        let shape = Shape { packages: nodes / shape.nodes_per_package, ..shape };
        figures.reshape(shape).map_err(|reason| unsound(&self.figures.name, reason))?;
        Machine::checked(figures)
    }

    /// The same machine with `n` cores per node and threads per core.
    ///
    /// # Errors
    /// The machine is irregular, or it has fewer.
    pub fn with_cpus(&self, cores_per_node: usize, threads_per_core: usize) -> Result<Machine, MachineError> {
        let shape = self.regular()?;
        let within = |wanted: usize, most: usize| (1..=most).contains(&wanted);
        if !within(cores_per_node, shape.cores_per_node) || !within(threads_per_core, shape.threads_per_core) {
            let reason = format!(
                "has {} cores per node and {} threads per core; choose no more, and at least 1",
                shape.cores_per_node, shape.threads_per_core
            );
            return Err(unsound(&self.figures.name, reason));
        }
        let mut figures = self.figures.clone();
        figures
            .reshape(Shape { cores_per_node, threads_per_core, ..shape })
            .map_err(|reason| unsound(&self.figures.name, reason))?;
        Machine::checked(figures)
    }

    fn regular(&self) -> Result<Shape, MachineError> {
        let reason = || "is not regular, so no smaller machine can be made of it".to_owned();
        self.figures.shape.ok_or_else(|| unsound(&self.figures.name, reason()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.figures.name
    }

    /// Where its figures come from.
    pub fn source(&self) -> &str {
        &self.figures.source
    }

    /// What was derived or assumed.
    pub fn notes(&self) -> &[String] {
        &self.figures.notes
    }

    /// The machine as the scheduler's policy sees it.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Its nodes, by place.
    pub fn nodes(&self) -> &[NodeFacts] {
        &self.nodes
    }

    /// How many nodes it has.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The kernel's number of the node at this place.
    pub fn node_id(&self, node: usize) -> NodeId {
        self.nodes[node].id
    }

    /// The place of the node with this number.
    pub fn place_of(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// All usable cpus.
    pub fn cpus(&self) -> usize {
        self.nodes.iter().map(|node| node.cpus).sum()
    }

    /// How much longer a core takes for the product's code than the one that its costs were measured on
    /// (`constants.rs`): 1 is as long.
    pub fn core_slowness(&self) -> f64 {
        self.figures.core_slowness
    }

    /// How its caches are kept coherent.
    pub fn coherence(&self) -> Coherence {
        self.figures.coherence
    }

    /// Idle latency of `to`'s memory from `from`'s cpus.
    pub fn latency_ns(&self, from: usize, to: usize) -> f64 {
        self.figures.latency_ns[from][to]
    }

    /// What `from` pulls of `to`'s memory alone; the controller's bandwidth where they are the same.
    pub fn bandwidth(&self, from: usize, to: usize) -> f64 {
        self.figures.bandwidth[from][to]
    }

    /// What all nodes read locally at once: as printed, or else the sum of the controllers.
    pub fn total_local(&self) -> f64 {
        let sum = self.nodes.iter().map(|node| node.controller_bytes_per_second).sum();
        self.figures.total_local.unwrap_or(sum)
    }

    /// Its links, where a specification gives them.
    pub fn links(&self) -> &[Link] {
        &self.figures.links
    }

    /// The links, by place, that data of `to` crosses on its way to `from`.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        &self.routes[from][to]
    }

    /// How many links data crosses between two nodes: those of the route, or as a paper counts them, or else the rank
    /// of the pair's latency among the classes of the machine (0 local, 1 the nearest, ..).
    pub fn hops(&self, from: usize, to: usize) -> f64 {
        self.hops[from][to]
    }
}

/// What traffic uses up: one list for all machines, in the order controllers, ways out, links, fabric.
impl Machine {
    /// The resources that memory traffic shares.
    ///
    /// Per node its controller (bytes per second) and its way out (seconds per second, by the rule in the head of this
    /// file); each link in each direction (bytes per second); and, on a machine that broadcasts and whose nodes
    /// together read less than each alone times their number, the fabric that its snoops fill (bytes per second, local
    /// ones).
    pub fn resources(&self) -> Vec<Resource> {
        let controllers = self.nodes.iter().map(|node| Resource::new(node.controller_bytes_per_second));
        let ways_out = self.nodes.iter().map(|_| Resource::new(1.0));
        let links = self.figures.links.iter().map(|link| Resource::new(link.bytes_per_second));
        controllers.chain(ways_out).chain(links).chain(self.fabric().map(Resource::new)).collect()
    }

    /// What a byte that `from` reads of `to` uses of [`Machine::resources`]: places and amounts.
    pub fn uses(&self, from: usize, to: usize, constants: &Constants) -> Vec<(usize, f64)> {
        let nodes = self.nodes.len();
        let mut uses = vec![(to, if from == to { 1.0 } else { constants.remote_at_controller() })];
        if from != to {
            uses.push((nodes + from, 1.0 / (self.figures.bandwidth[from][to] * constants.remote_under_load())));
            let besides = self.moved_besides(from, to, constants);
            if besides > 0.0 {
                uses.push((from, besides));
            }
        }
        uses.extend(self.routes[from][to].iter().map(|link| (2 * nodes + link, 1.0)));
        if self.fabric().is_some() {
            uses.push((2 * nodes + self.figures.links.len(), self.snoop_load(from, to, constants)));
        }
        uses
    }

    /// Bytes that the reading node's own controller moves for each byte that it reads of `to`.
    pub fn moved_besides(&self, from: usize, to: usize, constants: &Constants) -> f64 {
        let package = |node: usize| self.topology.nodes()[node].package;
        let neighbours = from != to && package(from).is_some() && package(from) == package(to);
        if neighbours { (constants.moved_for_neighbours() - 1.0).max(0.0) } else { 0.0 }
    }

    /// The fabric's bandwidth where it is a limit.
    fn fabric(&self) -> Option<f64> {
        let total = self.figures.total_local.filter(|_| self.coherence() == Coherence::Broadcast)?;
        let sum: f64 = self.nodes.iter().map(|node| node.controller_bytes_per_second).sum();
        (total < sum).then_some(total)
    }

    /// What a byte loads the fabric with, in bytes read locally: its line's snoops to every other node, and its data
    /// where it is remote, each times the links crossed.
    fn snoop_load(&self, from: usize, to: usize, constants: &Constants) -> f64 {
        let snoops: f64 = self.hops[from].iter().sum::<f64>() * constants.snoop_flits();
        if snoops == 0.0 { 1.0 } else { 1.0 + constants.data_flits() * self.hops[from][to] / snoops }
    }

    /// Bytes that cross links per byte that `from` reads of `to`: snoops (0 with a directory) and data, each with its
    /// header, times the links crossed. A flit carries eight bytes.
    pub fn link_bytes(&self, from: usize, to: usize, constants: &Constants) -> (f64, f64) {
        const FLITS_PER_LINE: f64 = 8.0;
        let snoops = match self.coherence() {
            Coherence::Directory => 0.0,
            Coherence::Broadcast => self.hops[from].iter().sum::<f64>() * constants.snoop_flits() / FLITS_PER_LINE,
        };
        let hops = self.hops[from][to];
        (snoops, if hops == 0.0 { 0.0 } else { hops * constants.data_flits() / FLITS_PER_LINE })
    }
}

impl Figures {
    /// Rebuilds the topology in another shape, with the distances that the latencies give.
    fn reshape(&mut self, shape: Shape) -> Result<(), String> {
        self.topology = shape.topology(&self.latency_ns)?;
        self.shape = Some(shape);
        Ok(())
    }

    fn node(&self, place: usize) -> NodeFacts {
        let node = &self.topology.nodes()[place];
        let usable = |cpu: &&numa::CpuId| self.topology.usable_cpus().binary_search(cpu).is_ok();
        let cpus: Vec<numa::CpuId> = node.cpus.iter().filter(usable).copied().collect();
        let has = |of: &[numa::CpuId]| of.iter().any(|cpu| cpus.contains(cpu));
        let cores = self.topology.cores().iter().filter(|core| has(&core.cpus)).count();
        let caches = self.topology.caches().iter();
        let last = caches.clone().filter(|cache| has(&cache.cpus)).map(|cache| cache.level).max().unwrap_or(0);
        let llc = caches.filter(|cache| {
            cache.level == last && last > 1 && cache.kind != numa::CacheKind::Instruction && has(&cache.cpus)
        });
        NodeFacts {
            id: node.id,
            cpus: cpus.len(),
            cores: cores.max(usize::from(!cpus.is_empty())),
            llc_bytes: llc.map(|cache| cache.size_bytes).sum(),
            controller_bytes_per_second: self.bandwidth[place][place],
        }
    }

    /// The first thing that is wrong.
    fn fault(&self) -> Option<String> {
        let nodes = self.topology.nodes().len();
        for (name, matrix) in [("latencies", &self.latency_ns), ("bandwidths", &self.bandwidth)] {
            if matrix.len() != nodes || matrix.iter().any(|row| row.len() != nodes) {
                return Some(format!("its {name} need {nodes} rows of {nodes} figures, one per node"));
            }
            if let Some(bad) = matrix.iter().flatten().find(|figure| !(figure.is_finite() && **figure > 0.0)) {
                return Some(format!("its {name} have a {bad}; every figure must be finite and above zero"));
            }
        }
        let good = |figure: f64| figure.is_finite() && figure > 0.0;
        if let Some(total) = self.total_local.filter(|total| !good(*total)) {
            return Some(format!("its total local bandwidth is {total}; it must be above zero, or left out"));
        }
        if !good(self.core_slowness) {
            return Some(format!("its core_slowness is {}; it must be above zero, or left out", self.core_slowness));
        }
        let wrong = |link: &&Link| {
            link.from >= nodes || link.to >= nodes || link.from == link.to || !good(link.bytes_per_second)
        };
        if let Some(link) = self.links.iter().find(wrong) {
            return Some(format!(
                "its link from {} to {} with {} bytes per second is none: links join two of nodes 0 to {}, above zero",
                link.from,
                link.to,
                link.bytes_per_second,
                nodes.saturating_sub(1)
            ));
        }
        if self.topology.usable_cpus().is_empty() {
            return Some("it has no cpus".to_owned());
        }
        None
    }
}

impl Shape {
    /// The topology of this shape; distances are latencies relative to local ones, times ten, as firmware tells them.
    pub(crate) fn topology(&self, latency_ns: &[Vec<f64>]) -> Result<Topology, String> {
        let distance = |from: usize, to: usize| {
            if from == to {
                10
            } else {
                ((10.0 * latency_ns[from][to] / latency_ns[from][from]).round() as u32).max(11)
            }
        };
        let row =
            |from: usize| (0..latency_ns.len()).map(|to| distance(from, to).to_string()).collect::<Vec<_>>().join(",");
        let rows: Vec<String> = (0..latency_ns.len()).map(row).collect();
        let text = format!(
            "{}x{}x{}x{};l2=256K;l3={}K;mem={}M;distance={}",
            self.packages,
            self.nodes_per_package,
            self.cores_per_node,
            self.threads_per_core,
            self.llc_bytes >> 10,
            self.memory_bytes >> 20,
            if rows.len() == 1 { "10".to_owned() } else { rows.join("/") }
        );
        MachineDescription::parse(&text).map(|described| described.topology).map_err(|error| error.to_string())
    }

    pub(crate) fn nodes(&self) -> usize {
        self.packages * self.nodes_per_package
    }
}

fn unsound(name: &str, reason: String) -> MachineError {
    MachineError::Figures { name: name.to_owned(), reason }
}
