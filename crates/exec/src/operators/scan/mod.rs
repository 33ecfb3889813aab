//! Scan: a snapshot's rows, filtered and projected, as morsels of at most a granule.
//!
//! A scan first *prepares*: leaves of the filter are bound to the codes of each dictionary, and expressions of one column
//! are evaluated per dictionary entry where that is cheaper than per row that is expected to be left. Then it hands out
//! morsels, leaving out granules whose code bounds show that nothing matches. A morsel finds the matching rows of each of its
//! pieces as a bit mask and materialises the output for those only.
//!
//! Invariants: [`Scan::next`] is cheap; [`Scan::run`] does the work and may run anywhere. Nothing
//! here changes after preparation, so morsels share it without locks.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2 (ranges as tasks, affinity from the page map of the codes' range).
//!
//! # Limits
//! A morsel reads several columns and runs next to one: the widest that its filter reads and that lies somewhere in
//! particular, else the widest such that it outputs.

pub(crate) mod cost;
mod cut;
mod prepare;
pub(crate) mod seek;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use numa::NodeId;
use sched::policy::concurrency::Pieces;
use sched::{Affinity, Hint};
use storage::{BLOCK_ROWS, CodePredicate, GRANULE_ROWS, Segment, SegmentVersion, TableVersion, Texts};

pub(crate) use cost::{BytesRead, Lookup};

use cost::Counter;
use prepare::{Binding, Prepared};
use seek::{Access, Keys};

use super::filter::Filter;
use super::project::Projection;
use super::{Input, Marked, Rows};
use crate::ExecError;
use crate::engine::Run;
use crate::execution::ScanOptions;
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
    /// What joins above say of columns.
    keys: Keys,
    binding: OnceLock<Binding>,
    prepared: OnceLock<Prepared>,
}

/// What a scan wants to be run next.
pub(crate) enum Step {
    /// [`Scan::prepare`].
    Prepare,
    /// [`Scan::evaluate_entries`] with this number.
    Entries(usize),
    /// [`Scan::run`] with this number.
    Morsel(usize),
}

/// A step, or why there is none.
pub(crate) enum Next {
    /// To be run, where, and what it is expected to cost.
    Step(Step, Affinity, Hint),
    /// A step that runs has to end first.
    Wait,
    /// All steps were handed out.
    End,
}

/// What preparation is told of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// Where columns are looked up.
    pub(crate) lookup: Lookup<'a>,
    /// What the scan may use.
    pub(crate) options: ScanOptions,
    /// Draws the lot of where to start, where morsels may be handed out in another order than that of their rows.
    pub(crate) turn: Option<usize>,
    /// Granules are put together to morsels as long as there are so many of them.
    pub(crate) morsels_min: usize,
}

/// How far a scan has been handed out; belongs to whoever hands it out.
#[derive(Default)]
pub(crate) struct Cursor {
    preparing: bool,
    chunks: usize,
    morsels: usize,
}

/// Some rows for one task: a granule, several that take little time, or several small remainders.
#[derive(Clone, Debug)]
pub(crate) struct Morsel {
    /// Segment and rows, all on the same node; those of one piece are of one granule unless an index names them.
    pub(crate) pieces: Vec<(usize, Range<usize>)>,
    /// That node, where it is known.
    pub(crate) node: Option<NodeId>,
    /// What it is expected to cost.
    pub(crate) hint: Hint,
}

impl Morsel {
    /// Rows of all its pieces, looked at or not.
    fn rows(&self) -> usize {
        self.pieces.iter().map(|(_, rows)| rows.len()).sum()
    }
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
        let keys = Keys::new();
        Scan { snapshot, segments, filter, projection, rows_needed: needed, keys, binding, prepared }
    }

    /// Rows whose columns are not among these keys may be left out.
    pub(crate) fn with_keys(self, keys: Keys) -> Scan {
        Scan { keys, ..self }
    }

    /// Estimated bytes of the batches that one morsel makes, if all its rows pass: a granule's before it is prepared.
    pub(crate) fn morsel_bytes(&self) -> u64 {
        let fields = self.projection.schema().fields();
        fields.iter().map(|f| crate::plan::width_bytes(f.data_type())).sum::<u64>() * self.morsel_rows() as u64
    }

    /// The most rows that one morsel hands out.
    pub(crate) fn morsel_rows(&self) -> usize {
        self.prepared.get().map_or(GRANULE_ROWS, |prepared| prepared.morsel_rows)
    }

    /// The next step to run.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Next {
        let Some(prepared) = self.prepared.get() else {
            return self.next_preparation(cursor);
        };
        let Some(&morsel) = prepared.order.get(cursor.morsels) else { return Next::End };
        cursor.morsels += 1;
        let Morsel { node, hint, .. } = prepared.morsels[morsel];
        Next::Step(Step::Morsel(morsel), node.map_or(Affinity::Anywhere, Affinity::near), hint)
    }

    /// The granules that it would look at, a morsel each, before entries of dictionaries are evaluated, in the order of the rows.
    pub(crate) fn morsels(&self, page_maps: &PageMaps) -> Result<&[Morsel], ExecError> {
        if self.rows_needed == Some(0) {
            return Ok(&[]);
        }
        self.prepare_places(page_maps)?;
        Ok(self.prepared.get().map_or(&[], |prepared| &prepared.morsels))
    }

    /// Once it is prepared: the nodes that its morsels are on, and how its rows lie, for the concurrency hint.
    pub(crate) fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        self.prepared.get().map(|prepared| (&prepared.nodes[..], prepared.pieces))
    }

    fn next_preparation(&self, cursor: &mut Cursor) -> Next {
        if !cursor.preparing {
            if self.rows_needed == Some(0) {
                return Next::End;
            }
            cursor.preparing = true;
            return Next::Step(Step::Prepare, Affinity::Anywhere, Hint::default());
        }
        match self.binding.get() {
            Some(binding) if cursor.chunks < binding.chunks.len() => {
                cursor.chunks += 1;
                Next::Step(Step::Entries(cursor.chunks - 1), Affinity::Anywhere, Hint::default())
            }
            _ => Next::Wait,
        }
    }

    /// Prepares with threads lent, all at once.
    pub(crate) fn prepare_with(&self, run: &Run<'_>) -> Result<(), ExecError> {
        self.prepare(run.statement, run.places)?;
        let chunks = self.binding.get().map_or(0, |binding| binding.chunks.len());
        run.for_each(chunks, &|_| None, &|chunk| self.evaluate_entries(chunk, run.statement, run.places))
    }

    /// Every morsel, once it is prepared, in the order in which they are handed out.
    pub(crate) fn all_morsels(&self) -> Vec<Morsel> {
        let Some(prepared) = self.prepared.get() else { return Vec::new() };
        prepared.order.iter().map(|&morsel| prepared.morsels[morsel].clone()).collect()
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> &[SegmentVersion] {
        &self.segments
    }

    /// Once it is prepared: rows that it hands out at most.
    pub(crate) fn rows_at_most(&self) -> usize {
        let Some(prepared) = self.prepared.get() else { return self.snapshot.rows() };
        let of = |(version, state): (&SegmentVersion, &prepare::PreparedSegment)| {
            version.live_rows().min(state.access.len(version.segment.rows()))
        };
        self.segments.iter().zip(&prepared.segments).map(of).sum()
    }

    /// Once it is prepared: whether an index names the rows of a segment.
    pub(crate) fn is_sought(&self, segment: usize) -> bool {
        let prepared = self.prepared.get();
        prepared.is_some_and(|prepared| matches!(prepared.segments[segment].access, Access::Rows(_)))
    }

    /// Whether bounds of granules decide about their rows.
    pub(crate) fn skips_blocks(&self) -> bool {
        self.prepared.get().is_some_and(|prepared| prepared.options.block_skipping)
    }

    /// Live rows of a piece of a segment that pass the filter; `read` gets the bytes that it read for that.
    pub(crate) fn matches(
        &self,
        segment: usize,
        rows: &Range<usize>,
        read: &mut BytesRead,
    ) -> Result<Matches, ExecError> {
        let piece = self.piece(segment, rows);
        let found = self.matching(segment, &piece);
        piece.counter.settle(read);
        found
    }

    fn piece(&self, segment: usize, rows: &Range<usize>) -> Piece<'_> {
        let prepared = self.prepared.get().expect("morsels are handed out after preparation");
        let state = &prepared.segments[segment];
        let counter = Counter::new(&state.reads, rows.start / GRANULE_ROWS, rows.len());
        let skips = prepared.options.block_skipping;
        Piece { segment: &self.segments[segment].segment, rows: rows.clone(), skips, counter }
    }

    fn matching(&self, segment: usize, piece: &Piece<'_>) -> Result<Matches, ExecError> {
        let prepared = self.prepared.get().expect("morsels are handed out after preparation");
        let (state, version) = (&prepared.segments[segment], &self.segments[segment]);
        if let Access::Rows(rows) = &state.access {
            let (from, to) = (piece.rows.start as u32, piece.rows.end as u32);
            let rows = &rows[rows.partition_point(|&row| row < from)..rows.partition_point(|&row| row < to)];
            let mut rows: Vec<u32> = rows.iter().copied().filter(|&row| version.is_live(row as usize)).collect();
            state.filter.narrow(piece, &mut rows)?;
            return Ok(Matches::Rows(rows));
        }
        let mut mask = Mask::full(piece.rows.len());
        if let Some(deleted) = &version.deleted {
            deleted.strike_out(piece.rows.clone(), mask.words_mut());
        }
        state.filter.evaluate(piece, &mut mask)?;
        Ok(Matches::Mask(mask))
    }

    /// Runs a morsel: `emit` gets its output in order, in batches of at most `batch_rows` rows, and nothing before each piece; it says
    /// whether to go on.
    /// `read` gets the bytes that it read, also when it ends early.
    pub(crate) fn run(
        &self,
        morsel: usize,
        batch_rows: usize,
        read: &mut BytesRead,
        emit: &mut dyn FnMut(Option<RecordBatch>) -> Result<bool, ExecError>,
    ) -> Result<(), ExecError> {
        let prepared = self.prepared.get().expect("morsels are handed out after preparation");
        let mut left = self.rows_needed.unwrap_or(usize::MAX);
        let mut positions = Vec::new();
        for (segment, rows) in &prepared.morsels[morsel].pieces {
            let state = &prepared.segments[*segment];
            if !emit(None)? {
                return Ok(());
            }
            let piece = self.piece(*segment, rows);
            let matches = match self.matching(*segment, &piece) {
                Ok(matches) => matches,
                Err(error) => {
                    piece.counter.settle(read);
                    return Err(error);
                }
            };
            let per_code = |i: usize| state.per_code[i].as_ref();
            let mut emit = |chosen: &Rows<'_>| {
                self.projection.evaluate(&piece, chosen, &per_code).and_then(|batch| emit(Some(batch)))
            };
            let marked = if let Matches::Mask(mask) = &matches { mask.count() } else { 0 };
            let emitted = match matches {
                Matches::Mask(_) if marked == 0 => Ok(true),
                Matches::Mask(mask) if mask.is_dense(marked) && left >= rows.len() && batch_rows >= BLOCK_ROWS => {
                    left -= marked;
                    mask.windows(marked, batch_rows).try_fold(true, |on, (window, count)| {
                        let mask = mask.words_in(&window);
                        let rows = rows.start + window.start..rows.start + window.end;
                        if on { emit(&Rows::Marked(Marked { rows, mask, count })) } else { Ok(false) }
                    })
                }
                matches => {
                    let found = matches.found(rows, &mut positions);
                    let wanted = found.min(left);
                    left -= wanted;
                    (0..wanted).step_by(batch_rows).try_fold(true, |on, done| {
                        let take = (wanted - done).min(batch_rows);
                        let chosen = if found == rows.len() {
                            Rows::Range(rows.start + done..rows.start + done + take)
                        } else {
                            dense_or_not(&positions[done..done + take])
                        };
                        if on { emit(&chosen) } else { Ok(false) }
                    })
                }
            };
            if !matches!(emitted, Ok(true)) {
                piece.counter.settle(read);
                return emitted.map(|_| ());
            }
            piece.counter.settle(read);
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

/// Rows of a piece that pass.
pub(crate) enum Matches {
    /// A bit for each row of the piece.
    Mask(Mask),
    /// Rows of the segment, ascending.
    Rows(Vec<u32>),
}

impl Matches {
    /// How many of the piece `rows` pass; `positions` gets which, unless all do.
    pub(crate) fn found(self, rows: &Range<usize>, positions: &mut Vec<u32>) -> usize {
        positions.clear();
        match self {
            Matches::Mask(mask) => {
                let found = mask.count();
                if found < rows.len() {
                    mask.positions_in(&(0..rows.len()), rows.start, positions);
                }
                found
            }
            Matches::Rows(found) => {
                *positions = found;
                positions.len()
            }
        }
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

/// Rows of a segment: of one granule, unless an index names them one by one.
struct Piece<'a> {
    segment: &'a Segment,
    rows: Range<usize>,
    /// Bounds of the granule may decide.
    skips: bool,
    counter: Counter<'a>,
}

impl Input for Piece<'_> {
    fn start(&self) -> usize {
        self.rows.start
    }

    fn column(&self, column: usize, rows: &Rows<'_>) -> Result<ArrayRef, ExecError> {
        self.counter.reads(column, rows);
        let column = self.segment.column(column);
        Ok(match rows {
            Rows::Range(range) => column.slice(range.clone()),
            Rows::Positions(positions) => column.take(positions),
            Rows::Marked(marked) => column.take_marked(marked.rows.clone(), marked.mask),
        })
    }

    fn code_bounds(&self, column: usize) -> Option<(u32, u32)> {
        let coded = self.segment.column(column).as_coded().filter(|_| self.skips)?;
        Some(coded.code_bounds(self.rows.start / GRANULE_ROWS))
    }

    fn codes(&self, column: usize, rows: &Rows<'_>) -> Option<Vec<u32>> {
        let of = self.segment.column(column).as_coded()?;
        self.counter.reads(column, rows);
        let column = of;
        let mut codes = Vec::with_capacity(rows.len());
        match rows {
            Rows::Range(range) => column.unpack(range.clone(), &mut codes),
            Rows::Positions(positions) => column.gather(positions, &mut codes),
            Rows::Marked(marked) => column.compress(marked.rows.clone(), marked.mask, &mut codes),
        }
        Some(codes)
    }

    fn texts(&self, column: usize) -> Option<Vec<Texts<'_>>> {
        let plain = self.segment.column(column).as_plain()?;
        self.counter.reads(column, &Rows::Range(self.rows.clone()));
        plain.texts(self.rows.clone())
    }

    fn select(&self, column: usize, predicate: &CodePredicate, mask: &mut Mask) {
        self.counter.reads(column, &Rows::Range(self.rows.clone()));
        let column = self.segment.column(column).as_coded().expect("only coded columns are bound to codes");
        if self.skips {
            column.select(self.rows.clone(), predicate, mask.words_mut());
        } else {
            column.select_each(self.rows.clone(), predicate, mask.words_mut());
        }
    }
}
