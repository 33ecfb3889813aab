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
//! A morsel reads several columns and runs next to one: the widest that its filter reads, or, without a filter, the widest
//! that it outputs.

use std::collections::hash_map::{Entry, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use numa::Reservation;
use parking_lot::Mutex;
use sched::{Affinity, Statement};
use storage::{CodePredicate, Column, GRANULE_ROWS, Segment, SegmentVersion, TableVersion};

use super::filter::{Bound, Filter};
use super::project::{Projection, Source};
use super::{Input, Rows};
use crate::ExecError;
use crate::bind::Coding;
use crate::codes::CodeRanges;
use crate::entries::{Entries, Function, pays};
use crate::locate::{Locator, PageMaps};
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

/// Preparation while entries are evaluated.
struct Binding {
    /// Code sets of leaves by coding, `None` for a leaf that is tested by rows.
    leaves: Mutex<HashMap<(usize, CodingKey), Option<CodeRanges>>>,
    jobs: Vec<Job>,
    /// `(job, chunk)` of every task.
    chunks: Vec<(usize, usize)>,
    chunks_left: Mutex<usize>,
}

type CodingKey = (usize, bool);

/// Results per code of one output, shared by the segments with that coding.
type ResultsByCoding = HashMap<(usize, CodingKey), ArrayRef>;

/// An expression to evaluate per entry.
struct Job {
    target: Target,
    entries: Entries,
}

#[derive(Clone, Copy)]
enum Target {
    Leaf(usize),
    Output(usize),
}

/// What morsels share.
struct Prepared {
    segments: Vec<PreparedSegment>,
    /// For the results per code.
    _reservations: Vec<Reservation>,
}

struct PreparedSegment {
    filter: Arc<Bound>,
    /// Per output: its result for each code of the column that it reads, where that was evaluated.
    per_code: Vec<Option<ArrayRef>>,
    locator: Option<Locator>,
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
    /// Segment and rows; at most a granule of rows together.
    pieces: Vec<(usize, Range<usize>)>,
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
        let mut rows = 0;
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
                if rows + piece.len() > GRANULE_ROWS {
                    break;
                }
                rows += piece.len();
                if version.deleted.is_none() && matches!(*state.filter, Bound::Constant(true)) {
                    cursor.rows += piece.len();
                }
                pieces.push((cursor.segment, piece));
            }
            cursor.granule += 1;
        }
        let Some((segment, piece)) = pieces.first() else { return Next::End };
        let locator = prepared.segments[*segment].locator.as_ref();
        let affinity = locator.and_then(|l| l.node_of(piece.start)).map_or(Affinity::Anywhere, Affinity::near);
        Next::Step(Step::Morsel(Morsel { pieces }), affinity)
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

    /// Binds what binary search can bind, and decides what is evaluated per entry.
    pub(crate) fn prepare(&self, statement: &Statement, page_maps: Option<&PageMaps>) -> Result<(), ExecError> {
        let mut leaves = HashMap::new();
        let mut rows_by_coding: HashMap<(usize, CodingKey), (Coding, f64)> = HashMap::new();
        for version in &self.segments {
            statement.check().map_err(|_| crate::error::stopped(statement))?;
            self.bind_leaves(&version.segment, &mut leaves)?;
            let bound = self.bound(&version.segment, &leaves);
            let left = version.segment.rows() as f64 * bound.fraction();
            for column in self.expression_columns() {
                if let Some(coded) = version.segment.column(column).as_coded() {
                    let coding = Coding::of(coded);
                    rows_by_coding.entry((column, coding.key())).or_insert((coding, 0.0)).1 += left;
                }
            }
        }
        let jobs = self.jobs(&rows_by_coding);
        let chunks: Vec<_> =
            jobs.iter().enumerate().flat_map(|(j, job)| (0..job.entries.chunks()).map(move |c| (j, c))).collect();
        let left = chunks.len();
        let binding = Binding { leaves: Mutex::new(leaves), jobs, chunks, chunks_left: Mutex::new(left) };
        assert!(self.binding.set(binding).is_ok(), "a scan is prepared once");
        if left == 0 { self.finish_preparation(page_maps) } else { Ok(()) }
    }

    /// Evaluates one chunk of entries; whoever ends last finishes the preparation.
    pub(crate) fn evaluate_entries(
        &self,
        number: usize,
        statement: &Statement,
        page_maps: Option<&PageMaps>,
    ) -> Result<(), ExecError> {
        let binding = self.binding.get().expect("entries are numbered by the binding");
        let (job, chunk) = binding.chunks[number];
        binding.jobs[job].entries.evaluate_chunk(chunk, statement)?;
        let last = {
            let mut left = binding.chunks_left.lock();
            *left -= 1;
            *left == 0
        };
        if last { self.finish_preparation(page_maps) } else { Ok(()) }
    }

    /// Leaves over coded columns of a segment whose codings have not been seen yet.
    fn bind_leaves(
        &self,
        segment: &Segment,
        known: &mut HashMap<(usize, CodingKey), Option<CodeRanges>>,
    ) -> Result<(), ExecError> {
        for (leaf, test) in self.filter.leaves().iter().enumerate() {
            let [column] = test.columns() else { continue };
            let Some(coded) = segment.column(*column).as_coded() else { continue };
            let coding = Coding::of(coded);
            if let Entry::Vacant(unknown) = known.entry((leaf, coding.key())) {
                unknown.insert(coding.bind(test)?);
            }
        }
        Ok(())
    }

    /// The filter as it applies to a segment.
    fn bound(&self, segment: &Segment, known: &HashMap<(usize, CodingKey), Option<CodeRanges>>) -> Bound {
        self.filter.bind(&|leaf| {
            let [column] = self.filter.leaves()[leaf].columns() else { return None };
            let coding = Coding::of(segment.column(*column).as_coded()?);
            known.get(&(leaf, coding.key())).cloned().flatten()
        })
    }

    /// Columns that are the only one of some expression.
    fn expression_columns(&self) -> Vec<usize> {
        let tests = self.filter.leaves().iter().map(|test| test.columns());
        let outputs = self.projection.outputs().iter().filter_map(|output| match output {
            Source::Expression(expression, _) => Some(expression.columns()),
            Source::Column(_) => None,
        });
        let mut columns: Vec<usize> =
            tests.chain(outputs).filter_map(|columns| if let [one] = columns { Some(*one) } else { None }).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What is worth evaluating per entry, given the rows expected to be left per coding.
    fn jobs(&self, rows: &HashMap<(usize, CodingKey), (Coding, f64)>) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut add = |column: usize, target: Target, function: &dyn Fn() -> Function| {
            for ((_, _), (coding, left)) in rows.iter().filter(|((c, _), _)| *c == column) {
                if pays(coding, *left as u64) {
                    jobs.push(Job { target, entries: Entries::new(coding.clone(), function()) });
                }
            }
        };
        for (leaf, test) in self.filter.leaves().iter().enumerate() {
            if let ([column], true, false) = (test.columns(), test.is_expression(), test.volatile()) {
                add(*column, Target::Leaf(leaf), &|| Function::Test(test.clone()));
            }
        }
        for (i, output) in self.projection.outputs().iter().enumerate() {
            if let Source::Expression(expression, schema) = output
                && let ([column], false) = (expression.columns(), expression.volatile())
            {
                add(*column, Target::Output(i), &|| Function::Value(expression.clone(), schema.clone()));
            }
        }
        jobs
    }

    fn finish_preparation(&self, page_maps: Option<&PageMaps>) -> Result<(), ExecError> {
        let binding = self.binding.get().expect("finished after it began");
        let mut leaves = binding.leaves.lock();
        let mut results: ResultsByCoding = HashMap::new();
        let mut reservations = Vec::new();
        for Job { target, entries } in &binding.jobs {
            match *target {
                Target::Leaf(leaf) => {
                    // The code set replaces the results, which are no longer charged.
                    leaves.insert((leaf, entries.coding().key()), entries.passing_codes()?);
                    drop(entries.take_reservations());
                }
                Target::Output(output) => {
                    if let Some(values) = entries.results()? {
                        results.insert((output, entries.coding().key()), values);
                    }
                    reservations.append(&mut entries.take_reservations());
                }
            }
        }
        let mut filters: Vec<(Vec<CodingKey>, Arc<Bound>)> = Vec::new();
        let segments = self.segments.iter().map(|version| {
            let segment = &version.segment;
            let codings = self.filter_codings(segment);
            let filter = match filters.iter().rev().find(|(known, _)| *known == codings) {
                Some((_, filter)) => filter.clone(),
                None => {
                    let filter = Arc::new(self.bound(segment, &leaves));
                    filters.push((codings, filter.clone()));
                    filter
                }
            };
            let per_code = self.results_of(segment, &results);
            let locator = page_maps.and_then(|maps| maps.locator(self.deciding_column(segment)?));
            PreparedSegment { filter, per_code, locator }
        });
        let prepared = Prepared { segments: segments.collect(), _reservations: reservations };
        assert!(self.prepared.set(prepared).is_ok(), "a scan is prepared once");
        Ok(())
    }

    /// Codings of the columns that the filter's leaves read, in order; a column without codes counts as none.
    fn filter_codings(&self, segment: &Segment) -> Vec<CodingKey> {
        let columns = self.filter.leaves().iter().filter_map(|test| test.columns().first());
        columns.map(|&c| segment.column(c).as_coded().map_or((0, false), |coded| Coding::of(coded).key())).collect()
    }

    fn results_of(&self, segment: &Segment, results: &ResultsByCoding) -> Vec<Option<ArrayRef>> {
        let of = |(i, output): (usize, &Source)| {
            let Source::Expression(expression, _) = output else { return None };
            let [column] = expression.columns() else { return None };
            results.get(&(i, Coding::of(segment.column(*column).as_coded()?).key())).cloned()
        };
        self.projection.outputs().iter().enumerate().map(of).collect()
    }

    /// The column whose pages decide where a segment's morsels run.
    fn deciding_column<'a>(&self, segment: &'a Segment) -> Option<&'a Arc<Column>> {
        let widest = |columns: &mut dyn Iterator<Item = usize>| {
            columns.map(|c| segment.column(c)).max_by_key(|column| column.bytes_codes())
        };
        let read = self.filter.leaves().iter().flat_map(|test| test.columns().iter().copied());
        widest(&mut read.into_iter()).or_else(|| {
            let outputs = self.projection.outputs().iter().flat_map(|output| match output {
                Source::Column(column) => std::slice::from_ref(column),
                Source::Expression(expression, _) => expression.columns(),
            });
            widest(&mut outputs.copied())
        })
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
            let mut mask = Mask::full(rows.len());
            if let Some(deleted) = &version.deleted {
                deleted.strike_out(rows.clone(), mask.words_mut());
            }
            state.filter.evaluate(&piece, &mut mask)?;
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
