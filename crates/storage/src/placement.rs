//! Placements: on which nodes the components of a column shall lie, and what that means for one region.
//!
//! Everything here is a pure function of the placement and of numbers: rows, bits, the segment's place in its part. The
//! memory itself is allocated by `build` and moved by `place`.
//!
//! # Invariants
//! - Striped codes are cut at whole granules: `b` bits times 65,536 rows are exactly `2b` pages of 4 KiB, so no granule
//!   crosses two nodes. Run `i` of segment `s` lies on node `s + i` of the list, so that what does not divide evenly is
//!   spread; a segment with fewer granules than there are nodes lies whole on node `s`.
//! - Columns of one table with the same node list have the same rows on the same node, whatever their bits.
//!
//! # Limits
//! Where pages are larger than 4 KiB, a cut lies at the next whole page and the granule there crosses two nodes.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (RR, IVP, PP) and Figure 6.

use std::sync::Arc;

use numa::{Allocator, MemoryError, NodeId, Policy, Region};

use crate::GRANULE_ROWS;
use crate::kernels::words_for;

/// Where the pages of one component lie. An empty list of nodes is [`Placement::Local`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Where they are touched first.
    #[default]
    Local,
    /// On one node.
    One(NodeId),
    /// Contiguous runs of whole granules, one run for each of these nodes (IVP). A dictionary is cut into equal runs.
    Striped(Vec<NodeId>),
    /// Page by page over these nodes.
    Interleaved(Vec<NodeId>),
    /// A copy on each of these nodes; a reader takes the one on its node, else the first.
    Replicated(Vec<NodeId>),
}

/// The placement of each component of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ColumnPlacement {
    /// Of the codes, or of the values of a plain column.
    pub codes: Placement,
    /// Of the dictionary.
    pub dictionary: Placement,
    /// Of the index, where the column has one.
    pub index: Placement,
}

/// Where a column's memory comes from.
#[derive(Debug, Clone)]
pub struct ColumnAllocator {
    /// Where each component shall lie.
    pub placement: ColumnPlacement,
    /// Whose budget the memory counts in. Its policy is not used.
    pub allocator: Allocator,
}

/// Where the run of granules that a granule belongs to begins and ends, and its node.
struct Stripe {
    pub(crate) end: usize,
    pub(crate) node: NodeId,
}

impl Placement {
    /// The nodes it names, in its order; none for [`Placement::Local`].
    pub fn nodes(&self) -> &[NodeId] {
        match self {
            Placement::Local => &[],
            Placement::One(node) => std::slice::from_ref(node),
            Placement::Striped(nodes) | Placement::Interleaved(nodes) | Placement::Replicated(nodes) => nodes,
        }
    }

    /// The node, where it names just one.
    pub fn only_node(&self) -> Option<NodeId> {
        match self.nodes() {
            [node] => Some(*node),
            _ => None,
        }
    }

    /// The same with its list of nodes turned left by `by`: what is appended to a part of `by` segments continues its
    /// turn.
    pub fn turned(&self, by: usize) -> Placement {
        let turn = |nodes: &[NodeId]| {
            let mut nodes = nodes.to_vec();
            let by = by % nodes.len().max(1);
            nodes.rotate_left(by);
            nodes
        };
        match self {
            Placement::Striped(nodes) => Placement::Striped(turn(nodes)),
            other => other.clone(),
        }
    }

    /// The node that all pages of a granule of codes shall lie on, where they shall lie on one: granule `granule` of
    /// `granules` in segment `segment` of its part. For [`Placement::Replicated`] the first copy's.
    pub fn node_of_granule(&self, granules: usize, segment: usize, granule: usize) -> Option<NodeId> {
        match self {
            Placement::Striped(nodes) => stripe(nodes, granules, segment, granule).map(|stripe| stripe.node),
            Placement::One(node) => Some(*node),
            Placement::Replicated(nodes) => nodes.first().copied(),
            Placement::Interleaved(nodes) if nodes.len() == 1 => nodes.first().copied(),
            Placement::Local | Placement::Interleaved(_) => None,
        }
    }

    /// The policy of the codes of a segment of `rows` rows of `bits` bits. For [`Placement::Replicated`] the first
    /// copy's.
    pub fn codes_policy(&self, rows: usize, bits: u8, segment: usize) -> Policy {
        let granules = rows.div_ceil(GRANULE_ROWS);
        match self {
            Placement::Striped(nodes) if nodes.len() > 1 && granules >= nodes.len() => {
                let run = granules.div_ceil(nodes.len());
                let mut nodes = nodes.clone();
                let by = segment % nodes.len();
                nodes.rotate_left(by);
                let chunk_bytes = 4 * words_for(run * GRANULE_ROWS, bits) as u64;
                Policy::Striped { nodes, chunk_bytes }
            }
            other => other.piece_policy(granules, segment, 0),
        }
    }

    /// The policy of a piece of a plain column: all of it on the node of the granule that it begins in.
    pub(crate) fn piece_policy(&self, granules: usize, segment: usize, granule: usize) -> Policy {
        match self {
            Placement::Interleaved(nodes) if nodes.len() > 1 => Policy::Interleaved(nodes.clone()),
            other => other.node_of_granule(granules, segment, granule).map_or(Policy::Local, Policy::Node),
        }
    }

    /// The policy of a dictionary. For [`Placement::Replicated`] the first copy's.
    pub fn dictionary_policy(&self) -> Policy {
        match self {
            Placement::Striped(nodes) if nodes.len() > 1 => Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 },
            other => other.piece_policy(1, 0, 0),
        }
    }

    /// The nodes of the copies, where there shall be several.
    pub(crate) fn replicas(&self) -> Option<&[NodeId]> {
        match self {
            Placement::Replicated(nodes) if nodes.len() > 1 => Some(nodes),
            _ => None,
        }
    }

    /// Where the run that holds a granule ends: at most `granules`.
    pub(crate) fn run_end(&self, granules: usize, segment: usize, granule: usize) -> usize {
        match self {
            Placement::Striped(nodes) => {
                stripe(nodes, granules, segment, granule).map_or(granules, |stripe| stripe.end)
            }
            _ => granules,
        }
    }
}

impl ColumnPlacement {
    /// Everything on one node (RR, and the parts of PP).
    pub fn one(node: NodeId) -> ColumnPlacement {
        let one = Placement::One(node);
        ColumnPlacement { codes: one.clone(), dictionary: one.clone(), index: one }
    }

    /// IVP: codes split over the nodes, dictionary and index interleaved (VLDB 2015, section 4.2).
    pub fn ivp(nodes: Vec<NodeId>) -> ColumnPlacement {
        let shared = Placement::Interleaved(nodes.clone());
        ColumnPlacement { codes: Placement::Striped(nodes), dictionary: shared.clone(), index: shared }
    }

    /// A copy of everything on every node.
    pub fn replicated(nodes: Vec<NodeId>) -> ColumnPlacement {
        let all = Placement::Replicated(nodes);
        ColumnPlacement { codes: all.clone(), dictionary: all.clone(), index: all }
    }

    /// For segments that join a part of `segments` segments: see [`Placement::turned`].
    pub fn turned(&self, segments: usize) -> ColumnPlacement {
        ColumnPlacement { codes: self.codes.turned(segments), ..self.clone() }
    }
}

impl ColumnAllocator {
    /// Memory by this placement in the budget of `allocator`.
    pub fn new(placement: ColumnPlacement, allocator: Allocator) -> ColumnAllocator {
        ColumnAllocator { placement, allocator }
    }

    /// Memory that lies where it is touched first.
    pub fn local(allocator: Allocator) -> ColumnAllocator {
        ColumnAllocator { placement: ColumnPlacement::default(), allocator }
    }

    /// Neither placement nor budget, for tests.
    pub fn unplaced() -> ColumnAllocator {
        ColumnAllocator::local(Allocator::unplaced())
    }

    /// For the codes of a segment.
    pub(crate) fn codes(&self, rows: usize, bits: u8, segment: usize) -> Allocator {
        self.allocator.with_policy(self.placement.codes.codes_policy(rows, bits, segment))
    }

    /// For values of a plain column that begin in a granule.
    pub(crate) fn piece(&self, granules: usize, segment: usize, granule: usize) -> Allocator {
        self.allocator.with_policy(self.placement.codes.piece_policy(granules, segment, granule))
    }

    /// For the dictionary.
    pub(crate) fn dictionary(&self) -> Allocator {
        self.allocator.with_policy(self.placement.dictionary.dictionary_policy())
    }

    /// For the index.
    pub(crate) fn index(&self) -> Allocator {
        self.allocator.with_policy(self.placement.index.dictionary_policy())
    }

    /// The node next to which the column's dictionary is made.
    pub(crate) fn home(&self) -> Option<NodeId> {
        self.placement.dictionary.only_node().or_else(|| self.placement.codes.only_node())
    }

    /// Memory for rows that wait to be encoded: next to where the codes will lie, if that is one node.
    pub(crate) fn staging(&self) -> Allocator {
        self.allocator.with_policy(self.placement.codes.only_node().map_or(Policy::Local, Policy::Node))
    }
}

/// What gives the region that shall stand in another's place: the same one, or a copy.
pub(crate) type Exchange<'a, E> = dyn FnMut(&Arc<Region>) -> Result<Arc<Region>, E> + 'a;

/// Which run a granule belongs to.
fn stripe(nodes: &[NodeId], granules: usize, segment: usize, granule: usize) -> Option<Stripe> {
    let count = nodes.len();
    if count == 0 {
        return None;
    }
    if granules < count || count == 1 {
        return Some(Stripe { end: granules, node: nodes[segment % count] });
    }
    let run = granules.div_ceil(count);
    let end = ((granule / run + 1) * run).min(granules);
    Some(Stripe { end, node: nodes[(segment + granule / run) % count] })
}

/// A copy of a region's bytes where `allocator` puts it; asks `stop` every few mebibytes, and is `None` where it says
/// so.
pub(crate) fn copied(
    region: &Region,
    allocator: &Allocator,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Region>, MemoryError> {
    const CHUNK_BYTES: usize = 4 << 20;
    let mut copy = allocator.region(region.len())?;
    for (to, from) in copy.bytes_mut().chunks_mut(CHUNK_BYTES).zip(region.bytes().chunks(CHUNK_BYTES)) {
        if stop() {
            return Ok(None);
        }
        to.copy_from_slice(from);
    }
    Ok(Some(copy))
}

#[cfg(test)]
mod tests;
