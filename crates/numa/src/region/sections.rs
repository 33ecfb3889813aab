//! Sections: which bytes of a region follow which policy, as plain data.
//!
//! Invariant: a policy is laid over a range once; a part of that range, left over when the rest was placed anew, keeps
//! the runs that it had, so what a section says of a byte never changes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::allocator::HUGE_PAGES_PER_NODE_MIN;
use crate::ids::NodeId;
use crate::policy::Policy;
use crate::sys::mapping::HUGE_PAGE_BYTES;
use crate::sys::page_bytes;

/// Bytes of a region that follow one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Which bytes of the region: whole pages.
    pub(super) bytes: Range<usize>,
    /// The policy.
    pub(super) policy: Policy,
    /// The bytes of the region that the policy was laid over: its runs begin there.
    over: Range<usize>,
}

impl Section {
    /// A policy laid over these bytes.
    pub(super) fn whole(bytes: Range<usize>, policy: Policy) -> Section {
        Section { over: bytes.clone(), bytes, policy }
    }

    /// The part of it that lies within `bytes`, if there is one.
    pub(super) fn cut(&self, bytes: &Range<usize>) -> Option<Section> {
        let part = self.bytes.start.max(bytes.start)..self.bytes.end.min(bytes.end);
        (!part.is_empty()).then(|| Section { bytes: part, ..self.clone() })
    }

    /// Its runs of bytes on one node; none where it is interleaved over several, or lies anywhere.
    pub(super) fn runs(&self) -> Vec<(Range<usize>, NodeId)> {
        let cuts = self.policy.cuts(self.over.len() as u64, page_bytes() as u64).into_iter();
        let moved =
            cuts.map(|(cut, node)| (self.over.start + cut.start as usize..self.over.start + cut.end as usize, node));
        let within = moved.map(|(run, node)| (run.start.max(self.bytes.start)..run.end.min(self.bytes.end), node));
        within.filter(|(run, _)| !run.is_empty()).collect()
    }

    /// The length that the policy was laid over, counted from the region's start.
    pub(super) fn laid_out_bytes(&self) -> usize {
        self.over.end
    }

    /// Whether its pages should be huge where they can: not when interleaving them would spread too coarsely.
    pub(super) fn wants_huge_pages(&self) -> bool {
        let nodes = match &self.policy {
            Policy::Interleaved(_) => self.policy.nodes().len(),
            _ => 1,
        };
        nodes < 2 || self.over.len() >= HUGE_PAGE_BYTES * nodes * HUGE_PAGES_PER_NODE_MIN
    }

    /// Adds its bytes to those that shall lie on each node.
    pub(super) fn count(&self, shares: &mut BTreeMap<NodeId, u64>) {
        let runs = self.runs();
        runs.iter().for_each(|(run, node)| *shares.entry(*node).or_insert(0) += run.len() as u64);
        if runs.is_empty() {
            for (node, bytes) in self.policy.shares(self.bytes.len() as u64, page_bytes() as u64) {
                *shares.entry(node).or_insert(0) += bytes;
            }
        }
    }
}

/// Puts a section over whatever was there.
pub(super) fn put(sections: &mut Vec<Section>, new: Section) {
    let mut all: Vec<Section> = Vec::with_capacity(sections.len() + 2);
    all.extend(sections.iter().filter_map(|section| section.cut(&(0..new.bytes.start))));
    let behind: Vec<Section> =
        sections.iter().filter_map(|section| section.cut(&(new.bytes.end..usize::MAX))).collect();
    all.push(new);
    all.extend(behind);
    sections.clear();
    for section in all {
        match sections.last_mut() {
            Some(last) if continues(last, &section) => {
                last.bytes.end = section.bytes.end;
                last.over.end = last.over.end.max(section.over.end);
            }
            _ => sections.push(section),
        }
    }
}

/// Whether two neighbours say the same as one section would.
fn continues(a: &Section, b: &Section) -> bool {
    let alike_anywhere = matches!(a.policy, Policy::Local | Policy::Node(_));
    a.policy == b.policy && (a.over == b.over || alike_anywhere)
}

/// The policy of the most bytes; the first of them on a tie.
pub(super) fn main_policy(sections: &[Section]) -> Policy {
    let bytes_of = |policy: &Policy| -> usize {
        sections.iter().filter(|section| section.policy == *policy).map(|section| section.bytes.len()).sum()
    };
    let mut most: Option<(&Policy, usize)> = None;
    for section in sections {
        let bytes = bytes_of(&section.policy);
        if most.is_none_or(|(_, so_far)| bytes > so_far) {
            most = Some((&section.policy, bytes));
        }
    }
    most.map_or(Policy::Local, |(policy, _)| policy.clone())
}

#[cfg(test)]
mod tests;
