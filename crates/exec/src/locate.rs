//! Where the codes of a granule lie, so that the task that reads them runs next to them.
//!
//! A column's granules are looked up together and kept for as long as the column lives and its placement stays: once pages
//! were moved ([`Column::placements`] grew), they are looked up anew by the next scan. Large columns are looked up in the page
//! map, which asks the kernel; of small ones the policy is believed, since asking costs more than it saves. On a machine with
//! one node nothing is looked up at all.
//!
//! # Limits
//! A granule counts as lying on a node where at least three quarters of its bytes do; interleaved ones lie nowhere. Of a
//! replicated column any node will do, also one without a copy.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.3 and 5.2.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Weak};

use numa::{NodeId, PageMap};
use parking_lot::Mutex;
use storage::Column;

/// The policy of columns smaller than this is believed.
const LARGE_BYTES: usize = 4 << 20;
/// Of so many parts of a granule's bytes all but one have to lie on its node.
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
    /// By the column's address; an entry whose column is gone is replaced or swept.
    known: Mutex<HashMap<usize, Known>>,
}

/// What is known of a column.
struct Known {
    column: Weak<Column>,
    /// Of the column when it was looked up.
    placements: u64,
    nodes: Nodes,
}

/// The node of each granule, `None` where it lies on several or nowhere.
type Nodes = Arc<[Option<NodeId>]>;

/// Finds the node of a granule of one column.
#[derive(Clone)]
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

    /// A locator for a column; `None` where no granule of it lies on one node, or every node has a copy.
    pub(crate) fn locator(&self, column: &Arc<Column>) -> Option<Locator> {
        if column.is_replicated() {
            return None;
        }
        let nodes = if column.bytes_codes() < self.large_bytes { by_policy(column) } else { self.looked_up(column) };
        nodes.iter().any(Option::is_some).then_some(Locator(nodes))
    }

    fn looked_up(&self, column: &Arc<Column>) -> Nodes {
        let key = Arc::as_ptr(column) as usize;
        // Read first: what is moved while the map is read makes the next scan read it again.
        let placements = column.placements();
        let same = |known: &&Known| known.column.ptr_eq(&Arc::downgrade(column)) && known.placements == placements;
        if let Some(known) = self.known.lock().get(&key).filter(same) {
            return known.nodes.clone();
        }
        // Without the lock: asking the kernel about gigabytes takes a while.
        let nodes = self.read(column);
        let mut known = self.known.lock();
        known.retain(|_, known| known.column.strong_count() > 0);
        known.insert(key, Known { column: Arc::downgrade(column), placements, nodes: nodes.clone() });
        nodes
    }

    fn read(&self, column: &Column) -> Nodes {
        let granules: Vec<Vec<Range<usize>>> = (0..granules_of(column)).map(|g| addresses(column, g)).collect();
        let all: Vec<(usize, usize)> = granules.iter().flatten().map(|r| (r.start, r.len())).collect();
        match (self.look_up)(&all) {
            Some(bytes_on) => granules.iter().map(|ranges| node_of(ranges, &bytes_on)).collect(),
            None => by_policy(column),
        }
    }
}

impl Locator {
    /// The node that holds the codes (or plain values) of a granule; `None` where unknown or several do.
    pub(crate) fn node_of(&self, granule: usize) -> Option<NodeId> {
        self.0.get(granule).copied().flatten()
    }
}

fn ask_kernel(ranges: &[(usize, usize)]) -> Option<Box<BytesOn>> {
    let map = PageMap::read(ranges);
    if !map.is_measured() {
        return None;
    }
    Some(Box::new(move |bytes| map.bytes_within(bytes)))
}

fn granules_of(column: &Column) -> usize {
    column.len().div_ceil(storage::GRANULE_ROWS)
}

fn addresses(column: &Column, granule: usize) -> Vec<Range<usize>> {
    let bytes = column.granule_bytes(granule).into_iter();
    bytes.map(|(region, range)| region.address() + range.start..region.address() + range.end).collect()
}

fn by_policy(column: &Column) -> Nodes {
    (0..granules_of(column)).map(|granule| column.placed_node(granule)).collect()
}

/// The node of nearly all bytes of these ranges.
fn node_of(ranges: &[Range<usize>], bytes_on: &BytesOn) -> Option<NodeId> {
    let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
    for range in ranges {
        for (node, here) in bytes_on(range.clone()) {
            *bytes.entry(node).or_insert(0) += here;
        }
    }
    let total: u64 = bytes.values().sum();
    let (node, most) = bytes.into_iter().max_by_key(|(node, sum)| (*sum, std::cmp::Reverse(*node)))?;
    (total - most <= total / STRAY_SHARE).then_some(node)
}

#[cfg(test)]
mod tests;
