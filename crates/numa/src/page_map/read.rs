//! Reads from the kernel which node each page lies on, with one question per page, where a huge page is one page.
//!
//! Which pages are there and which of them are huge comes from one walk of the page table (`PAGEMAP_SCAN`, Linux 6.7);
//! pages that are nowhere are not asked for. A kernel without that call is asked about every page of the base size.
//!
//! # Limits
//! Base pages cost 0.4 us each, so a GiB of them 0.1 s. Folios between the base and the huge page size are asked for
//! page by page.

use std::io;
use std::ops::Range;

use super::collapse::Collapse;
use super::interleaving::PageRange;
use super::spans::Span;
use crate::ids::NodeId;
use crate::sys::mapping::HUGE_PAGE_BYTES;
use crate::sys::scan::{PageTable, Stretch};
use crate::sys::{nodes_of_pages, page_bytes};

/// Pages asked of the kernel in one call: half a mebibyte of addresses.
const PAGES_PER_CALL: usize = 64 << 10;
/// Bytes whose page table is walked at a time; bounds the memory that a scattered one needs.
const WINDOW_BYTES: usize = 1 << 30;

/// The nodes of all pages of these disjoint ascending spans.
pub(super) fn measure(spans: &[Span]) -> io::Result<Vec<PageRange>> {
    let table = PageTable::open();
    let stretches = |window: &Span| match &table {
        Some(table) => table.present(window),
        None => unknown(window),
    };
    build(spans, [page_bytes(), HUGE_PAGE_BYTES], PAGES_PER_CALL, stretches, nodes_of_pages)
}

/// What is taken to be there where the page table cannot be read: every page, and none of them huge.
pub(super) fn unknown(window: &Span) -> Vec<Stretch> {
    vec![Stretch { bytes: window.clone(), huge: false }]
}

/// Asks `stretches` which pages of the spans are there, and `look_up` for the node of each of them, `batch` at a time.
/// The first is given a span and answers with ascending parts of it; the second is given addresses of pages and appends
/// one answer for each.
pub(super) fn build(
    spans: &[Span],
    [page_bytes, huge_bytes]: [usize; 2],
    batch: usize,
    stretches: impl Fn(&Span) -> Vec<Stretch>,
    look_up: impl Fn(&[usize], &mut Vec<Option<u32>>) -> io::Result<()>,
) -> io::Result<Vec<PageRange>> {
    let mut ranges = Collapse::new();
    let mut pieces = Vec::new();
    let mut pages = Vec::new();
    let mut nodes = Vec::new();
    let windows = spans.iter().flat_map(|span| Pieces { left: span.clone(), unit: WINDOW_BYTES });
    let mut all = windows
        .flat_map(|window| stretches(&window))
        .flat_map(|s| Pieces { left: s.bytes, unit: if s.huge { huge_bytes } else { page_bytes } })
        .peekable();
    while all.peek().is_some() {
        pieces.extend(all.by_ref().take(batch));
        pages.extend(pieces.iter().map(|piece: &Span| piece.start / page_bytes * page_bytes));
        look_up(&pages, &mut nodes)?;
        for (piece, node) in pieces.drain(..).zip(nodes.drain(..)) {
            if let Some(node) = node {
                ranges.push(piece, NodeId(node));
            }
        }
        pages.clear();
    }
    Ok(ranges.finish())
}

/// A span cut at multiples of `unit`, ascending; the first and the last piece only as far as the span reaches.
pub(super) struct Pieces {
    pub(super) left: Range<usize>,
    pub(super) unit: usize,
}

impl Iterator for Pieces {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.left.start;
        let end = (start / self.unit * self.unit).saturating_add(self.unit).min(self.left.end);
        self.left.start = end;
        Some(start..end)
    }
}
