//! Page maps as sets: adding and removing ranges and other maps, parts of a map; and moving what a map tells of.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (the operations of the PSM).

use super::PageMap;
use super::collapse::Collapse;
use super::interleaving::PageRange;
use super::spans::{Span, difference, disjoint, intersection, total, union};
use crate::ids::NodeId;
use crate::machine::Machine;
use crate::moving::{MoveError, MoveTarget, Moved, check_room, move_back, move_to};
use crate::policy::Policy;
use crate::sys::memory::HUGE_PAGE_BYTES;
use crate::sys::page_bytes;

impl PageMap {
    /// Reads where these `(address, length)` ranges lie and adds them. What the map has already is not read again.
    pub fn add(&mut self, ranges: &[(usize, usize)]) {
        self.add_assuming(ranges, &Policy::Local);
    }

    /// As [`PageMap::add`], for ranges whose policy is known in case the kernel refuses to tell.
    fn add_assuming(&mut self, ranges: &[(usize, usize)], policy: &Policy) {
        let new = difference(&disjoint(ranges), &self.asked);
        if !new.is_empty() {
            self.add_map(&PageMap::read_assuming(&pairs(&new), policy));
        }
    }

    /// Adds what another map tells. Of bytes that both were asked for, this map's word stands.
    pub fn add_map(&mut self, other: &PageMap) {
        let new = difference(&other.asked, &self.asked);
        if new.is_empty() {
            return;
        }
        self.measured &= other.measured;
        self.ranges = merged(&self.ranges, &other.cut_all(&new));
        self.asked = union(&self.asked, &new);
    }

    /// Forgets these `(address, length)` ranges.
    pub fn remove(&mut self, ranges: &[(usize, usize)]) {
        self.forget(&disjoint(ranges));
    }

    /// Forgets what another map was asked for, wherever that lies.
    pub fn subtract_map(&mut self, other: &PageMap) {
        self.forget(&other.asked);
    }

    /// What it tells of these `(address, length)` ranges.
    pub fn subset(&self, ranges: &[(usize, usize)]) -> PageMap {
        let asked = intersection(&self.asked, &disjoint(ranges));
        PageMap { ranges: self.cut_all(&asked), asked, measured: self.measured }
    }

    /// Whether the other map was asked for all that this one was, and says the same of it.
    pub fn is_subset_of(&self, other: &PageMap) -> bool {
        difference(&self.asked, &other.asked).is_empty() && alike(&self.ranges, &other.cut_all(&self.asked))
    }

    /// Reads these ranges anew, as far as the map has them.
    pub fn refresh(&mut self, ranges: &[(usize, usize)]) {
        let again = intersection(&disjoint(ranges), &self.asked);
        self.forget(&again);
        if !again.is_empty() {
            self.add_map(&PageMap::read(&pairs(&again)));
        }
    }

    /// Moves the whole pages that lie within this `(address, length)` range and that the map has, and tells of them as
    /// they lie then. Only pages move: those that are touched later follow their policy as before, which
    /// [`Region::place`](crate::Region::place) would change too.
    ///
    /// # Errors
    /// `Memory` with the node that is full; nothing has moved then.
    pub fn move_range(&mut self, range: (usize, usize), node: NodeId) -> Result<Moved, MoveError> {
        self.send(range, &[node])
    }

    /// As [`move_range`](PageMap::move_range), page by page in turn over these nodes, from the lowest on. Huge pages take
    /// turns whole where each node gets eight of them or more; others are split, and the kernel may join them again later
    /// unless it is told not to. No node, no change.
    ///
    /// # Errors
    /// As `move_range`.
    pub fn interleave_range(&mut self, range: (usize, usize), nodes: &[NodeId]) -> Result<Moved, MoveError> {
        self.send(range, nodes)
    }

    fn send(&mut self, range: (usize, usize), nodes: &[NodeId]) -> Result<Moved, MoveError> {
        let (machine, page) = (Machine::this(), page_bytes());
        let mut nodes: Vec<NodeId> = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let mut sum = Moved::default();
        if nodes.is_empty() {
            return Ok(sum);
        }
        let had = intersection(&self.asked, &disjoint(&[range]));
        let spans = had.iter().map(|span| span.start.div_ceil(page) * page..span.end / page * page);
        let spans: Vec<Span> = spans.filter(|span| !span.is_empty()).collect();
        let huge = total(&spans) >= (HUGE_PAGE_BYTES * nodes.len() * 8) as u64 || nodes.len() == 1;
        let target = MoveTarget::Turns { nodes, huge };
        let before = PageMap::read(&pairs(&spans));
        for (i, span) in spans.iter().enumerate() {
            let result = check_room(span, &target, &before, machine)
                .and_then(|()| move_to(span, &target, &before, machine, &|| false));
            match result {
                Ok(moved) => sum += moved,
                Err(error) => {
                    for done in &spans[..i] {
                        move_back(done, &before, machine);
                    }
                    self.refresh(&pairs(&spans));
                    return Err(error);
                }
            }
        }
        self.refresh(&pairs(&spans));
        Ok(sum)
    }

    fn forget(&mut self, gone: &[Span]) {
        self.asked = difference(&self.asked, gone);
        self.ranges = self.cut_all(&self.asked);
        if self.asked.is_empty() {
            // Nothing is left that could have been assumed.
            self.measured = true;
        }
    }

    /// The ranges as far as they lie within these ascending spans.
    fn cut_all(&self, spans: &[Span]) -> Vec<PageRange> {
        let mut ranges = Collapse::new();
        spans.iter().flat_map(|span| self.cut(span)).for_each(|range| ranges.append(range));
        ranges.finish()
    }
}

/// Spans as `(address, length)`.
fn pairs(spans: &[Span]) -> Vec<(usize, usize)> {
    spans.iter().map(|span| (span.start, span.end - span.start)).collect()
}

/// Two lists of ranges that have no byte in common, as one.
fn merged(a: &[PageRange], b: &[PageRange]) -> Vec<PageRange> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut ranges = Collapse::new();
    loop {
        let from_a = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.start < y.start,
            (x, _) => x.is_some(),
        };
        let Some(range) = (if from_a { a.next() } else { b.next() }) else { return ranges.finish() };
        ranges.append(range.clone());
    }
}

/// Whether two lists of ranges say the same of every byte. What one list has as an interleaved range may be a few single
/// ones in the other.
pub(super) fn alike(a: &[PageRange], b: &[PageRange]) -> bool {
    let (mut a, mut b) = (a.iter().cloned(), b.iter().cloned());
    let (mut left, mut right) = (a.next(), b.next());
    loop {
        let (Some(x), Some(y)) = (&left, &right) else { return left.is_none() && right.is_none() };
        let (bytes, end) = (x.start..x.end.min(y.end), x.end.min(y.end));
        let equal = x.interleaving == y.interleaving && x.interleaving.is_some();
        if x.start != y.start || !(equal || same_runs(x, y, &bytes)) {
            return false;
        }
        let (rest_x, rest_y) = (x.cut(&(end..x.end)), y.cut(&(end..y.end)));
        left = rest_x.or_else(|| a.next());
        right = rest_y.or_else(|| b.next());
    }
}

fn same_runs(a: &PageRange, b: &PageRange, bytes: &Span) -> bool {
    let mut from = bytes.start;
    while from < bytes.end {
        let ((x, x_end), (y, y_end)) = (a.at(from), b.at(from));
        if x != y {
            return false;
        }
        from = x_end.min(y_end);
    }
    true
}
