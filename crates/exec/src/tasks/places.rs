//! [`Places`]: what scans are told of the machine, and what they may use of it.

use numa::NodeId;

use super::locate::PageMaps;
use crate::codes::shared::{AttachedScans, ScanSharing};

/// States of workers that have fewer bytes are merged wherever a thread is free: bytes that cross between nodes are
/// taken to cost a thread 0.2 ns each more than those at home (4 GB/s beside 20), so these cost 50 us, and a round of
/// tasks about 10.
pub(crate) const LITTLE_BYTES: u64 = 1 << 18;

/// What preparation is told of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// Where columns are looked up.
    pub(crate) lookup: Lookup<'a>,
    /// What the scan may use.
    pub(crate) options: ScanOptions,
    /// Draws the lot of where to start, where morsels may be handed out in another order than that of their rows.
    pub(crate) turn: Option<usize>,
    /// Granules are put together to morsels as long as there are `n` of them.
    pub(crate) morsels_min: usize,
    /// The statement's scans that share passes with others, where some may.
    pub(crate) attached: Option<&'a AttachedScans>,
}

impl Places<'_> {
    /// Whether it matters on which node a task runs.
    pub(crate) fn have_nodes(&self) -> bool {
        matches!(self.lookup, Lookup::Maps(_))
    }
}

/// The node that the calling thread is on.
pub(crate) fn current_node() -> Option<NodeId> {
    #[cfg(test)]
    if let Some(node) = super::pretended::node() {
        return Some(node);
    }
    numa::current_node()
}

/// Where a scan's columns are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Lookup<'a> {
    /// There is a choice of nodes.
    Maps(&'a PageMaps),
    /// There is one node.
    Only(NodeId),
    /// Nobody asks.
    Nowhere,
}

/// What scans may use to look at fewer rows. The rows that come out are the same either way: experiments switch it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    /// Indexes, where a condition or the keys of a join leave few rows.
    pub index_lookups: bool,
    /// The lowest and highest code of each granule, where they decide about all its rows.
    pub block_skipping: bool,
    /// Passes over columns that other scans read at the same time.
    pub sharing: ScanSharing,
}

impl Default for ScanOptions {
    /// Everything.
    fn default() -> ScanOptions {
        ScanOptions { index_lookups: true, block_skipping: true, sharing: ScanSharing::Auto }
    }
}
