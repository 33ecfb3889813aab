//! Keys that are DEFERRABLE: looked at once a statement has written its rows, or at COMMIT.
//!
//! A statement that writes such a table is one of a transaction, as those of tables with foreign keys are. The rows
//! that come are told of, and a further statement of the transaction ([`Step`](crate::run::changes::Step)) looks
//! whether two rows of the table have the key of one of them by then. What waits for COMMIT is in
//! [`crate::run::deferred`].
//!
//! Until the transaction ends it has locked the keys that it has written, in
//! [`TableLocks`](crate::catalog::locks::TableLocks): of two that write one key the second waits, and sees then what
//! the first has made of it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion_expr::{Expr, col, lit};
use datafusion_functions_aggregate::count::count;

use crate::catalog::TableEntry;
use crate::catalog::index::IndexEntry;
use crate::catalog::transactions::Level;
use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::statements::keys::{duplicate_error, shown};
use crate::statements::with_keys::{distinct, encoded, of_table, rows_with};

/// What the number of rows with a key is called.
const ROWS: &str = "rows with the key";

/// Looks at keys of rows that came, over what there is by now.
///
/// # Errors
/// Two rows have one of them; another transaction is about to take such a row away, which is waited for.
pub(crate) fn look_at(
    table: &Arc<TableEntry>,
    key: &IndexEntry,
    rows: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let rows = distinct(rows)?;
    if rows.num_rows() == 0 {
        return Ok(());
    }
    if let Some(values) = held_twice(table, key, &rows, running)? {
        if let Some(holder) = taker_of(table, key, &values, running)? {
            return Err(running.blocked_by(holder));
        }
        return Err(duplicate_error(&table.name, key, &shown(&values)));
    }
    not_by_others(table, key, &rows, running)
}

/// The first of some keys that two rows of a table have.
fn held_twice(
    table: &TableEntry,
    key: &IndexEntry,
    keys: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<Option<Vec<ArrayRef>>> {
    table.load_all(running)?;
    let columns: Vec<Expr> = key.columns.iter().map(|name| of_table(name)).collect();
    let rows = rows_with(table, &key.columns, keys)?
        .aggregate(columns.clone(), vec![count(lit(1_i64)).alias(ROWS)])?
        .filter(col(datafusion_common::Column::from_name(ROWS)).gt(lit(1_i64)))?
        .project(columns)?
        .limit(0, Some(1))?;
    let rows = query::run(rows.build()?, Arc::clone(running), true)?.collect_all()?;
    let row = rows.iter().find(|batch| batch.num_rows() > 0);
    Ok(row.map(|row| row.columns().iter().map(|column| column.slice(0, 1)).collect()))
}

/// Keys of the rows that a transaction is about to take away, as the table has them by now.
fn taken(
    now: &TableEntry,
    key: &IndexEntry,
    holder: u64,
    running: &Arc<RunningStatement>,
) -> Result<Option<RecordBatch>> {
    let Some(delta) = &now.delta else { return Ok(None) };
    let rows = delta.rows.held(holder, &now.base);
    if rows.is_empty() {
        return Ok(None);
    }
    now.load_all(running)?;
    let columns = now.columns_at(&rows, &now.key_columns(key)?)?;
    Ok(Some(RecordBatch::try_from_iter_with_nullable(
        key.columns.iter().zip(columns).map(|(name, column)| (name, column, true)),
    )?))
}

/// The transaction that takes a row with a key away, if it commits.
fn taker_of(
    table: &TableEntry,
    key: &IndexEntry,
    values: &[ArrayRef],
    running: &Arc<RunningStatement>,
) -> Result<Option<u64>> {
    let state = running.inner.catalog.state();
    let Some(now) = state.by_id(table.id) else { return Ok(None) };
    let values = key.columns.iter().zip(values).map(|(name, column)| (name, Arc::clone(column), true));
    let wanted = encoded(&RecordBatch::try_from_iter_with_nullable(values)?)?;
    for holder in now.meta.locks.others(running.own_transaction()) {
        if let Some(rows) = taken(now, key, holder, running)?
            && encoded(&rows)?.iter().any(|key| wanted.contains(key))
        {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// A transaction that sees one state does not see rows that others have written since, which may have its keys.
fn not_by_others(
    table: &TableEntry,
    key: &IndexEntry,
    keys: &RecordBatch,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let Some(of) = running.transaction.as_deref() else { return Ok(()) };
    if of.level == Level::ReadCommitted || table.meta.last_write() <= of.writes_before {
        return Ok(());
    }
    let newest = Arc::new(running.over(running.inner.catalog.snapshot()));
    let Some(now) = newest.catalog.by_id(table.id).cloned() else { return Ok(()) };
    now.load_all(&newest)?;
    let mut own: HashMap<Vec<u8>, usize> = HashMap::new();
    if let Some(rows) = running.own_transaction().map(|id| taken(&now, key, id, running)).transpose()?.flatten() {
        encoded(&rows)?.into_iter().for_each(|key| *own.entry(key).or_default() += 1);
    }
    let columns: Vec<Expr> = key.columns.iter().map(|name| of_table(name)).collect();
    let rows = rows_with(&now, &key.columns, keys)?.project(columns)?.build()?;
    for batch in query::run(rows, newest, true)? {
        for key_of_row in encoded(&batch?)? {
            match own.get_mut(&key_of_row).filter(|rows| **rows > 0) {
                Some(rows) => *rows -= 1,
                None => {
                    return Err(Error::Serialization(format!(
                        "another transaction has written table '{}', where a row has a key of '{}' that this one has \
                         written too",
                        table.name.shown(),
                        key.name
                    )));
                }
            }
        }
    }
    Ok(())
}
