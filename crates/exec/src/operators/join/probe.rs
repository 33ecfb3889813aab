//! [`Probe`]: the operator that meets the rows of the probe side with the table of the build side.
//!
//! Where a row has at most one match, or only the existence of one matters, a chunk goes on as it is, less the rows
//! that drop out, with the build side's columns as row numbers that are resolved when somebody reads them. Otherwise
//! pairs are handed on in pieces of at most [`CHUNK_ROWS`], so a row with a million matches takes no more memory than
//! one with two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use numa::Reservation;
use sched::Statement;

use super::table::KeyTable;
use crate::ExecError;
use crate::chunk::vector::{NO_ROW, Vector};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows};
use crate::error::stopped;
use crate::eval::Test;
use crate::keys::join::JoinCodec;
use crate::pipe::{Operator, Out};
use crate::tasks::traffic::LookUps;

/// What comes out of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emit {
    /// Pairs; with `lonely` also rows of the probe side without a match, with NULLs.
    Pairs {
        /// See above.
        lonely: bool,
    },
    /// Rows that have a match.
    Matched,
    /// Rows that have none.
    Unmatched,
    /// Every row and whether it has a match.
    Mark,
    /// Nothing: matches are noted at the build side's rows.
    Nothing,
}

/// One bit per row of the build side.
pub(super) struct Bits {
    words: Vec<AtomicU64>,
    _charged: Reservation,
}

impl Bits {
    /// All unset; `charged` are their bytes.
    pub(super) fn new(rows: usize, charged: Reservation) -> Bits {
        Bits { words: (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), _charged: charged }
    }

    fn set(&self, row: u32) {
        let (word, bit) = (&self.words[row as usize / 64], 1 << (row % 64));
        // Most rows that match have matched before: reading is cheaper than a locked write.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Is the bit set? The tasks that set it have ended.
    pub(super) fn get(&self, row: usize) -> bool {
        self.words[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }
}

/// What was seen of the probe side's keys, for NOT IN of the build side.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) row: AtomicBool,
    pub(super) null: AtomicBool,
}

/// Everything a probe reads.
pub(super) struct Prober {
    pub(super) statement: Arc<Statement>,
    pub(super) build: Arc<Rows>,
    pub(super) table: KeyTable,
    /// What tasks look up in the table.
    pub(super) look_ups: LookUps,
    pub(super) codec: JoinCodec,
    pub(super) emit: Emit,
    /// Order of the columns of a pair, which are made as probe, then build.
    pub(super) pair_columns: Option<Vec<usize>>,
    /// Over a pair.
    pub(super) residual: Option<Arc<dyn Test>>,
    /// Set for rows of the build side that match, if somebody asks.
    pub(super) matched: Option<Arc<Bits>>,
    /// The probe side's key, where NULLs in it count: NOT IN.
    pub(super) null_key: Option<usize>,
    pub(super) seen: Option<Arc<Seen>>,
}

/// The operator.
#[derive(Clone)]
pub(super) struct Probe(pub(super) Arc<Prober>);

impl Operator for Probe {
    fn kind(&self) -> Option<&'static str> {
        Some("probe")
    }

    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let prober = &*self.0;
        prober.note_seen(&mut chunk);
        let (mut codes, mut found) = (Vec::new(), Vec::new());
        prober.codec.codes(&mut chunk, &mut codes)?;
        prober.table.find(&codes, &mut found);
        prober.look_ups.note(codes.len(), prober.table.bytes());
        if prober.residual.is_some() || (!prober.table.is_unique() && matches!(prober.emit, Emit::Pairs { .. })) {
            return prober.expand(chunk, &found, out);
        }
        prober.note_found(&found);
        prober.finish(chunk, found, out)
    }
}

impl Prober {
    fn note_seen(&self, chunk: &mut Chunk) {
        let (Some(seen), Some(key)) = (&self.seen, self.null_key) else { return };
        seen.row.store(true, Ordering::Relaxed);
        let vector = chunk.column(key);
        if (0..vector.len()).any(|row| !vector.is_valid(row)) {
            seen.null.store(true, Ordering::Relaxed);
        }
    }

    fn note_found(&self, found: &[u32]) {
        let Some(matched) = &self.matched else { return };
        let found = found.iter().filter(|&&row| row != NO_ROW);
        if self.table.is_unique() {
            return found.for_each(|&row| matched.set(row));
        }
        for &group in found {
            let rows = self.table.rows_of(group);
            // A group is noted as a whole, its last row last.
            if !matched.get(rows[rows.len() - 1] as usize) {
                rows.iter().for_each(|&row| matched.set(row));
            }
        }
    }

    /// Hands on what a chunk gives whose rows have the match `found`, or none.
    fn finish(&self, mut chunk: Chunk, mut found: Vec<u32>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        match self.emit {
            Emit::Nothing => Ok(true),
            Emit::Mark => {
                let marks = found.iter().map(|&row| i64::from(row != NO_ROW)).collect();
                chunk.push(Arc::new(Vector::ints(marks)));
                out(chunk)
            }
            Emit::Matched => self.keep(chunk, &found, |row| row != NO_ROW, out),
            Emit::Unmatched => {
                if let Some(key) = self.null_key {
                    let vector = chunk.column(key);
                    found.iter_mut().enumerate().for_each(|(i, row)| *row = if vector.is_valid(i) { *row } else { 0 });
                }
                self.keep(chunk, &found, |row| row == NO_ROW, out)
            }
            Emit::Pairs { lonely: true } => out(self.paired(chunk, found, true)),
            Emit::Pairs { lonely: false } => {
                let kept = selected(&found, |row| row != NO_ROW);
                if kept.is_empty() {
                    return Ok(true);
                }
                if kept.len() < found.len() {
                    chunk.keep(&kept);
                    found = kept.iter().map(|&i| found[i as usize]).collect();
                }
                out(self.paired(chunk, found, false))
            }
        }
    }

    fn keep(
        &self,
        mut chunk: Chunk,
        found: &[u32],
        passes: impl Fn(u32) -> bool,
        out: &mut Out<'_>,
    ) -> Result<bool, ExecError> {
        let kept = selected(found, passes);
        if kept.is_empty() {
            return Ok(true);
        }
        if kept.len() < chunk.rows() {
            chunk.keep(&kept);
        }
        out(chunk)
    }

    /// The chunk with the build side's columns of these rows.
    fn paired(&self, mut chunk: Chunk, rows: Vec<u32>, nulls: bool) -> Chunk {
        chunk.append(Origin::Rows(self.build.clone()), RowIds::list(rows), nulls);
        match &self.pair_columns {
            Some(columns) => chunk.project(columns),
            None => chunk,
        }
    }

    /// Tests and hands on pairs, where a row may have several.
    fn expand(&self, mut chunk: Chunk, found: &[u32], out: &mut Out<'_>) -> Result<bool, ExecError> {
        let pairs = matches!(self.emit, Emit::Pairs { .. });
        // Whether a row has a match that passes; while only that matters, it is looked at no further.
        let once = !pairs && self.matched.is_none();
        let mut has = vec![false; found.len()];
        let mut piece = ProbePiece { rows: Vec::with_capacity(CHUNK_ROWS), ids: Vec::with_capacity(CHUNK_ROWS) };
        for (row, &match_) in (0u32..).zip(found) {
            if match_ == NO_ROW {
                continue;
            }
            let single = [match_];
            let mut matches = if self.table.is_unique() { &single[..] } else { self.table.rows_of(match_) };
            while !(matches.is_empty() || once && has[row as usize]) {
                let (now, later) = matches.split_at(matches.len().min(CHUNK_ROWS - piece.rows.len()));
                piece.rows.resize(piece.rows.len() + now.len(), row);
                piece.ids.extend_from_slice(now);
                matches = later;
                if piece.rows.len() == CHUNK_ROWS && !self.flush(&chunk, &mut piece, &mut has, out)? {
                    return Ok(false);
                }
            }
        }
        if !piece.rows.is_empty() && !self.flush(&chunk, &mut piece, &mut has, out)? {
            return Ok(false);
        }
        let found: Vec<u32> = has.iter().map(|&has| if has { 0 } else { NO_ROW }).collect();
        if !pairs {
            return self.finish(chunk, found, out);
        }
        if self.emit == (Emit::Pairs { lonely: true }) {
            let lonely = selected(&found, |row| row == NO_ROW);
            if !lonely.is_empty() {
                chunk.keep(&lonely);
                return out(self.paired(chunk, vec![NO_ROW; lonely.len()], true));
            }
        }
        Ok(true)
    }

    /// Tests the pairs of a piece, notes which rows they are of, and hands them on if pairs are asked for.
    fn flush(
        &self,
        chunk: &Chunk,
        piece: &mut ProbePiece,
        has: &mut [bool],
        out: &mut Out<'_>,
    ) -> Result<bool, ExecError> {
        self.statement.check().map_err(|_| stopped(&self.statement))?;
        let mut pairs = chunk.clone();
        pairs.keep(&piece.rows);
        let mut pairs = self.paired(pairs, piece.ids.clone(), false);
        let mut note = |pair: usize| {
            has[piece.rows[pair] as usize] = true;
            if let Some(matched) = &self.matched {
                matched.set(piece.ids[pair]);
            }
        };
        match &self.residual {
            None => (0..piece.rows.len()).for_each(&mut note),
            Some(residual) => {
                let passing = residual.passing(&mut pairs)?;
                passing.iter().for_each(|&pair| note(pair as usize));
                if passing.len() < pairs.rows() {
                    pairs.keep(&passing);
                }
            }
        }
        piece.rows.clear();
        piece.ids.clear();
        if !matches!(self.emit, Emit::Pairs { .. }) || pairs.rows() == 0 {
            return Ok(true);
        }
        out(pairs)
    }
}

/// Pairs that are not tested yet.
struct ProbePiece {
    /// Rows of the chunk.
    rows: Vec<u32>,
    /// Rows of the build side.
    ids: Vec<u32>,
}

/// Numbers of the entries that pass, without a branch.
fn selected(found: &[u32], passes: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut kept = vec![0; found.len()];
    let mut count = 0;
    for (i, &row) in (0u32..).zip(found) {
        kept[count] = i;
        count += usize::from(passes(row));
    }
    kept.truncate(count);
    kept
}
