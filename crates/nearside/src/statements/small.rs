//! Statements that write few rows: they go to the table's delta, and encode nothing.
//!
//! Rows are added and die in one step: keys are looked up first, then the delta has another state, units have the keys,
//! and one commit shows both. What fails before leaves nothing behind. Whoever makes the delta large merges it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use storage::{Delta, Keys, Serial, TableRow};
use units::request::WriteKind;
use units::store::{Statement, WriteError};
use units::versions::Pin;

use crate::catalog::TableEntry;
use crate::catalog::delta::{DELTA_BYTES_MAX, DELTA_ROWS_MAX, DeltaKeys, FoundKeys, SMALL_ROWS_MAX, TableDelta};
use crate::catalog::index::{IndexEntry, indexed};
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::statement::RunningStatement;
use crate::statements::keys::{duplicate_error, shown};
use crate::statements::stage::{as_kept, compacted};

/// Rows among which one is looked for one by one.
const FEW_ROWS: usize = 8;

/// What became of a small write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SmallWrite {
    /// It is committed.
    Done,
    /// It is committed, and made the delta so large that it should be merged.
    Large,
    /// Nothing was done: the rows are too many, or the table has no delta. They have to become segments.
    NotSmall,
}

/// The changes of one unique index: keys that go, and keys with the delta's row that has them from now on.
#[derive(Default)]
struct KeyChanges {
    removed: Vec<(u64, u64)>,
    added: Vec<(u64, u64)>,
}

/// A key of a unique index that was looked up: the one row that is added, if there is one, and the one that dies, if
/// there is one, have it, and no other row does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownKey {
    /// Which of the table's unique indexes.
    pub index: usize,
    /// As [`Keys::codes`] has it.
    pub code: Option<u64>,
}

/// Whether rows of the table's columns were added and others have died, all or nothing. `table` is as of the running
/// statement's state, and nobody else writes it; a delta that became large is merged.
///
/// # Errors
/// As [`commit_small`].
pub(crate) fn write_small(
    table: &TableEntry,
    rows: &RecordBatch,
    dead: &[TableRow],
    running: &Arc<RunningStatement>,
) -> Result<bool> {
    let written = commit_small(table, rows, (dead, &[]), running)?;
    if written == SmallWrite::Large {
        merge_large(table.id, running);
    }
    Ok(written != SmallWrite::NotSmall)
}

/// Adds rows of the table's columns and lets others die, all or nothing. `table` is as of the running statement's
/// state, and nobody else writes it. Of keys that are known nothing is looked up.
///
/// # Errors
/// A NULL or a text that the table does not allow, a key that is there already, no memory, a cancelled statement.
pub(crate) fn commit_small(
    table: &TableEntry,
    rows: &RecordBatch,
    (dead, known): (&[TableRow], &[KnownKey]),
    running: &Arc<RunningStatement>,
) -> Result<SmallWrite> {
    let is_wanted = config::nearside(running.planner.config_options()).small_writes;
    if !is_wanted || !table.has_room_for_delta() || rows.num_rows() + dead.len() > SMALL_ROWS_MAX {
        return Ok(SmallWrite::NotSmall);
    }
    let rows = checked_rows(table, rows)?;
    let (before, keys) = match &table.delta {
        Some(delta) => (delta.rows.clone(), Arc::clone(&delta.keys)),
        None => match first(table, running) {
            Err(Error::Memory(_)) => return Ok(SmallWrite::NotSmall),
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
            None => return Ok(SmallWrite::NotSmall),
        }
    }
    let after = before.with(rows, dead)?;
    // Whoever scans it needs room for its rows, and for encoding them.
    if adds && table.meta.budget().available_bytes().is_some_and(|free| free / 4 < after.bytes()) {
        return Ok(SmallWrite::NotSmall);
    }
    let is_large = is_large(&after, table);
    let statement = written(&keys, &changes)?;
    running.check()?;
    let delta = TableDelta::new(after, keys);
    running.home.commit_keys(statement, |state| state.set_delta(table, delta))?;
    Ok(if is_large { SmallWrite::Large } else { SmallWrite::Done })
}

/// Merges the delta of a table, which nobody else writes, if it is still large. What is committed stays so: where there
/// is no memory to merge it now, the next statement tries again.
pub(crate) fn merge_large(table: u64, running: &Arc<RunningStatement>) {
    if let Err(error) = merge(table, running) {
        tracing::debug!("the delta of table {table} was not merged: {error}");
    }
}

/// Whether a delta is to be merged: reading it takes time for its rows, and memory for them once more.
fn is_large(delta: &Delta, table: &TableEntry) -> bool {
    let room = table.meta.budget().available_bytes().map_or(DELTA_BYTES_MAX, |free| DELTA_BYTES_MAX.min(free / 4));
    delta.rows() > DELTA_ROWS_MAX || delta.entries() > DELTA_ROWS_MAX || delta.bytes() > room
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
        let mut changes = KeyChanges::default();
        match (self.code, added) {
            (None, _) => {}
            (Some(code), Some(row)) => changes.added.push((code, row)),
            (Some(code), None) if matches!(dead, [TableRow::Delta { .. }]) => changes.removed.push((code, 0)),
            (Some(_), None) => {}
        }
        changes
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
    let mut changes = KeyChanges::default();
    let gone: Vec<TableRow> = dead.iter().copied().filter(|place| matches!(place, TableRow::Delta { .. })).collect();
    if !gone.is_empty() {
        let keys = Keys::new(&table.columns_at(&gone, &columns)?)?;
        changes.removed.extend(keys.codes().flatten().map(|code| (code, 0)));
    }
    if rows.num_rows() == 0 {
        return Ok(Some(changes));
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
    changes.added.extend(added);
    if let [(added, _)] = changes.added[..] {
        changes.removed.retain(|(code, _)| *code != added);
        return Ok(Some(changes));
    }
    let codes: HashSet<u64> = changes.added.iter().map(|(code, _)| *code).collect();
    if codes.len() < changes.added.len() {
        return Ok(None);
    }
    changes.removed.retain(|(code, _)| !codes.contains(code));
    Ok(Some(changes))
}

/// The statement of units with the changes of all keys, to be committed; `None` where there are none.
fn written(keys: &DeltaKeys, changes: &[KeyChanges]) -> Result<Option<Statement>> {
    let is_empty = changes.iter().all(|change| change.added.is_empty() && change.removed.is_empty());
    let Some(units) = keys.units().filter(|_| !is_empty) else { return Ok(None) };
    let mut statement = units.begin().map_err(units_error)?;
    for (object, change) in keys.objects.iter().zip(changes) {
        for (kind, pairs) in [(WriteKind::Delete, &change.removed), (WriteKind::Upsert, &change.added)] {
            if !pairs.is_empty() {
                statement.write(object, kind, pairs).map_err(units_error)?;
            }
        }
    }
    Ok(Some(statement))
}

fn units_error(error: WriteError) -> Error {
    match error {
        WriteError::Memory(error) => error.into(),
        WriteError::Panicked(text) => Error::Internal(format!("writing keys failed: {text}")),
        other => Error::Execution(other.to_string()),
    }
}

/// Makes segments of a table's delta.
fn merge(table: u64, running: &Arc<RunningStatement>) -> Result<()> {
    let state = running.home.state();
    let Some(table) = state.by_id(table) else { return Ok(()) };
    if !table.delta.as_ref().is_some_and(|delta| is_large(&delta.rows, table)) {
        return Ok(());
    }
    // What is compacted gets indexes of its own.
    let merged = indexed(compacted(table.merged()?, running)?, running)?;
    running.home.commit(|state| state.set_table(merged))
}
