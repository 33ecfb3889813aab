//! [`PreparedScan`]: what the morsels of a scan share once it is prepared.

use std::sync::Arc;

use numa::NodeId;
use sched::policy::concurrency::Pieces;

use super::Morsel;
use super::seek::Access;
use crate::codes::filter::Bound;
use crate::codes::shared::ScanAttachment;
use crate::tasks::counter::Read;
use crate::tasks::locate::Locator;
use crate::tasks::places::ScanOptions;

/// What morsels share.
pub(super) struct PreparedScan {
    pub(super) segments: Vec<PreparedSegment>,
    /// In the order of the rows.
    pub(super) morsels: Vec<Morsel>,
    /// Rows of the largest.
    pub(super) morsel_rows: usize,
    /// The order in which they are handed out.
    pub(super) order: Vec<usize>,
    /// The nodes that they are on, each once.
    pub(super) nodes: Vec<NodeId>,
    /// How the rows lie.
    pub(super) pieces: Pieces,
    /// What it may use.
    pub(super) options: ScanOptions,
}

pub(super) struct PreparedSegment {
    pub(super) filter: Arc<Bound>,
    /// The rows that are looked at.
    pub(super) access: Access,
    /// The columns that its morsels read.
    pub(super) reads: Arc<[Read]>,
    /// What passes over its granules are shared for.
    pub(super) shared: Option<SharedTest>,
}

/// The part of a segment's filter that passes are shared for.
pub(super) struct SharedTest {
    pub(super) attachment: Arc<ScanAttachment>,
    /// Its place among the parts of the filter.
    pub(super) part: usize,
    pub(super) column: usize,
}

/// Whether passes over some segment are shared at this moment.
pub(super) fn is_shared(segments: &[PreparedSegment]) -> bool {
    segments.iter().filter_map(|state| state.shared.as_ref()).any(|shared| shared.attachment.is_shared())
}

/// What says where a segment's morsels run.
pub(super) enum Leader<'a> {
    /// Where each granule of a column lies.
    Granules(&'a Locator),
    /// Any of the nodes that have a copy of what is read.
    Copies(Vec<NodeId>),
}

/// The nodes that have copies of the columns so far and of one more; without that one where there is no such node.
pub(super) fn common(so_far: Option<Vec<NodeId>>, copies: &[NodeId]) -> Option<Vec<NodeId>> {
    let Some(so_far) = so_far else { return Some(copies.to_vec()) };
    let both: Vec<NodeId> = so_far.iter().copied().filter(|node| copies.contains(node)).collect();
    Some(if both.is_empty() { so_far } else { both })
}
