//! Statements that write rows: INSERT, DELETE, UPDATE, TRUNCATE, CREATE TABLE (AS).
//!
//! Each has its table's write turn from before it takes its snapshot until it commits. Few rows go to the table's
//! delta (`small.rs`); many are staged and encoded outside any lock that readers see, and one commit makes them
//! visible. A statement that fails leaves nothing behind.
//!
//! # Limits
//! One writer at a time per table.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column as ColumnName, Constraint, Constraints, DFSchema};
use datafusion_expr::{
    CreateMemoryTable, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias, TableScanBuilder,
};
use datafusion_sql::parser::Statement;
use numa::{Budget, Reservation};
use sqlparser::ast::{self, ColumnDef};
use storage::{RowsToDelete, TableRow, TableVersion};

use crate::catalog::delta::SMALL_ROWS_MAX;
use crate::catalog::index::{IndexedTable, Origin, indexed};
use crate::catalog::lengths::{Lengths, of_query};
use crate::catalog::placement::spec::Spec;
use crate::catalog::rights::Thing;
use crate::catalog::rules::Deferral;
use crate::catalog::sequences::SequenceEntry;
use crate::catalog::{Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::reading::read;
use crate::plan::headers::with_names_apart;
use crate::run::changes::Went;
use crate::run::config;
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::{WrittenRules, normalised};
use crate::statements::keys::{check_keys, key_indexes};
use crate::statements::like::Likeness;
use crate::statements::placement::resolved;
use crate::statements::relations::{foreign_key, is_referred_to_by_none, not_beside_statements};
use crate::statements::returning::Returned;
use crate::statements::small::write_small;
use crate::statements::stage::{NewRows, PartStager, as_kept, build, compacted, nullable};
use crate::statements::telling::{is_asked, told_of_changing, told_of_going};
use crate::statements::transaction::locking::key_holder;
use crate::statements::writer::{is_left_alone, merged};
use crate::statements::{defaults, rules, sequences};
use crate::tables::stored::{ROW_ID, StoredSource};

/// One row that says how many rows were written.
pub(crate) fn count_result(rows: u64) -> Result<ResultStream> {
    static SCHEMA: LazyLock<SchemaRef> =
        LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])));
    let schema = Arc::clone(&SCHEMA);
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![rows]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// Refuses UPDATE with a column that gets two values.
pub(crate) fn check_assignments(statement: &Statement) -> Result<()> {
    let Statement::Statement(inner) = statement else { return Ok(()) };
    let ast::Statement::Update(update) = inner.as_ref() else { return Ok(()) };
    let mut seen: Vec<String> = Vec::new();
    for assignment in &update.assignments {
        let ast::AssignmentTarget::ColumnName(column) = &assignment.target else { continue };
        let Some(ident) = column.0.last().and_then(|part| part.as_ident()) else { continue };
        let name = normalised(ident.clone());
        if seen.contains(&name) {
            return Err(Error::plan(SqlState::SyntaxError, format!("column '{name}' is set twice; give it one value")));
        }
        seen.push(name);
    }
    Ok(())
}

/// The planner gives a VALUES list the columns' NOT NULL and would name its own columns in the error; ours names the
/// table's.
pub(super) fn nullable_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let relaxed = plan.transform_up(|node| match node {
        LogicalPlan::Values(mut values) => {
            let fields = values.schema.iter().map(|(q, f)| (q.cloned(), Arc::new(Field::clone(f).with_nullable(true))));
            values.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), values.schema.metadata().clone())?);
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        other => Transformed::no(other).map_data(LogicalPlan::recompute_schema),
    })?;
    Ok(relaxed.data)
}

pub(super) fn insert(
    table: &TableEntry,
    input: LogicalPlan,
    returned: &Returned,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let input = nullable_values(input)?;
    let mut rows = query::run(input, Arc::clone(running), true)?;
    let mut few = FewRows::new(&table.base.schema);
    if few.take_from(&mut rows)? {
        let few = few.batch()?;
        if returned.is_wanted() {
            returned.evaluate(&[as_kept(few.clone(), table)?], running)?;
        }
        let count = few.num_rows() as u64;
        if count == 0 || write_small(table, &few, &[], running)? {
            return Ok(Done::rows("INSERT", count));
        }
        return insert_many(table, [Ok(few)].into_iter(), running);
    }
    let rows = few.batches.into_iter().map(Ok).chain(rows);
    if !returned.is_wanted() {
        return insert_many(table, rows, running);
    }
    let mut all = Vec::new();
    let mut held = Vec::new();
    for batch in rows {
        let batch = as_kept(fitted(&batch?, &table.base.schema)?, table)?;
        held.push(running.statement.budget().reserve(batch.get_array_memory_size() as u64)?);
        all.push(batch);
    }
    returned.evaluate(&all, running)?;
    insert_many(table, all.into_iter().map(Ok), running)
}

fn insert_many(
    table: &TableEntry,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let (table, running) = merged(table, running)?;
    let new = stage(rows, &table, &running)?;
    let count = new.rows();
    if count > 0 {
        commit_checked(new.appended_to(&table, &table.base), &running)?;
    }
    Ok(Done::rows("INSERT", count))
}

/// The first rows of a statement, while they are few.
struct FewRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl FewRows {
    fn new(schema: &SchemaRef) -> FewRows {
        FewRows { schema: Arc::clone(schema), batches: Vec::new(), rows: 0 }
    }

    /// Takes rows while they are few; whether there are no more.
    fn take_from(&mut self, rows: &mut ResultStream) -> Result<bool> {
        while self.rows <= SMALL_ROWS_MAX {
            let Some(batch) = rows.next().transpose()? else { return Ok(true) };
            self.rows += batch.num_rows();
            self.batches.push(batch);
        }
        Ok(false)
    }

    /// They, in the table's types.
    fn batch(self) -> Result<RecordBatch> {
        let fitted = self.batches.iter().map(|batch| fitted(batch, &self.schema)).collect::<Result<Vec<_>>>()?;
        match &fitted[..] {
            [one] => Ok(one.clone()),
            several => Ok(concat_batches(&nullable(&self.schema), several)?),
        }
    }
}

pub(super) fn overwrite(table: &TableEntry, input: LogicalPlan, running: &Arc<RunningStatement>) -> Result<Done> {
    is_left_alone(table, running)?;
    not_beside_statements(table, running)?;
    let rows = query::run(input, Arc::clone(running), true)?;
    let emptied = emptied(table);
    let new = stage(rows, &emptied, running)?;
    let count = new.rows();
    commit_checked(new.appended_to(&emptied, &emptied.base), running)?;
    Ok(Done::rows("INSERT", count))
}

/// TRUNCATE, for the one writer of the table.
pub(super) fn truncate(table: &TableEntry, running: &Arc<RunningStatement>) -> Result<Done> {
    is_left_alone(table, running)?;
    commit(emptied(table), running)?;
    Ok(Done::rows("TRUNCATE", table.live_rows() as u64))
}

/// The table without rows.
pub(super) fn emptied(table: &TableEntry) -> TableEntry {
    let placement = Arc::new(table.placement.emptied());
    TableEntry { base: Arc::new(table.base.truncated()), delta: None, placement, ..table.clone() }
}

pub(super) fn delete(
    table: &TableEntry,
    input: LogicalPlan,
    returned: &Returned,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let is_joined = is_joined(&input)?;
    let columns = table.base.schema.fields().len();
    let input = with_row_ids(with_others(input, columns, returned)?, table)?;
    let mut outputs: Vec<Expr> = vec![Expr::Column(row_id_column(&input)?)];
    if returned.is_wanted() {
        let rows = input.schema().columns().into_iter().filter(|column| column.name != ROW_ID);
        outputs.extend(rows.map(Expr::Column));
    }
    let plan = LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(input))?);
    let mut deleted = Deletion::default();
    let mut seen = is_joined.then(HashSet::new);
    let mut told = Told::default();
    for batch in query::run(plan, Arc::clone(running), true)? {
        let batch = first_of_each(batch?, 0, &mut seen)?;
        deleted.add(batch.column(0), running.statement.budget())?;
        told_of_going(table, batch.column(0), Went::Deleted, running)?;
        if returned.is_wanted() {
            let rows: Vec<usize> = (1..batch.num_columns()).collect();
            told.add(batch.project(&rows)?, running)?;
        }
    }
    returned.evaluate(&told.rows, running)?;
    let count = deleted.rows;
    if count > 0 && !deleted.is_written_small(table, None, running)? {
        let (table, running) = merged(table, running)?;
        let version = Arc::new(deleted.apply(&table, &running)?);
        commit(TableEntry { base: version, ..TableEntry::clone(&table) }, &running)?;
    }
    Ok(Done::rows("DELETE", count))
}

pub(super) fn update(
    table: &TableEntry,
    input: LogicalPlan,
    returned: &Returned,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let mut seen = is_joined(&input)?.then(HashSet::new);
    let columns: Vec<usize> = (0..table.base.schema.fields().len()).collect();
    let plan = with_row_ids(with_others(input, columns.len(), returned)?, table)?;
    let last = plan.schema().fields().len() - 1;
    let mut deleted = Deletion::default();
    let mut told = Told::default();
    let mut few = FewRows::new(&table.base.schema);
    let mut many: Option<PartStager> = None;
    for batch in query::run(plan, Arc::clone(running), true)? {
        let batch = first_of_each(batch?, last, &mut seen)?;
        deleted.add(batch.column(last), running.statement.budget())?;
        let others = batch.columns()[columns.len()..last].to_vec();
        let ids = Arc::clone(batch.column(last));
        let batch = batch.project(&columns)?;
        if is_asked(table, running) {
            let kept = as_kept(fitted(&batch, &table.base.schema)?, table)?;
            told_of_changing(table, &ids, &kept, running)?;
        }
        if returned.is_wanted() {
            told.add(beside(as_kept(fitted(&batch, &table.base.schema)?, table)?, others)?, running)?;
        }
        match &mut many {
            None if few.rows + batch.num_rows() <= SMALL_ROWS_MAX => {
                few.rows += batch.num_rows();
                few.batches.push(batch);
            }
            None => {
                let mut stager = PartStager::new(table, running)?;
                for batch in few.batches.drain(..).chain([batch]) {
                    stager.append(&fitted(&batch, &table.base.schema)?)?;
                }
                many = Some(stager);
            }
            Some(stager) => stager.append(&fitted(&batch, &table.base.schema)?)?,
        }
    }
    returned.evaluate(&told.rows, running)?;
    let count = deleted.rows;
    if count == 0 {
        return Ok(Done::rows("UPDATE", count));
    }
    let stager = match many {
        Some(stager) => stager,
        None => {
            let few = few.batch()?;
            if deleted.is_written_small(table, Some(&few), running)? {
                return Ok(Done::rows("UPDATE", count));
            }
            let mut stager = PartStager::new(table, running)?;
            stager.append(&few)?;
            stager
        }
    };
    replace(deleted, stager, table, running)?;
    Ok(Done::rows("UPDATE", count))
}

/// Puts many rows in the place of others.
fn replace(deleted: Deletion, new: PartStager, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
    let (table, running) = merged(table, running)?;
    let new = build(vec![new.finish()?], &table, &running)?;
    let version = deleted.apply(&table, &running)?;
    commit_checked(new.appended_to(&table, &version), &running)
}

/// Rows that take the place of others, in memory until all are known.
#[derive(Default)]
pub(super) struct Replacement {
    deleted: Deletion,
    added: Told,
}

impl Replacement {
    /// How many rows go.
    pub(super) fn rows(&self) -> u64 {
        self.deleted.rows
    }

    /// Rows that come, as the table keeps them.
    pub(super) fn add(&mut self, rows: RecordBatch, running: &RunningStatement) -> Result<()> {
        self.added.add(rows, running)
    }

    /// Rows that go, by their identities.
    pub(super) fn remove(&mut self, ids: &ArrayRef, running: &RunningStatement) -> Result<()> {
        self.deleted.add(ids, running.statement.budget())
    }

    /// Makes it so.
    pub(super) fn commit(self, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
        let count: usize = self.added.rows.iter().map(RecordBatch::num_rows).sum();
        if count == 0 && self.deleted.rows == 0 {
            return Ok(());
        }
        if count <= SMALL_ROWS_MAX {
            let added = concat_batches(&nullable(&table.base.schema), &self.added.rows)?;
            if self.deleted.is_written_small(table, Some(&added), running)? {
                return Ok(());
            }
        }
        let mut stager = PartStager::new(table, running)?;
        self.added.rows.iter().try_for_each(|rows| stager.append(rows))?;
        replace(self.deleted, stager, table, running)
    }
}

/// Rows that RETURNING is about.
#[derive(Default)]
struct Told {
    rows: Vec<RecordBatch>,
    held: Vec<Reservation>,
}

impl Told {
    fn add(&mut self, rows: RecordBatch, running: &RunningStatement) -> Result<()> {
        self.held.push(running.statement.budget().reserve(rows.get_array_memory_size() as u64)?);
        self.rows.push(rows);
        Ok(())
    }
}

/// Rows with further columns behind their own.
fn beside(rows: RecordBatch, others: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields = others.iter().enumerate();
    let fields =
        fields.map(|(place, column)| Arc::new(Field::new(format!("{place}"), column.data_type().clone(), true)));
    let schema = Schema::new(rows.schema().fields().iter().cloned().chain(fields).collect::<Vec<_>>());
    let columns = rows.columns().iter().cloned().chain(others).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// Whether the table's rows come beside those of others, each maybe several times.
fn is_joined(plan: &LogicalPlan) -> Result<bool> {
    Ok(plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))))?)
}

/// The rows whose identities come for the first time: of several rows that one is joined with, the first counts.
fn first_of_each(batch: RecordBatch, ids: usize, seen: &mut Option<HashSet<u64>>) -> Result<RecordBatch> {
    let Some(seen) = seen else { return Ok(batch) };
    let ids = batch.column(ids).as_primitive_opt::<UInt64Type>();
    let ids = ids.ok_or_else(|| Error::Internal("row identities of another type".into()))?;
    let is_first: BooleanArray = ids.values().iter().map(|id| Some(seen.insert(*id))).collect();
    Ok(filter_record_batch(&batch, &is_first)?)
}

/// The plan of the rows of an UPDATE, or of a DELETE that is planned as one, with the columns of the tables that its
/// own
/// is joined with behind its `columns`, where RETURNING may read them.
fn with_others(plan: LogicalPlan, columns: usize, returned: &Returned) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(Projection { mut expr, input, .. }) if returned.is_wanted() => {
            expr.extend(returned.others(&input, columns));
            Ok(LogicalPlan::Projection(Projection::try_new(expr, input)?))
        }
        other => Ok(other),
    }
}

/// The plan of a DELETE's or UPDATE's rows, with the rows' identities as one more column.
pub(super) fn with_row_ids(plan: LogicalPlan, table: &TableEntry) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::TableScan(scan) => {
            let source = Arc::new(StoredSource::with_row_ids(table));
            let builder = TableScanBuilder::new(scan.table_name, source).with_filters(scan.filters);
            LogicalPlan::TableScan(builder.with_fetch(scan.fetch).build()?)
        }
        LogicalPlan::Filter(filter) => {
            let input = with_row_ids(Arc::unwrap_or_clone(filter.input), table)?;
            LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = with_row_ids(Arc::unwrap_or_clone(alias.input), table)?;
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias)?)
        }
        LogicalPlan::Join(join) => {
            // What is written stands before what it is joined with.
            let left = with_row_ids(join.left.as_ref().clone(), table)?;
            let right = join.right.as_ref().clone();
            let join = LogicalPlan::Join(join);
            join.with_new_exprs(join.expressions(), vec![left, right])?
        }
        LogicalPlan::Limit(limit) => {
            let input = with_row_ids(Arc::unwrap_or_clone(limit.input), table)?;
            LogicalPlan::Limit(Limit { skip: limit.skip, fetch: limit.fetch, input: Arc::new(input) })
        }
        LogicalPlan::Projection(projection) => {
            let input = with_row_ids(Arc::unwrap_or_clone(projection.input), table)?;
            let mut exprs = projection.expr;
            exprs.push(Expr::Column(row_id_column(&input)?));
            LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)
        }
        other => {
            return Err(Error::Unsupported(format!(
                "this form of DELETE or UPDATE is not supported: {}",
                other.display()
            )));
        }
    })
}

/// Which column of a plan the rows' identities are.
pub(super) fn row_ids_of(plan: &LogicalPlan) -> Result<usize> {
    Ok(plan.schema().index_of_column(&row_id_column(plan)?)?)
}

fn row_id_column(plan: &LogicalPlan) -> Result<ColumnName> {
    let found = plan.schema().columns().into_iter().find(|c| c.name == ROW_ID);
    found.ok_or_else(|| Error::Internal("the rows' identities are missing".into()))
}

/// Rows to take away, by segment.
#[derive(Default)]
pub(super) struct Deletion {
    by_segment: BTreeMap<usize, Vec<u32>>,
    rows: u64,
    held: Vec<Reservation>,
}

impl Deletion {
    /// Row identities: the segment's place in the snapshot in the upper half, the row in the lower.
    pub(super) fn add(&mut self, ids: &ArrayRef, budget: &Arc<Budget>) -> Result<()> {
        self.held.push(budget.reserve((ids.len() * size_of::<u32>()) as u64)?);
        let ids = ids.as_any().downcast_ref::<UInt64Array>();
        let ids = ids.ok_or_else(|| Error::Internal("row identities of another type".into()))?;
        for id in ids.values() {
            self.by_segment.entry((id >> 32) as usize).or_default().push(*id as u32);
        }
        self.rows += ids.len() as u64;
        Ok(())
    }

    /// Lets the rows die, and adds others, where both are few; whether that was done.
    fn is_written_small(
        &self,
        table: &TableEntry,
        added: Option<&RecordBatch>,
        running: &Arc<RunningStatement>,
    ) -> Result<bool> {
        if self.rows as usize > SMALL_ROWS_MAX {
            return Ok(false);
        }
        let rows = self.by_segment.iter().flat_map(|(segment, rows)| rows.iter().map(|row| (*segment as u64, *row)));
        let dead = table.places(rows.map(|(segment, row)| segment << 32 | u64::from(row)))?;
        let none;
        let added = match added {
            Some(added) => added,
            None => {
                none = RecordBatch::new_empty(Arc::clone(&table.base.schema));
                &none
            }
        };
        write_small(table, added, &dead, running)
    }

    /// The table's version without them; fails where a transaction holds one, which is waited for.
    pub(super) fn apply(self, table: &TableEntry, running: &RunningStatement) -> Result<TableVersion> {
        if let Some(delta) = table.delta.as_ref().filter(|delta| delta.rows.has_holds()) {
            let rows = self.by_segment.iter().flat_map(|(segment, rows)| {
                rows.iter().map(|row| TableRow::Base { segment: *segment as u32, row: *row })
            });
            if let Some(holder) = delta.rows.holder_of(&rows.collect::<Vec<_>>(), None, &table.base)? {
                return Err(running.blocked_by(holder));
            }
        }
        let mut places = Vec::new();
        for (part, segments) in table.base.parts.iter().enumerate() {
            places.extend((0..segments.segments.len()).map(|segment| (part, segment)));
        }
        let mut deletes = Vec::with_capacity(self.by_segment.len());
        for (place, rows) in self.by_segment {
            let Some(&(part, segment)) = places.get(place) else {
                return Err(Error::Internal("a row identity names no segment".into()));
            };
            deletes.push(RowsToDelete { part, segment, rows });
        }
        Ok(table.base.with_deleted(&deletes, &table.meta.allocator())?)
    }
}

/// Stages a query's rows and encodes them for the table's parts.
pub(crate) fn stage(
    rows: impl Iterator<Item = Result<RecordBatch>>,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<NewRows> {
    let mut stager = PartStager::new(table, running)?;
    for batch in rows {
        stager.append(&fitted(&batch?, &table.base.schema)?)?;
    }
    build(vec![stager.finish()?], table, running)
}

/// The batch with the schema's types; a value that does not fit is an error.
pub(crate) fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => fitted_column(column, field),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(nullable(schema), columns, &options)?)
}

/// The column with the field's type; a value that does not fit is an error.
pub(super) fn fitted_column(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let fitted = match column.data_type().is_string() {
        true => read(column, field.data_type(), false),
        false => arrow::compute::cast_with_options(column, field.data_type(), &options).map_err(Error::from),
    };
    fitted.map_err(|e| Error::execution(e.code(), format!("column '{}': {e}", field.name())))
}

/// Makes new rows the table's, after its keys were checked; small segments are merged where that pays.
pub(crate) fn commit_checked(table: TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
    let before = running.catalog.by_id(table.id).map(|table| &table.base);
    // Checked before segments are merged: only what the statement adds is new.
    let table = indexed(table, running)?;
    check_keys(&table, before.map(Arc::as_ref), running)?;
    if running.transaction.is_none()
        && let Some(holder) = key_holder(table.table(), before.map(Arc::as_ref))?
    {
        return Err(running.blocked_by(holder));
    }
    commit(table.into_table(), running)
}

/// Makes a version the table's whose keys are known to hold; small segments are merged where that pays.
fn commit(table: TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
    // What is held has the places that it has.
    let table = if table.delta.is_some() { table } else { compacted(table, running)? };
    let table = indexed(table, running)?;
    let _ahead = running.home.ahead(&table.table().base)?;
    running.check()?;
    let (meta, rows) = (Arc::clone(&table.table().meta), table.table().base.rows());
    running.home.commit(|state| state.set_table(table))?;
    if running.transaction.is_none() {
        meta.wrote(rows);
    }
    Ok(())
}

/// What CREATE TABLE says of its table that the planner does not read.
pub(crate) struct Definition<'a> {
    /// Of the columns that it declares; without any the query's.
    pub lengths: Option<Lengths>,
    /// The columns' definitions.
    pub columns: &'a [ColumnDef],
    /// What of them was taken off.
    pub rules: &'a WrittenRules,
    /// What it gets of tables that it is like.
    pub likeness: Likeness,
}

/// CREATE TABLE and CREATE TABLE AS.
///
/// `placement`: what `WITH (placement = '..')` said.
pub(crate) fn create_table(
    create: CreateMemoryTable,
    placement: Option<&str>,
    Definition { lengths, columns, rules: written, likeness }: Definition<'_>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let name = running.new_name(&create.name, create.temporary)?;
    if let Some(existing) = running.catalog.get(&name) {
        match (create.if_not_exists, create.or_replace) {
            (true, _) => return Ok(Done::new("CREATE TABLE")),
            (false, true) if existing.is_written() => {}
            _ => return Err(Error::Exists { kind: existing.kind(), name: name.shown() }),
        }
    }
    let input = with_names_apart(Arc::unwrap_or_clone(create.input))?;
    let declared = matches!(input, LogicalPlan::EmptyRelation(_));
    let schema = stored_schema(input.schema().as_arrow(), &create.constraints, declared)?;
    let mut table = new_table(name.clone(), schema.clone(), placement, running)?;
    for column in columns {
        let name = normalised(column.name.clone());
        if let (Some(value), Ok(field)) = (defaults::written(column), table.base.schema.field_with_name(&name))
            && let Some(default) = defaults::default_of(value, &Field::clone(field), running)?
        {
            Arc::make_mut(&mut table.defaults).insert(name, default);
        }
    }
    table.lengths = lengths.unwrap_or_else(|| of_query(input.schema().as_arrow()));
    table.defaults.iter().try_for_each(|(column, default)| defaults::is_label(default, table.lengths.get(column)))?;
    table.indexes = Arc::new(key_indexes(keys(&create.constraints, &schema), &schema)?);
    Arc::make_mut(&mut table.indexes).extend(likeness.indexes);
    table.comments = Arc::new(likeness.comments);
    name_keys(&mut table, &written.key_names, running)?;
    rules::put(&mut table, written, running)?;
    for key in &written.foreign_keys {
        let key = foreign_key(&table, key, running)?;
        if Arc::ptr_eq(&running.home, &running.inner.catalog) {
            return Err(running.wants_transaction());
        }
        if let Some(of) = running.transaction.as_ref().filter(|_| key.to != table.id) {
            of.wants_unchanged(key.to);
        }
        Arc::make_mut(&mut table.rules).refer(key);
    }
    let mut numbered: Vec<(Name, SequenceEntry)> = Vec::new();
    for column in &written.numbered {
        let taken: Vec<Name> = numbered.iter().map(|(name, _)| name.clone()).chain([name.clone()]).collect();
        numbered.push(sequences::number(&mut table, column, &taken, running)?);
    }
    let mut count = None;
    if !declared {
        let rows = query::run(input, Arc::clone(running), true)?;
        let new = stage(rows, &table, running)?;
        count = Some(new.rows());
        table = new.appended_to(&table, &table.base);
    }
    let table = indexed(table, running)?;
    check_keys(&table, None, running)?;
    let table = with_deferrals(table, &written.key_deferrals);
    let _ahead = running.home.ahead(&table.table().base)?;
    running.check()?;
    let replaces = create.or_replace;
    let keeps = create.if_not_exists;
    running.home.commit(|state| {
        match state.get(&name) {
            Some(Entry::Table(table)) if replaces && table.materialized.is_none() => {
                is_left_alone(table, running)?;
                let table = Arc::clone(table);
                is_referred_to_by_none(state, &table)?;
                sequences::drop_owned(state, &table, None)?;
                state.remove(&name);
            }
            Some(_) if keeps => return Ok(()),
            Some(other) => return Err(Error::Exists { kind: other.kind(), name: name.shown() }),
            None => {}
        }
        state.has_domains_of(table.table())?;
        // What it refers to is still there.
        for key in &table.table().rules.foreign_keys {
            if key.to != table.table().id && state.by_id(key.to).is_none() {
                return Err(Error::execution(
                    SqlState::UndefinedTable,
                    format!("the table that foreign key '{}' refers to was dropped meanwhile", key.name),
                ));
            }
        }
        state.put_table(name.clone(), table)?;
        state.made_by(running.user, Thing::named(&name));
        numbered.into_iter().try_for_each(|(name, sequence)| match state.get(&name) {
            Some(taken) => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
            None => {
                state.put_sequence(name.clone(), Arc::new(sequence))?;
                state.made_by(running.user, Thing::named(&name));
                Ok(())
            }
        })
    })?;
    Ok(Done { tag: "CREATE TABLE".into(), rows: count })
}

/// Has keys looked at when the statement says; of several over the same columns the strictest is what is kept.
fn with_deferrals(table: IndexedTable, said: &[(Vec<String>, Deferral)]) -> IndexedTable {
    table.with_keys(|index| {
        let of_it = said.iter().filter(|(columns, _)| index.is_key() && *columns == index.columns);
        let deferral = of_it.map(|(_, deferral)| *deferral).min().unwrap_or_default();
        if deferral == Deferral::Never { index.clone() } else { index.clone().deferrable(deferral) }
    })
}

/// Gives keys the names that they were given.
fn name_keys(table: &mut TableEntry, names: &[(Vec<String>, String)], running: &Arc<RunningStatement>) -> Result<()> {
    for (columns, name) in names {
        let full = Name { schema: table.name.schema.clone(), table: name.clone() };
        let is_other = running.catalog.index(&full).is_some_and(|(of, _)| of.name != table.name);
        if is_other {
            return Err(Error::Exists { kind: "index", name: full.shown() });
        }
        let mut indexes = Arc::make_mut(&mut table.indexes).iter_mut();
        if let Some(index) = indexes.find(|index| index.columns == *columns && index.name.is_empty()) {
            index.name = name.clone();
        }
    }
    Ok(())
}

/// A table that nobody sees yet, placed as the statement says, or as the session's `nearside.placement` does.
pub(crate) fn new_table(
    name: Name,
    schema: SchemaRef,
    placement: Option<&str>,
    running: &Arc<RunningStatement>,
) -> Result<TableEntry> {
    let mut table = running.home.new_table(name, schema)?;
    let settings = config::nearside(running.planner.config_options());
    let spec = Spec::parse(placement.unwrap_or(&settings.placement))?;
    table.placement = Arc::new(resolved(spec, &table, running)?);
    Ok(table)
}

/// A query's columns as a table stores them: surface types, unique names, NOT NULL where a primary key says so.
///
/// What a query happens to give without NULLs is not thereby forbidden them: only declared columns can be NOT NULL.
pub(super) fn stored_schema(schema: &Schema, constraints: &Constraints, declared: bool) -> Result<SchemaRef> {
    let mut required: Vec<usize> = Vec::new();
    for constraint in constraints.iter() {
        if let Constraint::PrimaryKey(columns) = constraint {
            required.extend(columns);
        }
    }
    let surfaced = storage::surface_schema(schema);
    let mut seen = std::collections::HashSet::new();
    let mut fields = Vec::with_capacity(surfaced.fields().len());
    for (i, field) in surfaced.fields().iter().enumerate() {
        if !seen.insert(field.name()) {
            return Err(Error::plan(
                SqlState::DuplicateColumn,
                format!("column '{}' stands twice; give one of them another name", field.name()),
            ));
        }
        if field.name() == ROW_ID {
            return Err(Error::plan(
                SqlState::ReservedName,
                format!("the column name '{ROW_ID}' is taken by Nearside; use another"),
            ));
        }
        let nullable = (field.is_nullable() || !declared) && !required.contains(&i);
        fields.push(Field::new(field.name(), field.data_type().clone(), nullable));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn keys(constraints: &Constraints, schema: &SchemaRef) -> Vec<(Origin, Vec<String>)> {
    let sets = constraints.iter().map(|c| match c {
        Constraint::PrimaryKey(columns) => (Origin::PrimaryKey, columns),
        Constraint::Unique(columns) => (Origin::Unique, columns),
    });
    sets.map(|(origin, columns)| (origin, columns.iter().map(|&i| schema.field(i).name().clone()).collect())).collect()
}
