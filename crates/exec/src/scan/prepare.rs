//! How a scan prepares: leaves of its filter become code sets, tests of one column are evaluated per dictionary entry.
//!
//! [`Scan::prepare`] binds what binary search can bind, once per dictionary, and estimates from that how many rows each
//! test would see. Where the dictionary is shorter, its entries become chunks, each a task; whoever ends the last one
//! finishes the preparation, and morsels may start.
//!
//! # Limits
//! The estimate takes codes as evenly used and parts of a filter as independent of each other.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use numa::NodeId;
use parking_lot::Mutex;
use sched::Statement;
use sched::policy::concurrency::Pieces;
use storage::Segment;

use super::cost::{ExpectedWork, PerRow};
use super::cut::{apart, in_turn};
use super::look_up::{GRAIN, IndexLookUps};
use super::prepared::{Leader, PreparedScan, PreparedSegment, common, is_shared};
use super::seek::{Access, ColumnQuery};
use super::{Morsel, Scan};
use crate::ExecError;
use crate::codes::bind::{Coding, CodingKey};
use crate::codes::entries::{Entries, Function, pays};
use crate::codes::filter::Bound;
use crate::codes::ranges::CodeRanges;
use crate::error::stopped;
use crate::tasks::counter::Read;
use crate::tasks::locate::PageMaps;
use crate::tasks::places::{Lookup, Places, ScanOptions};
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, note_values};

/// Share of rows that a test over arrays is taken to let through.
pub(super) const ROW_TEST_FRACTION: f64 = 0.5;

/// Preparation while entries are evaluated.
pub(super) struct Binding {
    leaves: Mutex<SetsByCoding>,
    /// Per segment.
    accesses: Mutex<Vec<Access>>,
    jobs: Vec<Job>,
    /// `(job, chunk)` of every task.
    pub(super) chunks: Vec<(usize, usize)>,
    chunks_left: Mutex<usize>,
}

/// Rows of the segments that share a coding of a column, as far as code tests tell.
struct ReachedRows {
    coding: Coding,
    /// How many a row test of the filter is evaluated for.
    rows: f64,
}

/// Code sets of leaves by coding, `None` for a leaf that is tested by rows.
pub(super) type SetsByCoding = HashMap<(usize, CodingKey), Option<CodeRanges>, FixedState>;

/// What reaches the tests of a column, by column and coding.
type RowsByCoding = HashMap<(usize, CodingKey), ReachedRows, FixedState>;

/// A leaf of the filter to evaluate per entry.
struct Job {
    leaf: usize,
    entries: Entries,
}

impl Scan {
    /// Binds what binary search can bind, and decides what is evaluated per entry.
    pub(super) fn prepare(&self, run: &Run<'_>) -> Result<(), ExecError> {
        let (statement, places) = (run.statement, run.places);
        let mut leaves = SetsByCoding::default();
        let mut reached = RowsByCoding::default();
        let columns = self.expression_columns();
        let accesses = self.look_ups(places.options, places.lookup).accesses(Some(run))?;
        for (version, access) in self.segments.iter().zip(&accesses) {
            statement.check().map_err(|_| stopped(statement))?;
            let rows = version.live_rows().min(access.len(version.segment.rows())) as f64;
            if rows == 0.0 {
                continue;
            }
            self.bind_leaves(&version.segment, &mut leaves)?;
            if columns.is_empty() {
                continue;
            }
            let bound = self.bound(&version.segment, &leaves);
            for &column in &columns {
                if let Some(coded) = version.segment.column(column).as_coded() {
                    let coding = Coding::of(coded);
                    let nothing = ReachedRows { coding: coding.clone(), rows: 0.0 };
                    reached.entry((column, coding.key())).or_insert(nothing).rows += rows * bound.fraction(1.0);
                }
            }
        }
        let jobs = self.jobs(&reached);
        let chunks: Vec<_> =
            jobs.iter().enumerate().flat_map(|(j, job)| (0..job.entries.chunks()).map(move |c| (j, c))).collect();
        let left = chunks.len();
        let (leaves, accesses) = (Mutex::new(leaves), Mutex::new(accesses));
        let binding = Binding { leaves, accesses, jobs, chunks, chunks_left: Mutex::new(left) };
        assert!(self.binding.set(binding).is_ok(), "a scan is prepared once");
        if left == 0 { self.finish_preparation(places) } else { Ok(()) }
    }

    /// The part that each segment is of.
    pub(super) fn parts(&self) -> impl Iterator<Item = u32> + '_ {
        let parts = self.snapshot.parts.iter().zip(0..);
        parts.flat_map(|(part, number)| part.segments.iter().map(move |_| number))
    }

    /// What indexes may be asked.
    fn look_ups<'a>(&'a self, options: ScanOptions, lookup: Lookup<'a>) -> IndexLookUps<'a> {
        let of_leaves = self.filter.conjuncts().filter_map(|test| ColumnQuery::of_test(test));
        let of_joins = self.keys.iter().map(|(column, keys)| (*column, ColumnQuery::Keys(keys)));
        let asked: Vec<(usize, ColumnQuery<'a>)> =
            of_leaves.chain(of_joins).filter(|_| options.index_lookups).collect();
        let parts = &self.snapshot.parts;
        IndexLookUps { segments: &self.segments, parts, asked, table: self.number, lookup, grain: GRAIN }
    }

    /// Prepares as far as binary search goes: tests that would be evaluated per entry count as rows that may match.
    pub(crate) fn prepare_places(&self, page_maps: &PageMaps) -> Result<(), ExecError> {
        let mut leaves = SetsByCoding::default();
        for version in &self.segments {
            self.bind_leaves(&version.segment, &mut leaves)?;
        }
        let (jobs, chunks) = (Vec::new(), Vec::new());
        let options = ScanOptions::default();
        let (leaves, accesses) =
            (Mutex::new(leaves), Mutex::new(self.look_ups(options, Lookup::Nowhere).accesses(None)?));
        let binding = Binding { leaves, accesses, jobs, chunks, chunks_left: Mutex::new(0) };
        assert!(self.binding.set(binding).is_ok(), "a scan is prepared once");
        self.finish_preparation(Places {
            lookup: Lookup::Maps(page_maps),
            options,
            turn: None,
            morsels_min: usize::MAX,
            attached: None,
        })
    }

    /// Evaluates one chunk of entries; whoever ends last finishes the preparation.
    pub(crate) fn evaluate_entries(
        &self,
        number: usize,
        statement: &Statement,
        places: Places<'_>,
    ) -> Result<(), ExecError> {
        let binding = self.binding.get().expect("entries are numbered by the binding");
        let (job, chunk) = binding.chunks[number];
        let entries = &binding.jobs[job].entries;
        entries.evaluate_chunk(chunk, statement)?;
        note_values(entries.coding().dictionary().id(), TouchPhase::Find, entries.vids(chunk).len());
        let last = {
            let mut left = binding.chunks_left.lock();
            *left -= 1;
            *left == 0
        };
        if last { self.finish_preparation(places) } else { Ok(()) }
    }

    /// Leaves over coded columns of a segment whose codings have not been seen yet.
    pub(super) fn bind_leaves(&self, segment: &Segment, known: &mut SetsByCoding) -> Result<(), ExecError> {
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
    pub(super) fn bound(&self, segment: &Segment, known: &SetsByCoding) -> Bound {
        self.filter.bind(&|leaf| {
            let [column] = self.filter.leaves()[leaf].columns() else { return None };
            let coding = Coding::of(segment.column(*column).as_coded()?);
            known.get(&(leaf, coding.key())).cloned().flatten()
        })
    }

    /// Columns that are the only one of some test which might be evaluated per entry.
    fn expression_columns(&self) -> Vec<usize> {
        let tests = self.filter.leaves().iter().filter(|test| test.is_expression() && !test.volatile());
        let mut columns: Vec<usize> =
            tests.filter_map(|test| if let [one] = test.columns() { Some(*one) } else { None }).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What is worth evaluating per entry.
    fn jobs(&self, reached: &RowsByCoding) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (leaf, test) in self.filter.leaves().iter().enumerate() {
            let ([column], true, false) = (test.columns(), test.is_expression(), test.volatile()) else { continue };
            for (_, reached) in reached.iter().filter(|((c, _), _)| c == column) {
                if pays(&reached.coding, reached.rows as u64) {
                    let entries = Entries::new(reached.coding.clone(), Function::Test(test.clone()));
                    jobs.push(Job { leaf, entries });
                }
            }
        }
        jobs
    }

    fn finish_preparation(&self, places: Places<'_>) -> Result<(), ExecError> {
        let binding = self.binding.get().expect("finished after it began");
        let mut leaves = binding.leaves.lock();
        for Job { leaf, entries } in &binding.jobs {
            // The code set replaces the results, which are no longer charged.
            leaves.insert((*leaf, entries.coding().key()), entries.passing_codes()?);
            drop(entries.take_reservations());
        }
        let mut filters: HashMap<Vec<Option<CodingKey>>, Arc<Bound>, FixedState> = HashMap::default();
        let accesses = std::mem::take(&mut *binding.accesses.lock());
        let nothing = Arc::new(Bound::Constant(false));
        let columns_read = self.columns_read();
        let segments = self.segments.iter().zip(accesses).zip(self.parts()).map(|((version, access), part)| {
            let segment = &version.segment;
            if access.len(segment.rows()) == 0 {
                return PreparedSegment { filter: nothing.clone(), access, reads: Arc::default(), shared: None };
            }
            let codings = self.filter_codings(segment);
            let filter = filters.entry(codings).or_insert_with(|| Arc::new(self.bound(segment, &leaves))).clone();
            let reads =
                columns_read.iter().map(|&column| Read::new(segment, column, places.lookup, (self.number, part)));
            PreparedSegment { filter, access, reads: reads.collect(), shared: None }
        });
        let mut segments: Vec<PreparedSegment> = segments.collect();
        let looked_at = self.pieces(&segments, places);
        let little_left = self.attach(&mut segments, &looked_at, places);
        let morsels = self.cut(&segments, looked_at, places, little_left);
        let mut nodes: Vec<NodeId> = morsels.iter().filter_map(|morsel| morsel.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let pieces = match (self.snapshot.parts.len(), nodes.len()) {
            (2.., _) => Pieces::Parts(self.snapshot.parts.len()),
            (_, 2..) => Pieces::Partitions(nodes.len()),
            _ => Pieces::Whole,
        };
        let order = match places.turn.filter(|_| self.rows_needed.is_none()) {
            Some(turn) if nodes.len() > 1 => in_turn(&morsels, &nodes, turn),
            Some(turn) if is_shared(&segments) => apart(morsels.len(), turn),
            _ => (0..morsels.len()).collect(),
        };
        let options = places.options;
        let morsel_rows = morsels.iter().map(Morsel::rows).max().unwrap_or(0);
        let prepared = PreparedScan { segments, morsels, morsel_rows, order, nodes, pieces, options };
        assert!(self.prepared.set(prepared).is_ok(), "a scan is prepared once");
        Ok(())
    }

    /// Codings of the columns that the filter's leaves read, in order; none for a column without codes.
    fn filter_codings(&self, segment: &Segment) -> Vec<Option<CodingKey>> {
        let columns = self.filter.leaves().iter().filter_map(|test| test.columns().first());
        columns.map(|&c| segment.column(c).as_coded().map(|coded| Coding::of(coded).key())).collect()
    }

    /// Columns that the filter reads, once per test.
    pub(super) fn columns_tested(&self) -> Vec<usize> {
        self.filter.leaves().iter().flat_map(|test| test.columns().iter().copied()).collect()
    }

    /// Every column that a morsel may read, each once.
    pub(super) fn columns_read(&self) -> Vec<usize> {
        let mut columns = self.columns_tested();
        columns.extend_from_slice(&self.columns);
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What says where a segment's morsels run: the column of which they read most, one that the filter reads first. A
    /// column that lies on no node in particular leaves it to the next; where all do, the nodes with copies of most
    /// columns in that order may be chosen from.
    pub(super) fn leader<'a>(&self, segment: &Segment, reads: &'a [Read]) -> Option<Leader<'a>> {
        if reads.iter().all(|read| read.locator().is_none() && read.copies().is_none()) {
            return None;
        }
        let by_size = |mut columns: Vec<usize>| {
            columns.sort_by_key(|&column| (std::cmp::Reverse(segment.column(column).bytes_codes()), column));
            columns.dedup();
            columns
        };
        let columns = by_size(self.columns_tested()).into_iter().chain(by_size(self.columns.clone()));
        let columns: Vec<usize> = columns.collect();
        let read = |column: &usize| reads.iter().find(|read| read.column == *column);
        let one = columns.iter().find_map(|column| read(column)?.locator()).map(Leader::Granules);
        one.or_else(|| {
            let copies = columns.iter().filter_map(|column| read(column)?.copies());
            copies.fold(None, common).map(Leader::Copies)
        })
    }

    /// What a row of a segment is expected to cost, where `looked_at` of its rows may match.
    pub(super) fn per_row(&self, segment: &Segment, prepared: &PreparedSegment, looked_at: usize) -> PerRow {
        let coded = |column: &usize| segment.column(*column).as_coded().is_some();
        let (mut code_tests, mut row_tests) = (Vec::new(), Vec::new());
        if !matches!(*prepared.filter, Bound::Constant(_)) {
            for test in self.filter.leaves() {
                let by_code = !test.is_expression() && test.columns().iter().all(coded);
                if by_code { &mut code_tests } else { &mut row_tests }.extend_from_slice(test.columns());
            }
        }
        let width = |&column: &usize| crate::plan::width_bytes(self.snapshot.schema.field(column).data_type());
        PerRow::of(&ExpectedWork {
            reads: &prepared.reads,
            code_tests: &code_tests,
            row_tests: &row_tests,
            outputs: &self.columns,
            output_bytes: self.columns.iter().map(width).sum(),
            // Rows that bounds of granules exclude are not looked at: the others pass the more often.
            fraction: (prepared.filter.fraction(ROW_TEST_FRACTION) * segment.rows() as f64 / looked_at.max(1) as f64)
                .min(1.0),
        })
    }
}
