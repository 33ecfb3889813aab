//! What placing memory needs to know of the running machine: its online nodes and how much each could still give.
//!
//! A bound page that its node cannot supply makes the kernel kill the process, and there is no error code to wait for.
//! So every mapping is checked against the node's free memory before it is made, and the strict policy is used only
//! while even the process's own untouched promises fit; close to the edge the node is preferred instead, which spills.
//!
//! # Limits
//! Free memory is read from meminfo, at most every [`FRESH_MS`] milliseconds for small requests; other processes may
//! take it in between. Limits of the cgroup are not seen here: the memory budget carries them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::MemoryError;
use crate::ids::{CpuId, NodeId};
use crate::pool::Pool;
use crate::recycle::{MappingKind, Recycler, SHARE_OF_FREE, SHARE_OF_LIMIT};
use crate::sys::memory::Memory;
use crate::topology::Topology;
use crate::topology::files::{Tree, meminfo_bytes};

/// How long a reading of free memory serves requests below [`LARGE_BYTES`].
const FRESH_MS: u64 = 100;
/// Requests of this size always read free memory anew.
const LARGE_BYTES: u64 = 16 << 20;
/// What is left to the rest of the system on every node, and not told as free.
const MARGIN_BYTES: u64 = 32 << 20;

/// The running machine, as far as placing memory is concerned.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    nodes: Vec<NodeGauge>,
    whole: Gauge,
    details: OnceLock<Details>,
}

/// One node's free memory, the bytes bound to it, and what is kept of it for reuse.
#[derive(Debug)]
struct NodeGauge {
    node: NodeId,
    gauge: Gauge,
    bound_bytes: AtomicU64,
    pool: Arc<Pool>,
    recycler: Recycler,
}

/// What is read at its first use only, since it takes milliseconds.
#[derive(Debug)]
struct Details {
    topology: Option<Topology>,
    /// By cpu id.
    node_by_cpu: Vec<Option<NodeId>>,
}

/// A reading of free bytes and what was granted since.
#[derive(Debug, Default)]
struct Gauge {
    last: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    available_bytes: u64,
    granted_bytes: u64,
}

/// How strictly a node may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// There is plenty: the node and no other.
    Strict,
    /// It should fit: the node, others when it does not.
    Lenient,
}

impl Machine {
    /// The machine that this process runs on.
    pub(crate) fn this() -> &'static Arc<Machine> {
        static THIS: OnceLock<Arc<Machine>> = OnceLock::new();
        THIS.get_or_init(|| Arc::new(Machine::read(Path::new("/"))))
    }

    /// Reads which nodes are online; a tree without nodes is one node 0.
    pub(crate) fn read(root: &Path) -> Machine {
        let mut nodes = Tree::new(root).online_nodes();
        if nodes.is_empty() {
            nodes.push(NodeId(0));
        }
        let nodes = nodes
            .into_iter()
            .map(|node| NodeGauge {
                node,
                gauge: Gauge::default(),
                bound_bytes: AtomicU64::new(0),
                pool: Pool::new(),
                recycler: Recycler::default(),
            })
            .collect();
        Machine { root: root.to_path_buf(), nodes, whole: Gauge::default(), details: OnceLock::new() }
    }

    /// Whether there is anything to place: a machine of one node gets no policy calls at all.
    pub(crate) fn has_choice(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Whether this node is online here.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.gauge(node).is_some()
    }

    /// The node of a machine that has just one.
    pub(crate) fn only_node(&self) -> Option<NodeId> {
        match self.nodes.as_slice() {
            [one] => Some(one.node),
            _ => None,
        }
    }

    /// Asks for memory anywhere.
    ///
    /// # Errors
    /// `NodeFull` on a machine of one node whose node was asked for, `MachineFull` else.
    pub(crate) fn ask_anywhere(&self, bytes: u64, named: bool) -> Result<(), MemoryError> {
        let ask = || self.whole.ask(bytes, || self.available_bytes());
        let free = ask().or_else(|free| if self.release_kept() > 0 { self.whole.forget(ask) } else { Err(free) });
        free.map(|_| ()).map_err(|available_bytes| match self.only_node().filter(|_| named) {
            Some(node) => MemoryError::NodeFull { node, requested_bytes: bytes, available_bytes },
            None => MemoryError::MachineFull { requested_bytes: bytes, available_bytes },
        })
    }

    /// Asks for memory of one online node. A node that is not online here grants leniently: the policy call will tell.
    ///
    /// # Errors
    /// `NodeFull` with the node.
    pub(crate) fn ask_node(&self, node: NodeId, bytes: u64) -> Result<Grant, MemoryError> {
        let Some(of) = self.gauge(node) else { return Ok(Grant::Lenient) };
        let ask = || of.gauge.ask(bytes, || self.node_available_bytes(node));
        let left = ask()
            .or_else(|free| if of.release_kept() > 0 { of.gauge.forget(ask) } else { Err(free) })
            .map_err(|available_bytes| MemoryError::NodeFull { node, requested_bytes: bytes, available_bytes })?;
        // What is bound already may be untouched, in which case meminfo still shows it as free.
        let promised = of.bound_bytes.load(Ordering::Relaxed) + of.pool.held_bytes();
        let plenty = left.is_some_and(|left| left >= promised);
        Ok(if plenty { Grant::Strict } else { Grant::Lenient })
    }

    /// Counts bytes as bound to a node until the result is dropped.
    pub(crate) fn bound(self: &Arc<Self>, node: NodeId, bytes: u64) -> Bound {
        if let Some(of) = self.gauge(node) {
            of.bound_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Bound { machine: Arc::clone(self), node, bytes }
    }

    /// Bytes of live regions that were strictly bound to this node.
    #[cfg(test)]
    pub(crate) fn bound_bytes(&self, node: NodeId) -> u64 {
        self.gauge(node).map_or(0, |of| of.bound_bytes.load(Ordering::Relaxed))
    }

    /// The online nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().map(|gauge| gauge.node)
    }

    /// As [`Topology::nearest_of`], on this machine.
    pub(crate) fn nearest_of(&self, from: NodeId, nodes: &[NodeId]) -> Option<usize> {
        if nodes.len() < 2 || nodes[0] == from {
            return (!nodes.is_empty()).then_some(0);
        }
        match &self.details().topology {
            Some(topology) => topology.nearest_of(from, nodes),
            None => nodes.iter().position(|node| *node == from).or(Some(0)),
        }
    }

    /// The online node with the highest number.
    pub(crate) fn highest_node(&self) -> NodeId {
        self.nodes.last().map_or(NodeId(0), |n| n.node)
    }

    /// The node of a cpu.
    pub(crate) fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        let only = self.only_node();
        if only.is_some() {
            return only;
        }
        self.details().node_by_cpu.get(cpu.0 as usize).copied().flatten()
    }

    /// The small blocks of a node.
    pub(crate) fn pool(&self, node: NodeId) -> Option<&Arc<Pool>> {
        self.gauge(node).map(|of| &of.pool)
    }

    /// A kept mapping of a node; see [`Recycler::take`].
    pub(crate) fn take_recycled(&self, node: NodeId, bytes: usize, kind: MappingKind) -> Option<Memory> {
        self.gauge(node)?.recycler.take(bytes, kind)
    }

    /// Keeps a mapping of a node for reuse, or gives it back where enough is kept.
    pub(crate) fn recycle(&self, node: NodeId, memory: Memory, kind: MappingKind) {
        let Some(of) = self.gauge(node) else { return };
        let free = match self.only_node() {
            Some(_) => self.whole.free(|| self.available_bytes()),
            None => of.gauge.free(|| self.node_available_bytes(node)),
        };
        let limit = self.details().topology.as_ref().and_then(Topology::memory_limit_bytes);
        let share_of_limit = limit.map_or(u64::MAX, |bytes| bytes / SHARE_OF_LIMIT / self.nodes.len() as u64);
        of.recycler.keep(memory, kind, (free / SHARE_OF_FREE).min(share_of_limit), Instant::now());
    }

    /// Gives back what is kept on all nodes for reuse: how many bytes.
    pub(crate) fn release_kept(&self) -> u64 {
        self.nodes.iter().map(NodeGauge::release_kept).sum()
    }

    /// Per node, the bytes of its pool's slabs and of its recycled mappings.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (NodeId, u64, u64)> + '_ {
        self.nodes.iter().map(|of| (of.node, of.pool.held_bytes(), of.recycler.bytes()))
    }

    fn details(&self) -> &Details {
        self.details.get_or_init(|| {
            let topology = Topology::read(&self.root).ok();
            let cpus = topology.as_ref().map_or(&[][..], |t| t.online_cpus());
            let mut node_by_cpu = vec![None; cpus.last().map_or(0, |cpu| cpu.0 as usize + 1)];
            for cpu in cpus {
                node_by_cpu[cpu.0 as usize] = topology.as_ref().and_then(|t| t.node_of_cpu(*cpu));
            }
            Details { topology, node_by_cpu }
        })
    }

    fn gauge(&self, node: NodeId) -> Option<&NodeGauge> {
        self.nodes.binary_search_by_key(&node, |n| n.node).ok().map(|i| &self.nodes[i])
    }

    /// What the kernel could hand out over all nodes before it had to kill.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        let text = Tree::new(&self.root).text("proc/meminfo")?;
        let available = meminfo_bytes(&text, "MemAvailable")?;
        Some(available.saturating_add(meminfo_bytes(&text, "SwapFree").unwrap_or(0)))
    }

    /// Free pages and page cache of one node: what a strictly bound page can get there.
    pub(crate) fn node_available_bytes(&self, node: NodeId) -> Option<u64> {
        let text = Tree::new(&self.root).text(&format!("sys/devices/system/node/node{node}/meminfo"))?;
        let value = |key| meminfo_bytes(&text, key);
        let cache = ["Active(file)", "Inactive(file)"].iter().filter_map(|k| value(k)).fold(0u64, u64::saturating_add);
        Some(value("MemFree")?.saturating_add(cache).saturating_add(value("SReclaimable").unwrap_or(0) / 2))
    }
}

impl NodeGauge {
    fn release_kept(&self) -> u64 {
        self.recycler.release() + self.pool.release()
    }
}

impl Gauge {
    /// Does something that must not rely on an older reading.
    fn forget<R>(&self, body: impl FnOnce() -> R) -> R {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        body()
    }

    /// What is free by a reading that may be [`FRESH_MS`] old; 0 where the kernel does not tell.
    fn free(&self, read: impl FnOnce() -> Option<u64>) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|r| r.at.elapsed() >= Duration::from_millis(FRESH_MS)) {
            *last = read().map(|available_bytes| Reading { at: Instant::now(), available_bytes, granted_bytes: 0 });
        }
        last.as_ref().map_or(0, |r| r.available_bytes.saturating_sub(r.granted_bytes).saturating_sub(MARGIN_BYTES))
    }

    /// Grants `bytes`: how much is left after it, `None` where the kernel does not tell (then everything is granted).
    ///
    /// # Errors
    /// The bytes that there are, when they do not suffice.
    fn ask(&self, bytes: u64, read: impl FnOnce() -> Option<u64>) -> Result<Option<u64>, u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = last.as_ref().is_some_and(|r| {
            bytes < LARGE_BYTES
                && r.granted_bytes.saturating_add(bytes) < r.available_bytes / 8
                && r.at.elapsed() < Duration::from_millis(FRESH_MS)
        });
        if !serves {
            *last = read().map(|available_bytes| Reading { at: Instant::now(), available_bytes, granted_bytes: 0 });
        }
        let Some(reading) = last.as_mut() else { return Ok(None) };
        let free = reading.available_bytes.saturating_sub(reading.granted_bytes).saturating_sub(MARGIN_BYTES);
        let left = free.checked_sub(bytes).ok_or(free)?;
        reading.granted_bytes += bytes;
        Ok(Some(left))
    }
}

/// Bytes counted as bound to a node; see [`Machine::bound`].
#[derive(Debug)]
pub(crate) struct Bound {
    machine: Arc<Machine>,
    node: NodeId,
    bytes: u64,
}

impl Bound {
    /// The node that must supply them.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Counts `bytes` more.
    pub(crate) fn grow(&mut self, bytes: u64) {
        if let Some(of) = self.machine.gauge(self.node) {
            of.bound_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.bytes += bytes;
    }

    /// Counts `bytes` less, if it has so many.
    pub(crate) fn shrink_by(&mut self, bytes: u64) {
        self.shrink_to(self.bytes.saturating_sub(bytes));
    }

    /// Counts only `bytes` from now on.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.uncount(less);
    }

    fn uncount(&self, bytes: u64) {
        if let Some(of) = self.machine.gauge(self.node) {
            of.bound_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.uncount(self.bytes);
    }
}
