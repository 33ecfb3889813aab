//! Statements that write few rows: they go to the table's delta, and encode nothing.
//!
//! Rows are added and die in one step: keys are looked up first, then the delta has another state, units have the keys,
//! and one commit shows both. What fails before leaves nothing behind. Who makes the delta large has it merged.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use storage::{Delta, Keys, Serial, TableRow};
use units::versions::Pin;

use crate::catalog::TableEntry;
use crate::catalog::delta::{DeltaKeys, FoundKeys, KeyChanges, SMALL_ROWS_MAX, TableDelta};
use crate::catalog::index::IndexEntry;
use crate::catalog::merges::DeltaSize;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::statement::RunningStatement;
use crate::statements::keys::{duplicate_error, shown};
use crate::statements::merging;
use crate::statements::stage::as_kept;

/// Rows among which one is looked for one by one.
const FEW_ROWS: usize = 8;

/// A key of a unique index that was looked up: the one row that is added, if there is one, and the one that dies, if
/// there is one, have it, and no other row does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownKey {
    /// Which of the table's unique indexes.
    pub index: usize,
    /// As [`Keys::codes`] has it.
    pub code: Option<u64>,
}

/// Adds rows of the table's columns and lets others die, all or nothing; whether that was done: rows that are too many,
/// or for a table without a delta, have to become segments. `table` is as of the running statement's state, and nobody
/// else writes it. Of keys that are known nothing is looked up.
///
/// # Errors
/// A NULL or a text that the table does not allow, a key that is there already, no memory, a cancelled statement.
pub(crate) fn write_small(
    table: &TableEntry,
    rows: &RecordBatch,
    (dead, known): (&[TableRow], &[KnownKey]),
    running: &Arc<RunningStatement>,
) -> Result<bool> {
    let is_wanted = config::nearside(running.planner.config_options()).small_writes;
    if !is_wanted || !table.has_room_for_delta() || rows.num_rows() + dead.len() > SMALL_ROWS_MAX {
        return Ok(false);
    }
    let rows = checked_rows(table, rows)?;
    let (before, keys) = match &table.delta {
        Some(delta) => (delta.rows.clone(), Arc::clone(&delta.keys)),
        None => match first(table, running) {
            Err(Error::Memory(_)) => return Ok(false),
            first => first?,
        },
    };
    let adds = rows.num_rows() > 0;
    let first_row = before.rows() as u64;
    let mut changes = Vec::with_capacity(keys.objects.len());
    for (number, index) in table.unique_indexes().enumerate() {
        if let Some(known) = known.iter().find(|known| known.index == number) {
            changes.push(known.changes(adds.then_some(first_row), dead));
            continue;
        }
        let pin = table.newest_keys();
        match key_changes(table, number, index, &rows, dead, first_row, pin.as_ref())? {
            Some(change) => changes.push(change),
            None => return Ok(false),
        }
    }
    let after = before.with(rows, dead)?;
    // Whoever scans it needs room for its rows, and for encoding them.
    if adds && table.meta.budget().available_bytes().is_some_and(|free| free / 4 < after.bytes()) {
        return Ok(false);
    }
    let size = DeltaSize::of(after.rows(), after.entries(), after.bytes(), table.meta.budget().available_bytes());
    let statement = keys.written(&changes)?;
    running.check()?;
    let delta = TableDelta::new(after, keys);
    running.home.commit_keys(statement, |state| state.set_delta(table, delta))?;
    merging::written(table.id, &table.meta, size, running);
    Ok(true)
}

/// The first state of a delta: no rows.
fn first(table: &TableEntry, running: &RunningStatement) -> Result<(Delta, Arc<DeltaKeys>)> {
    let keys = Arc::new(DeltaKeys::new(table, || running.home.units())?);
    Ok((Delta::new(Arc::clone(&table.base.schema), table.meta.budget()), keys))
}

/// The rows as the table stores them.
fn checked_rows(table: &TableEntry, rows: &RecordBatch) -> Result<RecordBatch> {
    let kept = as_kept(rows.clone(), table)?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&table.base.schema), kept.columns().to_vec(), &options)?)
}

impl KnownKey {
    /// What its index has to know: the number of the delta's row that is added, if there is one, has it.
    fn changes(self, added: Option<u64>, dead: &[TableRow]) -> KeyChanges {
        match (self.code, added) {
            (Some(code), Some(row)) => KeyChanges::new(Vec::new(), vec![(code, row)]),
            (Some(code), None) if matches!(dead, [TableRow::Delta { .. }]) => {
                KeyChanges::new(vec![(code, 0)], Vec::new())
            }
            _ => KeyChanges::default(),
        }
    }
}

/// What a unique index has to know; `None` where two keys have one code.
fn key_changes(
    table: &TableEntry,
    number: usize,
    index: &IndexEntry,
    rows: &RecordBatch,
    dead: &[TableRow],
    first_row: u64,
    pin: Option<&Pin>,
) -> Result<Option<KeyChanges>> {
    let columns = table.key_columns(index)?;
    let mut removed = Vec::new();
    let gone: Vec<TableRow> = dead.iter().copied().filter(|place| matches!(place, TableRow::Delta { .. })).collect();
    if !gone.is_empty() {
        let keys = Keys::new(&table.columns_at(&gone, &columns)?)?;
        removed.extend(keys.codes().flatten().map(|code| (code, 0)));
    }
    if rows.num_rows() == 0 {
        return Ok(Some(KeyChanges::new(removed, Vec::new())));
    }
    let values: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(rows.column(*column))).collect();
    let keys = Keys::new(&values)?;
    let FoundKeys::Rows(found) = table.find(number, &keys, pin, &|| false, &Serial)? else { return Ok(None) };
    // Of few, looking at all of them takes less time than hashing them.
    let dying: HashSet<TableRow> = if dead.len() > FEW_ROWS { dead.iter().copied().collect() } else { HashSet::new() };
    let dies = |place: &TableRow| if dead.len() > FEW_ROWS { dying.contains(place) } else { dead.contains(place) };
    let is_first = |row: usize| keys.first_equal()[row].is_none_or(|first| first as usize == row);
    let stays = |row: usize| found[row].is_some_and(|place| !dies(&place));
    if let Some(row) = (0..rows.num_rows()).find(|row| stays(*row) || !is_first(*row)) {
        let values: Vec<ArrayRef> = values.iter().map(|column| column.slice(row, 1)).collect();
        return Err(duplicate_error(&table.name, index, &shown(&values)));
    }
    let added = keys.codes().enumerate().filter_map(|(row, code)| Some((code?, first_row + row as u64)));
    let added: Vec<(u64, u64)> = added.collect();
    if added.len() > 1 {
        let codes: HashSet<u64> = added.iter().map(|(code, _)| *code).collect();
        if codes.len() < added.len() {
            return Ok(None);
        }
    }
    Ok(Some(KeyChanges::new(removed, added)))
}
