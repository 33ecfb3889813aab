//! How a scan prepares: leaves of its filter become code sets, expressions of one column are evaluated per dictionary entry.
//!
//! [`Scan::prepare`] binds what binary search can bind, once per dictionary, and estimates from that how many rows each
//! expression would see. Where the dictionary is shorter, its entries become chunks, each a task; whoever ends the last one
//! finishes the preparation, and morsels may start.
//!
//! # Limits
//! The estimate takes codes as evenly used and parts of a filter as independent of each other.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use arrow::array::ArrayRef;
use numa::Reservation;
use parking_lot::Mutex;
use sched::Statement;
use storage::Segment;

use super::Scan;
use crate::ExecError;
use crate::bind::Coding;
use crate::codes::CodeRanges;
use crate::entries::{Entries, Function, pays};
use crate::error::stopped;
use crate::locate::{Locator, PageMaps};
use crate::operators::filter::Bound;
use crate::operators::project::Source;

/// Share of rows that a test over arrays is taken to let through.
const ROW_TEST_FRACTION: f64 = 0.5;

/// Preparation while entries are evaluated.
pub(super) struct Binding {
    leaves: Mutex<SetsByCoding>,
    jobs: Vec<Job>,
    /// `(job, chunk)` of every task.
    pub(super) chunks: Vec<(usize, usize)>,
    chunks_left: Mutex<usize>,
}

/// A coding by [`Coding::key`].
type CodingKey = (usize, bool);

/// Rows of the segments that share a coding of a column, as far as code tests tell.
struct Reached {
    coding: Coding,
    /// Rows that a row test of the filter is evaluated for.
    by_tests: f64,
    /// Rows that are expected in the output.
    by_outputs: f64,
}

/// Code sets of leaves by coding, `None` for a leaf that is tested by rows.
type SetsByCoding = HashMap<(usize, CodingKey), Option<CodeRanges>>;

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
pub(super) struct Prepared {
    pub(super) segments: Vec<PreparedSegment>,
    /// For the results per code.
    _reservations: Vec<Reservation>,
}

pub(super) struct PreparedSegment {
    pub(super) filter: Arc<Bound>,
    /// Per output: its result for each code of the column that it reads, where that was evaluated.
    pub(super) per_code: Vec<Option<ArrayRef>>,
    pub(super) locator: Option<Locator>,
}

impl Scan {
    /// Binds what binary search can bind, and decides what is evaluated per entry.
    pub(crate) fn prepare(&self, statement: &Statement, page_maps: Option<&PageMaps>) -> Result<(), ExecError> {
        let mut leaves = HashMap::new();
        let mut reached: HashMap<(usize, CodingKey), Reached> = HashMap::new();
        let columns = self.expression_columns();
        for version in &self.segments {
            statement.check().map_err(|_| stopped(statement))?;
            self.bind_leaves(&version.segment, &mut leaves)?;
            let bound = self.bound(&version.segment, &leaves);
            let rows = version.live_rows() as f64;
            for &column in &columns {
                if let Some(coded) = version.segment.column(column).as_coded() {
                    let coding = Coding::of(coded);
                    let nothing = Reached { coding: coding.clone(), by_tests: 0.0, by_outputs: 0.0 };
                    let reached = reached.entry((column, coding.key())).or_insert(nothing);
                    reached.by_tests += rows * bound.fraction(1.0);
                    reached.by_outputs += rows * bound.fraction(ROW_TEST_FRACTION);
                }
            }
        }
        let jobs = self.jobs(&reached);
        let chunks: Vec<_> =
            jobs.iter().enumerate().flat_map(|(j, job)| (0..job.entries.chunks()).map(move |c| (j, c))).collect();
        let left = chunks.len();
        let binding = Binding { leaves: Mutex::new(leaves), jobs, chunks, chunks_left: Mutex::new(left) };
        assert!(self.binding.set(binding).is_ok(), "a scan is prepared once");
        if left == 0 { self.finish_preparation(page_maps) } else { Ok(()) }
    }

    /// Prepares as far as binary search goes: tests that would be evaluated per entry count as rows that may match.
    pub(crate) fn prepare_places(&self, page_maps: &PageMaps) -> Result<(), ExecError> {
        let mut leaves = HashMap::new();
        for version in &self.segments {
            self.bind_leaves(&version.segment, &mut leaves)?;
        }
        let (jobs, chunks) = (Vec::new(), Vec::new());
        let binding = Binding { leaves: Mutex::new(leaves), jobs, chunks, chunks_left: Mutex::new(0) };
        assert!(self.binding.set(binding).is_ok(), "a scan is prepared once");
        self.finish_preparation(Some(page_maps))
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
    fn bind_leaves(&self, segment: &Segment, known: &mut SetsByCoding) -> Result<(), ExecError> {
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
    fn bound(&self, segment: &Segment, known: &SetsByCoding) -> Bound {
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

    /// What is worth evaluating per entry.
    fn jobs(&self, reached: &HashMap<(usize, CodingKey), Reached>) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut add = |column: usize, target: Target, function: &dyn Fn() -> Function| {
            for (_, reached) in reached.iter().filter(|((c, _), _)| *c == column) {
                let rows = match target {
                    Target::Leaf(_) => reached.by_tests,
                    Target::Output(_) => reached.by_outputs,
                };
                if pays(&reached.coding, rows as u64) {
                    jobs.push(Job { target, entries: Entries::new(reached.coding.clone(), function()) });
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
        let mut filters: HashMap<Vec<CodingKey>, Arc<Bound>> = HashMap::new();
        let segments = self.segments.iter().map(|version| {
            let segment = &version.segment;
            let codings = self.filter_codings(segment);
            let filter = filters.entry(codings).or_insert_with(|| Arc::new(self.bound(segment, &leaves))).clone();
            let per_code = self.results_of(segment, &results);
            let locator = page_maps.and_then(|maps| self.locator(segment, maps));
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

    /// Where a segment's morsels run: by the column of which they read most, those that the filter reads first. A column that
    /// lies on no node in particular leaves it to the next.
    fn locator(&self, segment: &Segment, maps: &PageMaps) -> Option<Locator> {
        let read = self.filter.leaves().iter().flat_map(|test| test.columns().iter().copied());
        let made = self.projection.outputs().iter().flat_map(|output| match output {
            Source::Column(column) => std::slice::from_ref(column),
            Source::Expression(expression, _) => expression.columns(),
        });
        let by_size = |mut columns: Vec<usize>| {
            columns.sort_by_key(|&column| (std::cmp::Reverse(segment.column(column).bytes_codes()), column));
            columns.dedup();
            columns
        };
        let columns = by_size(read.collect()).into_iter().chain(by_size(made.copied().collect()));
        columns.into_iter().find_map(|column| maps.locator(segment.column(column)))
    }
}
