//! Keys: no two rows of a table have the same values in the columns of a unique index.
//!
//! Only rows that a statement adds are looked up, each in the indexes of all segments; so one row added to a large
//! table costs a look-up per segment and key. Where many rows are new and each look-up would find many candidates,
//! since no column of the key tells many rows apart by itself, the table is grouped by the key instead; also where that
//! shows only while rows are looked up.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use storage::{KeyCheck, KeyLimits, Keys, Segment, Serial, TableRow, TableVersion};

use crate::catalog::delta::FoundKeys;
use crate::catalog::index::{IndexEntry, IndexedTable, Origin, position, with_order};
use crate::catalog::{CatalogState, Name, TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, quoted};
use crate::statements::written;

/// Candidates of look-ups that take as long as grouping one row.
const CANDIDATES_PER_GROUPED_ROW: u64 = 8;

/// Candidates that are looked at whatever the table's size: grouping costs some milliseconds.
const CANDIDATES_MIN: u64 = 1 << 20;

/// Characters of a value that a message shows.
const SHOWN_CHARS: usize = 64;

/// The indexes of the keys that a table is declared with: the primary key's and those of UNIQUE constraints, each set
/// of columns once.
///
/// # Errors
/// A column of a type that has no order.
pub(crate) fn key_indexes(keys: Vec<(Origin, Vec<String>)>, schema: &SchemaRef) -> Result<Vec<IndexEntry>> {
    let mut indexes: Vec<IndexEntry> = Vec::new();
    // A primary key that is said to be UNIQUE as well is still the primary key.
    let (primary, unique): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(origin, _)| *origin == Origin::PrimaryKey);
    for (origin, columns) in primary.into_iter().chain(unique) {
        for (place, column) in columns.iter().enumerate() {
            with_order(column, schema)?;
            if columns[..place].contains(column) {
                return Err(Error::plan(SqlState::DuplicateColumn, format!("column '{column}' stands twice in a key")));
            }
        }
        if indexes.iter().all(|index| index.columns != columns) {
            indexes.push(IndexEntry::new(String::new(), columns, true, origin));
        }
    }
    Ok(indexes)
}

/// Fails when two rows share a key, given that no two rows of `before` do; rows of `before` may be gone.
pub(crate) fn check_keys(
    table: &IndexedTable,
    before: Option<&TableVersion>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    for index in table.table().indexes.iter().filter(|index| index.unique) {
        if let Some(values) = duplicate(table, index, before, running)? {
            if let Some(holder) = holder_of(table.table().id, index, &values, running)? {
                return Err(running.blocked_by(holder));
            }
            return Err(duplicate_error(&table.table().name, index, &shown(&values)));
        }
    }
    Ok(())
}

/// The transaction that takes the row with a key away, if it commits.
fn holder_of(
    table: u64,
    index: &IndexEntry,
    values: &[ArrayRef],
    running: &Arc<RunningStatement>,
) -> Result<Option<u64>> {
    let state = running.inner.catalog.state();
    let Some(table) = state.by_id(table).filter(|table| table.meta.locks.is_any()) else { return Ok(None) };
    let Some(delta) = &table.delta else { return Ok(None) };
    let number = table.unique_indexes().position(|known| known.columns == index.columns);
    let (Some(number), pin) = (number, table.newest_keys()) else { return Ok(None) };
    let first: Vec<ArrayRef> = values.iter().map(|column| column.slice(0, 1)).collect();
    match table.find(number, &Keys::new(&first)?, pin.as_ref(), &|| false, &Serial)? {
        FoundKeys::Rows(rows) => {
            let rows: Vec<TableRow> = rows.into_iter().flatten().collect();
            Ok(delta.rows.taker_of(&rows, running.own_transaction(), &table.base)?)
        }
        FoundKeys::Clash => Ok(None),
    }
}

/// The error of a key that two rows would have; its values as [`shown`] gives them.
pub(crate) fn duplicate_error(table: &Name, index: &IndexEntry, values: &str) -> Error {
    let columns = index.columns.join(", ");
    let without = format!("table '{}' would hold two rows with one key ({columns})", table.shown());
    Error::of_rows(
        SqlState::UniqueViolation,
        format!("table '{}' would hold two rows with the key ({columns}) = ({values})", table.shown()),
        (&table.schema, &table.table),
        index.columns.iter().cloned(),
        without,
    )
    .of_constraint((&table.schema, &table.table), &index.name)
}

/// The values that two rows have in the columns of an index, the first of each column.
pub(crate) fn duplicate(
    table: &IndexedTable,
    index: &IndexEntry,
    before: Option<&TableVersion>,
    running: &Arc<RunningStatement>,
) -> Result<Option<Vec<ArrayRef>>> {
    let version = &table.table().base;
    // The very segments: `before` holds them, so no other one can lie where they do.
    let old: HashSet<*const Segment> =
        before.into_iter().flat_map(TableVersion::segments).map(|s| Arc::as_ptr(&s.segment)).collect();
    let new: Vec<bool> = version.segments().map(|s| !old.contains(&Arc::as_ptr(&s.segment))).collect();
    if !new.contains(&true) {
        return Ok(None);
    }
    if is_grouping_cheaper(table.table(), index, &new)? {
        return by_grouping(table, index, running);
    }
    // That takes values as evenly frequent. Where one is not, look-ups find more than was thought and are given up.
    let rows: u64 = version.segments().map(|s| s.segment.rows() as u64).sum();
    match by_look_ups(table.table(), index, &new, CANDIDATES_MIN + 2 * CANDIDATES_PER_GROUPED_ROW * rows, running)? {
        LookedUp::Found(values) => Ok(Some(values)),
        LookedUp::Unique => Ok(None),
        LookedUp::TooMany => by_grouping(table, index, running),
    }
}

/// What looking rows up came to.
#[derive(Debug)]
pub(crate) enum LookedUp {
    /// Two rows have the key with these values.
    Found(Vec<ArrayRef>),
    /// No two rows have one.
    Unique,
    /// There were too many candidates.
    TooMany,
}

/// Whether look-ups of the new segments' rows would find more candidates than grouping all rows costs.
pub(crate) fn is_grouping_cheaper(table: &TableEntry, index: &IndexEntry, new: &[bool]) -> Result<bool> {
    let version = &table.base;
    let column = position(&index.indexed, &version.schema)?;
    let mut rows = 0;
    let mut added = 0;
    let mut per_look_up = 0.0;
    for (version, new) in version.segments().zip(new) {
        let count = version.segment.rows() as u64;
        rows += count;
        added += if *new { count } else { 0 };
        let distinct = version.segment.index(column).map_or(1, |index| index.distinct().max(1));
        per_look_up += count as f64 / distinct as f64;
    }
    // One candidate per look-up and segment is what the best of indexes gives.
    let candidates = (per_look_up - new.len() as f64).max(0.0) * added as f64;
    Ok(candidates > (CANDIDATES_PER_GROUPED_ROW * rows) as f64)
}

pub(crate) fn by_look_ups(
    table: &TableEntry,
    index: &IndexEntry,
    new: &[bool],
    candidates_max: u64,
    running: &Arc<RunningStatement>,
) -> Result<LookedUp> {
    let version = &table.base;
    let columns = index.columns.iter().map(|column| position(column, &version.schema)).collect::<Result<Vec<_>>>()?;
    let is_new = |segment: usize| new.get(segment).copied().unwrap_or(true);
    let limits = KeyLimits { candidates_max, is_stopped: &|| running.check().is_err() };
    let found = storage::duplicate_key(version, &columns, &is_new, limits, &running.parallel());
    let checked = || format!("checking the key ({}) of table '{}'", index.columns.join(", "), table.name.shown());
    let row = match running.finished(found, checked)? {
        KeyCheck::Duplicate(row) => row,
        KeyCheck::Unique => return Ok(LookedUp::Unique),
        KeyCheck::TooMany => return Ok(LookedUp::TooMany),
    };
    let segment = version.segments().nth(row.segment);
    let segment = &segment.ok_or_else(|| Error::Internal("a row that breaks a key lies in no segment".into()))?.segment;
    let values: Vec<ArrayRef> = columns.iter().map(|&column| segment.column(column).take(&[row.row])).collect();
    Ok(LookedUp::Found(values))
}

pub(crate) fn by_grouping(
    table: &IndexedTable,
    index: &IndexEntry,
    running: &Arc<RunningStatement>,
) -> Result<Option<Vec<ArrayRef>>> {
    let mut state = CatalogState::clone(&running.catalog);
    let name = &table.table().name;
    // The planner believes in keys, and these are in doubt.
    state.put_table(Name::clone(name), table.without_keys())?;
    let columns: Vec<String> = index.columns.iter().map(|c| quoted(c)).collect();
    let sql = format!(
        "SELECT {columns} FROM {table} WHERE {present} GROUP BY {columns} HAVING count(*) > 1 LIMIT 1",
        columns = columns.join(", "),
        table = written::name(name),
        present = columns.iter().map(|c| format!("{c} IS NOT NULL")).collect::<Vec<_>>().join(" AND "),
    );
    let running = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let plan = AnyStatement::one(&sql)?.plan(&running.own_context())?;
    for batch in query::run(plan, running, true)? {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Ok(Some(batch.columns().to_vec()));
        }
    }
    Ok(None)
}

/// The first row's values as text, long ones cut.
pub(crate) fn shown(columns: &[ArrayRef]) -> String {
    let text = |c: &ArrayRef| {
        let text = arrow::util::display::array_value_to_string(c, 0).unwrap_or_else(|_| "?".into());
        match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}.. ({} bytes)", &text[..end], text.len()),
            None => text,
        }
    };
    columns.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
