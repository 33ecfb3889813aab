//! The page map: which ranges of memory lie on which node, read from the kernel page by page.
//!
//! Invariants: ranges are sorted, disjoint and not empty; neighbours that touch lie on different nodes; so space follows
//! the number of ranges and a look-up is a binary search. Pages that are nowhere yet (never touched) are in no range.
//!
//! # Limits
//! It tells what was true when it was read; pages that the kernel moves later (NUMA balancing, swap) are not followed.
//! Adding, subtracting and moving ranges come with the placer (`docs/design/numa.md`).
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (the page socket mapping, PSM).

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::ids::NodeId;
use crate::machine::Machine;
use crate::policy::Policy;
use crate::refusals::refused;
use crate::region::Region;
use crate::sys;

/// Pages asked of the kernel in one call: half a mebibyte of addresses.
const PAGES_PER_CALL: usize = 64 << 10;

/// Which bytes lie on which node; see the module's invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMap {
    ranges: Vec<PageRange>,
    asked_bytes: u64,
    measured: bool,
}

/// A run of bytes on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// Address of the first byte.
    pub start: usize,
    /// Address behind the last byte.
    pub end: usize,
    /// Where they are.
    pub node: NodeId,
}

impl PageMap {
    /// Reads where the bytes of these `(address, length)` ranges lie, in any order, overlapping or not. Where the kernel
    /// refuses to tell, the map of a machine of one node names that node and any other is empty; neither is measured.
    pub fn read(ranges: &[(usize, usize)]) -> PageMap {
        PageMap::read_assuming(ranges, &Policy::Local)
    }

    /// Reads where a region lies. Where the kernel refuses to tell, its policy's node is assumed.
    pub fn of(region: &Region) -> PageMap {
        PageMap::read_assuming(&[(region.address(), region.len())], &region.policy())
    }

    /// As [`PageMap::read`], for ranges whose policy is known in case the kernel refuses to tell.
    pub fn read_assuming(ranges: &[(usize, usize)], policy: &Policy) -> PageMap {
        let spans = disjoint(ranges);
        match PageMap::measure(&spans) {
            Ok(map) => map,
            Err(error) => {
                refused("move_pages", &error, "where memory lies is assumed from its policy, not measured");
                let node = match policy {
                    Policy::Node(node) => Some(*node),
                    Policy::Interleaved(nodes) if nodes.len() == 1 => nodes.first().copied(),
                    _ => None,
                };
                PageMap::assume(&spans, Machine::this().only_node().or(node))
            }
        }
    }

    /// Whether the kernel told; otherwise the nodes are those that the policy asked for.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// The node of the page that holds this address; `None` outside the ranges read and where no page is yet.
    pub fn node_of(&self, address: usize) -> Option<NodeId> {
        let after = self.ranges.partition_point(|r| r.start <= address);
        let range = self.ranges[..after].last()?;
        (address < range.end).then_some(range.node)
    }

    /// The node that holds the most bytes; the lowest of them on a tie.
    pub fn majority(&self) -> Option<NodeId> {
        let most = self.bytes_per_node().into_iter().max_by_key(|(node, bytes)| (*bytes, std::cmp::Reverse(*node)));
        most.map(|(node, _)| node)
    }

    /// How many of the bytes asked for lie on each node.
    pub fn bytes_per_node(&self) -> BTreeMap<NodeId, u64> {
        let mut bytes = BTreeMap::new();
        for range in &self.ranges {
            *bytes.entry(range.node).or_insert(0) += (range.end - range.start) as u64;
        }
        bytes
    }

    /// Bytes asked for that lie nowhere yet, or of which nothing is known.
    pub fn unknown_bytes(&self) -> u64 {
        self.asked_bytes - self.ranges.iter().map(|r| (r.end - r.start) as u64).sum::<u64>()
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[PageRange] {
        &self.ranges
    }

    /// Asks the kernel for every page of these disjoint ascending spans.
    fn measure(spans: &[Range<usize>]) -> io::Result<PageMap> {
        PageMap::build(spans, sys::page_bytes(), PAGES_PER_CALL, sys::nodes_of_pages)
    }

    /// Asks `look_up` for the node of every page of the spans, `batch` pages at a time. It is given addresses of pages
    /// and appends one answer for each.
    fn build(
        spans: &[Range<usize>],
        page_bytes: usize,
        batch: usize,
        look_up: impl Fn(&[usize], &mut Vec<Option<u32>>) -> io::Result<()>,
    ) -> io::Result<PageMap> {
        let mut map = PageMap { ranges: Vec::new(), asked_bytes: total(spans), measured: true };
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut pages: Vec<usize> = Vec::new();
        let mut nodes = Vec::new();
        let mut all = spans.iter().flat_map(|span| PagesOf { left: span.clone(), page_bytes }).peekable();
        while all.peek().is_some() {
            pieces.extend(all.by_ref().take(batch));
            pages.extend(pieces.iter().map(|piece| piece.start / page_bytes * page_bytes));
            look_up(&pages, &mut nodes)?;
            for (piece, node) in pieces.drain(..).zip(nodes.drain(..)) {
                map.push(piece, node.map(NodeId));
            }
            pages.clear();
        }
        Ok(map)
    }

    fn assume(spans: &[Range<usize>], node: Option<NodeId>) -> PageMap {
        let mut map = PageMap { ranges: Vec::new(), asked_bytes: total(spans), measured: false };
        for span in spans {
            map.push(span.clone(), node);
        }
        map
    }

    /// Appends a piece that lies behind all others, joining it to the last range where it continues that.
    fn push(&mut self, piece: Range<usize>, node: Option<NodeId>) {
        let Some(node) = node else { return };
        match self.ranges.last_mut() {
            Some(last) if last.end == piece.start && last.node == node => last.end = piece.end,
            _ => self.ranges.push(PageRange { start: piece.start, end: piece.end, node }),
        }
    }
}

/// The pages of a span, ascending; the first and the last only as far as the span covers them.
struct PagesOf {
    left: Range<usize>,
    page_bytes: usize,
}

impl Iterator for PagesOf {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.left.start;
        let end = (start / self.page_bytes * self.page_bytes).saturating_add(self.page_bytes).min(self.left.end);
        self.left.start = end;
        Some(start..end)
    }
}

fn total(spans: &[Range<usize>]) -> u64 {
    spans.iter().map(|s| (s.end - s.start) as u64).sum()
}

/// The bytes of these ranges, each once, ascending.
fn disjoint(ranges: &[(usize, usize)]) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> =
        ranges.iter().map(|&(start, len)| start..start.saturating_add(len)).filter(|s| !s.is_empty()).collect();
    spans.sort_unstable_by_key(|s| s.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
