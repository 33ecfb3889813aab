//! Scan: which rows of a snapshot pass a filter, as morsels.
//!
//! A scan first *prepares*: leaves of the filter are bound to the codes of each dictionary, and tests of one column
//! are evaluated per dictionary entry where that is cheaper than per row that is expected to be left. Then there are
//! morsels, without granules whose code bounds show that nothing matches. Of each piece of a morsel it finds the
//! matching rows as a bit mask, or as positions where an index named them ([`Matches`]); which columns of those are
//! loaded is for others to say.
//!
//! Invariant: nothing here changes after preparation, so morsels share it without locks.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2 (ranges as tasks, affinity from the page map of the codes'
//! range).
//!
//! # Limits
//! A morsel reads several columns and runs next to one: the widest that its filter reads and that lies somewhere in
//! particular, else the widest such that it outputs.

pub(crate) mod cost;
mod cut;
mod look_up;
mod prepare;
mod prepared;
pub(crate) mod seek;
mod shared;
pub(crate) mod source;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use numa::NodeId;
use sched::Hint;
use sched::policy::concurrency::Pieces;
use storage::{CodePredicate, GRANULE_ROWS, Segment, SegmentVersion, TableVersion, Texts};

pub(crate) use crate::tasks::counter::Counter;
use crate::tasks::counter::know_dictionaries;

use crate::ExecError;
use crate::codes::bind::Coding;
use crate::codes::filter::Filter;
use crate::codes::input::{Input, InputRows};
use crate::mask::Mask;
use crate::tasks::locate::PageMaps;
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, Traffic};
use prepare::Binding;
use prepared::PreparedScan;
use seek::{Access, ScanKeys};

/// Columns that the shape of a scan names.
const SHAPE_COLUMNS_MAX: usize = 8;

/// The rows of a table that pass a filter.
pub(crate) struct Scan {
    /// The statement's snapshot; keeps every segment and dictionary alive.
    snapshot: Arc<TableVersion>,
    segments: Vec<SegmentVersion>,
    /// The table's number in the statement's account.
    number: u32,
    filter: Filter,
    /// Columns of the table that whoever gets the rows may load.
    columns: Vec<usize>,
    /// Rows that any consumer can need, if that is known.
    rows_needed: Option<usize>,
    /// What joins above say of columns.
    keys: ScanKeys,
    binding: OnceLock<Binding>,
    prepared: OnceLock<PreparedScan>,
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
    pub(crate) fn new(snapshot: Arc<TableVersion>, filter: Filter, columns: Vec<usize>, needed: Option<usize>) -> Scan {
        let segments = snapshot.parts.iter().flat_map(|p| p.segments.iter().cloned()).collect();
        let (binding, prepared) = (OnceLock::new(), OnceLock::new());
        let keys = ScanKeys::new();
        Scan { snapshot, segments, number: 0, filter, columns, rows_needed: needed, keys, binding, prepared }
    }

    /// What it reads is booked to the table of this number.
    pub(crate) fn booked_to(self, number: u32) -> Scan {
        Scan { number, ..self }
    }

    /// Rows whose columns are not among these keys may be left out.
    pub(crate) fn with_keys(self, keys: ScanKeys) -> Scan {
        Scan { keys, ..self }
    }

    /// The most rows that one morsel hands out.
    pub(crate) fn morsel_rows(&self) -> usize {
        self.prepared.get().map_or(GRANULE_ROWS, |prepared| prepared.morsel_rows)
    }

    /// The granules that it would look at, a morsel each, before entries of dictionaries are evaluated, in the order of
    /// the rows.
    pub(crate) fn morsels_by(&self, page_maps: &PageMaps) -> Result<&[Morsel], ExecError> {
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

    /// Tells the statement's account whose the dictionaries are that it may read values of.
    fn make_known(&self, run: &Run<'_>) {
        let segments = self.segments.iter().zip(self.parts()).map(|(version, part)| (&*version.segment, part));
        know_dictionaries(run.traffic, segments, &self.columns_read(), self.number, run.places.lookup);
    }

    /// Prepares with threads lent, all at once.
    pub(crate) fn prepare_with(&self, run: &Run<'_>) -> Result<(), ExecError> {
        self.prepare(run)?;
        let chunks = self.binding.get().map_or(0, |binding| binding.chunks.len());
        if chunks == 0 {
            return Ok(());
        }
        run.for_each(chunks, &|_| None, &|chunk| self.evaluate_entries(chunk, run.statement, run.places))
    }

    /// Once it is prepared: what its morsels read, and how.
    pub(crate) fn shape(&self, traffic: &Traffic) -> String {
        let fields = self.snapshot.schema.fields();
        let names = |columns: &[usize]| {
            let most = columns.iter().take(SHAPE_COLUMNS_MAX);
            let names: Vec<&str> = most.map(|&column| fields[column].name().as_str()).collect();
            let further = columns.len() - names.len();
            names.join(", ") + &if further > 0 { format!(" and {further} further columns") } else { String::new() }
        };
        let mut tested = self.columns_tested();
        tested.sort_unstable();
        tested.dedup();
        let sought = (0..self.segments.len()).any(|segment| self.is_sought(segment));
        let how = if sought { "look up" } else { "scan" };
        let mut shape = format!("{how} {}", traffic.name_of(self.number));
        for (what, columns) in [("where", &tested), ("load", &self.columns)] {
            if !columns.is_empty() {
                shape.push_str(&format!(" {what} {}", names(columns)));
            }
        }
        shape
    }

    /// Once it is prepared: number of its morsels.
    pub(crate) fn morsels(&self) -> usize {
        self.prepared.get().map_or(0, |prepared| prepared.morsels.len())
    }

    /// A morsel by its place in the order in which they are handed out.
    pub(crate) fn morsel(&self, place: usize) -> &Morsel {
        let prepared = self.prepared();
        &prepared.morsels[prepared.order[place]]
    }

    fn prepared(&self) -> &PreparedScan {
        self.prepared.get().expect("morsels are handed out after preparation")
    }

    /// Rows that any consumer can need.
    pub(crate) fn rows_needed(&self) -> Option<usize> {
        self.rows_needed
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> &[SegmentVersion] {
        &self.segments
    }

    /// Once it is prepared: rows that it hands out at most.
    pub(crate) fn rows_at_most(&self) -> usize {
        let Some(prepared) = self.prepared.get() else { return self.snapshot.rows() };
        let of = |(version, state): (&SegmentVersion, &prepared::PreparedSegment)| {
            version.live_rows().min(state.access.len(version.segment.rows()))
        };
        self.segments.iter().zip(&prepared.segments).map(of).sum()
    }

    /// Once it is prepared: rows that are expected to come out, were codes evenly used and conditions independent of
    /// each other.
    pub(crate) fn rows_expected(&self) -> f64 {
        let rows = (0..self.segments.len()).map(|segment| self.expected_of(segment)).sum::<f64>();
        self.rows_needed.map_or(rows, |needed| rows.min(needed as f64))
    }

    /// The same of a segment.
    fn expected_of(&self, segment: usize) -> f64 {
        let (version, state) = (&self.segments[segment], &self.prepared().segments[segment]);
        match &state.access {
            Access::All | Access::Range(_) => {
                state.filter.fraction(prepare::ROW_TEST_FRACTION) * version.live_rows() as f64
            }
            Access::Rows(rows) => rows.len() as f64,
        }
    }

    /// Once it is prepared: what a column of the table is stored as, and in about how many of the rows that come out.
    pub(crate) fn codings(&self, column: usize) -> Vec<(Coding, u64)> {
        let mut known: Vec<(Coding, f64)> = Vec::new();
        for (segment, version) in self.segments.iter().enumerate() {
            let Some(coded) = version.segment.column(column).as_coded() else { continue };
            let (coding, rows) = (Coding::of(coded), self.expected_of(segment));
            match known.iter_mut().find(|(other, _)| other.key() == coding.key()) {
                Some((_, sum)) => *sum += rows,
                None => known.push((coding, rows)),
            }
        }
        let most = self.rows_needed.unwrap_or(usize::MAX) as u64;
        known.into_iter().map(|(coding, rows)| (coding, (rows as u64).min(most))).collect()
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

    /// What counts the bytes that are read of a piece of a segment.
    pub(crate) fn counter(&self, segment: usize, rows: &Range<usize>) -> Arc<Counter> {
        Arc::new(Counter::new(self.prepared().segments[segment].reads.clone(), rows.start / GRANULE_ROWS, rows.len()))
    }

    /// Live rows of a piece of a segment that pass the filter; `counter` gets the bytes that it read for that.
    pub(crate) fn matches(&self, segment: usize, rows: &Range<usize>, counter: &Counter) -> Result<Matches, ExecError> {
        let skips = self.prepared().options.block_skipping;
        let piece = ScanPiece { segment: &self.segments[segment].segment, rows: rows.clone(), skips, counter };
        self.matching(segment, &piece)
    }

    fn matching(&self, segment: usize, piece: &ScanPiece<'_>) -> Result<Matches, ExecError> {
        let state = &self.prepared().segments[segment];
        let version = &self.segments[segment];
        if let Access::Rows(rows) = &state.access {
            let (from, to) = (piece.rows.start as u32, piece.rows.end as u32);
            let rows = &rows[rows.partition_point(|&row| row < from)..rows.partition_point(|&row| row < to)];
            let mut rows: Vec<u32> = rows.iter().copied().filter(|&row| version.is_live(row as usize)).collect();
            state.filter.narrow(piece, &mut rows)?;
            return Ok(Matches::Rows(rows));
        }
        if let Some(shared) = &state.shared
            && let Some(found) = self.found_by_pass(shared, piece)
        {
            return self.left_of(found, (&state.filter, shared), (version, piece));
        }
        let mut mask = Mask::full(piece.rows.len());
        if let Some(deleted) = &version.deleted {
            deleted.strike_out(piece.rows.clone(), mask.words_mut());
        }
        state.filter.evaluate(piece, &mut mask)?;
        Ok(Matches::Mask(mask))
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

/// Rows of a segment: of one granule, unless an index names them one by one.
struct ScanPiece<'a> {
    segment: &'a Segment,
    rows: Range<usize>,
    /// Bounds of the granule may decide.
    skips: bool,
    counter: &'a Counter,
}

impl Input for ScanPiece<'_> {
    fn start(&self) -> usize {
        self.rows.start
    }

    fn column(&self, column: usize, rows: &InputRows<'_>) -> Result<ArrayRef, ExecError> {
        self.counter.reads(column, rows, TouchPhase::Find);
        let column = self.segment.column(column);
        Ok(match rows {
            InputRows::Range(range) => column.slice(range.clone()),
            InputRows::Positions(positions) => column.take(positions),
            InputRows::Marked(marked) => column.take_marked(marked.rows.clone(), marked.mask),
        })
    }

    fn code_bounds(&self, column: usize) -> Option<(u32, u32)> {
        let coded = self.segment.column(column).as_coded().filter(|_| self.skips)?;
        Some(coded.code_bounds(self.rows.start / GRANULE_ROWS))
    }

    fn codes(&self, column: usize, rows: &InputRows<'_>) -> Option<Vec<u32>> {
        let of = self.segment.column(column).as_coded()?;
        self.counter.reads(column, rows, TouchPhase::Find);
        let column = of;
        let mut codes = Vec::with_capacity(rows.len());
        match rows {
            InputRows::Range(range) => column.unpack(range.clone(), &mut codes),
            InputRows::Positions(positions) => column.gather(positions, &mut codes),
            InputRows::Marked(marked) => column.compress(marked.rows.clone(), marked.mask, &mut codes),
        }
        Some(codes)
    }

    fn texts(&self, column: usize) -> Option<Vec<Texts<'_>>> {
        let plain = self.segment.column(column).as_plain()?;
        self.counter.reads(column, &InputRows::Range(self.rows.clone()), TouchPhase::Find);
        plain.texts(self.rows.clone())
    }

    fn select(&self, column: usize, predicate: &CodePredicate, mask: &mut Mask) {
        self.counter.reads(column, &InputRows::Range(self.rows.clone()), TouchPhase::Find);
        let column = self.segment.column(column).as_coded().expect("only coded columns are bound to codes");
        if self.skips {
            column.select(self.rows.clone(), predicate, mask.words_mut());
        } else {
            column.select_each(self.rows.clone(), predicate, mask.words_mut());
        }
    }
}
