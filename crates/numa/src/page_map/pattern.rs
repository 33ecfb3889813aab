//! How the memory of a page map lies as a whole, in the words of placements.

use crate::ids::NodeId;
use crate::sys::mapping::HUGE_PAGE_BYTES;

use super::interleaving::{Interleaving, PageRange};

/// How memory lies, as far as it is there. Gaps (pages never touched) do not count, nor does the end of the last piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No page is there, or nothing is known of any.
    Empty,
    /// All on one node.
    One(NodeId),
    /// In turn over these nodes (in the order of their turns, lowest first) in equal steps of at most a huge page.
    Interleaved {
        /// Each once.
        nodes: Vec<NodeId>,
        /// Bytes of a step: the size of the pages that alternate.
        page_bytes: usize,
    },
    /// In turn over these nodes, with more pages in a turn for some than for others.
    Weighted {
        /// Node and pages in a turn.
        nodes: Vec<(NodeId, usize)>,
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// In chunks: chunk `i` on `nodes[i % n]`, or each node's bytes in one piece.
    Striped {
        /// In the order of their chunks.
        nodes: Vec<NodeId>,
        /// Bytes of the longest chunk; all but the first and the last have as many where nodes come again.
        chunk_bytes: usize,
    },
    /// Otherwise.
    Mixed,
}

impl Pattern {
    pub(super) fn of(ranges: &[PageRange]) -> Pattern {
        let Some(first) = ranges.first() else { return Pattern::Empty };
        if let Some(cycle) = &first.interleaving {
            let all = ranges.iter().all(|r| r.interleaving.as_ref() == Some(cycle));
            return if all { Pattern::alternating(cycle, ranges) } else { Pattern::Mixed };
        }
        if ranges.iter().any(|r| r.interleaving.is_some()) {
            return Pattern::Mixed;
        }
        // Pieces on one node, where gaps may part them.
        let mut pieces: Vec<(NodeId, usize, usize)> = Vec::new();
        for range in ranges {
            match pieces.last_mut() {
                Some(last) if last.0 == range.node => last.2 = range.end,
                _ => pieces.push((range.node, range.start, range.end)),
            }
        }
        let mut nodes: Vec<NodeId> = pieces.iter().map(|piece| piece.0).collect();
        let chunk_bytes = pieces.iter().map(|piece| piece.2 - piece.1).max().unwrap_or(0);
        nodes.sort_unstable();
        nodes.dedup();
        match nodes.as_slice() {
            [node] => Pattern::One(*node),
            nodes if nodes.len() == pieces.len() => {
                Pattern::Striped { nodes: pieces.iter().map(|piece| piece.0).collect(), chunk_bytes }
            }
            _ => Pattern::Mixed,
        }
    }

    fn alternating(cycle: &Interleaving, ranges: &[PageRange]) -> Pattern {
        let mut steps: Vec<(NodeId, usize)> = cycle.steps().collect();
        let page_bytes = steps.iter().fold(0, |divisor, step| gcd(divisor, step.1));
        let equal = steps.iter().all(|step| step.1 == page_bytes);
        let mut distinct: Vec<NodeId> = steps.iter().map(|step| step.0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < steps.len() {
            return Pattern::Mixed;
        }
        // Turns have no first one; chunks do.
        let begins_with = if equal && page_bytes > HUGE_PAGE_BYTES { ranges.first().map(|r| r.node) } else { None };
        let first = begins_with.or(distinct.first().copied());
        let at = steps.iter().position(|step| Some(step.0) == first).unwrap_or(0);
        steps.rotate_left(at);
        let nodes = || steps.iter().map(|step| step.0).collect();
        match equal {
            true if page_bytes > HUGE_PAGE_BYTES => Pattern::Striped { nodes: nodes(), chunk_bytes: page_bytes },
            true => Pattern::Interleaved { nodes: nodes(), page_bytes },
            false if page_bytes > HUGE_PAGE_BYTES => Pattern::Mixed,
            false => Pattern::Weighted { nodes: steps.iter().map(|s| (s.0, s.1 / page_bytes)).collect(), page_bytes },
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
