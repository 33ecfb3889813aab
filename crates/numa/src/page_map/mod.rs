//! The page map: which ranges of memory lie on which node, read from the kernel page by page.
//!
//! Invariants: ranges are sorted, disjoint, not empty and within what was asked for; neighbours that touch could not be
//! one. Memory that alternates between nodes in a fixed cycle is one range, so space follows the number of ranges and
//! not of pages, and a look-up is a binary search. Pages that are nowhere yet (never touched) are in no range.
//!
//! # Limits
//! It tells what was true when it was read; pages that the kernel moves later (NUMA balancing, swap) are not followed,
//! nor are moves by others: [`Region::placements`](crate::Region::placements) counts those of ours.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (the page socket mapping, PSM).

mod collapse;
mod interleaving;
mod pattern;
mod read;
mod spans;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::NodeId;
use crate::machine::Machine;
use crate::refusals::refused;

use collapse::Collapse;
pub use interleaving::{Interleaving, PageRange};
pub use pattern::Pattern;
use spans::{Span, disjoint, total};

/// Which bytes lie on which node; see the module's invariants.
#[derive(Clone, Debug)]
pub struct PageMap {
    ranges: Vec<PageRange>,
    asked: Vec<Span>,
    measured: bool,
}

impl PageMap {
    /// Reads where the bytes of these `(address, length)` ranges lie, in any order, overlapping or not. Where the
    /// kernel refuses to tell, the map of a machine of one node names that node and any other is empty; neither is
    /// measured.
    pub fn read(ranges: &[(usize, usize)]) -> PageMap {
        let node = Machine::this().only_node();
        PageMap::read_spans(disjoint(ranges), |span| node.map(|node| (span.clone(), node)).into_iter().collect())
    }

    /// Reads where one range lies; `assume` says it in case the kernel refuses to tell and the machine has a choice.
    pub(crate) fn read_or(range: (usize, usize), assume: impl Fn() -> Vec<(Range<usize>, NodeId)>) -> PageMap {
        PageMap::read_spans(disjoint(&[range]), |span| match Machine::this().only_node() {
            Some(node) => vec![(span.clone(), node)],
            None => assume(),
        })
    }

    /// Reads these spans; `assume` says which runs of one are on which node in case the kernel refuses to tell.
    fn read_spans(asked: Vec<Span>, assume: impl Fn(&Span) -> Vec<(Span, NodeId)>) -> PageMap {
        match read::measure(&asked) {
            Ok(ranges) => PageMap { ranges, asked, measured: true },
            Err(error) => {
                refused("move_pages", &error, "where memory lies is assumed from its policy, not measured");
                PageMap::assume(asked, assume)
            }
        }
    }

    /// Whether the kernel told; otherwise the nodes are those that the policy asked for.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// The node of the page that holds this address; `None` outside the ranges read and where no page is yet.
    pub fn node_of(&self, address: usize) -> Option<NodeId> {
        self.range_of(address).map(|range| range.at(address).0)
    }

    /// The run of bytes on one node that an address stands in: from that address up to where the node changes.
    pub fn run_from(&self, address: usize) -> Option<(Range<usize>, NodeId)> {
        let mut next = self.ranges.partition_point(|r| r.start <= address);
        let (node, mut end) = self.range_of(address)?.at(address);
        // The next range may begin on the same node, if one of the two is interleaved.
        while let Some(range) = self.ranges.get(next).filter(|r| r.start == end && r.node == node) {
            end = range.at(end).1;
            next += 1;
        }
        Some((address..end, node))
    }

    /// The node that holds the most bytes; the lowest of them on a tie.
    pub fn majority(&self) -> Option<NodeId> {
        let bytes = self.bytes_per_node();
        bytes.iter().max_by_key(|(node, bytes)| (**bytes, std::cmp::Reverse(**node))).map(|(node, _)| *node)
    }

    /// How many of these addresses lie on each node.
    pub fn bytes_within(&self, bytes: Range<usize>) -> BTreeMap<NodeId, u64> {
        let mut per_node = BTreeMap::new();
        self.cut(&bytes).for_each(|range| range.count(&mut per_node));
        per_node
    }

    /// How many of the bytes asked for lie on each node.
    pub fn bytes_per_node(&self) -> BTreeMap<NodeId, u64> {
        let mut bytes = BTreeMap::new();
        self.ranges.iter().for_each(|range| range.count(&mut bytes));
        bytes
    }

    /// Bytes asked for that lie nowhere yet, or of which nothing is known.
    pub fn unknown_bytes(&self) -> u64 {
        total(&self.asked) - self.ranges.iter().map(PageRange::len_bytes).sum::<u64>()
    }

    /// The ranges, ascending. Mind the interleaved ones, which are on several nodes; [`PageMap::runs`] takes them
    /// apart.
    pub fn ranges(&self) -> &[PageRange] {
        &self.ranges
    }

    /// Every run of bytes on one node, ascending: as many as there are pages where memory is interleaved.
    pub fn runs(&self) -> impl Iterator<Item = (Range<usize>, NodeId)> + '_ {
        let mut pieces = self.ranges.iter().flat_map(PageRange::runs).peekable();
        std::iter::from_fn(move || {
            let (mut run, node) = pieces.next()?;
            while let Some((more, _)) = pieces.next_if(|(next, on)| next.start == run.end && *on == node) {
                run.end = more.end;
            }
            Some((run, node))
        })
    }

    /// How all of it lies.
    pub fn pattern(&self) -> Pattern {
        Pattern::of(&self.ranges)
    }

    fn range_of(&self, address: usize) -> Option<&PageRange> {
        let after = self.ranges.partition_point(|r| r.start <= address);
        self.ranges[..after].last().filter(|range| address < range.end)
    }

    /// The ranges as far as they lie within a span.
    fn cut(&self, span: &Span) -> impl Iterator<Item = PageRange> + '_ {
        let first = self.ranges.partition_point(|r| r.end <= span.start);
        let span = span.clone();
        self.ranges[first..].iter().map_while(move |range| range.cut(&span))
    }

    fn assume(asked: Vec<Span>, assume: impl Fn(&Span) -> Vec<(Span, NodeId)>) -> PageMap {
        let mut ranges = Collapse::new();
        for span in &asked {
            for (run, node) in assume(span) {
                let run = run.start.max(span.start)..run.end.min(span.end);
                if !run.is_empty() {
                    ranges.push(run, node);
                }
            }
        }
        PageMap { ranges: ranges.finish(), asked, measured: false }
    }
}

/// Two maps are equal that were asked for the same bytes, by the same means, and say the same of each of them.
impl PartialEq for PageMap {
    fn eq(&self, other: &PageMap) -> bool {
        self.measured == other.measured && self.asked == other.asked && self.runs().eq(other.runs())
    }
}

impl Eq for PageMap {}

#[cfg(test)]
mod tests;
