//! Prepared writes that are planned once: INSERT of one row of values, with ON CONFLICT or without, and UPDATE and
//! DELETE of the row that has a key.
//!
//! What a statement computes are expressions over a row: the table's columns, for ON CONFLICT those of the proposed row
//! beside them, and the parameters, which are columns here. They are optimised once ([`compiled`]). A run evaluates
//! them over the row that a key finds, and writes the delta; no plan is made, bound or run.
//!
//! Invariant: what a kept write does is what planning the statement anew for its values would do; where that is not
//! sure, [`KeptWrite::of`] gives none, or a run says that it did nothing.

mod in_transaction;

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::TreeNode;
use datafusion_expr::dml::InsertOp;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Volatility, WriteOp};
use datafusion_optimizer::OptimizerConfig;
use storage::{Keys, Serial, TableRow};
use units::versions::Pin;

use crate::catalog::delta::FoundKeys;
use crate::catalog::lengths::told;
use crate::catalog::{Name, TableEntry};
use crate::error::Result;
use crate::functions::anywhere::{any_node, any_part};
use crate::functions::sequences::is_next;
use crate::run::by_key::account;
use crate::run::cache::{is_keepable, is_keepable_without_sequences, is_now};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::Conflict;
use crate::statements::compiled::{Compiled, MOMENT, RowSchema};
use crate::statements::conflict;
use crate::statements::relations::is_related;
use crate::statements::small::{Known, KnownKey, SmallWrite, write_beside_others};
use crate::statements::stage::{as_kept, nullable};
use crate::statements::write::fitted_column;
use crate::statements::writer::{Attempt, beside_others};
use crate::tables::stored::StoredSource;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeptWrite {
    table: Arc<Name>,
    /// What it was planned with.
    ddl_version: u64,
    parameters: Vec<DataType>,
    /// The type of the statement's moment, where it asks for it: a parameter behind the others.
    moment: Option<DataType>,
    /// The table's columns, in which NULL may stand until a row is checked.
    columns: SchemaRef,
    /// Their places.
    all: Vec<usize>,
    /// What the table is called.
    shown: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Insert {
        row: Vec<Compiled>,
        conflict: Option<Box<KeptConflict>>,
    },
    Update {
        key: KeptKey,
        row: KeptRow,
    },
    /// With a batch of no rows.
    Delete {
        key: KeptKey,
        none: RecordBatch,
    },
}

/// A key of one of the table's unique indexes, over the parameters.
#[derive(Debug)]
struct KeptKey {
    index: usize,
    /// The index's columns.
    columns: Vec<usize>,
    values: Vec<Compiled>,
}

/// What was found of a key.
struct Found {
    /// The row that has it.
    place: Option<TableRow>,
    key: KnownKey,
}

/// What becomes of a row whose key is taken.
#[derive(Debug)]
struct KeptConflict {
    /// The unique indexes that it is about, with their columns.
    indexes: Vec<(usize, Vec<usize>)>,
    update: Option<KeptUpdate>,
}

/// DO UPDATE: the row as it is to be, and whether it is to be so, over the row, the proposed one and the parameters.
#[derive(Debug)]
struct KeptUpdate {
    row: KeptRow,
    condition: Option<Compiled>,
}

/// What the row that a key finds is to be.
#[derive(Debug)]
struct KeptRow {
    values: Vec<Compiled>,
    /// Whether it has the key afterwards, whatever its values are.
    keeps_key: bool,
}

impl KeptRow {
    /// `values` are over the table's columns and others behind them; `key` are the columns of the key.
    fn new(values: Vec<Compiled>, key: &[usize]) -> KeptRow {
        let keeps_key = key.iter().all(|column| values.get(*column).and_then(Compiled::column) == Some(*column));
        KeptRow { values, keeps_key }
    }

    /// What of a key that was looked up is known of the row as it is to be.
    fn known<'a>(&self, known: &'a [KnownKey]) -> &'a [KnownKey] {
        if self.keeps_key { known } else { &[] }
    }
}

/// A statement that writes, planned, with the types of its parameters.
pub(crate) struct PlannedWrite<'a> {
    pub op: &'a WriteOp,
    /// Whether it is a DELETE, which is planned as an UPDATE where its table has an alias.
    pub deletes: bool,
    pub input: &'a LogicalPlan,
    pub conflict: Option<&'a Conflict>,
    pub types: &'a [DataType],
}

impl KeptWrite {
    /// A write of one row that is found by its key, or of a new one; `None` for others.
    ///
    /// # Errors
    /// Those of planning.
    pub(crate) fn of(
        write: &PlannedWrite<'_>,
        table: &TableEntry,
        running: &Arc<RunningStatement>,
    ) -> Result<Option<KeptWrite>> {
        if !is_keepable(write.input) || write.input.exists(has_query)? {
            return Ok(None);
        }
        // One that was planned for a transaction that reads only would take no value of a sequence later.
        if running.of_session().is_read_only {
            return Ok(None);
        }
        // A key may be computed, and foreign keys are looked at by statements of a transaction.
        if !table.rules.generated.is_empty() || is_related(&running.catalog, table) {
            return Ok(None);
        }
        // Whether DO UPDATE asks for it shows when that is planned, and a value more costs next to nothing.
        let asks_for_moment = write.conflict.is_some() || any_node(write.input, |node| any_part(node, is_moment))?;
        let moment = asks_for_moment.then(|| {
            let zone = running.planner.config_options().execution.time_zone.as_deref();
            DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Arc::from))
        });
        let fields = write.types.iter().enumerate();
        let fields = fields.map(|(place, data_type)| Field::new(format!("${}", place + 1), data_type.clone(), true));
        let fields = fields.chain(moment.iter().map(|data_type| Field::new(MOMENT, data_type.clone(), true)));
        let parameters: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let over_parameters = RowSchema::new(None, &parameters);
        let columns = told(&table.base.schema, &table.lengths);
        let over_row = RowSchema::new(Some(&columns), &parameters);
        let (Some(over_parameters), Some(over_row)) = (over_parameters, over_row) else { return Ok(None) };
        let to = Some(&table.base.schema);
        let action = match write.op {
            WriteOp::Insert(InsertOp::Append) => {
                let Some(row) = one_row(write.input) else { return Ok(None) };
                let Some(row) = over_parameters.compiled(row, to, running)? else { return Ok(None) };
                match write.conflict {
                    None => Some(Action::Insert { row, conflict: None }),
                    Some(clause) => {
                        let conflict = kept_conflict(clause, table, &parameters, running)?;
                        conflict.map(|conflict| Action::Insert { row, conflict: Some(Box::new(conflict)) })
                    }
                }
            }
            WriteOp::Delete | WriteOp::Update => {
                let Some((outputs, conditions)) = outputs_and_conditions(write.input) else { return Ok(None) };
                let Some(key) = kept_key(conditions, table, &over_parameters, running)? else { return Ok(None) };
                match (write.deletes || *write.op == WriteOp::Delete, outputs) {
                    (true, _) => {
                        let none = RecordBatch::new_empty(Arc::clone(&table.base.schema));
                        Some(Action::Delete { key, none })
                    }
                    (false, Some(outputs)) => over_row.compiled(outputs, to, running)?.map(|values| {
                        let row = KeptRow::new(values, &key.columns);
                        Action::Update { key, row }
                    }),
                    (false, None) => None,
                }
            }
            _ => None,
        };
        let (name, ddl_version) = (Arc::clone(&table.name), running.catalog.ddl_version);
        let (parameters, columns) = (write.types.to_vec(), nullable(&table.base.schema));
        let (all, shown) = ((0..columns.fields().len()).collect(), table.name.shown());
        Ok(action.map(|action| KeptWrite { table: name, ddl_version, parameters, moment, columns, all, shown, action }))
    }

    /// Runs it with values; `None` where it has done nothing and the statement has to be planned for them: values are
    /// of other types, names or columns have changed, or the write is not small.
    ///
    /// # Errors
    /// Those of the statement.
    pub(crate) fn run(&self, values: &[ScalarValue], running: &Arc<RunningStatement>) -> Result<Option<Done>> {
        let Some(parameters) = self.parameters_of(values, running)? else { return Ok(None) };
        beside_others(&self.table, running, |table, running| {
            if running.catalog.ddl_version != self.ddl_version {
                return Ok(Attempt::Alone);
            }
            self.carried_out(table, &parameters, running)
        })
    }

    /// Arrays of one value each, the statement's moment behind them where it asks for it; `None` for values of other
    /// types than those that it was planned for.
    fn parameters_of(&self, values: &[ScalarValue], running: &RunningStatement) -> Result<Option<Vec<ArrayRef>>> {
        let types = self.parameters.iter();
        if types.len() != values.len() || values.iter().zip(types).any(|(v, data_type)| v.data_type() != *data_type) {
            return Ok(None);
        }
        let mut arrays = values.iter().map(ScalarValue::to_array).collect::<std::result::Result<Vec<_>, _>>()?;
        if let Some(DataType::Timestamp(_, zone)) = &self.moment {
            let moment = running.query_execution_start_time().and_then(|moment| moment.timestamp_nanos_opt());
            arrays.push(ScalarValue::TimestampNanosecond(moment, zone.clone()).to_array()?);
        }
        Ok(Some(arrays))
    }

    /// Does what a statement without parameters says, for who writes the table alone, over whose state it was planned;
    /// `None` where it has done nothing.
    ///
    /// # Errors
    /// Those of the statement.
    pub(crate) fn run_once(&self, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<Option<Done>> {
        let Some(parameters) = self.parameters_of(&[], running)? else { return Ok(None) };
        match self.carried_out(table, &parameters, running)? {
            Attempt::Done(done) => Ok(Some(done)),
            Attempt::Alone | Attempt::Again => Ok(None),
        }
    }

    /// `parameters`: an array of one value each.
    fn carried_out(
        &self,
        table: &TableEntry,
        parameters: &[ArrayRef],
        running: &Arc<RunningStatement>,
    ) -> Result<Attempt<Done>> {
        let pin = table.newest_keys();
        let pin = pin.as_ref();
        match &self.action {
            Action::Insert { row, conflict } => {
                // Also a row that is not inserted has to be one of the table's.
                let row = as_kept(self.new_row(row, parameters)?, table)?;
                self.insert((table, pin), row, conflict.as_deref(), parameters, running)
            }
            Action::Update { key, row } => {
                let Some(found) = key.find(table, parameters, pin)? else { return Ok(Attempt::Alone) };
                let Some(place) = found.place else { return Ok(Attempt::Done(Done::rows("UPDATE", 0))) };
                let existing = self.existing(table, (key.index, place), &[parameters], running)?;
                let new = self.new_row(&row.values, &existing)?;
                let keys = [found.key];
                let known = Known { of_row: row.known(&keys), of_rows: None, pin };
                written(table, (&new, &[place], known), "UPDATE", running)
            }
            Action::Delete { key, none } => {
                let since = Instant::now();
                let Some(found) = key.find(table, parameters, pin)? else { return Ok(Attempt::Alone) };
                let Some(place) = found.place else { return Ok(Attempt::Done(Done::rows("DELETE", 0))) };
                account(table, &self.shown, (key.index, &[]), &[place], (running, since));
                let known = Known { of_row: &[found.key], of_rows: None, pin };
                written(table, (none, &[place], known), "DELETE", running)
            }
        }
    }

    /// Inserts a row, or does what is said of the row that has its key.
    fn insert(
        &self,
        (table, pin): (&TableEntry, Option<&Pin>),
        row: RecordBatch,
        conflict: Option<&KeptConflict>,
        parameters: &[ArrayRef],
        running: &Arc<RunningStatement>,
    ) -> Result<Attempt<Done>> {
        let known = Known { pin, ..Known::NOTHING };
        let Some(conflict) = conflict else { return written(table, (&row, &[], known), "INSERT", running) };
        let mut taken = None;
        let mut known = Vec::with_capacity(conflict.indexes.len());
        for (number, columns) in &conflict.indexes {
            let key: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(row.column(*column))).collect();
            let Some(found) = find(table, *number, &key, pin)? else { return Ok(Attempt::Alone) };
            taken = taken.or(found.place.map(|place| (*number, place)));
            known.push(found.key);
        }
        let nothing = Ok(Attempt::Done(Done::rows("INSERT", 0)));
        match (taken, &conflict.update) {
            (None, _) => {
                let known = Known { of_row: &known, of_rows: None, pin };
                written(table, (&row, &[], known), "INSERT", running)
            }
            (Some(_), None) => nothing,
            (Some((index, place)), Some(update)) => {
                let pair = self.existing(table, (index, place), &[row.columns(), parameters], running)?;
                if let Some(condition) = &update.condition {
                    let holds = condition.of(&pair)?;
                    let holds = holds.as_boolean();
                    if holds.is_null(0) || !holds.value(0) {
                        return nothing;
                    }
                }
                let new = self.new_row(&update.row.values, &pair)?;
                let known = Known { of_row: update.row.known(&known), of_rows: None, pin };
                written(table, (&new, &[place], known), "INSERT", running)
            }
        }
    }

    /// The columns of a row of the table, which an index has found, and others behind them.
    fn existing(
        &self,
        table: &TableEntry,
        (index, place): (usize, TableRow),
        beside: &[&[ArrayRef]],
        running: &RunningStatement,
    ) -> Result<Vec<ArrayRef>> {
        let since = Instant::now();
        let mut columns = table.columns_at(&[place], &self.all)?;
        account(table, &self.shown, (index, &self.all), &[place], (running, since));
        columns.extend(beside.iter().flat_map(|columns| columns.iter().cloned()));
        Ok(columns)
    }

    /// A row of the table as expressions give it.
    fn new_row(&self, values: &[Compiled], of: &[ArrayRef]) -> Result<RecordBatch> {
        let mut columns = values.iter().map(|value| value.of(of)).collect::<Result<Vec<_>>>()?;
        for (column, field) in columns.iter_mut().zip(self.columns.fields()) {
            if column.data_type() != field.data_type() {
                *column = fitted_column(column, field)?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.columns), columns, &options)?)
    }
}

/// Whether an expression is the moment of its statement.
fn is_moment(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if is_now(&call.func))
}

/// Whether a step of a plan has a query in an expression, or a value that is another one each time.
fn has_query(plan: &LogicalPlan) -> datafusion_common::Result<bool> {
    let is_other = |part: &Expr| {
        Ok(match part {
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            // Each run takes the next value of a sequence, once.
            Expr::ScalarFunction(call) => {
                call.func.signature().volatility == Volatility::Volatile && !is_next(&call.func)
            }
            _ => false,
        })
    };
    let mut found = false;
    for expression in plan.expressions() {
        found |= expression.exists(is_other)?;
    }
    Ok(found)
}

/// The expressions of a plan that gives one row of values.
fn one_row(plan: &LogicalPlan) -> Option<Vec<Expr>> {
    match plan {
        LogicalPlan::Values(values) => match &values.values[..] {
            [row] => Some(row.clone()),
            _ => None,
        },
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row.then(Vec::new),
        LogicalPlan::Projection(projection) => {
            let below = one_row(&projection.input)?;
            let schema = projection.input.schema();
            let put = |output: &Expr| {
                let put = output.clone().transform_up(|part| match &part {
                    Expr::Column(column) => {
                        let place = schema.index_of_column(column)?;
                        Ok(datafusion_common::tree_node::Transformed::yes(below[place].clone().unalias()))
                    }
                    _ => Ok(datafusion_common::tree_node::Transformed::no(part)),
                });
                put.ok().map(|put| put.data)
            };
            projection.expr.iter().map(put).collect()
        }
        _ => None,
    }
}

/// What a plan computes of a table's rows, if it computes anything, and for which of them.
fn outputs_and_conditions(plan: &LogicalPlan) -> Option<(Option<Vec<Expr>>, Vec<Expr>)> {
    match plan {
        LogicalPlan::Projection(projection) => match outputs_and_conditions(&projection.input)? {
            (None, conditions) => Some((Some(projection.expr.clone()), conditions)),
            _ => None,
        },
        LogicalPlan::Filter(filter) => match outputs_and_conditions(&filter.input)? {
            (None, mut conditions) => {
                conditions.extend(split_conjunction_owned(filter.predicate.clone()));
                Some((None, conditions))
            }
            _ => None,
        },
        LogicalPlan::SubqueryAlias(alias) => outputs_and_conditions(&alias.input),
        LogicalPlan::TableScan(scan) => {
            let is_whole = scan.filters.is_empty() && scan.fetch.is_none() && scan.source.is::<StoredSource>();
            is_whole.then(|| (None, Vec::new()))
        }
        _ => None,
    }
}

/// The key that conditions compare, where they compare each column of a unique index, and nothing else, with what is
/// known without a row.
fn kept_key(
    conditions: Vec<Expr>,
    table: &TableEntry,
    parameters: &RowSchema,
    running: &Arc<RunningStatement>,
) -> Result<Option<KeptKey>> {
    let mut compared: Vec<(String, Expr)> = Vec::new();
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return Ok(None) };
        let (column, value) = match (*left, *right) {
            (Expr::Column(column), value) | (value, Expr::Column(column)) => (column, value),
            _ => return Ok(None),
        };
        if value.any_column_refs() || compared.iter().any(|(known, _)| *known == column.name) {
            return Ok(None);
        }
        compared.push((column.name, value));
    }
    for (number, index) in table.unique_indexes().enumerate() {
        let value =
            |column: &String| compared.iter().find(|(known, _)| known == column).map(|(_, value)| value.clone());
        let Some(values) = index.columns.iter().map(value).collect::<Option<Vec<Expr>>>() else { continue };
        if values.len() != compared.len() {
            continue;
        }
        let Some(values) = parameters.compiled(values, None, running)? else { return Ok(None) };
        // Of another type than the column, a comparison is of that type: the planner knows how.
        let columns = table.key_columns(index)?;
        let schema = &table.base.schema;
        let fits = columns.iter().zip(&values).all(|(c, value)| value.data_type() == schema.field(*c).data_type());
        let has_length = columns.iter().any(|column| table.lengths.contains_key(schema.field(*column).name()));
        return Ok((fits && !has_length).then_some(KeptKey { index: number, columns, values }));
    }
    Ok(None)
}

/// What ON CONFLICT says, if it says it of one row.
fn kept_conflict(
    clause: &Conflict,
    table: &TableEntry,
    parameters: &SchemaRef,
    running: &Arc<RunningStatement>,
) -> Result<Option<KeptConflict>> {
    let keys = conflict::keys_of(table, clause)?;
    conflict::may_look_up(table, clause, &keys, running)?;
    let indexes = keys.iter().map(|(number, index)| Ok((*number, table.key_columns(index)?)));
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    let Some((plan, pairs)) = conflict::update_plan(table, clause, None, running)? else {
        return Ok(Some(KeptConflict { indexes, update: None }));
    };
    if !is_keepable_without_sequences(&plan) || plan.exists(has_query)? {
        return Ok(None);
    }
    let Some(over_pairs) = RowSchema::new(Some(&pairs), parameters) else { return Ok(None) };
    let Some((Some(mut outputs), conditions)) = outputs_and_conditions(&plan) else { return Ok(None) };
    outputs.truncate(table.base.schema.fields().len());
    let Some(values) = over_pairs.compiled(outputs, Some(&table.base.schema), running)? else { return Ok(None) };
    let key: Vec<usize> = indexes.iter().flat_map(|(_, columns)| columns.iter().copied()).collect();
    let row = KeptRow::new(values, &key);
    let condition = match conditions.into_iter().reduce(Expr::and) {
        None => None,
        Some(condition) => match over_pairs.compiled(vec![condition], None, running)?.and_then(|mut all| all.pop()) {
            Some(condition) if *condition.data_type() == DataType::Boolean => Some(condition),
            _ => return Ok(None),
        },
    };
    Ok(Some(KeptConflict { indexes, update: Some(KeptUpdate { row, condition }) }))
}

impl KeptKey {
    /// The row that has it; `None` where the delta has to be merged first.
    fn find(&self, table: &TableEntry, parameters: &[ArrayRef], pin: Option<&Pin>) -> Result<Option<Found>> {
        let values = self.values.iter().map(|value| value.of(parameters)).collect::<Result<Vec<_>>>()?;
        find(table, self.index, &values, pin)
    }
}

fn find(table: &TableEntry, index: usize, key: &[ArrayRef], pin: Option<&Pin>) -> Result<Option<Found>> {
    let keys = Keys::new(key)?;
    Ok(match table.find(index, &keys, pin, &|| false, &Serial)? {
        FoundKeys::Rows(rows) => {
            let key = KnownKey { index, code: keys.codes().next().flatten() };
            Some(Found { place: rows.first().copied().flatten(), key })
        }
        FoundKeys::Clash => None,
    })
}

/// Commits a row, rows that die, and what is known of keys of both.
fn written(
    table: &TableEntry,
    (row, dead, known): (&RecordBatch, &[TableRow], Known<'_>),
    tag: &'static str,
    running: &Arc<RunningStatement>,
) -> Result<Attempt<Done>> {
    Ok(match write_beside_others(table, row, (dead, known), running)? {
        SmallWrite::Done => Attempt::Done(Done::rows(tag, 1)),
        SmallWrite::NotSmall => Attempt::Alone,
        SmallWrite::Met => Attempt::Again,
    })
}
