//! How a scan takes part in shared passes ([`crate::codes::shared`]): by the first test of its filter that is a set of
//! codes of a large column. What a pass found for it are the rows that pass that test; deleted rows, the rest of the
//! filter and whatever joins say of keys are the scan's own business as ever.
//!
//! # Limits
//! Granules that are looked at in part, rows that an index names and scans that need few rows are not shared, nor is
//! what filters test row by row, and what is loaded of rows that were found.

use std::ops::Range;

use storage::{CodedColumn, GRANULE_ROWS, SegmentVersion};

use super::prepare::SetsByCoding;
use super::prepared::{PreparedSegment, SharedTest};
use super::seek::Access;
use super::{Matches, Scan, ScanPiece};
use crate::ExecError;
use crate::codes::filter::{Bound, CodeTest};
use crate::codes::input::InputRows;
use crate::codes::shared::{AttachedScans, FoundRows, GranuleRead, SharedTurn, is_found_soon};
use crate::mask::Mask;
use crate::tasks::places::{Places, ScanOptions};
use crate::tasks::profile::Working;
use crate::tasks::traffic::{TouchPhase, is_untypical};

/// Bytes of codes by column of the table, as far as somebody asked.
struct ColumnBytes<'a> {
    segments: &'a [SegmentVersion],
    known: Vec<(usize, u64)>,
}

impl ColumnBytes<'_> {
    fn of(&mut self, column: usize) -> u64 {
        if let Some((_, bytes)) = self.known.iter().find(|(known, _)| *known == column) {
            return *bytes;
        }
        let bytes = self.segments.iter().map(|version| version.segment.column(column).bytes_codes() as u64).sum();
        self.known.push((column, bytes));
        bytes
    }
}

impl Scan {
    /// Attaches the segments that are `looked_at` from beginning to end; whether nearly all that they want was found
    /// already.
    pub(super) fn attach(
        &self,
        segments: &mut [PreparedSegment],
        looked_at: &[Vec<Range<usize>>],
        places: Places<'_>,
    ) -> bool {
        let (Some(attached), None) = (places.attached, self.rows_needed) else { return false };
        let mut bytes = ColumnBytes { segments: &self.segments, known: Vec::new() };
        let mut little_left = true;
        for ((version, state), pieces) in self.segments.iter().zip(segments).zip(looked_at) {
            let segment = &version.segment;
            if pieces.is_empty() {
                continue;
            }
            let whole_segment = matches!(state.access, Access::All);
            let part = shared_part(&state.filter, attached, &mut bytes).filter(|_| whole_segment);
            let Some((part, test)) = part else {
                little_left = false;
                continue;
            };
            let whole = pieces.iter().filter(|rows| is_whole(rows, segment.rows()));
            let granules = whole.map(|rows| rows.start / GRANULE_ROWS);
            let column = test.column();
            state.shared = attached.attach(segment.column(column), test, granules).map(|attachment| {
                little_left &= attachment.has_little_left();
                SharedTest { attachment, part, column }
            });
            little_left &= state.shared.is_some();
        }
        little_left && !self.segments.is_empty()
    }

    /// Attaches it before it is prepared, where its rows are likely to be found among those of others.
    pub(crate) fn attach_early(&self, attached: &AttachedScans, options: ScanOptions) -> Result<(), ExecError> {
        let mut bytes = ColumnBytes { segments: &self.segments, known: Vec::new() };
        let columns = self.columns_tested();
        if !columns.into_iter().any(|column| attached.takes_part(bytes.of(column))) {
            return Ok(());
        }
        let mut leaves = SetsByCoding::default();
        for version in self.segments.iter().filter(|version| version.live_rows() > 0) {
            let segment = &version.segment;
            self.bind_leaves(segment, &mut leaves)?;
            let bound = self.bound(segment, &leaves);
            let Some((_, test)) = shared_part(&bound, attached, &mut bytes) else { continue };
            let column = segment.column(test.column());
            let Some(coded) = column.as_coded().filter(|_| is_found_soon(test.set())) else { continue };
            let may_match = |granule: &usize| {
                let (low, high) = coded.code_bounds(*granule);
                !options.block_skipping || test.set().meets(low, high)
            };
            attached.attach_early(column, test, (0..segment.rows().div_ceil(GRANULE_ROWS)).filter(may_match));
        }
        Ok(())
    }

    /// Rows of a whole granule that pass the test which passes are shared for, by a pass of somebody's; `None` where
    /// the scan has to look for itself.
    pub(super) fn found_by_pass(&self, shared: &SharedTest, piece: &ScanPiece<'_>) -> Option<FoundRows> {
        if !is_whole(&piece.rows, piece.segment.rows()) {
            return None;
        }
        let coded: &CodedColumn = piece.segment.column(shared.column).as_coded()?;
        let told = |rows: &InputRows<'_>| piece.counter.reads(shared.column, rows, TouchPhase::Find);
        let read = GranuleRead { column: coded, rows: piece.rows.clone(), skips: piece.skips, told: &told };
        let (given, found) = match shared.attachment.find(piece.rows.start / GRANULE_ROWS, &read) {
            SharedTurn::Alone => return None,
            SharedTurn::Taken(found) => (None, found),
            SharedTurn::Led(found, others) => (Some(others), found),
        };
        // Its time is that of others' rows, or of nobody's.
        is_untypical();
        if let Some(operator) = Working::now() {
            operator.add_shared(given);
        }
        Some(found)
    }

    /// What is left of rows that a pass found.
    pub(super) fn left_of(
        &self,
        found: FoundRows,
        (filter, shared): (&Bound, &SharedTest),
        (version, piece): (&SegmentVersion, &ScanPiece<'_>),
    ) -> Result<Matches, ExecError> {
        let mut mask = match found {
            FoundRows::Rows(mut rows) => {
                rows.retain(|&row| version.is_live(row as usize));
                filter.narrow_but(shared.part, piece, &mut rows)?;
                return Ok(Matches::Rows(rows));
            }
            FoundRows::All => Mask::full(piece.rows.len()),
            FoundRows::Mask(mask) => mask,
        };
        if let Some(deleted) = &version.deleted {
            deleted.strike_out(piece.rows.clone(), mask.words_mut());
        }
        filter.evaluate_but(shared.part, piece, &mut mask)?;
        Ok(Matches::Mask(mask))
    }
}

/// The test of a filter that passes are shared for.
fn shared_part<'b>(
    filter: &'b Bound,
    attached: &AttachedScans,
    bytes: &mut ColumnBytes<'_>,
) -> Option<(usize, &'b CodeTest)> {
    filter.code_tests().find(|(_, test)| attached.takes_part(bytes.of(test.column())))
}

/// Whether rows are all those of a granule of a segment with so many rows.
fn is_whole(rows: &Range<usize>, of: usize) -> bool {
    rows.start.is_multiple_of(GRANULE_ROWS) && rows.end == (rows.start + GRANULE_ROWS).min(of)
}
