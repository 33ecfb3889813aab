//! Scan: a snapshot's rows, filtered and projected, as morsels of at most a granule.
//!
//! A scan first *prepares*: leaves of the filter are bound to the codes of each dictionary, and expressions of one column
//! are evaluated per dictionary entry where that is cheaper than per row that is expected to be left. Then it hands out
//! morsels, leaving out granules whose code bounds show that nothing matches. A morsel finds the matching rows of each of its
//! pieces as a bit mask and materialises the output for those only.
//!
//! Invariants: [`Scan::next`] only looks at summaries and is cheap; [`Scan::run`] does the work and may run anywhere. Nothing
//! here changes after preparation, so morsels share it without locks.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2 (ranges as tasks, affinity from the page map of the codes' range).
//!
//! # Limits
//! A morsel reads several columns and runs next to one: the widest that its filter reads and that lies somewhere in
//! particular, else the widest such that it outputs.

mod prepare;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use numa::NodeId;
use sched::Affinity;
use storage::{CodePredicate, GRANULE_ROWS, Segment, SegmentVersion, TableVersion};

use prepare::{Binding, Prepared};

use super::filter::{Bound, Filter};
use super::project::Projection;
use super::{Input, Rows};
use crate::ExecError;
use crate::engine::Run;
use crate::locate::PageMaps;
use crate::mask::Mask;

/// A scan with everything above it that works row by row.
pub(crate) struct Scan {
    /// The statement's snapshot; keeps every segment and dictionary alive.
    snapshot: Arc<TableVersion>,
    segments: Vec<SegmentVersion>,
    filter: Filter,
    projection: Projection,
    /// Rows that any consumer can need, if that is known.
    rows_needed: Option<usize>,
    binding: OnceLock<Binding>,
    prepared: OnceLock<Prepared>,
}

/// What a scan wants to be run next.
pub(crate) enum Step {
    /// [`Scan::prepare`].
    Prepare,
    /// [`Scan::evaluate_entries`] with this number.
    Entries(usize),
    /// [`Scan::run`].
    Morsel(Morsel),
}

/// A step, or why there is none.
pub(crate) enum Next {
    /// To be run, where.
    Step(Step, Affinity),
    /// A step that runs has to end first.
    Wait,
    /// All steps were handed out.
    End,
}

/// How far a scan has been handed out; belongs to whoever hands it out.
#[derive(Default)]
pub(crate) struct Cursor {
    preparing: bool,
    chunks: usize,
    segment: usize,
    granule: usize,
    /// Rows that morsels handed out are sure to return.
    rows: usize,
}

/// Some rows for one task: a granule, or several small remainders.
pub(crate) struct Morsel {
    /// Segment and rows; at most a granule of rows together, all on the same node.
    pub(crate) pieces: Vec<(usize, Range<usize>)>,
    /// That node, where it is known.
    pub(crate) node: Option<NodeId>,
}

impl Scan {
    /// `needed`: rows after which nobody wants more, provided each output row counts.
    pub(crate) fn new(
        snapshot: Arc<TableVersion>,
        filter: Filter,
        projection: Projection,
        needed: Option<usize>,
    ) -> Scan {
        let segments = snapshot.parts.iter().flat_map(|p| p.segments.iter().cloned()).collect();
        let (binding, prepared) = (OnceLock::new(), OnceLock::new());
        Scan { snapshot, segments, filter, projection, rows_needed: needed, binding, prepared }
    }

    /// Estimated bytes of the batches that one morsel makes, if all its rows pass.
    pub(crate) fn morsel_bytes(&self) -> u64 {
        let fields = self.projection.schema().fields();
        fields.iter().map(|f| crate::plan::width_bytes(f.data_type())).sum::<u64>() * GRANULE_ROWS as u64
    }

    /// The next step to run.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Next {
        let Some(prepared) = self.prepared.get() else {
            return self.next_preparation(cursor);
        };
        let mut pieces: Vec<(usize, Range<usize>)> = Vec::new();
        let (mut rows, mut node) = (0, None);
        while cursor.segment < self.segments.len() && self.rows_needed.is_none_or(|n| cursor.rows < n) {
            let version = &self.segments[cursor.segment];
            let start = cursor.granule * GRANULE_ROWS;
            if start >= version.segment.rows() || version.live_rows() == 0 {
                (cursor.segment, cursor.granule) = (cursor.segment + 1, 0);
                continue;
            }
            let piece = start..(start + GRANULE_ROWS).min(version.segment.rows());
            let state = &prepared.segments[cursor.segment];
            let bounds =
                |c: usize| version.segment.column(c).as_coded().map(|column| column.code_bounds(cursor.granule));
            if state.filter.may_match(&bounds) {
                let lies_on = state.locator.as_ref().and_then(|locator| locator.node_of(cursor.granule));
                if rows + piece.len() > GRANULE_ROWS || !pieces.is_empty() && lies_on != node {
                    break;
                }
                node = lies_on;
                rows += piece.len();
                if version.deleted.is_none() && matches!(*state.filter, Bound::Constant(true)) {
                    cursor.rows += piece.len();
                }
                pieces.push((cursor.segment, piece));
            }
            cursor.granule += 1;
        }
        if pieces.is_empty() {
            return Next::End;
        }
        let affinity = node.map_or(Affinity::Anywhere, Affinity::near);
        Next::Step(Step::Morsel(Morsel { pieces, node }), affinity)
    }

    /// Every morsel that it would hand out, before entries of dictionaries are evaluated.
    pub(crate) fn morsels(&self, page_maps: &PageMaps) -> Result<Vec<Morsel>, ExecError> {
        if self.rows_needed == Some(0) {
            return Ok(Vec::new());
        }
        self.prepare_places(page_maps)?;
        let (mut cursor, mut morsels) = (Cursor::default(), Vec::new());
        while let Next::Step(Step::Morsel(morsel), _) = self.next(&mut cursor) {
            morsels.push(morsel);
        }
        Ok(morsels)
    }

    fn next_preparation(&self, cursor: &mut Cursor) -> Next {
        if !cursor.preparing {
            if self.rows_needed == Some(0) {
                return Next::End;
            }
            cursor.preparing = true;
            return Next::Step(Step::Prepare, Affinity::Anywhere);
        }
        match self.binding.get() {
            Some(binding) if cursor.chunks < binding.chunks.len() => {
                cursor.chunks += 1;
                Next::Step(Step::Entries(cursor.chunks - 1), Affinity::Anywhere)
            }
            _ => Next::Wait,
        }
    }

    /// Prepares with threads lent, all at once.
    pub(crate) fn prepare_with(&self, run: &Run<'_>) -> Result<(), ExecError> {
        self.prepare(run.statement, run.page_maps)?;
        let chunks = self.binding.get().map_or(0, |binding| binding.chunks.len());
        run.for_each(chunks, &|_| None, &|chunk| self.evaluate_entries(chunk, run.statement, run.page_maps))
    }

    /// Every morsel, once it is prepared.
    pub(crate) fn all_morsels(&self) -> Vec<Morsel> {
        let (mut cursor, mut morsels) = (Cursor::default(), Vec::new());
        while let Next::Step(Step::Morsel(morsel), _) = self.next(&mut cursor) {
            morsels.push(morsel);
        }
        morsels
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> &[SegmentVersion] {
        &self.segments
    }

    /// Live rows of a piece of a segment that pass the filter.
    pub(crate) fn matches(&self, segment: usize, rows: &Range<usize>) -> Result<Mask, ExecError> {
        let prepared = self.prepared.get().expect("morsels are handed out after preparation");
        let version = &self.segments[segment];
        let mut mask = Mask::full(rows.len());
        if let Some(deleted) = &version.deleted {
            deleted.strike_out(rows.clone(), mask.words_mut());
        }
        let piece = Piece { segment: &version.segment, rows: rows.clone() };
        prepared.segments[segment].filter.evaluate(&piece, &mut mask)?;
        Ok(mask)
    }

    /// Runs a morsel: `emit` gets its output in order, in batches of at most `batch_rows` rows, and says whether to go on.
    pub(crate) fn run(
        &self,
        morsel: &Morsel,
        batch_rows: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<bool, ExecError>,
    ) -> Result<(), ExecError> {
        let prepared = self.prepared.get().expect("morsels are handed out after preparation");
        let mut left = self.rows_needed.unwrap_or(usize::MAX);
        let mut positions = Vec::new();
        for (segment, rows) in &morsel.pieces {
            let state = &prepared.segments[*segment];
            let version = &self.segments[*segment];
            let piece = Piece { segment: &version.segment, rows: rows.clone() };
            let mask = self.matches(*segment, rows)?;
            let found = mask.count();
            let wanted = found.min(left);
            left -= wanted;
            positions.clear();
            if found < rows.len() {
                mask.positions_in(&(0..rows.len()), rows.start, &mut positions);
            }
            let mut done = 0;
            while done < wanted {
                let take = (wanted - done).min(batch_rows);
                let chosen = if found == rows.len() {
                    Rows::Range(rows.start + done..rows.start + done + take)
                } else {
                    dense_or_not(&positions[done..done + take])
                };
                let per_code = |i: usize| state.per_code[i].as_ref();
                if !emit(self.projection.evaluate(&piece, &chosen, &per_code)?)? {
                    return Ok(());
                }
                done += take;
            }
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scan of {} rows", self.snapshot.rows())
    }
}

/// Ascending positions as a range, where they are one.
fn dense_or_not(positions: &[u32]) -> Rows<'_> {
    match (positions.first(), positions.last()) {
        (Some(&first), Some(&last)) if (last - first) as usize + 1 == positions.len() => {
            Rows::Range(first as usize..last as usize + 1)
        }
        _ => Rows::Positions(positions),
    }
}

/// Rows of one granule of a segment.
struct Piece<'a> {
    segment: &'a Segment,
    rows: Range<usize>,
}

impl Input for Piece<'_> {
    fn start(&self) -> usize {
        self.rows.start
    }

    fn column(&self, column: usize, rows: &Rows<'_>) -> Result<ArrayRef, ExecError> {
        let column = self.segment.column(column);
        Ok(match rows {
            Rows::Range(range) => column.slice(range.clone()),
            Rows::Positions(positions) => column.take(positions),
        })
    }

    fn code_bounds(&self, column: usize) -> Option<(u32, u32)> {
        self.segment.column(column).as_coded().map(|c| c.code_bounds(self.rows.start / GRANULE_ROWS))
    }

    fn codes(&self, column: usize, rows: &Rows<'_>) -> Option<Vec<u32>> {
        let column = self.segment.column(column).as_coded()?;
        let mut codes = Vec::with_capacity(rows.len());
        match rows {
            Rows::Range(range) => column.unpack(range.clone(), &mut codes),
            Rows::Positions(positions) => column.gather(positions, &mut codes),
        }
        Some(codes)
    }

    fn select(&self, column: usize, predicate: &CodePredicate, mask: &mut Mask) {
        let column = self.segment.column(column).as_coded().expect("only coded columns are bound to codes");
        column.select(self.rows.clone(), predicate, mask.words_mut());
    }
}
