//! INSERT .. ON CONFLICT: rows whose key is taken are left out, or change the row that has it.
//!
//! The proposed rows are collected, their keys looked up together, and what DO UPDATE says is evaluated for all pairs
//! of a row and the proposed one beside it, as the UPDATE of a table of such pairs. Then each proposed row's fate is
//! decided in the order of the rows ([`fates`], [`kept`]): what an earlier one did to a key counts. One commit takes
//! changed rows away and adds them as they are then, with those that are new; all keys are checked as for any write.
//!
//! # Invariants
//! Existing rows are those of the statement's snapshot, which is the table itself: the statement is its one writer.
//!
//! # Limits
//! Rows are proposed in memory, within the statement's budget. Keys are checked when all rows are there, as for UPDATE:
//! PostgreSQL checks after each row, and refuses what is right in the end only.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{concat_batches, take, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{LogicalPlan, TableScanBuilder};
use numa::Reservation;
use sqlparser::ast::DoUpdate;
use storage::{Keys, TableRow};
use units::versions::Pin;

use crate::catalog::delta::{FoundKeys, SMALL_ROWS_MAX};
use crate::catalog::index::{IndexEntry, Origin, indexed, position};
use crate::catalog::placement::column_index;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Name, TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::permission::columns_read;
use crate::run::by_key::account;
use crate::run::changes::Went;
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{Conflict, Pairs, Target, Writes, as_update, plan_statement};
use crate::statements::keys::shown;
use crate::statements::pairs::{PAIRS_ID, names_of_pairs, pairs_table};
use crate::statements::parameters::with_values;
use crate::statements::returning::Returned;
use crate::statements::small::{Known, KnownKeys, SmallWrite, write_beside_others, write_small};
use crate::statements::stage::{PartStager, as_kept, build, nullable};
use crate::statements::telling::told_of_going;
use crate::statements::write::{Deletion, check_assignments, commit_checked, fitted, nullable_values};
use crate::statements::writer::{Attempt, merged};
use crate::statements::written;
use crate::statements::written_views::WrittenView;
use crate::tables::sources::GivenSource;
use crate::tables::stored::StoredSource;

/// Bytes that looking a key up takes besides its values.
const BYTES_PER_KEY: usize = 32;

/// `INSERT .. ON CONFLICT` of the rows that `input` gives.
pub(super) fn insert(
    table: &TableEntry,
    input: LogicalPlan,
    conflict: &Conflict,
    (values, returned): (&[ScalarValue], &Returned),
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let view = returned.view();
    let of_table = in_table(conflict, view)?;
    let keys = keys_of(table, &of_table)?;
    match view {
        Some(view) => view.may_look_up(&conflict.target, running)?,
        None => may_look_up(table, conflict, &keys, running)?,
    }
    let update = match &conflict.update {
        Some(update) => Some(Update::planned(table, &conflict.alias, update, (values, view), running)?),
        None => None,
    };
    let mut proposed = Rows::new(table, running);
    for batch in query::run(nullable_values(input)?, Arc::clone(running), true)? {
        proposed.add(&batch?)?;
    }
    let proposed = proposed.together()?;
    let conflict = Proposal { proposed: &proposed.batch, keys: &keys, update: update.as_ref(), returned };
    let rows = proposed.batch.num_rows();
    let count = small_or_merged(rows, table, running, |table, running| conflict.carried_out(table, running))?;
    Ok(Done::rows("INSERT", count))
}

/// Fails where the role may not read the columns of the keys that ON CONFLICT names: what becomes of a row tells which
/// of them there are.
///
/// # Errors
/// So it is.
pub(crate) fn may_look_up(
    table: &TableEntry,
    conflict: &Conflict,
    keys: &[(usize, &IndexEntry)],
    running: &RunningStatement,
) -> Result<()> {
    if matches!(conflict.target, Target::Any) {
        return Ok(());
    }
    let columns = keys.iter().flat_map(|(_, index)| index.columns.iter().cloned()).collect();
    running.may().need_columns(&Thing::named(&table.name), Privileges::SELECT, &columns)
}

/// Does something over a table's delta where it is about few rows and the delta allows, else over the merged table.
pub(super) fn small_or_merged(
    rows: usize,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
    work: impl Fn(&TableEntry, &Arc<RunningStatement>) -> Result<Option<u64>>,
) -> Result<u64> {
    if rows <= SMALL_ROWS_MAX
        && let Some(count) = work(table, running)?
    {
        return Ok(count);
    }
    let (table, running) = merged(table, running)?;
    work(&table, &running)?.ok_or_else(|| Error::Internal("keys of a merged table clash".into()))
}

/// Rows that are proposed, and what is said of them.
struct Proposal<'a> {
    proposed: &'a RecordBatch,
    /// The unique indexes that it is about, by their numbers.
    keys: &'a [(usize, &'a IndexEntry)],
    update: Option<&'a Update>,
    returned: &'a Returned,
}

impl Proposal<'_> {
    /// Inserts and changes what is to be; how many rows that are. `None` where nothing was done since the table's delta
    /// has to be merged before.
    fn carried_out(&self, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<Option<u64>> {
        let mut taken = Vec::with_capacity(self.keys.len());
        for (number, index) in self.keys {
            match Taken::of(table, *number, index, self.proposed, running)? {
                Some(key) => taken.push(key),
                None => return Ok(None),
            }
        }
        let changes = match (self.update, taken.as_slice()) {
            (Some(update), [taken]) => changed(update, table, self.proposed, taken, running)?,
            _ => Changes { new: kept(&taken, self.proposed.num_rows()), ..Changes::default() },
        };
        if self.returned.is_wanted() {
            self.returned.evaluate(&[changes.in_order(self.proposed)?], running)?;
        }
        changes.apply(table, self.proposed, running)
    }
}

/// Checks what ON CONFLICT says; the plan of DO UPDATE, and the columns that it is over: the table's, and the proposed
/// row's.
///
/// # Errors
/// Those of planning.
pub(crate) fn update_plan(
    table: &TableEntry,
    conflict: &Conflict,
    view: Option<&Arc<WrittenView>>,
    running: &Arc<RunningStatement>,
) -> Result<Option<(LogicalPlan, SchemaRef)>> {
    keys_of(table, in_table(conflict, view)?.as_ref())?;
    let Some(update) = &conflict.update else { return Ok(None) };
    let planned = Update::planned(table, &conflict.alias, update, (&[], view), running)?;
    let schema = StoredSource::new(&planned.pairs).schema;
    // Behind them the pairs have a number.
    let columns: Vec<usize> = (0..schema.fields().len() - 1).collect();
    Ok(Some((planned.plan, Arc::new(schema.project(&columns)?))))
}

/// What a clause says in terms of the table, where it is about a view.
fn in_table<'a>(conflict: &'a Conflict, view: Option<&Arc<WrittenView>>) -> Result<Cow<'a, Conflict>> {
    match view {
        Some(view) => Ok(Cow::Owned(Conflict { target: view.target_of(&conflict.target)?, ..conflict.clone() })),
        None => Ok(Cow::Borrowed(conflict)),
    }
}

/// The unique indexes that a clause is about.
pub(crate) fn keys_of<'a>(table: &'a TableEntry, conflict: &Conflict) -> Result<Vec<(usize, &'a IndexEntry)>> {
    let unique = || table.unique_indexes().enumerate();
    let name = table.name.shown();
    let is_meant = |index: &&IndexEntry| match &conflict.target {
        Target::Any => true,
        Target::Columns(columns) => {
            index.columns.iter().all(|c| columns.contains(c)) && columns.iter().all(|c| index.is_over(c))
        }
        Target::Constraint(constraint) => index.name == *constraint,
    };
    if let Some(index) = table.deferrable_keys().find(is_meant) {
        return Err(Error::execution(
            SqlState::ObjectNotInPrerequisiteState,
            format!(
                "ON CONFLICT: key '{}' of table '{name}' is DEFERRABLE, so two rows may have it for a while; ON \
                 CONFLICT is for keys that are not",
                index.name
            ),
        ));
    }
    match &conflict.target {
        Target::Any if conflict.update.is_some() => Err(Error::plan(
            SqlState::SyntaxError,
            "ON CONFLICT DO UPDATE says which key it is about: write ON CONFLICT (columns) DO UPDATE ..",
        )),
        Target::Any => Ok(unique().collect()),
        Target::Columns(columns) => {
            for column in columns {
                column_index(&table.base.schema, column)?;
            }
            let is_it = |(_, index): &(usize, &IndexEntry)| {
                columns.iter().all(|c| index.is_over(c)) && index.columns.iter().all(|c| columns.contains(c))
            };
            let there: Vec<String> = unique().map(|(_, index)| format!("({})", index.columns.join(", "))).collect();
            let there = if there.is_empty() { "it has none".into() } else { format!("there is {}", there.join(", ")) };
            unique().find(is_it).map(|index| vec![index]).ok_or_else(|| {
                Error::plan(SqlState::InvalidColumnReference, format!(
                    "ON CONFLICT ({}): table '{name}' has no primary key, UNIQUE constraint or unique index over just \
                     these columns; {there}",
                    columns.join(", ")
                ))
            })
        }
        Target::Constraint(constraint) => {
            let constraints = || unique().filter(|(_, index)| index.origin != Origin::Created);
            let there: Vec<&str> = constraints().map(|(_, index)| index.name.as_str()).collect();
            let there = if there.is_empty() { "it has none".into() } else { format!("there is {}", there.join(", ")) };
            constraints().find(|(_, index)| index.name == *constraint).map(|index| vec![index]).ok_or_else(|| {
                Error::plan(SqlState::UndefinedObject, format!(
                    "ON CONFLICT ON CONSTRAINT {constraint}: table '{name}' has no primary key or UNIQUE constraint of \
                     this name; {there}"
                ))
            })
        }
    }
}

/// Rows as the table would keep them, in the statement's budget.
struct Rows<'a> {
    table: &'a TableEntry,
    running: &'a RunningStatement,
    batches: Vec<RecordBatch>,
    held: Vec<Reservation>,
}

/// All of some rows, for as long as this is there.
pub(super) struct Together {
    batch: RecordBatch,
    _held: Vec<Reservation>,
}

impl<'a> Rows<'a> {
    fn new(table: &'a TableEntry, running: &'a RunningStatement) -> Rows<'a> {
        Rows { table, running, batches: Vec::new(), held: Vec::new() }
    }

    /// Adds rows with the table's columns.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = as_kept(fitted(batch, &self.table.base.schema)?, self.table)?;
        let columns = batch.columns().iter().map(own_memory).collect();
        let batch = RecordBatch::try_new(batch.schema(), columns)?;
        // As much again for when they are put together, and for their keys.
        let bytes = 2 * batch.get_array_memory_size() + batch.num_rows() * BYTES_PER_KEY;
        self.held.push(self.running.statement.budget().reserve(bytes as u64)?);
        self.batches.push(batch);
        Ok(())
    }

    fn together(self) -> Result<Together> {
        let schema = match self.batches.first() {
            Some(batch) => batch.schema(),
            None => nullable(&self.table.base.schema),
        };
        Ok(Together { batch: concat_batches(&schema, &self.batches)?, _held: self.held })
    }
}

/// A column that shares no memory with others: a batch's texts may lie among all of a table's.
fn own_memory(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

/// What is known of the proposed rows' values in the columns of one key.
pub(super) struct Taken<'a> {
    /// Which of the table's unique indexes.
    number: usize,
    index: &'a IndexEntry,
    values: Vec<ArrayRef>,
    keys: Keys,
    /// The rows that have them.
    existing: Vec<Option<TableRow>>,
    /// As of when they were looked for.
    pin: Option<Pin>,
}

impl<'a> Taken<'a> {
    /// `None` where the table's delta has to be merged before.
    pub(super) fn of(
        table: &TableEntry,
        number: usize,
        index: &'a IndexEntry,
        proposed: &RecordBatch,
        running: &Arc<RunningStatement>,
    ) -> Result<Option<Taken<'a>>> {
        let values = key_columns(index, proposed)?;
        let keys = Keys::new(&values)?;
        let pin = table.newest_keys();
        let found = table.find(number, &keys, pin.as_ref(), &|| running.check().is_err(), &running.parallel());
        running.check()?;
        match found? {
            FoundKeys::Rows(existing) => {
                // Keys that nobody has are locked when they are written; what a transaction makes of others it has
                // read.
                let rows = existing.iter().zip(0..).filter(|(row, _)| row.is_some());
                let rows = UInt32Array::from_iter_values(rows.map(|(_, row)| row));
                if !rows.is_empty() && running.catalog.is_telling() {
                    let found = values.iter().map(|column| Ok(take(column, &rows, None)?));
                    running.catalog.tell_keys(table, &index.columns, found.collect::<Result<_>>()?);
                }
                Ok(Some(Taken { number, index, values, keys, existing, pin }))
            }
            FoundKeys::Clash => Ok(None),
        }
    }

    /// What an index has to know where rows with these keys, no two of which are alike, take the place of those that
    /// have them, or nothing does.
    fn known(&self) -> KnownKeys {
        let codes: Vec<Option<u64>> = self.keys.codes().collect();
        let of_delta = |row: &Option<TableRow>| matches!(row, Some(TableRow::Delta { .. }));
        let removed = self.existing.iter().zip(&codes).filter(|(row, _)| of_delta(row)).filter_map(|(_, code)| *code);
        KnownKeys { index: self.number, removed: removed.collect(), added: codes }
    }

    /// The rows that have some of the keys, in their order.
    pub(super) fn existing(&self) -> Vec<TableRow> {
        self.existing.iter().flatten().copied().collect()
    }

    /// The values, as text, of a key that two of the rows have.
    pub(super) fn twice(&self) -> Option<String> {
        let is_second = |(row, first): &(usize, &Option<u32>)| first.is_some_and(|first| first as usize != *row);
        let (row, _) = self.keys.first_equal().iter().enumerate().find(is_second)?;
        let values: Vec<ArrayRef> = self.values.iter().map(|column| column.slice(row, 1)).collect();
        Some(shown(&values))
    }
}

/// The values of rows in the columns of a key.
fn key_columns(index: &IndexEntry, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let columns = index.columns.iter().map(|column| Ok(Arc::clone(rows.column(position(column, &rows.schema())?))));
    columns.collect()
}

/// DO UPDATE as a plan over pairs of rows.
struct Update {
    /// What gives a pair's row as it is to be, its excluded row, and which pair it is, for pairs that WHERE lets
    /// through.
    plan: LogicalPlan,
    /// The table that the plan reads.
    pairs: TableEntry,
}

impl Update {
    fn planned(
        table: &TableEntry,
        alias: &str,
        update: &DoUpdate,
        (values, view): (&[ScalarValue], Option<&Arc<WrittenView>>),
        running: &Arc<RunningStatement>,
    ) -> Result<Update> {
        // A statement that writes a view names the view's columns.
        let of_view = view.map(|view| view.changed_row());
        let named = of_view.as_ref().unwrap_or(table);
        let (columns, excluded) = names_of_pairs(named);
        let pairs = pairs_table(named, &columns, &excluded);
        let mut state = CatalogState::clone(&running.catalog);
        state.put_table(Name::clone(&pairs.name), indexed(pairs.clone(), running)?)?;
        // Queries in it have to be allowed; the pairs are asked for by what they stand for.
        state.made_by(running.user, Thing::named(&pairs.name));
        let running = running.over(running.catalog.over(Arc::new(state)));
        let name = written::name(&pairs.name);
        let statement = as_update(update, &Pairs { table: &name, alias, columns: &columns, excluded: &excluded })?;
        check_assignments(&statement)?;
        let writes = Writes::of(&statement);
        let plan = plan_statement(statement, &running.plan_context())?;
        may_update(named, (&plan, &writes), &columns, &excluded, &running)?;
        let LogicalPlan::Dml(dml) = plan else {
            return Err(Error::Internal("an UPDATE planned to something else".into()));
        };
        let plan = with_values(Arc::unwrap_or_clone(dml.input), values, Some((&dml.op, &pairs.base.schema)))?;
        let Some(view) = view else { return Ok(Update { plan, pairs }) };
        let (columns, excluded) = names_of_pairs(table);
        let of_table = pairs_table(table, &columns, &excluded);
        let plan = view.pairs_updated(plan, &writes, &of_table, &running)?;
        Ok(Update { plan, pairs: of_table })
    }

    /// The rows that pairs become, and of which proposed row each is.
    fn evaluated<'a>(
        &self,
        pairs: RecordBatch,
        table: &'a TableEntry,
        running: &'a Arc<RunningStatement>,
    ) -> Result<(Together, Vec<u32>)> {
        let columns: Vec<usize> = (0..table.base.schema.fields().len()).collect();
        let mut rows = Rows::new(table, running);
        let mut proposed = Vec::new();
        if pairs.num_rows() > 0 {
            let plan = over(self.plan.clone(), pairs)?;
            for batch in query::run(plan, Arc::clone(running), true)? {
                let batch = batch?;
                let last = batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>());
                let last = last.ok_or_else(|| Error::Internal("pairs of rows without numbers".into()))?;
                proposed.extend(last.values().iter().map(|row| *row as u32));
                rows.add(&batch.project(&columns)?)?;
            }
        }
        Ok((rows.together()?, proposed))
    }
}

/// Fails where the role may not change the columns that DO UPDATE changes, or not read those that it reads, of the row
/// that is there or of the proposed one.
fn may_update(
    table: &TableEntry,
    (plan, writes): (&LogicalPlan, &Writes),
    columns: &[String],
    excluded: &[String],
    running: &RunningStatement,
) -> Result<()> {
    let may = running.may();
    if may.do_everything() {
        return Ok(());
    }
    let thing = Thing::named(&table.name);
    if let Writes::Update(assigned) = writes {
        may.need_columns(&thing, Privileges::UPDATE, assigned)?;
    }
    let read: BTreeSet<String> = columns_read(plan, writes, PAIRS_ID)?
        .into_iter()
        .filter_map(|name| {
            let place = columns.iter().position(|column| *column == name);
            columns.get(place.or_else(|| excluded.iter().position(|of| *of == name))?).cloned()
        })
        .collect();
    match read.is_empty() {
        true => Ok(()),
        false => may.need_columns(&thing, Privileges::SELECT, &read),
    }
}

/// A plan that reads these rows in the place of the table of pairs.
fn over(plan: LogicalPlan, rows: RecordBatch) -> Result<LogicalPlan> {
    let given = GivenSource::table(rows);
    let plan = plan.transform_up(|node| match node {
        LogicalPlan::TableScan(scan)
            if scan.source.downcast_ref::<StoredSource>().is_some_and(|of| of.id == PAIRS_ID) =>
        {
            let scan = TableScanBuilder::new(scan.table_name, Arc::clone(&given)).with_filters(scan.filters);
            Ok(Transformed::yes(LogicalPlan::TableScan(scan.build()?)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// What DO UPDATE comes to.
fn changed(
    update: &Update,
    table: &TableEntry,
    proposed: &RecordBatch,
    taken: &Taken<'_>,
    running: &Arc<RunningStatement>,
) -> Result<Changes> {
    let all: Vec<usize> = (0..proposed.num_columns()).collect();
    let (numbers, rows): (Vec<u32>, Vec<TableRow>) =
        taken.existing.iter().enumerate().filter_map(|(row, there)| Some((row as u32, (*there)?))).unzip();
    let since = Instant::now();
    let existing = table.columns_at(&rows, &all)?;
    account(table, &table.name.shown(), (taken.number, &all), &rows, (running, since));
    let beside = take_record_batch(proposed, &UInt32Array::from(numbers.clone()))?;
    let number: ArrayRef = Arc::new(UInt64Array::from_iter_values(numbers.iter().map(|row| u64::from(*row))));
    let columns = existing.iter().chain(beside.columns()).cloned().chain([number]).collect();
    let pairs = RecordBatch::try_new(StoredSource::new(&update.pairs).schema, columns)?;
    let bytes = pairs.get_array_memory_size() as u64;
    let _held = running.statement.budget().reserve(bytes)?;
    let (rows, of) = update.evaluated(pairs, table, running)?;
    let new_keys = taken.keys.equal_to(&key_columns(taken.index, &rows.batch)?)?;
    let mut becomes: Vec<Option<Became>> = vec![None; taken.existing.len()];
    for (place, (row, key)) in of.into_iter().zip(new_keys).enumerate() {
        becomes[row as usize] = Some(Became { row: place as u32, key });
    }
    let fates = fates(taken.keys.first_equal(), &taken.existing, &becomes).map_err(|row| {
        let row: Result<Vec<ArrayRef>> =
            key_columns(taken.index, proposed).map(|key| key.iter().map(|c| c.slice(row as usize, 1)).collect());
        let values = row.map_or_else(|_| "?".into(), |row| shown(&row));
        Error::execution(SqlState::CardinalityViolation, format!(
            "ON CONFLICT DO UPDATE: table '{}' would have its row with the key ({}) = ({values}) inserted or changed \
             twice by this statement; propose each key once",
            table.name.shown(),
            taken.index.columns.join(", "),
        ))
    })?;
    let mut changes = Changes::default();
    let mut order = Vec::new();
    for (row, fate) in fates.into_iter().enumerate() {
        match (fate, taken.existing[row]) {
            (Fate::Insert, _) => changes.new.push(row as u32),
            (Fate::Update(to), Some(place)) => {
                changes.gone.push(place);
                changes.by.push(row as u32);
                order.push(to);
            }
            (Fate::Update(_), None) | (Fate::Leave, _) => {}
        }
    }
    let batch = take_record_batch(&rows.batch, &UInt32Array::from(order))?;
    changes.changed = Some(Together { batch, _held: rows._held });
    Ok(changes)
}

/// What a statement does to a table.
#[derive(Default)]
pub(super) struct Changes {
    /// Which of the proposed rows are inserted.
    pub(super) new: Vec<u32>,
    /// Which rows are changed.
    pub(super) gone: Vec<TableRow>,
    /// What they are then.
    pub(super) changed: Option<Together>,
    /// By which of the proposed rows, ascending.
    pub(super) by: Vec<u32>,
}

impl Changes {
    /// Commits them; how many rows they are, or `None` where nothing was done since they are too many for the table's
    /// delta, which is there.
    pub(super) fn apply(
        self,
        table: &TableEntry,
        proposed: &RecordBatch,
        running: &Arc<RunningStatement>,
    ) -> Result<Option<u64>> {
        let count = self.count();
        if count == 0 {
            return Ok(Some(0));
        }
        let added = self.added(proposed)?;
        if write_small(table, &added, &self.gone, running)? {
            return Ok(Some(count));
        }
        if table.delta.as_ref().is_some_and(|delta| !delta.rows.is_empty()) {
            return Ok(None);
        }
        let mut deleted = Deletion::default();
        let ids = self.gone.iter().filter_map(|row| match row {
            TableRow::Base { segment, row } => Some(u64::from(*segment) << 32 | u64::from(*row)),
            TableRow::Delta { .. } => None,
        });
        let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(ids));
        deleted.add(&ids, running.statement.budget())?;
        told_of_going(table, &ids, Went::Updated, running)?;
        let mut stager = PartStager::new(table, running)?;
        stager.append(&added)?;
        let new = build(vec![stager.finish()?], table, running)?;
        let version = deleted.apply(table, running)?;
        commit_checked(new.appended_to(table, &version), running)?;
        Ok(Some(count))
    }
}

impl Changes {
    /// As [`apply`](Self::apply), for who writes the table beside others: all proposed rows, or none, in the place of
    /// those that have their keys.
    pub(super) fn apply_beside_others(
        &self,
        table: &TableEntry,
        proposed: &RecordBatch,
        taken: &Taken<'_>,
        running: &Arc<RunningStatement>,
    ) -> Result<Attempt<u64>> {
        let count = self.count();
        if count == 0 {
            return Ok(Attempt::Done(0));
        }
        let keys = taken.known();
        let known = Known { of_row: &[], of_rows: Some(&keys), pin: taken.pin.as_ref() };
        Ok(match write_beside_others(table, &self.added(proposed)?, (&self.gone, known), running)? {
            SmallWrite::Done => Attempt::Done(count),
            SmallWrite::NotSmall => Attempt::Alone,
            SmallWrite::Met => Attempt::Again,
        })
    }

    /// The rows that are added, in the order of the proposed rows that they come of.
    fn in_order(&self, proposed: &RecordBatch) -> Result<RecordBatch> {
        let added = self.added(proposed)?;
        let of: Vec<u32> = self.new.iter().chain(&self.by).copied().collect();
        let mut order: Vec<u32> = (0..of.len() as u32).collect();
        order.sort_by_key(|place| of[*place as usize]);
        Ok(take_record_batch(&added, &UInt32Array::from(order))?)
    }

    fn count(&self) -> u64 {
        (self.new.len() + self.gone.len()) as u64
    }

    /// The rows that are added.
    fn added(&self, proposed: &RecordBatch) -> Result<RecordBatch> {
        let new = match self.new.len() == proposed.num_rows() {
            true => proposed.clone(),
            false => take_record_batch(proposed, &UInt32Array::from(self.new.clone()))?,
        };
        Ok(match &self.changed {
            None => new,
            Some(changed) if new.num_rows() == 0 => changed.batch.clone(),
            Some(changed) => concat_batches(&new.schema(), [&new, &changed.batch])?,
        })
    }
}

/// What the row beside a proposed one becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Became {
    /// Its place among changed rows.
    row: u32,
    /// The first proposed row with the key that it has then, if one has it.
    key: Option<u32>,
}

/// What becomes of a proposed row with DO UPDATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Insert,
    /// The row that has its key becomes this one among changed rows.
    Update(u32),
    /// WHERE does not let it change the row that has its key.
    Leave,
}

/// Which proposed rows DO NOTHING inserts: those of which no existing row has a key, and no earlier one that is
/// inserted.
fn kept(keys: &[Taken<'_>], rows: usize) -> Vec<u32> {
    let mut has: Vec<Vec<bool>> = keys.iter().map(|_| vec![false; rows]).collect();
    let mut new = Vec::new();
    for row in 0..rows {
        let key_of = |taken: &Taken<'_>| taken.keys.first_equal()[row].map(|first| first as usize);
        let is_taken = |(taken, has): (&Taken<'_>, &Vec<bool>)| {
            taken.existing[row].is_some() || key_of(taken).is_some_and(|key| has[key])
        };
        if keys.iter().zip(&has).any(is_taken) {
            continue;
        }
        for (taken, has) in keys.iter().zip(&mut has) {
            if let Some(key) = key_of(taken) {
                has[key] = true;
            }
        }
        new.push(row as u32);
    }
    new
}

/// What becomes of each proposed row with DO UPDATE, one after the other; the first that would change what the
/// statement has written for an error.
///
/// `first`: for each the first one with the same key, `None` for one without; `existing`: the row that has its key when
/// the statement begins; `becomes`: what that is made of by it, `None` where WHERE does not let it.
fn fates(first: &[Option<u32>], existing: &[Option<TableRow>], becomes: &[Option<Became>]) -> Result<Vec<Fate>, u32> {
    // By key: whether the statement has written a row with it, and whether it gave the row that had it another.
    let mut written = vec![false; first.len()];
    let mut moved = vec![false; first.len()];
    let mut fates = Vec::with_capacity(first.len());
    for (row, key) in first.iter().enumerate() {
        let Some(key) = key.map(|key| key as usize) else {
            fates.push(Fate::Insert);
            continue;
        };
        if written[key] {
            return Err(row as u32);
        }
        let is_there = existing[row].is_some() && !moved[key];
        fates.push(match becomes[row].filter(|_| is_there) {
            Some(became) => {
                moved[key] = became.key != Some(key as u32);
                if let Some(now) = became.key {
                    written[now as usize] = true;
                }
                Fate::Update(became.row)
            }
            None if is_there => Fate::Leave,
            None => {
                written[key] = true;
                Fate::Insert
            }
        });
    }
    Ok(fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that is there.
    const THERE: Option<TableRow> = Some(TableRow::Delta { row: 7 });

    fn became(row: u32, key: Option<u32>) -> Option<Became> {
        Some(Became { row, key })
    }

    #[test]
    fn fates_are_decided_one_after_the_other() {
        use Fate::{Insert, Leave, Update};
        // Without keys, new keys, and a new one twice.
        assert_eq!(fates(&[None, None], &[None, None], &[None, None]), Ok(vec![Insert, Insert]));
        assert_eq!(fates(&[Some(0), Some(1)], &[None, None], &[None, None]), Ok(vec![Insert, Insert]));
        assert_eq!(fates(&[Some(0), Some(0)], &[None, None], &[None, None]), Err(1));
        // A row that keeps its key is changed once; one that is left alone may be changed later.
        let twice = [Some(0), Some(0)];
        let there = [THERE; 2];
        assert_eq!(fates(&twice, &there, &[became(0, Some(0)), None]), Err(1));
        assert_eq!(fates(&twice, &there, &[None, became(0, Some(0))]), Ok(vec![Leave, Update(0)]));
        assert_eq!(fates(&twice, &there, &[None, None]), Ok(vec![Leave, Leave]));
        // One that gets another key leaves its old one free, and takes the other.
        assert_eq!(fates(&twice, &there, &[became(0, None), became(1, None)]), Ok(vec![Update(0), Insert]));
        let three = [Some(0), Some(0), Some(0)];
        assert_eq!(fates(&three, &[THERE; 3], &[became(0, None); 3]), Err(2));
        assert_eq!(fates(&[Some(0), Some(1)], &[THERE, None], &[became(0, Some(1)), None]), Err(1));
    }
}
