//! Policies: on which nodes the pages of a region shall lie, as plain data with pure helpers.
//!
//! Invariants: [`Policy::cuts`] covers a length without gap or overlap, in order, cut at whole pages only, in no more
//! than [`CUTS_MAX`] runs; neighbouring runs lie on different nodes. Every run of a mapping becomes a mapping of its
//! own in the kernel, of which a process has 65,530 by default: hence the bound.
//!
//! # Limits
//! Weighted interleaving is done in runs of our own, not by the kernel's `MPOL_WEIGHTED_INTERLEAVE`: its weights are
//! one set for the whole machine, which only root may change. Runs of a large region are therefore longer than a page.
//!
//! Source: striped arrays are Seidel 2011, NUMA Building Blocks, section 3.3.1.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::NodeId;

/// The most runs that striping and weighted interleaving cut one region into.
pub(crate) const CUTS_MAX: u64 = 256;
/// Weighted interleaving cuts at huge pages when this many whole cycles of huge pages fit.
const HUGE_CYCLES_MIN: u64 = 8;
/// A huge page, see `sys::memory`.
const HUGE_BYTES: u64 = crate::sys::mapping::HUGE_PAGE_BYTES as u64;

/// Where the pages of a region come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The node of the cpu that touches a page first.
    Local,
    /// This node.
    Node(NodeId),
    /// These nodes, page by page in turn. The kernel goes through them by ascending number.
    Interleaved(Vec<NodeId>),
    /// These nodes in turn, each with as many pages of a cycle as its weight says; weights of 0 leave a node out. A
    /// cycle is as short as pages and the bound on the number of runs allow (256 runs in a region), and whole huge
    /// pages where a few cycles of them fit. Each entry's share of whole pages is exact but for less than one page (or
    /// huge page).
    Weighted(Vec<(NodeId, u32)>),
    /// Chunk `i` lies on `nodes[i % n]`.
    Striped {
        /// The nodes, in the order of the chunks; one may be named more than once.
        nodes: Vec<NodeId>,
        /// Bytes of a chunk, rounded up to whole pages, and to a multiple where more than 256 chunks would result;
        /// 0 is one equal chunk for each entry of `nodes`.
        chunk_bytes: u64,
    },
}

impl Policy {
    /// The nodes it names, each once, ascending; none for [`Policy::Local`].
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = match self {
            Policy::Local => Vec::new(),
            Policy::Node(node) => vec![*node],
            Policy::Interleaved(nodes) | Policy::Striped { nodes, .. } => nodes.clone(),
            Policy::Weighted(weights) => weights.iter().filter(|(_, w)| *w > 0).map(|(node, _)| *node).collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether it names nodes at all, instead of leaving pages to first touch.
    pub fn is_placed(&self) -> bool {
        !self.nodes().is_empty()
    }

    /// Which bytes of a region of `len_bytes` shall lie on which node, for the policies that are contiguous runs:
    /// [`Policy::Node`], [`Policy::Striped`], [`Policy::Weighted`], and any policy that names just one node. Empty for
    /// [`Policy::Local`] and for interleaving over several nodes, which follow no runs. All runs but the last are whole
    /// pages of `page_bytes`.
    pub fn cuts(&self, len_bytes: u64, page_bytes: u64) -> Vec<(Range<u64>, NodeId)> {
        let page = page_bytes.max(1);
        let nodes = self.nodes();
        match self {
            _ if len_bytes == 0 || nodes.is_empty() => Vec::new(),
            _ if nodes.len() == 1 => vec![(0..len_bytes, nodes[0])],
            Policy::Striped { nodes, chunk_bytes } => striped(nodes, *chunk_bytes, len_bytes, page),
            Policy::Weighted(weights) => weighted(weights, len_bytes, page),
            Policy::Local | Policy::Node(_) | Policy::Interleaved(_) => Vec::new(),
        }
    }

    /// How long the chunks of [`Policy::Striped`] are in a region of `len_bytes` bytes when it asks for `chunk_bytes`,
    /// not 0: whole pages, and as often that as it takes for 256 chunks or fewer.
    fn chunk_within(chunk_bytes: u64, len_bytes: u64, page_bytes: u64) -> u64 {
        let page = page_bytes.max(1);
        let chunk = chunk_bytes.max(1).div_ceil(page).saturating_mul(page);
        // By a whole factor, so that what was aligned to chunks still is.
        chunk.saturating_mul(len_bytes.div_ceil(chunk).div_ceil(CUTS_MAX).max(1))
    }

    /// How many of `len_bytes` bytes shall lie on each node; nodes without a byte are left out, and all of them for
    /// [`Policy::Local`]. Interleaving counts whole pages from the lowest node on, as the kernel gives them.
    pub fn shares(&self, len_bytes: u64, page_bytes: u64) -> BTreeMap<NodeId, u64> {
        let page = page_bytes.max(1);
        let mut shares: BTreeMap<NodeId, u64> = BTreeMap::new();
        match self {
            Policy::Interleaved(_) => {
                let nodes = self.nodes();
                let count = nodes.len() as u64;
                let pages = len_bytes / page;
                let rest = len_bytes % page;
                for (i, node) in (0u64..).zip(&nodes) {
                    let whole = (pages / count + u64::from(i < pages % count)) * page;
                    let bytes = whole + if i == pages % count { rest } else { 0 };
                    if bytes > 0 {
                        shares.insert(*node, bytes);
                    }
                }
            }
            _ => {
                for (bytes, node) in self.cuts(len_bytes, page) {
                    *shares.entry(node).or_insert(0) += bytes.end - bytes.start;
                }
            }
        }
        shares
    }

    /// The same without the nodes that `keep` does not hold; [`Policy::Local`] when none is left.
    pub(crate) fn only(&self, keep: impl Fn(NodeId) -> bool) -> Policy {
        let kept = |nodes: &[NodeId]| nodes.iter().copied().filter(|n| keep(*n)).collect::<Vec<_>>();
        let policy = match self {
            Policy::Local => Policy::Local,
            Policy::Node(node) if keep(*node) => Policy::Node(*node),
            Policy::Node(_) => Policy::Local,
            Policy::Interleaved(nodes) => Policy::Interleaved(kept(nodes)),
            Policy::Weighted(weights) => Policy::Weighted(weights.iter().filter(|(n, _)| keep(*n)).copied().collect()),
            Policy::Striped { nodes, chunk_bytes } => Policy::Striped { nodes: kept(nodes), chunk_bytes: *chunk_bytes },
        };
        if policy.is_placed() { policy } else { Policy::Local }
    }
}

/// Chunks in turn; `nodes` names at least two different ones.
fn striped(nodes: &[NodeId], chunk_bytes: u64, len_bytes: u64, page: u64) -> Vec<(Range<u64>, NodeId)> {
    let equal = || len_bytes.div_ceil(page).div_ceil(nodes.len() as u64).saturating_mul(page);
    let chunk = Policy::chunk_within(if chunk_bytes == 0 { equal() } else { chunk_bytes }, len_bytes, page);
    let mut cuts = Vec::new();
    let mut start = 0;
    for node in nodes.iter().cycle() {
        if start >= len_bytes {
            break;
        }
        let end = start.saturating_add(chunk).min(len_bytes);
        push(&mut cuts, start..end, *node);
        start = end;
    }
    cuts
}

/// Cycles of equal length, each cut by weight, in units of whole pages or huge pages.
///
/// What the entries up to `i` have of the first `c` cycles is rounded down for itself: `upto(c, i)`. So entry `i` gets
/// `upto(c, i) - upto(c, i - 1)` of `c` cycles, which is less than a unit from its exact share for every `c`: errors
/// never add up over cycles, as they would if cuts were rounded. Run `i` of cycle `c` is what that grows by, and grows
/// it does, since a cycle has a whole unit at least for each unit of weight.
fn weighted(weights: &[(NodeId, u32)], len_bytes: u64, page: u64) -> Vec<(Range<u64>, NodeId)> {
    let divisor = weights.iter().fold(0, |d, (_, w)| gcd(d, u64::from(*w))).max(1);
    let weights: Vec<(NodeId, u64)> = weights.iter().map(|(n, w)| (*n, u64::from(*w) / divisor)).collect();
    let sum: u64 = weights.iter().map(|(_, w)| w).sum();
    // A length and the pages that hold it are cut at the same places.
    let whole_bytes = len_bytes.div_ceil(page).saturating_mul(page);
    let unit = weighted_unit(whole_bytes, sum, page);
    let runs = weights.iter().filter(|(_, w)| *w > 0).count() as u64;
    let cycles = (whole_bytes / unit / sum).min(CUTS_MAX / runs).max(1);
    // In 128 bits: a length times a sum of weights may need more than 64. What is left of a unit is the last entry's.
    let upto = |cycle: u64, done: u64| {
        let exact = u128::from(whole_bytes) * u128::from(cycle) * u128::from(done);
        let bytes = (exact / (u128::from(cycles) * u128::from(sum))) as u64;
        if bytes == whole_bytes { bytes } else { bytes / unit * unit }
    };
    let mut cuts = Vec::new();
    for cycle in 0..cycles {
        let mut start = upto(cycle, sum);
        let mut done = 0;
        for (node, weight) in &weights {
            done += weight;
            let end = upto(cycle, sum) + upto(cycle + 1, done) - upto(cycle, done);
            push(&mut cuts, start..end.min(len_bytes), *node);
            start = end;
        }
    }
    cuts
}

/// What weighted runs of a length are made of.
fn weighted_unit(len_bytes: u64, sum: u64, page: u64) -> u64 {
    let huge = len_bytes / HUGE_BYTES >= sum.saturating_mul(HUGE_CYCLES_MIN) && HUGE_BYTES.is_multiple_of(page);
    if huge { HUGE_BYTES } else { page }
}

/// Appends a run, joining it to the last one where that lies on the same node.
fn push(cuts: &mut Vec<(Range<u64>, NodeId)>, bytes: Range<u64>, node: NodeId) {
    match cuts.last_mut() {
        _ if bytes.is_empty() => {}
        Some((last, on)) if *on == node => last.end = bytes.end,
        _ => cuts.push((bytes, node)),
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
