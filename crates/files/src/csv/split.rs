//! Cuts an uncompressed CSV file into ranges of whole records.
//!
//! A line end only ends a record outside quotes, and whether a quote opens a field depends on all that comes before, so
//! the file is scanned once for quotes. Invariant: the ranges agree with what [`super::records`] makes of the file; for
//! a file with wrong quotes, the first range that holds the fault shows it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use super::Dialect;
use crate::text::{bom_bytes, find_byte};

const CHUNK_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitState {
    Outside,
    Inside,
    /// A quote was seen inside: the next byte tells whether it was doubled.
    Closing,
}

/// At most `pieces` ranges that cover the file of `len` bytes, each starting at a record; the first one holds all that
/// stands before `data_start`.
pub(crate) fn split(
    path: &Path,
    len: u64,
    pieces: usize,
    data_start: u64,
    dialect: &Dialect,
) -> io::Result<Vec<Range<u64>>> {
    let target = |piece: usize| (u128::from(len) * piece as u128 / pieces as u128) as u64;
    let mut scanner = Scanner {
        dialect,
        state: SplitState::Outside,
        base: 0,
        previous: b'\n',
        targets: (1..pieces).map(|piece| target(piece).max(data_start + 1)).collect(),
        cuts: Vec::new(),
    };
    if !scanner.targets.is_empty() {
        let mut file = File::open(path)?;
        let mut chunk = vec![0u8; usize::try_from(len).unwrap_or(CHUNK_BYTES).clamp(1, CHUNK_BYTES)];
        while scanner.next_target().is_some() {
            match fill(&mut file, &mut chunk)? {
                0 => break,
                filled => scanner.scan(&chunk[..filled]),
            }
        }
    }
    // A cut at the very end would make an empty piece.
    let cuts: Vec<u64> = scanner.cuts.into_iter().filter(|cut| *cut < len).collect();
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(len));
    Ok(starts.zip(ends).map(|(start, end)| start..end).collect())
}

struct Scanner<'a> {
    dialect: &'a Dialect,
    state: SplitState,
    /// Offset in the file of the chunk's first byte.
    base: u64,
    /// The byte before the chunk; the file's start is like a line's start.
    previous: u8,
    /// Where pieces would begin if records were of no length; ascending.
    targets: VecDeque<u64>,
    /// Where pieces do begin: the first record at or after each target.
    cuts: Vec<u64>,
}

impl Scanner<'_> {
    /// The first target that no cut has reached.
    fn next_target(&mut self) -> Option<u64> {
        let reached = self.cuts.last().copied().unwrap_or(0);
        while self.targets.front().is_some_and(|target| *target <= reached) {
            self.targets.pop_front();
        }
        self.targets.front().copied()
    }

    fn scan(&mut self, chunk: &[u8]) {
        let quote = self.dialect.quote;
        let mut at = if self.base == 0 { bom_bytes(chunk) } else { 0 };
        let text_start = at;
        while at < chunk.len() {
            match self.state {
                SplitState::Outside => {
                    let next = quote.and_then(|q| find_byte(chunk, at, q)).unwrap_or(chunk.len());
                    self.cut(chunk, at, next);
                    if next < chunk.len() && self.opens(chunk, next, text_start) {
                        self.state = SplitState::Inside;
                    }
                    at = next + 1;
                }
                SplitState::Inside => {
                    let close = quote.and_then(|q| find_byte(chunk, at, q));
                    if close.is_some() {
                        self.state = SplitState::Closing;
                    }
                    at = close.map_or(chunk.len(), |c| c + 1);
                }
                SplitState::Closing if Some(chunk[at]) == quote => {
                    self.state = SplitState::Inside;
                    at += 1;
                }
                SplitState::Closing => self.state = SplitState::Outside,
            }
        }
        self.base += chunk.len() as u64;
        self.previous = chunk[chunk.len() - 1];
    }

    /// Whether the quote at `at` stands at a field's start.
    fn opens(&self, chunk: &[u8], at: usize, text_start: usize) -> bool {
        let before = if at == 0 { self.previous } else { chunk[at - 1] };
        before == b'\n' || before == self.dialect.delimiter || self.base == 0 && at == text_start
    }

    /// Cuts after line ends within `from..to` of the chunk, none of which are in quotes.
    fn cut(&mut self, chunk: &[u8], mut from: usize, to: usize) {
        while from < to {
            let Some(target) = self.next_target() else {
                return;
            };
            // The line end before a record at `target` stands at `target - 1`.
            let start = usize::try_from((target - 1).saturating_sub(self.base)).unwrap_or(usize::MAX).max(from);
            if start >= to {
                return;
            }
            let Some(end) = find_byte(&chunk[..to], start, b'\n') else {
                return;
            };
            self.cuts.push(self.base + end as u64 + 1);
            from = end + 1;
        }
    }
}

fn fill(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match file.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
