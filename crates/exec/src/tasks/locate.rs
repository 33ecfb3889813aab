//! Where the codes of a granule lie, so that the task that reads them runs next to them.
//!
//! A column's granules are looked up together and kept for as long as the column lives and its placement stays: once
//! pages were moved ([`Column::placements`] grew), they are looked up anew by the next scan. Large columns are looked
//! up in the page map, which asks the kernel; of small ones the policy is believed if it names a node, since asking
//! costs more than it saves. On a machine with one node nothing is looked up at all.
//!
//! # Limits
//! A granule counts as lying on a node where at least three quarters of its bytes do; interleaved ones lie nowhere.
//! Replicated columns are not looked up: the policies of their copies are believed. The kernel may move pages whose
//! policy names no node; where they were looked up first they are taken to be.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.3 and 5.2.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Weak};

use numa::{NodeId, PageMap};
use parking_lot::Mutex;
use storage::{Column, ColumnId};

/// The policy of columns smaller than this is believed.
const LARGE_BYTES: usize = 4 << 20;
/// Of `n` parts of a granule's bytes all but one have to lie on its node.
const STRAY_SHARE: u64 = 4;

/// How many of some addresses lie on each node.
pub(crate) type BytesOn = dyn Fn(Range<usize>) -> BTreeMap<NodeId, u64>;
/// Looks up where the bytes of `(address, length)` ranges lie; `None` where nobody tells.
pub(crate) type LookUp = dyn Fn(&[(usize, usize)]) -> Option<Box<BytesOn>> + Send + Sync;

/// Where granules lie, for live columns.
pub(crate) struct PageMaps {
    look_up: Box<LookUp>,
    /// Columns smaller than this are not looked up.
    large_bytes: usize,
    /// By the column's number; an entry whose column is gone is swept.
    known: Mutex<HashMap<ColumnId, Known>>,
}

/// What is known of a column.
struct Known {
    column: Weak<Column>,
    /// Of the column when it was looked up.
    placements: u64,
    nodes: Nodes,
}

/// Where a granule lies.
#[derive(Debug, Clone)]
struct Lies {
    /// The node that nearly all of it lies on.
    node: Option<NodeId>,
    /// Nodes and weights where it lies on several; empty where all of it lies on `node`, or nobody knows.
    shares: Box<[(NodeId, u64)]>,
}

/// Where each granule lies.
type Nodes = Arc<[Lies]>;

/// Finds the node of a granule of one column.
#[derive(Debug, Clone)]
pub(crate) struct Locator(Nodes);

impl PageMaps {
    /// Those of this machine, from the kernel.
    pub(crate) fn of_kernel() -> &'static PageMaps {
        static KERNEL: LazyLock<PageMaps> = LazyLock::new(|| PageMaps::new(Box::new(ask_kernel), LARGE_BYTES));
        &KERNEL
    }

    /// Those that `look_up` tells, for columns of at least `large_bytes`.
    pub(crate) fn new(look_up: Box<LookUp>, large_bytes: usize) -> PageMaps {
        PageMaps { look_up, large_bytes, known: Mutex::default() }
    }

    /// Where the granules of a column lie; `None` where there are copies on several nodes.
    pub(crate) fn locator(&self, column: &Arc<Column>) -> Option<Locator> {
        if column.is_replicated() {
            return None;
        }
        // A policy that names no node has nothing to be believed.
        let is_read = column.bytes_codes() >= self.large_bytes || !is_placed(column);
        Some(Locator(if is_read { self.looked_up(column) } else { by_policy(column) }))
    }

    fn looked_up(&self, column: &Arc<Column>) -> Nodes {
        let Some(id) = column.id() else { return by_policy(column) };
        // Read first: what is moved while the map is read makes the next scan read it again.
        let placements = column.placements();
        if let Some(known) = self.known.lock().get(&id).filter(|known| known.placements == placements) {
            return known.nodes.clone();
        }
        // Without the lock: asking the kernel about gigabytes takes a while.
        let nodes = self.read(column);
        let mut known = self.known.lock();
        known.retain(|_, known| known.column.strong_count() > 0);
        known.insert(id, Known { column: Arc::downgrade(column), placements, nodes: nodes.clone() });
        nodes
    }

    fn read(&self, column: &Column) -> Nodes {
        let granules: Vec<Vec<Range<usize>>> = (0..granules_of(column)).map(|g| addresses(column, g)).collect();
        let all: Vec<(usize, usize)> = granules.iter().flatten().map(|r| (r.start, r.len())).collect();
        match (self.look_up)(&all) {
            Some(bytes_on) => granules.iter().map(|ranges| lies(ranges, &bytes_on)).collect(),
            None => by_policy(column),
        }
    }
}

impl Locator {
    /// The node that holds the codes (or plain values) of a granule; `None` where unknown or several do.
    pub(crate) fn node_of(&self, granule: usize) -> Option<NodeId> {
        self.0.get(granule).and_then(|lies| lies.node)
    }

    /// Whether some granule lies on one node.
    pub(crate) fn tells(&self) -> bool {
        self.0.iter().any(|lies| lies.node.is_some())
    }

    /// Deals `bytes` that were read of a granule out to the nodes that hold it, and loses none by rounding; nobody gets
    /// those of which nobody knows.
    pub(crate) fn deal_out(&self, granule: usize, bytes: u64, to: &mut dyn FnMut(NodeId, u64)) {
        let Some(lies) = self.0.get(granule) else { return };
        let total: u64 = lies.shares.iter().map(|(_, weight)| weight).sum();
        match lies.node {
            Some(node) if total == 0 => to(node, bytes),
            _ => {
                let (mut weights, mut dealt) = (0, 0);
                for (node, weight) in &lies.shares {
                    weights += weight;
                    let upto = (u128::from(bytes) * u128::from(weights)).div_ceil(u128::from(total.max(1))) as u64;
                    to(*node, upto - dealt);
                    dealt = upto;
                }
            }
        }
    }
}

fn ask_kernel(ranges: &[(usize, usize)]) -> Option<Box<BytesOn>> {
    let map = PageMap::read(ranges);
    if !map.is_measured() {
        return None;
    }
    Some(Box::new(move |bytes| map.bytes_within(bytes)))
}

/// Does a policy name nodes for a column, if it lies in memory at all?
fn is_placed(column: &Column) -> bool {
    column.granule_bytes(0).first().is_none_or(|(region, _)| region.policy().is_placed())
}

fn granules_of(column: &Column) -> usize {
    column.len().div_ceil(storage::GRANULE_ROWS)
}

fn addresses(column: &Column, granule: usize) -> Vec<Range<usize>> {
    let bytes = column.granule_bytes(granule).into_iter();
    bytes.map(|(region, range)| region.address() + range.start..region.address() + range.end).collect()
}

fn by_policy(column: &Column) -> Nodes {
    let lies = |granule| match column.placed_node(granule) {
        Some(node) => Lies { node: Some(node), shares: Box::default() },
        // Interleaved: evenly over its nodes, as far as one granule goes.
        None => {
            let region = column.granule_bytes(granule).first().map(|(region, _)| region.policy());
            let nodes = region.map_or_else(Vec::new, |policy| policy.nodes());
            Lies { node: None, shares: nodes.into_iter().map(|node| (node, 1)).collect() }
        }
    };
    (0..granules_of(column)).map(lies).collect()
}

/// Where the bytes of these ranges lie.
fn lies(ranges: &[Range<usize>], bytes_on: &BytesOn) -> Lies {
    let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
    for range in ranges {
        for (node, here) in bytes_on(range.clone()) {
            *bytes.entry(node).or_insert(0) += here;
        }
    }
    let total: u64 = bytes.values().sum();
    let most = bytes.iter().max_by_key(|(node, sum)| (**sum, std::cmp::Reverse(**node)));
    let node = most.filter(|(_, most)| total - **most <= total / STRAY_SHARE).map(|(node, _)| *node);
    let shares = if node.is_some() && bytes.len() == 1 { Box::default() } else { bytes.into_iter().collect() };
    Lies { node, shares }
}

#[cfg(test)]
mod tests;
