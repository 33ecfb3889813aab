//! Rows by their key, on the thread of the caller: no plan is bound and no task is made.
//!
//! The state of the catalog and the keys of units are looked at together, so a row is found as it was committed. What
//! is read is told to the account of traffic as one task's, on this thread.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use exec::ParameterId;
use storage::{Keys, Serial, TableRow};

use crate::catalog::TableEntry;
use crate::catalog::delta::FoundKeys;
use crate::error::{Error, Result};
use crate::lower::{KeyQuery, KeyValue, Slots};
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::run::{config, profile};

/// Gives columns of the row that has a key of a table's unique index: of no row where there is none, `None` where that
/// is not known.
pub(crate) type ReadByKey<'a> = dyn Fn((u64, usize), &[ArrayRef], &[usize]) -> Result<Option<Vec<ArrayRef>>> + 'a;

/// The row that has a key; `None` where the query has to run as others do. Values are of the columns' types, and none
/// is NULL.
///
/// # Errors
/// A statement that was cancelled, a value that is missing.
pub(super) fn start(
    query: &KeyQuery,
    values: &Slots,
    schema: &SchemaRef,
    running: &RunningStatement,
) -> Result<Option<ResultStream>> {
    let since = Instant::now();
    // Who switches look-ups off wants to see what reading everything takes.
    // A transaction sees what is not in the units.
    if running.transaction.is_some()
        || profile::wanted(running)
        || !config::nearside(running.planner.config_options()).index_lookups
    {
        return Ok(None);
    }
    let (state, pin) = running.home.pinned();
    let Some(table) = state.by_id(query.table) else { return Ok(None) };
    if state.ddl_version != running.catalog.ddl_version {
        return Ok(None);
    }
    if !table.meta.is_resident() {
        // What it reads comes into memory first, as others' columns do.
        return Ok(None);
    }
    let key = key_of(query, values)?;
    let FoundKeys::Rows(found) = table.find(query.index, &Keys::new(&key)?, pin.as_ref(), &|| false, &Serial)? else {
        return Ok(None);
    };
    drop(pin);
    let rows: Vec<TableRow> = found.into_iter().flatten().collect();
    let columns = table.columns_at(&rows, &query.columns)?;
    account(table, &query.shown, (query.index, &query.columns), &rows, (running, since));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    Ok(Some(ResultStream::ready(Arc::clone(schema), vec![batch])))
}

/// As [`start`], of a statement of a transaction.
///
/// # Errors
/// As there.
pub(super) fn start_within(
    query: &KeyQuery,
    values: &Slots,
    schema: &SchemaRef,
    running: &RunningStatement,
    read: &ReadByKey<'_>,
) -> Result<Option<ResultStream>> {
    if profile::wanted(running) || !config::nearside(running.planner.config_options()).index_lookups {
        return Ok(None);
    }
    let key = key_of(query, values)?;
    let Some(columns) = read((query.table, query.index), &key, &query.columns)? else { return Ok(None) };
    let options = RecordBatchOptions::new().with_row_count(Some(columns.first().map_or(0, |column| column.len())));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    Ok(Some(ResultStream::ready(Arc::clone(schema), vec![batch])))
}

/// The values of a query's key.
fn key_of(query: &KeyQuery, values: &Slots) -> Result<Vec<ArrayRef>> {
    let value = |value: &KeyValue| match value {
        KeyValue::Literal(value) => Ok(Arc::clone(value)),
        KeyValue::Parameter(ParameterId(place)) => {
            values.get(*place).cloned().ok_or_else(|| Error::Internal("a parameter of a key has no value".into()))
        }
    };
    query.key.iter().map(value).collect()
}

/// Tells which columns a statement reads, since a moment, of which rows of the base, found by the unique index of this
/// number; what a delta has lies wherever its writer was.
pub(crate) fn account(
    table: &TableEntry,
    shown: &str,
    (index, columns): (usize, &[usize]),
    rows: &[TableRow],
    (running, since): (&RunningStatement, Instant),
) {
    let base = rows.iter().filter_map(|row| match row {
        TableRow::Base { segment, row } => Some((*segment as usize, *row)),
        TableRow::Delta { .. } => None,
    });
    let version = &table.base;
    let index = table.unique_indexes().nth(index).and_then(|index| version.schema.index_of(&index.indexed).ok());
    let only_node = match running.inner.topology.nodes() {
        [only] => Some(only.id),
        _ => None,
    };
    let read = exec::RowsRead { name: shown, version, index, columns, only_node, since };
    // A statement's own account is for who looks at it.
    let traffic = if profile::wanted(running) { &running.traffic } else { &running.inner.traffic };
    exec::account_rows(traffic, &running.statement, &read, base);
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::run::query;
    use crate::sql::AnyStatement;

    /// What is asked for by a key: the number of the index and how many columns.
    fn asked(sql: &str, session: &crate::Session) -> Option<(usize, usize)> {
        let running = session.running();
        let plan = AnyStatement::one(sql).unwrap().plan(&running.plan_context()).unwrap();
        let optimised = query::optimised(plan, &running).unwrap();
        crate::lower::key_query(&optimised, &running.catalog).map(|query| (query.index, query.columns.len()))
    }

    #[test]
    fn queries_of_the_row_of_a_key_are_told_from_others() {
        let session = Database::builder().threads(2).memory_bytes(1 << 28).build().unwrap().session();
        let create =
            "CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT, c INT, d DOUBLE, UNIQUE (c, b)); CREATE INDEX i ON t (d)";
        session.execute(create).unwrap();
        for (sql, expected) in [
            ("SELECT * FROM t WHERE a = $1", Some((0, 4))),
            ("SELECT d, a AS x FROM t WHERE $1 = a", Some((0, 2))),
            ("SELECT own.d FROM t AS own WHERE own.a = 7", Some((0, 1))),
            ("SELECT a FROM t WHERE b = $1 AND c = $2", Some((1, 1))),
            ("SELECT a FROM t WHERE c = 1 AND b = 'x'", Some((1, 1))),
            ("SELECT a FROM t WHERE b = $1", None),
            ("SELECT a FROM t WHERE d = $1", None),
            ("SELECT a FROM t WHERE a = $1 AND d = 1.0", None),
            ("SELECT a FROM t WHERE a >= $1", None),
            ("SELECT a FROM t WHERE a = $1 OR a = $2", None),
            ("SELECT a + 1 FROM t WHERE a = $1", None),
            ("SELECT count(*) FROM t WHERE a = $1", None),
            ("SELECT a FROM t WHERE a = $1 LIMIT 0", None),
            ("SELECT t.a FROM t JOIN t AS u ON t.a = u.a WHERE t.a = $1", None),
        ] {
            assert_eq!(asked(sql, &session), expected, "{sql}");
        }
    }
}
