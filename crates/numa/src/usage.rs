//! Who holds how much memory on which node, by the policies it was asked for with.
//!
//! Invariants: every budget that regions count in has one set of counters, one per node and kind; a region adds to them
//! when it is made, placed anew or shrunk, and takes the same bytes off when it goes. A machine of one node has one
//! counter per kind.
//!
//! # Limits
//! Policies are counted, not pages: what was spilled or never touched is for the page map to say. Heap blocks without a
//! node count as being on none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde::Serialize;

use crate::ids::NodeId;
use crate::machine::Machine;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// Regions with pages of their own or on the heap.
    Region,
    /// Small regions in the slabs of a node's pool; without an owner: what the pool holds beyond them.
    Pool,
    /// Mappings of freed scratch regions, kept for reuse; they have no owner.
    Recycled,
}

impl std::fmt::Display for UsageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            UsageKind::Region => "region",
            UsageKind::Pool => "pool",
            UsageKind::Recycled => "recycled",
        })
    }
}

/// Bytes of one owner on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Usage {
    /// The name of the budget that they count in; budgets of the same name are one owner. Empty where there is none.
    pub owner: String,
    /// The node that they were asked for on; `None` where pages lie wherever they are touched first.
    pub node: Option<NodeId>,
    /// What they are used for.
    pub kind: UsageKind,
    /// How many.
    pub bytes: u64,
}

const KINDS: [UsageKind; 2] = [UsageKind::Region, UsageKind::Pool];
/// Nodes up to here are counted apart on any machine, so that made-up ones of tests are too.
const NODES_MIN: usize = 4;

/// The counters of one owner.
#[derive(Debug)]
pub(crate) struct Counts {
    owner: String,
    /// Per node id, first without a node; per kind.
    bytes: Box<[[AtomicU64; KINDS.len()]]>,
}

static OWNERS: Mutex<Owners> = Mutex::new(Owners { all: Vec::new(), prune_at: 64 });

/// The counters of all owners that are alive, and some that are not.
struct Owners {
    all: Vec<Weak<Counts>>,
    prune_at: usize,
}

impl Counts {
    /// Counters that `usage` shows as long as the result lives.
    pub(crate) fn register(owner: &str) -> Arc<Counts> {
        let nodes = (Machine::this().highest_node().0 as usize + 1).max(NODES_MIN);
        let bytes = (0..=nodes).map(|_| Default::default()).collect();
        let counts = Arc::new(Counts { owner: owner.to_string(), bytes });
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.all.len() >= owners.prune_at {
            owners.all.retain(|counts| counts.strong_count() > 0);
            owners.prune_at = (2 * owners.all.len()).max(64);
        }
        owners.all.push(Arc::downgrade(&counts));
        counts
    }

    /// The counters of what has no budget.
    pub(crate) fn of_nobody() -> &'static Arc<Counts> {
        static NOBODY: OnceLock<Arc<Counts>> = OnceLock::new();
        NOBODY.get_or_init(|| Counts::register(""))
    }

    #[inline]
    pub(crate) fn add(&self, node: Option<NodeId>, kind: UsageKind, bytes: u64) {
        self.cell(node, kind).fetch_add(bytes, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn take(&self, node: Option<NodeId>, kind: UsageKind, bytes: u64) {
        self.cell(node, kind).fetch_sub(bytes, Ordering::Relaxed);
    }

    fn cell(&self, node: Option<NodeId>, kind: UsageKind) -> &AtomicU64 {
        let place = node.map_or(0, |node| node.0 as usize + 1);
        let place = self.bytes.get(place).unwrap_or(&self.bytes[0]);
        &place[usize::from(kind == UsageKind::Pool)]
    }

    fn list(&self) -> impl Iterator<Item = Usage> + '_ {
        (0u32..).zip(&self.bytes).flat_map(move |(place, kinds)| {
            KINDS.iter().zip(kinds).map(move |(kind, bytes)| Usage {
                owner: self.owner.clone(),
                node: place.checked_sub(1).map(NodeId),
                kind: *kind,
                bytes: bytes.load(Ordering::Relaxed),
            })
        })
    }
}

/// What every owner holds on every node, by the policies of its regions; sorted, without zeros. Costs a few
/// microseconds.
pub fn usage() -> Vec<Usage> {
    let owners: Vec<Arc<Counts>> = {
        let owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.all.iter().filter_map(Weak::upgrade).collect()
    };
    let mut all: Vec<Usage> = owners.iter().flat_map(|counts| counts.list()).collect();
    for (node, pool_bytes, recycled_bytes) in Machine::this().kept() {
        let used: u64 = all.iter().filter(|u| u.kind == UsageKind::Pool && u.node == Some(node)).map(|u| u.bytes).sum();
        let kept = |kind, bytes| Usage { owner: String::new(), node: Some(node), kind, bytes };
        all.push(kept(UsageKind::Pool, pool_bytes.saturating_sub(used)));
        all.push(kept(UsageKind::Recycled, recycled_bytes));
    }
    summed(all)
}

/// One entry per owner, node and kind.
fn summed(mut all: Vec<Usage>) -> Vec<Usage> {
    all.retain(|u| u.bytes > 0);
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let same = (&next.owner, next.node, next.kind) == (&last.owner, last.node, last.kind);
        if same {
            last.bytes += next.bytes;
        }
        same
    });
    all
}

#[cfg(test)]
mod tests;
