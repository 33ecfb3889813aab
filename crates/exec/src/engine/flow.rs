//! [`Flow`]: turns a plan into a [`Pipe`], running every pipeline below it on the way.
//!
//! A plan is walked from the top; an operator that has to see all its input first (a breaker) runs the pipe of that input
//! and becomes a source of rows. So when a pipe is put together, everything that it reads is known: row counts, bounds, and the
//! keys of joins, which are passed down as [`Filters`] to the scans that they can thin out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::FieldRef;
use numa::Reservation;
use parking_lot::Mutex;

use super::chunk::{Chunk, Rows};
use super::eval::{self, Evaluator, Test};
use super::filters::{Filters, behind, is_delicate_output};
use super::pipe::{Operator, Out, Pipe};
use super::profiled::watch;
use super::run::Run;
use super::source::{RowsSource, ScanSource, column_infos};
use super::vector::{ColumnInfo, Vector, integer_bounds, is_integer};
use super::{aggregate, join, sort, union};
use crate::ExecError;
use crate::operators::filter::Filter;
use crate::operators::project::Projection;
use crate::operators::scan::Scan;
use crate::optimize::is_delicate;
use crate::plan::{Output, Plan};
use crate::predicate::Predicate;
use crate::profile::{Numbering, Working};

/// A running plan.
pub(crate) struct Flow<'a> {
    /// What it runs with.
    pub(crate) run: Run<'a>,
    /// Results of shared plans by address.
    shared: Mutex<HashMap<usize, Arc<Rows>>>,
    /// Where operators are counted, if they are.
    numbering: Option<&'a Numbering>,
}

impl<'a> Flow<'a> {
    /// Nothing has run yet.
    pub(crate) fn new(run: Run<'a>) -> Flow<'a> {
        Flow { run, shared: Mutex::default(), numbering: None }
    }

    /// Counts what operators do.
    pub(crate) fn counting(self, numbering: Option<&'a Numbering>) -> Flow<'a> {
        Flow { numbering, ..self }
    }

    /// A pipe of the plan's rows. Rows whose columns cannot pass `filters` may be left out.
    pub(crate) fn pipe(&self, plan: &Plan, filters: &Filters) -> Result<Pipe, ExecError> {
        let Some((own, above)) = self.numbering.and_then(|n| n.of(plan)) else { return self.operator(plan, filters) };
        let _working = Working::on(Some(own.clone()));
        Ok(watch(self.operator(plan, filters)?, &own, &above))
    }

    fn operator(&self, plan: &Plan, filters: &Filters) -> Result<Pipe, ExecError> {
        self.run.check()?;
        match plan {
            Plan::Scan { .. } => self.scan(plan, Vec::new(), filters),
            Plan::Filter { input, predicate } => self.filter(input, predicate, filters),
            Plan::Project { input, outputs } => self.project(input, outputs, filters),
            Plan::Limit { input, skip, fetch } => {
                let needed = fetch.map(|f| f.saturating_add(*skip));
                let rows = self.collect(&self.pipe(input, &Filters::new())?, needed)?;
                let kept = rows.rows.saturating_sub(*skip).min(fetch.unwrap_or(usize::MAX));
                Ok(self.of_rows(Arc::new(rows.slice(*skip, kept))))
            }
            Plan::Aggregate(aggregation) => aggregate::pipe(self, aggregation, filters),
            Plan::Join(join) => join::pipe(self, join, filters),
            Plan::Sort(sort) => sort::pipe(self, sort, filters),
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
                Ok(self.of_rows(Arc::new(Rows { infos, columns, rows, _charged: Vec::new() })))
            }
            Plan::Shared(plan) => {
                let key = Arc::as_ptr(plan) as usize;
                let known = self.shared.lock().get(&key).cloned();
                let rows = match known {
                    Some(rows) => rows,
                    None => {
                        let rows = self.rows(plan, &Filters::new())?;
                        self.shared.lock().insert(key, rows.clone());
                        rows
                    }
                };
                Ok(self.of_rows(rows))
            }
        }
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
        let done = Mutex::new(Done { counts: vec![None; pipe.morsels()], prefix: 0, rows: 0 });
        let kept: Vec<Mutex<Kept>> = (0..pipe.morsels()).map(|_| Mutex::default()).collect();
        self.run.for_each(pipe.morsels(), &|m| pipe.node_of(m), &|morsel| {
            if done.lock().rows >= needed {
                return Ok(());
            }
            let mut mine = Kept::default();
            pipe.run(morsel, &self.run, &mut |mut chunk: Chunk| {
                mine.take(&mut chunk, pipe.infos.len(), &self.run)?;
                Ok(mine.rows < needed)
            })?;
            done.lock().end(morsel, mine.rows);
            *kept[morsel].lock() = mine;
            Ok(())
        })?;
        let kept: Vec<Kept> = kept.into_iter().map(Mutex::into_inner).collect();
        self.joined(kept, &pipe.infos)
    }

    fn joined(&self, kept: Vec<Kept>, infos: &[ColumnInfo]) -> Result<Rows, ExecError> {
        let rows = kept.iter().map(|k| k.rows).sum();
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
                return Ok(Arc::new(infos[c].empty()));
            }
            let own = parts.into_iter().map(|p| Arc::try_unwrap(p).unwrap_or_else(|shared| (*shared).clone()));
            Ok(Arc::new(Vector::concat(own.collect())))
        })?;
        Ok(Rows { infos: infos.to_vec(), columns, rows, _charged: reservations })
    }

    /// A scan with conjuncts over its output columns.
    fn scan(&self, scan: &Plan, conjuncts: Vec<Predicate>, filters: &Filters) -> Result<Pipe, ExecError> {
        let Plan::Scan { snapshot, columns, .. } = scan else { unreachable!("a scan is given") };
        let infos = column_infos(snapshot, columns);
        let (within, later) = split(conjuncts, &infos);
        let conjuncts: Vec<Predicate> = within.iter().map(|p| p.map_columns(&|c| columns[c])).collect();
        let filter = Filter::new(&conjuncts, &snapshot.schema)?;
        let outputs: Vec<Output> = columns
            .iter()
            .map(|&column| Output::Column { column, field: snapshot.schema.fields()[column].clone() })
            .collect();
        let projection = Projection::new(&outputs, &snapshot.schema);
        // What is tested within the scan sees all rows anyway.
        let shows = later.iter().any(is_delicate);
        let of_table: Filters = filters.iter().map(|wanted| wanted.below(columns[wanted.column], shows)).collect();
        let operator = Scan::new(snapshot.clone(), filter, projection, None);
        let source = ScanSource::new(operator, columns.clone(), infos.clone(), &of_table, &self.run)?;
        let rows = source.rows();
        let pipe = Pipe::of(Box::new(source), infos.clone(), rows);
        if later.is_empty() {
            return Ok(pipe);
        }
        let test = eval::prepared_test(&Predicate::And(later), &infos, &self.run, pipe.rows)?;
        Ok(pipe.then(Filtering { test }, infos))
    }

    fn filter(&self, input: &Plan, predicate: &Predicate, filters: &Filters) -> Result<Pipe, ExecError> {
        let (mut below, mut predicates) = (input, vec![predicate]);
        while let Plan::Filter { input, predicate } = below {
            predicates.push(predicate);
            below = input;
        }
        let conjuncts = predicates.into_iter().rev().flat_map(|p| match p.without_not() {
            Predicate::And(parts) => parts,
            other => vec![other],
        });
        if let Plan::Scan { .. } = below {
            return self.scan(below, conjuncts.collect(), filters);
        }
        let conjuncts: Vec<Predicate> = conjuncts.collect();
        let pipe = self.pipe(below, &behind(filters, conjuncts.iter().any(is_delicate)))?;
        let test = eval::prepared_test(&Predicate::And(conjuncts), &pipe.infos, &self.run, pipe.rows)?;
        let infos = pipe.infos.clone();
        Ok(pipe.then(Filtering { test }, infos))
    }

    fn project(&self, input: &Plan, outputs: &[Output], filters: &Filters) -> Result<Pipe, ExecError> {
        let shows = outputs.iter().any(is_delicate_output);
        let below = filters.iter().filter_map(|wanted| match &outputs[wanted.column] {
            Output::Column { column, .. } => Some(wanted.below(*column, shows)),
            Output::Expression { .. } => None,
        });
        let pipe = self.pipe(input, &below.collect())?;
        let (mut infos, mut sources) = (Vec::new(), Vec::new());
        for output in outputs {
            match output {
                Output::Column { column, field } => {
                    infos.push(ColumnInfo { field: field.clone(), ..pipe.infos[*column].clone() });
                    sources.push(Projected::Column(*column));
                }
                Output::Expression { expression, field } => {
                    let (info, evaluator) =
                        eval::prepared_evaluator(expression, field, &pipe.infos, &self.run, pipe.rows)?;
                    infos.push(info);
                    sources.push(Projected::Computed(evaluator));
                }
            }
        }
        Ok(pipe.then(Projecting { sources: sources.into() }, infos))
    }
}

/// Conjuncts that a scan tests on codes, and those that it would have to test row by row over Arrow arrays although they
/// can be tested without. What may fail stays behind whatever is written before it.
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
}

impl Done {
    fn end(&mut self, morsel: usize, rows: usize) {
        self.counts[morsel] = Some(rows);
        while let Some(Some(rows)) = self.counts.get(self.prefix) {
            self.rows = self.rows.saturating_add(*rows);
            self.prefix += 1;
        }
    }
}

/// Rows of one morsel that are kept.
#[derive(Default)]
struct Kept {
    columns: Vec<Vec<Arc<Vector>>>,
    rows: usize,
    reservations: Vec<Reservation>,
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
        match self.reservations.last_mut() {
            Some(reservation) => reservation.grow(bytes)?,
            None => self.reservations.push(run.reserve(bytes)?),
        }
        Ok(())
    }
}

impl Rows {
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
}
