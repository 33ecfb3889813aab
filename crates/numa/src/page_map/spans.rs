//! Sets of bytes as sorted, disjoint spans that do not touch: what a page map was asked about.

use std::ops::Range;

/// A span of bytes, as addresses.
pub(super) type Span = Range<usize>;

/// The bytes of these `(address, length)` ranges, each once, ascending. What lies beyond the address space is left out.
pub(super) fn disjoint(ranges: &[(usize, usize)]) -> Vec<Span> {
    let spans = ranges.iter().map(|&(start, len)| start..start.saturating_add(len)).filter(|s| !s.is_empty());
    let mut spans: Vec<Span> = spans.collect();
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

/// How many bytes they are.
pub(super) fn total(spans: &[Span]) -> u64 {
    spans.iter().map(|s| (s.end - s.start) as u64).sum()
}
