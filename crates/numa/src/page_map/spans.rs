//! Sets of bytes as sorted, disjoint spans that do not touch: what a page map was asked about.

use std::ops::Range;

/// A span of bytes, as addresses.
pub(super) type Span = Range<usize>;

/// The bytes of these `(address, length)` ranges, each once, ascending. What lies beyond the address space is left out.
pub(super) fn disjoint(ranges: &[(usize, usize)]) -> Vec<Span> {
    let spans = ranges.iter().map(|&(start, len)| start..start.saturating_add(len)).filter(|s| !s.is_empty());
    joined(spans.collect())
}

/// The bytes of either.
pub(super) fn union(a: &[Span], b: &[Span]) -> Vec<Span> {
    joined(a.iter().chain(b).cloned().collect())
}

/// The bytes of `a` that are not in `b`.
pub(super) fn difference(a: &[Span], b: &[Span]) -> Vec<Span> {
    let mut left = Vec::with_capacity(a.len());
    let mut next = 0;
    for span in a {
        while next < b.len() && b[next].end <= span.start {
            next += 1;
        }
        let mut from = span.start;
        for hole in b[next..].iter().take_while(|hole| hole.start < span.end) {
            if from < hole.start {
                left.push(from..hole.start);
            }
            from = from.max(hole.end);
        }
        if from < span.end {
            left.push(from..span.end);
        }
    }
    left
}

/// The bytes of both.
pub(super) fn intersection(a: &[Span], b: &[Span]) -> Vec<Span> {
    difference(a, &difference(a, b))
}

/// How many bytes they are.
pub(super) fn total(spans: &[Span]) -> u64 {
    spans.iter().map(|s| (s.end - s.start) as u64).sum()
}

fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|s| s.start);
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}
