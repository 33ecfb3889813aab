//! One entry of a page map: a run of bytes on one node, or a longer one that alternates between nodes in a fixed cycle.
//!
//! Invariants: an [`Interleaving`] has at least two steps, neighbours (also the last and the first) lie on different
//! nodes, and no shorter cycle says the same. It is anchored to the address space, not to the range that it stands in,
//! so a piece of an interleaved range keeps its interleaving, and two pieces belong together where theirs are equal.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (ranges of the PSM with an interleaving pattern).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::ids::NodeId;

/// A run of bytes on one node, or one that alternates between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// Address of the first byte.
    pub start: usize,
    /// Address behind the last byte.
    pub end: usize,
    /// Where the first byte is, and all others unless the range is interleaved.
    pub node: NodeId,
    /// How it alternates between nodes, if it does.
    pub interleaving: Option<Arc<Interleaving>>,
}

impl PageRange {
    /// A run on one node.
    pub(crate) fn one(bytes: Range<usize>, node: NodeId) -> PageRange {
        PageRange { start: bytes.start, end: bytes.end, node, interleaving: None }
    }

    /// A run that alternates.
    pub(crate) fn alternating(bytes: Range<usize>, interleaving: Arc<Interleaving>) -> PageRange {
        let node = interleaving.at(bytes.start).0;
        PageRange { start: bytes.start, end: bytes.end, node, interleaving: Some(interleaving) }
    }

    /// Its length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        (self.end - self.start) as u64
    }

    /// The node of an address within it, and where the run of bytes on that node ends.
    pub(crate) fn at(&self, address: usize) -> (NodeId, usize) {
        match &self.interleaving {
            None => (self.node, self.end),
            Some(interleaving) => {
                let (node, end) = interleaving.at(address);
                (node, end.min(self.end))
            }
        }
    }

    /// The part of it that lies within `bytes`, if there is one.
    pub(crate) fn cut(&self, bytes: &Range<usize>) -> Option<PageRange> {
        let start = self.start.max(bytes.start);
        let end = self.end.min(bytes.end);
        if start >= end {
            return None;
        }
        Some(PageRange { start, end, node: self.at(start).0, interleaving: self.interleaving.clone() })
    }

    /// Its runs of bytes on one node, ascending.
    pub fn runs(&self) -> impl Iterator<Item = (Range<usize>, NodeId)> + '_ {
        let mut from = self.start;
        std::iter::from_fn(move || {
            (from < self.end).then(|| {
                let (node, end) = self.at(from);
                (std::mem::replace(&mut from, end)..end, node)
            })
        })
    }

    /// Whether `next` starts where it ends and goes on in the same way.
    pub(crate) fn continues_in(&self, next: &PageRange) -> bool {
        self.end == next.start
            && self.interleaving == next.interleaving
            && (self.interleaving.is_some() || self.node == next.node)
    }

    /// Adds its bytes to those of each node, without visiting every step.
    pub(crate) fn count(&self, bytes: &mut BTreeMap<NodeId, u64>) {
        match &self.interleaving {
            None => *bytes.entry(self.node).or_insert(0) += self.len_bytes(),
            Some(interleaving) => interleaving.count(self.start..self.end, bytes),
        }
    }
}

/// How bytes alternate between nodes: steps of `n` bytes each, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interleaving {
    /// Node of each step, and where it ends within the cycle.
    steps: Vec<(NodeId, usize)>,
    /// The remainder, by the cycle's length, of addresses where the first step begins; no other step has a smaller one.
    first: usize,
}

impl Interleaving {
    /// The cycle of these steps (node and bytes, at least two) of which the first begins at this address.
    pub(crate) fn new(start: usize, steps: &[(NodeId, usize)]) -> Interleaving {
        let cycle: usize = steps.iter().map(|step| step.1).sum();
        let mut begin = start;
        let mut placed: Vec<(usize, NodeId, usize)> = Vec::with_capacity(steps.len());
        for &(node, bytes) in steps {
            placed.push((begin % cycle, node, bytes));
            begin += bytes;
        }
        // Turned so that the step with the smallest remainder comes first: one cycle has one form.
        let lowest = placed.iter().enumerate().min_by_key(|(_, step)| step.0).map_or(0, |(i, _)| i);
        placed.rotate_left(lowest);
        let mut end = 0;
        let steps_of = |&(_, node, bytes): &(usize, NodeId, usize)| {
            end += bytes;
            (node, end)
        };
        Interleaving { first: placed.first().map_or(0, |step| step.0), steps: placed.iter().map(steps_of).collect() }
    }

    /// Bytes after which it begins anew.
    fn cycle_bytes(&self) -> usize {
        self.steps.last().map_or(0, |step| step.1)
    }

    /// The steps of one cycle: node and bytes.
    pub fn steps(&self) -> impl Iterator<Item = (NodeId, usize)> + '_ {
        let begins = std::iter::once(0).chain(self.steps.iter().map(|step| step.1));
        self.steps.iter().zip(begins).map(|(&(node, end), begin)| (node, end - begin))
    }

    /// The node of an address, and where that step ends.
    pub(crate) fn at(&self, address: usize) -> (NodeId, usize) {
        let offset = self.offset(address);
        let (node, end) = self.steps[self.steps.partition_point(|step| step.1 <= offset)];
        (node, address.saturating_add(end - offset))
    }

    /// Where the step that holds this address begins; below the start of the address space, 0.
    pub(crate) fn step_start(&self, address: usize) -> usize {
        let offset = self.offset(address);
        let step = self.steps.partition_point(|step| step.1 <= offset);
        let begin = if step == 0 { 0 } else { self.steps[step - 1].1 };
        address.saturating_sub(offset - begin)
    }

    fn offset(&self, address: usize) -> usize {
        let cycle = self.cycle_bytes();
        (address % cycle + cycle - self.first) % cycle
    }

    fn count(&self, range: Range<usize>, bytes: &mut BTreeMap<NodeId, u64>) {
        let cycle = self.cycle_bytes();
        let whole = (range.end - range.start) / cycle;
        for (node, step) in self.steps().filter(|_| whole > 0) {
            *bytes.entry(node).or_insert(0) += (whole * step) as u64;
        }
        let mut from = range.start + whole * cycle;
        while from < range.end {
            let (node, end) = self.at(from);
            let end = end.min(range.end);
            *bytes.entry(node).or_insert(0) += (end - from) as u64;
            from = end;
        }
    }
}
