//! Foreign keys: each row that refers to another has it, whoever writes either table.
//!
//! A statement that writes a table with foreign keys, or one that others refer to, is one of a transaction, of its own
//! where it asked for none. While it writes it tells which rows came and which went ([`telling`](super::telling)); once
//! it has written, what follows from that is done by further statements of the transaction ([`Step`]), each over what
//! there is then:
//!
//! ```text
//! rows that came ── the rows that they refer to are looked up in the index of their key, and held: FOR KEY SHARE
//! keys that went ── rows that refer to them are looked for: an error, or they go or change with them, which tells more
//! ```
//!
//! So who takes a row away that another transaction is about to refer to waits for it, or it for them.
//!
//! # Limits
//! Of keys that are DEFERRABLE what waits for COMMIT, or for SET CONSTRAINTS, is in [`crate::run::deferred`]. What a
//! MATCH FULL key says of NULL is looked at in all rows then. A REPEATABLE READ transaction that takes a key away
//! begins again where another has written the referring table since it began and has a row with the key by now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::datatypes::Schema;
use datafusion_common::{Column as ColumnName, ScalarValue};
use datafusion_expr::{Expr, lit};
use storage::{Keys, RowHold, TableRow};

use crate::catalog::delta::FoundKeys;
use crate::catalog::rules::{Deferral, ForeignKey, OnChange};
use crate::catalog::transactions::Level;
use crate::catalog::{CatalogState, TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::sequences::bound;
use crate::run::changes::{RowChange, Step, Went, What};
use crate::run::locks::{SelectedOf, SelectedRows, WantedLocks};
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::Wait;
use crate::statements::keys::shown;
use crate::statements::late_keys;
use crate::statements::over::over;
use crate::statements::relations::referring;
use crate::statements::returning::Returned;
use crate::statements::transaction::view::to_be_written;
use crate::statements::with_keys::{KEYS, beside, distinct, encoded, of_table, rows_with, scan};
use crate::statements::write;
use crate::statements::writer::as_small_writer;

/// What follows from what a statement has told, in a state of the transaction that has it.
///
/// # Errors
/// No memory.
pub(crate) fn steps(changes: Vec<RowChange>, state: &CatalogState) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for change in changes {
        match change {
            RowChange::Came { table, rows } => {
                let Some(child) = state.by_id(table) else { continue };
                for key in child.deferrable_keys() {
                    steps.push(Step {
                        child: table,
                        key: key.name.clone(),
                        of: table,
                        deferral: key.deferral,
                        what: What::Came(named(&rows, &key.columns)?),
                    });
                }
                for key in &child.rules.foreign_keys {
                    steps.push(step(child, key, true, What::Came(named(&rows, &key.columns)?)));
                }
            }
            RowChange::Went { table, rows, went } => {
                for (child, key) in referring(state, table) {
                    let action = if went == Went::Deleted { key.on_delete } else { key.on_update };
                    let what = What::Went(named(&rows, &key.to_columns)?, went);
                    steps.push(step(child, key, action == OnChange::NoAction, what));
                }
            }
            RowChange::Changed { table, old, new } => {
                for (child, key) in referring(state, table) {
                    let (old, new) = (named(&old, &key.to_columns)?, named(&new, &key.to_columns)?);
                    let changed = differing(&old, &new)?;
                    let (old, new) = (filter_record_batch(&old, &changed)?, filter_record_batch(&new, &changed)?);
                    if old.num_rows() > 0 {
                        let may_wait = key.on_update == OnChange::NoAction;
                        steps.push(step(child, key, may_wait, What::Changed(old, new)));
                    }
                }
            }
        }
    }
    Ok(steps)
}

/// As in PostgreSQL, RESTRICT and what changes rows never wait.
fn step(child: &TableEntry, key: &ForeignKey, may_wait: bool, what: What) -> Step {
    let deferral = if may_wait { key.deferral } else { Deferral::Never };
    let of = if matches!(what, What::Came(_)) { child.id } else { key.to };
    Step { child: child.id, key: key.name.clone(), of, deferral, what }
}

/// What has waited, put together, so that each is looked at once.
///
/// # Errors
/// None that rows of the same columns have.
pub(crate) fn of_one_kind(waited: Vec<Step>) -> Result<Vec<Step>> {
    let kind = |step: &Step| match step.what {
        What::Came(_) => 0_u8,
        What::Went(_, Went::Deleted) => 1,
        What::Went(_, Went::Updated) => 2,
        What::Changed(..) => 3,
    };
    let mut all: Vec<Vec<Step>> = Vec::new();
    let mut places = HashMap::new();
    for step in waited {
        let place = *places.entry((step.child, step.key.clone(), kind(&step))).or_insert(all.len());
        match all.get_mut(place) {
            Some(alike) => alike.push(step),
            None => all.push(vec![step]),
        }
    }
    let one = |alike: Vec<Step>| {
        let batches = |of: fn(&What) -> &RecordBatch| {
            let batches: Vec<&RecordBatch> = alike.iter().map(|step| of(&step.what)).collect();
            Ok::<_, Error>(concat_batches(&batches[0].schema(), batches)?)
        };
        let rows = batches(|what| match what {
            What::Came(rows) | What::Went(rows, _) | What::Changed(rows, _) => rows,
        })?;
        let what = match &alike[0].what {
            What::Came(_) => What::Came(rows),
            What::Went(_, went) => What::Went(rows, *went),
            What::Changed(..) => What::Changed(
                rows,
                batches(|what| match what {
                    What::Came(rows) | What::Went(rows, _) | What::Changed(_, rows) => rows,
                })?,
            ),
        };
        Ok(Step { what, ..alike[0].clone() })
    };
    all.into_iter().map(one).collect()
}

/// The columns of these names, in their order.
fn named(rows: &RecordBatch, names: &[String]) -> Result<RecordBatch> {
    let places = names.iter().map(|name| Ok(rows.schema().index_of(name)?)).collect::<Result<Vec<_>>>()?;
    Ok(rows.project(&places)?)
}

/// Whether each row is another one afterwards.
fn differing(old: &RecordBatch, new: &RecordBatch) -> Result<BooleanArray> {
    let (old, new) = (encoded(old)?, encoded(new)?);
    Ok(old.iter().zip(&new).map(|(old, new)| Some(old != new)).collect())
}

/// Whether each row has no NULL.
fn whole(rows: &RecordBatch) -> BooleanArray {
    let is_whole = |row: usize| rows.columns().iter().all(|column| column.is_valid(row));
    (0..rows.num_rows()).map(|row| Some(is_whole(row))).collect()
}

/// Does what follows: in a statement of the transaction.
///
/// # Errors
/// A row would refer to one that is not there; those of writing rows that refer to it.
pub(crate) fn carry_out(step: &Step, running: &Arc<RunningStatement>) -> Result<Done> {
    let done = Ok(Done::new("FOREIGN KEY"));
    let Some(child) = running.catalog.by_id(step.child).cloned() else { return done };
    let Some(key) = child.rules.foreign_keys.iter().find(|key| key.name == step.key).cloned() else {
        if let (What::Came(rows), Some(key)) = (&step.what, child.deferrable_keys().find(|key| key.name == step.key)) {
            late_keys::look_at(&child, key, rows, running)?;
        }
        return done;
    };
    let Some(parent) = running.catalog.by_id(key.to).cloned() else { return done };
    match &step.what {
        What::Came(rows) => came(&child, &key, &parent, rows, running)?,
        What::Went(rows, went) => {
            // As in PostgreSQL, what goes with a deleted key goes whether another row has the key by now or not.
            let gone = match (went, key.on_delete) {
                (Went::Deleted, OnChange::NoAction) | (Went::Updated, _) => lost(&key, &parent, rows, running)?,
                (Went::Deleted, _) => distinct(rows)?,
            };
            if gone.num_rows() == 0 {
                return done;
            }
            let action = match went {
                Went::Deleted => key.on_delete,
                Went::Updated if matches!(key.on_update, OnChange::Cascade) => {
                    return Err(Error::Unsupported(format!(
                        "a key that other rows refer to, ON UPDATE CASCADE, changes by UPDATE alone, not by MERGE or \
                         ON CONFLICT (foreign key '{}' of table '{}')",
                        key.name,
                        child.name.shown()
                    )));
                }
                Went::Updated => key.on_update,
            };
            follow(&child, &key, &parent, (&gone, None), action, running)?;
        }
        What::Changed(old, new) => {
            if key.on_update != OnChange::NoAction {
                let whole = whole(old);
                let (old, new) = (filter_record_batch(old, &whole)?, filter_record_batch(new, &whole)?);
                follow(&child, &key, &parent, (&old, Some(&new)), key.on_update, running)?;
                return done;
            }
            let lost = lost(&key, &parent, old, running)?;
            if lost.num_rows() == 0 {
                return done;
            }
            let lost_keys: HashSet<Vec<u8>> = encoded(&lost)?.into_iter().collect();
            let is_lost: BooleanArray = encoded(old)?.iter().map(|key| Some(lost_keys.contains(key))).collect();
            let (old, new) = (filter_record_batch(old, &is_lost)?, filter_record_batch(new, &is_lost)?);
            follow(&child, &key, &parent, (&old, Some(&new)), key.on_update, running)?;
        }
    }
    done
}

/// The rows that new rows refer to are there, and stay.
fn came(
    child: &TableEntry,
    key: &ForeignKey,
    parent: &Arc<TableEntry>,
    rows: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let Some(of) = &running.transaction else { return Err(running.wants_transaction()) };
    if key.is_full {
        let has_null = |row: usize| rows.columns().iter().any(|column| column.is_null(row));
        let has_value = |row: usize| rows.columns().iter().any(|column| column.is_valid(row));
        if (0..rows.num_rows()).any(|row| has_null(row) && has_value(row)) && is_half_null(child, key, running)? {
            return Err(Error::execution(
                SqlState::ForeignKeyViolation,
                format!(
                    "a row of table '{}' violates foreign key '{}': MATCH FULL allows NULL in all of ({}) or in none",
                    child.name.shown(),
                    key.name,
                    key.columns.join(", ")
                ),
            )
            .of_constraint((&child.name.schema, &child.name.table), &key.name));
        }
    }
    let rows = distinct(rows)?;
    if rows.num_rows() == 0 {
        return Ok(());
    }
    let running = to_be_written(of, parent, running)?;
    let parent = running.catalog.by_id(parent.id).cloned().unwrap_or_else(|| Arc::clone(parent));
    let found = found(key, &parent, &rows, &running)?;
    // What has come may be something else by now, by another foreign key.
    let missing: BooleanArray = found.iter().map(|row| Some(row.is_none())).collect();
    if missing.true_count() > 0
        && let Some(values) = first_referring_row(child, key, &filter_record_batch(&rows, &missing)?, &running)?
    {
        return Err(violated(child, key, &parent, &values));
    }
    let id = |row: &Option<TableRow>| match row {
        Some(TableRow::Base { segment, row }) => Some(u64::from(*segment) << 32 | u64::from(*row)),
        _ => None,
    };
    let ids: Vec<u64> = found.iter().filter_map(id).collect();
    let selected = SelectedOf { table: parent.id, kind: RowHold::KeyShare, wait: Wait::Waits, ids };
    let rows =
        SelectedRows { schema: Arc::new(Schema::empty()), batches: Vec::new(), tables: vec![selected], limit: None };
    *of.wanted.lock() = Some(WantedLocks::Rows(rows));
    Ok(())
}

/// Whether a row has NULL in some columns of a key, and not in all; those that came may be gone by now.
fn is_half_null(child: &TableEntry, key: &ForeignKey, running: &Arc<RunningStatement>) -> Result<bool> {
    child.load_all(running)?;
    let any = |test: fn(Expr) -> Expr| key.columns.iter().map(|name| test(of_table(name))).reduce(Expr::or);
    let Some(condition) = any(Expr::is_null).zip(any(Expr::is_not_null)).map(|(null, value)| null.and(value)) else {
        return Ok(false);
    };
    let rows = scan(child)?.filter(condition)?.limit(0, Some(1))?.build()?;
    let rows = query::run(rows, Arc::clone(running), true)?.collect_all()?;
    Ok(rows.iter().any(|batch| batch.num_rows() > 0))
}

/// A row refers to a key that no row has.
fn violated(child: &TableEntry, key: &ForeignKey, parent: &TableEntry, values: &[ArrayRef]) -> Error {
    let (of_child, of_parent) = (child.name.shown(), parent.name.shown());
    Error::of_rows(
        SqlState::ForeignKeyViolation,
        format!(
            "a row of table '{of_child}' violates foreign key '{}': table '{of_parent}' has no row with ({}) = ({})",
            key.name,
            key.to_columns.join(", "),
            shown(values)
        ),
        (&child.name.schema, &child.name.table),
        key.columns.iter().cloned(),
        format!("a row of table '{of_child}' violates foreign key '{}': table '{of_parent}' has no such row", key.name),
    )
    .of_constraint((&child.name.schema, &child.name.table), &key.name)
}

/// For each key the row of the table that is referred to which has it.
fn found(
    key: &ForeignKey,
    parent: &Arc<TableEntry>,
    rows: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<Vec<Option<TableRow>>> {
    parent.load_all(running)?;
    let is_it = |index: &crate::catalog::index::IndexEntry| {
        index.columns.len() == key.to_columns.len() && key.to_columns.iter().all(|column| index.is_over(column))
    };
    let index = parent.unique_indexes().enumerate().find(|(_, index)| is_it(index));
    let (number, index) = index
        .ok_or_else(|| Error::Internal(format!("foreign key '{}' refers to columns that are no key", key.name)))?;
    let mut values = Vec::with_capacity(index.columns.len());
    for column in &index.columns {
        let place = key.to_columns.iter().position(|of| of == column);
        let place = place.ok_or_else(|| Error::Internal("a key without one of its columns".into()))?;
        let data_type = parent.base.schema.field_with_name(column)?.data_type();
        // What the other type does not have is no key.
        values.push(arrow::compute::cast(rows.column(place), data_type)?);
    }
    let keys = Keys::new(&values)?;
    let pin = parent.newest_keys();
    let found = parent.find(number, &keys, pin.as_ref(), &|| running.check().is_err(), &running.parallel())?;
    running.check()?;
    match found {
        FoundKeys::Rows(found) => Ok(found),
        FoundKeys::Clash => Err(Error::Internal("keys of a table without a delta clash".into())),
    }
}

/// Those of the keys that no row of the table has any more, each once.
fn lost(
    key: &ForeignKey,
    parent: &Arc<TableEntry>,
    rows: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<RecordBatch> {
    let rows = distinct(rows)?;
    if rows.num_rows() == 0 {
        return Ok(rows);
    }
    let found = found(key, parent, &rows, running)?;
    let is_lost: BooleanArray = found.iter().map(|row| Some(row.is_none())).collect();
    Ok(filter_record_batch(&rows, &is_lost)?)
}

/// Does to rows that refer to keys which are gone what the foreign key says.
fn follow(
    child: &Arc<TableEntry>,
    key: &ForeignKey,
    parent: &TableEntry,
    (old, new): (&RecordBatch, Option<&RecordBatch>),
    action: OnChange,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let by_update = new.is_some();
    not_by_others(child, key, old, running)?;
    let none = Returned::default();
    match action {
        OnChange::NoAction | OnChange::Restrict => {
            let Some(values) = first_referring_row(child, key, old, running)? else { return Ok(()) };
            let without = format!(
                "a row of table '{}' cannot be {}: foreign key '{}' of table '{}' refers to it",
                parent.name.shown(),
                if by_update { "changed" } else { "taken away" },
                key.name,
                child.name.shown(),
            );
            Err(Error::of_rows(
                SqlState::ForeignKeyViolation,
                format!("{} ({}) = ({})", without.trim_end_matches(" it"), key.to_columns.join(", "), shown(&values)),
                (&parent.name.schema, &parent.name.table),
                key.to_columns.iter().cloned(),
                without,
            )
            .of_constraint((&child.name.schema, &child.name.table), &key.name))
        }
        OnChange::Cascade if !by_update => as_small_writer(&child.name, running, |child, running| {
            child.load_all(running)?;
            write::delete(child, rows_with(child, &key.columns, old)?.build()?, &none, running).map(drop)
        }),
        action => as_small_writer(&child.name, running, |child, running| {
            child.load_all(running)?;
            let plan = match (action, new) {
                (OnChange::Cascade, Some(new)) => beside(child, &key.columns, old, Some(new))?,
                _ => rows_with(child, &key.columns, old)?,
            };
            let outputs = child.base.schema.fields().iter().map(|field| {
                let place = key.columns.iter().position(|column| column == field.name());
                let value = match (place, action) {
                    (None, _) => of_table(field.name()),
                    (Some(place), OnChange::Cascade) => {
                        Expr::Column(ColumnName::new(Some(KEYS), format!("new {place}")))
                    }
                    (Some(_), OnChange::SetDefault) => match child.default_of(field.name()) {
                        Some(default) => bound(&default.expr, Some(&running.sequences().of_defaults())),
                        None => lit(ScalarValue::try_from(field.data_type())?),
                    },
                    (Some(_), _) => lit(ScalarValue::try_from(field.data_type())?),
                };
                let is_same = place.is_none();
                let value = if is_same { value } else { datafusion_expr::cast(value, field.data_type().clone()) };
                Ok(value.alias(field.name()))
            });
            let plan = plan.project(outputs.collect::<Result<Vec<_>>>()?)?.build()?;
            write::update(child, plan, &none, running).map(drop)
        }),
    }
}

/// What the first row has that refers to one of some keys.
fn first_referring_row(
    child: &TableEntry,
    key: &ForeignKey,
    keys: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<Option<Vec<ArrayRef>>> {
    child.load_all(running)?;
    let rows = rows_with(child, &key.columns, keys)?.project(key.columns.iter().map(|name| of_table(name)))?;
    let rows = query::run(rows.limit(0, Some(1))?.build()?, Arc::clone(running), true)?.collect_all()?;
    let row = rows.iter().find(|batch| batch.num_rows() > 0);
    Ok(row.map(|row| row.columns().iter().map(|column| column.slice(0, 1)).collect()))
}

/// A transaction that sees one state does not see rows that others have written since, which may refer to keys that it
/// takes away.
fn not_by_others(
    child: &TableEntry,
    key: &ForeignKey,
    keys: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let Some(of) = running.transaction.as_deref() else { return Ok(()) };
    if of.level == Level::ReadCommitted || child.meta.last_write() <= of.writes_before {
        return Ok(());
    }
    let now = Arc::new(running.over(running.inner.catalog.snapshot()));
    let Some(child) = now.catalog.by_id(child.id).cloned() else { return Ok(()) };
    child.load_all(&now)?;
    let rows = rows_with(&child, &key.columns, keys)?.limit(0, Some(1))?.build()?;
    let rows = query::run(rows, now, true)?.collect_all()?;
    match rows.iter().any(|batch| batch.num_rows() > 0) {
        true => Err(Error::Serialization(format!(
            "another transaction has written table '{}', whose foreign key '{}' refers to a key that goes",
            child.name.shown(),
            key.name
        ))),
        false => Ok(()),
    }
}

/// Looks whether all rows of a table refer to rows that are there.
///
/// # Errors
/// One does not.
pub(crate) fn is_kept_by_all(child: &TableEntry, key: &ForeignKey, running: &Arc<RunningStatement>) -> Result<()> {
    child.load_all(running)?;
    let (state, _) = over(child, running)?;
    let over = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let columns: Vec<Expr> = key.columns.iter().map(|name| of_table(name)).collect();
    let rows = scan(child)?.project(columns)?.build()?;
    for batch in query::run(rows, Arc::clone(&over), true)? {
        let batch = batch?;
        let rows = RecordBatch::try_new_with_options(
            batch.schema(),
            batch.columns().to_vec(),
            &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        )?;
        let Some(parent) = over.catalog.by_id(key.to).cloned() else { continue };
        let wanted = distinct(&rows)?;
        if wanted.num_rows() == 0 {
            continue;
        }
        let merged = crate::statements::writer::merged(&parent, &over)?;
        let found = found(key, &merged.0, &wanted, &merged.1)?;
        if let Some(row) = found.iter().position(Option::is_none) {
            let row = UInt32Array::from(vec![row as u32]);
            let values = wanted.columns().iter().map(|column| Ok(take(column, &row, None)?));
            let values = values.collect::<Result<Vec<ArrayRef>>>()?;
            return Err(violated(child, key, &parent, &values));
        }
    }
    Ok(())
}

/// What a change was told of is put together, so that each is looked at once.
pub(crate) fn together(changes: Vec<RowChange>) -> Result<Vec<RowChange>> {
    let mut all: HashMap<(u64, u8), Vec<RowChange>> = HashMap::new();
    let mut order: Vec<(u64, u8)> = Vec::new();
    for change in changes {
        let key = match &change {
            RowChange::Came { table, .. } => (*table, 0),
            RowChange::Went { table, went: Went::Deleted, .. } => (*table, 1),
            RowChange::Went { table, went: Went::Updated, .. } => (*table, 2),
            RowChange::Changed { table, .. } => (*table, 3),
        };
        if !all.contains_key(&key) {
            order.push(key);
        }
        all.entry(key).or_default().push(change);
    }
    let mut together = Vec::with_capacity(order.len());
    for key in order {
        let changes = all.remove(&key).unwrap_or_default();
        let mut batches: (Vec<RecordBatch>, Vec<RecordBatch>) = (Vec::new(), Vec::new());
        let mut last = None;
        for change in changes {
            match change {
                RowChange::Came { rows, .. } => batches.0.push(rows),
                RowChange::Went { rows, went, .. } => {
                    last = Some(went);
                    batches.0.push(rows);
                }
                RowChange::Changed { old, new, .. } => {
                    batches.0.push(old);
                    batches.1.push(new);
                }
            }
        }
        let of = |batches: &[RecordBatch]| Ok::<_, Error>(concat_batches(&batches[0].schema(), batches)?);
        if batches.0.is_empty() {
            continue;
        }
        let rows = of(&batches.0)?;
        together.push(match (key.1, last) {
            (0, _) => RowChange::Came { table: key.0, rows },
            (3, _) => RowChange::Changed { table: key.0, old: rows, new: of(&batches.1)? },
            (_, went) => RowChange::Went { table: key.0, rows, went: went.unwrap_or(Went::Updated) },
        });
    }
    Ok(together)
}
