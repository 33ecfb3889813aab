//! [`Flow`]: turns a plan into a [`Pipe`], running every pipeline below it on the way.
//!
//! A plan is walked from the top; an operator that has to see all its input first (a breaker) runs the pipe of that
//! input and becomes a source of rows. So when a pipe is put together, everything that it reads is known: row counts,
//! bounds, and the keys of joins, which are passed down as [`Filters`] to the scans that they can thin out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::FieldRef;
use numa::{NodeId, Reservation, current_node};
use parking_lot::Mutex;
use storage::TableVersion;

use super::streamed::passes_limits;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Vector, integer_bounds, is_integer};
use crate::chunk::{Chunk, Rows, check_kept};
use crate::codes::filter::Filter;
use crate::eval::{self, Evaluator, Test};
use crate::operators::limit::Limit;
use crate::operators::{aggregate, foreign, join, recursion, sort, union, unnest, window};
use crate::optimize::is_delicate;
use crate::pipe::filters::{Filters, behind, is_delicate_output};
use crate::pipe::profiled::watch;
use crate::pipe::{Operator, Out, Pipe};
use crate::plan::predicate::Predicate;
use crate::plan::{Output, Plan, Shared};
use crate::scan::Scan;
use crate::scan::source::{RowsSource, ScanSource, column_infos};
use crate::tasks::profile::{Numbering, Working};
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, KeptColumn};

/// A running plan.
pub(crate) struct Flow<'a> {
    /// What it runs with.
    pub(crate) run: Run<'a>,
    /// Results of shared plans by number, of those that read a work table: they are those of this flow alone.
    shared: Mutex<HashMap<usize, Arc<Rows>>>,
    outer: Outer,
}

/// What a flow hands on to those of the recursions in it, each step of which is a flow of its own.
#[derive(Clone, Default)]
pub(crate) struct Outer {
    /// Results of shared plans that read no work table, by number.
    shared: Arc<Mutex<HashMap<usize, Arc<Rows>>>>,
    /// Work tables by the number of their recursion.
    pub(crate) work_tables: HashMap<usize, Arc<Rows>>,
    /// Where operators are counted, if they are.
    numbering: Option<Arc<Numbering>>,
}

impl<'a> Flow<'a> {
    /// Nothing has run yet.
    pub(crate) fn new(run: Run<'a>) -> Flow<'a> {
        Flow::within(run, Outer::default())
    }

    /// A step of a recursion.
    pub(crate) fn within(run: Run<'a>, outer: Outer) -> Flow<'a> {
        Flow { run, shared: Mutex::default(), outer }
    }

    /// What recursions in the plan need.
    pub(crate) fn outer(&self) -> Outer {
        self.outer.clone()
    }

    /// Counts what operators do.
    pub(crate) fn counting(mut self, numbering: Option<Arc<Numbering>>) -> Flow<'a> {
        self.outer.numbering = numbering;
        self
    }

    /// A pipe of the plan's rows. Rows whose columns cannot pass `filters` may be left out.
    pub(crate) fn pipe(&self, plan: &Plan, filters: &Filters) -> Result<Pipe, ExecError> {
        self.pipe_of(plan, Wanted::of(filters))
    }

    /// The last pipe of a plan, without the limits on top of it, which leave the first `rows` rows at most.
    pub(crate) fn last(&self, plan: &Plan, rows: Option<usize>) -> Result<Pipe, ExecError> {
        self.pipe_of(plan, Wanted { rows, unlimited: true, as_stored: true, ..Wanted::of(&Filters::new()) })
    }

    fn pipe_of(&self, plan: &Plan, wanted: Wanted<'_>) -> Result<Pipe, ExecError> {
        if let (Plan::Limit { input, .. }, true) = (plan, wanted.unlimited) {
            return self.pipe_of(input, wanted);
        }
        let Some((own, above)) = self.outer.numbering.as_ref().and_then(|n| n.of(plan)) else {
            return self.operator(plan, wanted);
        };
        let _working = Working::on(Some(own.clone()));
        Ok(watch(self.operator(plan, wanted)?, &own, &above))
    }

    fn operator(&self, plan: &Plan, wanted: Wanted<'_>) -> Result<Pipe, ExecError> {
        self.run.check()?;
        let filters = wanted.filters;
        match plan {
            Plan::Scan { .. } => self.scan(plan, Vec::new(), wanted),
            Plan::Filter { input, predicate } => self.filter(input, predicate, wanted),
            Plan::Project { input, outputs } => self.project(input, outputs, wanted),
            Plan::Limit { input, skip, fetch } => self.limit(input, Limit::new(*skip, *fetch), wanted.rows),
            Plan::Aggregate(aggregation) => aggregate::pipe(self, aggregation, filters),
            Plan::Join(join) => join::pipe(self, join, filters),
            Plan::Sort(sort) => sort::pipe(self, sort, filters),
            Plan::Window(window) => window::pipe(self, window, filters),
            Plan::Union(union) => union::pipe(self, union, filters),
            Plan::Values { schema, batches } => {
                let infos: Vec<ColumnInfo> = schema
                    .fields()
                    .iter()
                    .enumerate()
                    .map(|(c, field)| given_info(field, batches.iter().map(|b| b.column(c))))
                    .collect();
                let columns = (0..infos.len()).map(|c| {
                    let parts: Vec<Vector> = batches.iter().map(|b| infos[c].vector_of(b.column(c))).collect();
                    Arc::new(if parts.is_empty() {
                        infos[c].vector_of(&arrow::array::new_empty_array(infos[c].data_type()))
                    } else {
                        Vector::concat(parts)
                    })
                });
                let columns = columns.collect();
                let rows = batches.iter().map(|b| b.num_rows()).sum();
                check_kept(rows)?;
                Ok(self.of_rows(Arc::new(Rows { infos, columns, rows, _charged: Vec::new(), lies: None })))
            }
            Plan::Shared(plan) => self.shared(plan),
            Plan::Source { source, columns } => foreign::pipe(self, source, columns),
            Plan::Recursive(recursion) => Ok(recursion::pipe(self, recursion)),
            Plan::WorkTable { id, .. } => match self.outer.work_tables.get(id) {
                Some(rows) => Ok(self.of_rows(rows.clone())),
                None => unreachable!("a work table is read in the step of its recursion"),
            },
            Plan::Unnest(unnesting) => unnest::pipe(self, unnesting, filters),
        }
    }

    fn shared(&self, plan: &Shared) -> Result<Pipe, ExecError> {
        let known = if plan.work_tables().is_empty() { self.outer.shared.as_ref() } else { &self.shared };
        let rows = known.lock().get(&plan.id).cloned();
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let rows = self.rows(plan, &Filters::new())?;
                known.lock().insert(plan.id, rows.clone());
                rows
            }
        };
        Ok(self.of_rows(rows))
    }

    /// All rows of a plan, in the order of its pipe.
    pub(crate) fn rows(&self, plan: &Plan, filters: &Filters) -> Result<Arc<Rows>, ExecError> {
        self.rows_of(&self.pipe(plan, filters)?)
    }

    /// All rows of a pipe, in order; those that were kept are not copied.
    pub(crate) fn rows_of(&self, pipe: &Pipe) -> Result<Arc<Rows>, ExecError> {
        match pipe.kept() {
            Some(rows) => Ok(rows.clone()),
            None => Ok(Arc::new(self.collect(pipe, None)?)),
        }
    }

    /// A pipe of rows that were kept.
    pub(crate) fn of_rows(&self, rows: Arc<Rows>) -> Pipe {
        let (infos, count) = (rows.infos.clone(), rows.rows as u64);
        Pipe::of(Box::new(RowsSource(rows)), infos, count)
    }

    /// Runs a pipe and keeps its rows in order; the first `needed` at least, if that is given.
    pub(crate) fn collect(&self, pipe: &Pipe, needed: Option<usize>) -> Result<Rows, ExecError> {
        let needed = needed.unwrap_or(usize::MAX);
        let done = Mutex::new(Done { counts: vec![None; pipe.morsels()], prefix: 0, rows: 0, all: 0 });
        let kept: Vec<Mutex<Kept>> = (0..pipe.morsels()).map(|_| Mutex::default()).collect();
        self.run.for_each_morsel(pipe, &|morsel| {
            if done.lock().rows >= needed {
                return Ok(());
            }
            let mut mine = Kept::default();
            pipe.run(morsel, &self.run, &mut |mut chunk: Chunk| {
                mine.take(&mut chunk, pipe.infos.len(), &self.run)?;
                Ok(mine.rows < needed)
            })?;
            traffic::note_kept(traffic::ROWS_KEPT, mine.bytes);
            check_kept(done.lock().end(morsel, mine.rows))?;
            *kept[morsel].lock() = mine;
            Ok(())
        })?;
        let kept: Vec<Kept> = kept.into_iter().map(Mutex::into_inner).collect();
        self.joined(kept, &pipe.infos)
    }

    fn joined(&self, kept: Vec<Kept>, infos: &[ColumnInfo]) -> Result<Rows, ExecError> {
        let rows = kept.iter().map(|k| k.rows).sum();
        check_kept(rows)?;
        let (mut reservations, mut columns) = (Vec::new(), vec![Vec::new(); infos.len()]);
        for part in kept {
            reservations.extend(part.reservations);
            for (column, vectors) in columns.iter_mut().zip(part.columns) {
                column.extend(vectors);
            }
        }
        // A column is put together while its pieces are still there: that much more for a moment.
        let columns: Vec<Mutex<Vec<Arc<Vector>>>> = columns.into_iter().map(Mutex::new).collect();
        let columns = self.run.map(infos.len(), &|c| {
            let parts = std::mem::take(&mut *columns[c].lock());
            if parts.is_empty() {
                return Ok((Arc::new(infos[c].empty()), None));
            }
            let own = parts.into_iter().map(|p| Arc::try_unwrap(p).unwrap_or_else(|shared| (*shared).clone()));
            Ok((Arc::new(Vector::concat(own.collect())), current_node()))
        })?;
        let (columns, nodes): (Vec<Arc<Vector>>, Vec<Option<NodeId>>) = columns.into_iter().unzip();
        let lies = columns.iter().zip(nodes).map(|(c, node)| KeptColumn { bytes: c.bytes(), rows, node });
        let lies = Some(self.run.traffic.kept_rows(traffic::ROWS_KEPT, lies));
        Ok(Rows { infos: infos.to_vec(), columns, rows, _charged: reservations, lies })
    }

    /// The rows that a limit leaves, kept: what is above sees no other. Its input ends as soon as it has enough.
    fn limit(&self, input: &Plan, limit: Limit, wanted: Option<usize>) -> Result<Pipe, ExecError> {
        let limit = wanted.map_or(limit, |rows| limit.then(Limit::new(0, Some(rows))));
        let needed = limit.rows_needed();
        if needed == Some(0) {
            let infos = input.schema().fields().iter().map(|field| ColumnInfo::plain(field.clone())).collect();
            return Ok(self.of_rows(Arc::new(Rows::none(infos))));
        }
        let pipe = self.pipe_of(input, Wanted { rows: needed, ..Wanted::of(&Filters::new()) })?;
        let rows = self.collect(&pipe, needed)?;
        let (skip, kept) = limit.of(rows.rows);
        Ok(self.of_rows(Arc::new(rows.slice(skip, kept))))
    }

    /// A scan with conjuncts over its output columns.
    fn scan(&self, scan: &Plan, conjuncts: Vec<Predicate>, wanted: Wanted<'_>) -> Result<Pipe, ExecError> {
        let Plan::Scan { table, snapshot, columns } = scan else { unreachable!("a scan is given") };
        let Wanted { filters, rows: needed, .. } = wanted;
        let single = conjuncts.iter().all(|conjunct| conjunct.columns().len() <= 1);
        let infos = match wanted.as_stored && single {
            true => columns.iter().map(|&c| ColumnInfo::plain(snapshot.schema.fields()[c].clone())).collect(),
            false => column_infos(snapshot, columns),
        };
        let (filter, later) = filter_of(snapshot, columns, conjuncts, &infos)?;
        // What is tested within the scan sees all rows anyway.
        let shows = later.iter().any(is_delicate);
        let of_table: Filters = filters.iter().map(|wanted| wanted.below(columns[wanted.column], shows)).collect();
        // Rows that something else drops as well cannot be counted here.
        let needed = needed.filter(|_| later.is_empty() && filters.is_empty());
        let number = self.run.traffic.table(table, &snapshot.schema);
        let operator = Scan::new(snapshot.clone(), filter, columns.clone(), needed).booked_to(number);
        let source = ScanSource::new(operator, columns.clone(), infos.clone(), &of_table, &self.run)?;
        let rows = source.rows();
        let pipe = Pipe::of(Box::new(source), infos.clone(), rows);
        if later.is_empty() {
            return Ok(pipe);
        }
        let test = eval::prepared_test(&Predicate::And(later), &infos, &self.run, pipe.rows_expected())?;
        Ok(pipe.then(Filtering { test }, infos))
    }

    fn filter(&self, input: &Plan, predicate: &Predicate, wanted: Wanted<'_>) -> Result<Pipe, ExecError> {
        let (below, below_input) = filters_of(input);
        let conjuncts: Vec<Predicate> = below_input.into_iter().chain(conjuncts_of(predicate)).collect();
        if let Plan::Scan { .. } = below {
            return self.scan(below, conjuncts, wanted);
        }
        let pipe = self.pipe(below, &behind(wanted.filters, conjuncts.iter().any(is_delicate)))?;
        let test = eval::prepared_test(&Predicate::And(conjuncts), &pipe.infos, &self.run, pipe.rows_expected())?;
        let infos = pipe.infos.clone();
        Ok(pipe.then(Filtering { test }, infos))
    }

    fn project(&self, input: &Plan, outputs: &[Output], wanted: Wanted<'_>) -> Result<Pipe, ExecError> {
        let shows = outputs.iter().any(is_delicate_output);
        let below = wanted.filters.iter().filter_map(|wanted| match &outputs[wanted.column] {
            Output::Column { column, .. } => Some(wanted.below(*column, shows)),
            Output::Expression { .. } => None,
        });
        let below: Filters = below.collect();
        let unlimited = wanted.unlimited && passes_limits(outputs);
        let as_stored = wanted.as_stored && outputs.iter().all(|output| matches!(output, Output::Column { .. }));
        let pipe = self.pipe_of(input, Wanted { filters: &below, unlimited, as_stored, ..wanted })?;
        let rows = pipe.rows_expected();
        let codings = |column| if is_stored(input) { pipe.codings(column) } else { Vec::new() };
        let (mut infos, mut sources) = (Vec::new(), Vec::new());
        for output in outputs {
            match output {
                Output::Column { column, field } => {
                    infos.push(ColumnInfo { field: field.clone(), ..pipe.infos[*column].clone() });
                    sources.push(Projected::Column(*column));
                }
                Output::Expression { expression, field } => {
                    let (info, evaluator) =
                        eval::prepared_evaluator(expression, field, &pipe.infos, &self.run, rows, &codings)?;
                    infos.push(info);
                    sources.push(Projected::Computed(evaluator));
                }
            }
        }
        Ok(pipe.then(Projecting { sources: sources.into() }, infos))
    }
}

/// Are its columns those of a table, one by one?
fn is_stored(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } => true,
        Plan::Filter { input, .. } => is_stored(input),
        _ => false,
    }
}

/// What is wanted of a pipe.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// Rows that do not pass may be left out.
    filters: &'a Filters,
    /// `n` of the first rows are enough, if that is given.
    rows: Option<usize>,
    /// Somebody else cuts off what limits on top of the plan cut off.
    unlimited: bool,
    /// Nobody computes with its columns: nothing need be known of them. Finding out takes longer than a look-up by an
    /// index.
    as_stored: bool,
}

impl<'a> Wanted<'a> {
    fn of(filters: &'a Filters) -> Wanted<'a> {
        Wanted { filters, rows: None, unlimited: false, as_stored: false }
    }
}

/// What is below the filters that a plan begins with, and their conjuncts, the lowest first.
fn filters_of(plan: &Plan) -> (&Plan, Vec<Predicate>) {
    match plan {
        Plan::Filter { input, predicate } => {
            let (below, mut conjuncts) = filters_of(input);
            conjuncts.extend(conjuncts_of(predicate));
            (below, conjuncts)
        }
        other => (other, Vec::new()),
    }
}

fn conjuncts_of(predicate: &Predicate) -> Vec<Predicate> {
    match predicate.without_not() {
        Predicate::And(parts) => parts,
        other => vec![other],
    }
}

/// What a scan tests of conjuncts over its output columns, as a filter over the table's, and what is left for later.
fn filter_of(
    snapshot: &TableVersion,
    columns: &[usize],
    conjuncts: Vec<Predicate>,
    infos: &[ColumnInfo],
) -> Result<(Filter, Vec<Predicate>), ExecError> {
    let (within, later) = split(conjuncts, infos);
    let conjuncts: Vec<Predicate> = within.iter().map(|p| p.map_columns(&|c| columns[c])).collect();
    Ok((Filter::new(&conjuncts, &snapshot.schema)?, later))
}

/// The scan of a plan that is a chain of operators over one, as it would run.
pub(crate) fn only_scan(plan: &Plan) -> Result<Option<Scan>, ExecError> {
    let (below, conjuncts) = filters_of(plan);
    match below {
        Plan::Scan { snapshot, columns, .. } => {
            let (filter, _) = filter_of(snapshot, columns, conjuncts, &column_infos(snapshot, columns))?;
            Ok(Some(Scan::new(snapshot.clone(), filter, columns.clone(), None)))
        }
        Plan::Limit { input, .. } | Plan::Project { input, .. } => only_scan(input),
        _ => Ok(None),
    }
}

/// Conjuncts that a scan tests on codes, and those that it would have to test row by row over Arrow arrays although
/// they can be tested without. What may fail stays behind whatever is written before it.
fn split(conjuncts: Vec<Predicate>, infos: &[ColumnInfo]) -> (Vec<Predicate>, Vec<Predicate>) {
    let movable: Vec<bool> = conjuncts.iter().map(|p| p.columns().len() > 1 && eval::is_structured(p, infos)).collect();
    let last_fallible = conjuncts.iter().zip(&movable).rposition(|(p, moves)| !moves && p.fallible());
    let (mut within, mut behind) = (Vec::new(), Vec::new());
    for (i, (conjunct, moves)) in conjuncts.into_iter().zip(movable).enumerate() {
        let moves = moves && last_fallible.is_none_or(|last| i > last);
        if moves { behind.push(conjunct) } else { within.push(conjunct) }
    }
    (within, behind)
}

/// What is known of a column whose values are given.
fn given_info<'a>(field: &FieldRef, arrays: impl Iterator<Item = &'a ArrayRef>) -> ColumnInfo {
    let mut info = ColumnInfo::plain(field.clone());
    info.nullable = false;
    let mut bounds: Option<(i64, i64)> = None;
    let mut integers = is_integer(field.data_type());
    for array in arrays.filter(|array| !array.is_empty()) {
        info.nullable |= array.is_nullable();
        match integer_bounds(array.as_ref()) {
            Some((low, high)) => {
                bounds = Some(bounds.map_or((low, high), |known| (known.0.min(low), known.1.max(high))));
            }
            None => integers = false,
        }
    }
    match bounds {
        Some((low, high)) if integers => ColumnInfo::int(field.clone(), low, high, info.nullable),
        _ => info,
    }
}

/// How far a pipe whose rows are kept has come.
struct Done {
    counts: Vec<Option<usize>>,
    prefix: usize,
    /// Rows of the first `prefix` morsels.
    rows: usize,
    /// Rows of all that have ended.
    all: usize,
}

impl Done {
    /// Counts a morsel; how many rows there are.
    fn end(&mut self, morsel: usize, rows: usize) -> usize {
        self.counts[morsel] = Some(rows);
        self.all = self.all.saturating_add(rows);
        while let Some(Some(rows)) = self.counts.get(self.prefix) {
            self.rows = self.rows.saturating_add(*rows);
            self.prefix += 1;
        }
        self.all
    }
}

/// Rows of one morsel that are kept.
#[derive(Default)]
struct Kept {
    columns: Vec<Vec<Arc<Vector>>>,
    rows: usize,
    reservations: Vec<Reservation>,
    bytes: u64,
}

impl Kept {
    fn take(&mut self, chunk: &mut Chunk, columns: usize, run: &Run<'_>) -> Result<(), ExecError> {
        self.columns.resize(columns, Vec::new());
        let mut bytes = 0;
        for (c, kept) in self.columns.iter_mut().enumerate() {
            let vector = chunk.column(c);
            bytes += vector.bytes();
            kept.push(vector);
        }
        self.rows += chunk.rows();
        self.bytes += bytes;
        match self.reservations.last_mut() {
            Some(reservation) => reservation.grow(bytes)?,
            None => self.reservations.push(run.reserve(bytes)?),
        }
        Ok(())
    }
}

impl Rows {
    /// No row.
    pub(crate) fn none(infos: Vec<ColumnInfo>) -> Rows {
        let columns = infos.iter().map(|info| Arc::new(info.empty())).collect();
        Rows { infos, columns, rows: 0, _charged: Vec::new(), lies: None }
    }

    /// Consecutive rows.
    fn slice(mut self, start: usize, rows: usize) -> Rows {
        if rows < self.rows {
            self.columns = self.columns.iter().map(|c| Arc::new(c.slice(start.min(self.rows), rows))).collect();
            self.rows = rows;
        }
        self
    }
}

/// Keeps the rows that pass.
#[derive(Clone)]
pub(crate) struct Filtering {
    pub(crate) test: Arc<dyn Test>,
}

impl Operator for Filtering {
    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.test.narrow(&mut chunk)?;
        if chunk.rows() == 0 { Ok(true) } else { out(chunk) }
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}

#[derive(Clone)]
enum Projected {
    Column(usize),
    Computed(Arc<dyn Evaluator>),
}

/// Other columns for the same rows.
#[derive(Clone)]
struct Projecting {
    sources: Arc<[Projected]>,
}

impl Operator for Projecting {
    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for source in self.sources.iter() {
            match source {
                Projected::Column(column) => columns.push(*column),
                Projected::Computed(evaluator) => {
                    let vector = evaluator.evaluate(&mut chunk)?;
                    columns.push(chunk.columns());
                    chunk.push(Arc::new(vector));
                }
            }
        }
        out(chunk.project(&columns))
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::KEPT_ROWS_MAX;
    use crate::chunk::vector::NO_ROW;

    #[test]
    fn rows_that_are_kept_have_numbers_of_their_own() {
        let mut done = Done { counts: vec![None; 3], prefix: 0, rows: 0, all: 0 };
        let half = 1 << 31;
        assert!(check_kept(done.end(2, half)).is_ok());
        assert!(check_kept(done.end(0, half - 1)).is_ok(), "the last number is {NO_ROW}, which no row has");
        let error = check_kept(done.end(1, 1)).unwrap_err();
        assert!(matches!(error, ExecError::TooManyRows { rows, most } if rows == 1 << 32 && most == KEPT_ROWS_MAX));
        assert!(error.to_string().contains("4294967296 rows"), "{error}");
        assert_eq!(done.rows, 1 << 32);
    }
}
