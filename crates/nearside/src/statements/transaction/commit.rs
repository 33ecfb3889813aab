//! COMMIT and ROLLBACK: what a transaction has written becomes everybody's in one moment, or nobody's.
//!
//! With the write turns of all tables that it has locked, alone and in the order of their numbers; a serializable one
//! has those of the tables that it has read as well, and one whose rows were all written by their keys shares them.
//! What few rows it has written goes to the tables' deltas, as those of a small statement do, with one version and one
//! record of the log; where it has changed names or columns, or written many rows, all of it becomes one change of the
//! catalog's state, and segments.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use storage::{Part, TableRow};

use super::by_keys::with_pending;
use super::locking::{live_rows, stands_for_same};
use super::serializable::is_serializable;
use super::view::{gone, put_definitions};
use crate::catalog::delta::{KeyChanges, SMALL_ROWS_MAX, TableDelta};
use crate::catalog::index::{IndexedTable, indexed};
use crate::catalog::journal::WrittenRows;
use crate::catalog::merges::DeltaSize;
use crate::catalog::transactions::Level;
use crate::catalog::write_turns::{SharedTurn, WriteTurn};
use crate::catalog::{CatalogState, Name, TableEntry, TableMeta};
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Content, Ended, SharedView, Transaction, TransactionState, WrittenTable};
use crate::statements::merging;
use crate::statements::small::{Routed, key_changes};
use crate::statements::stage::nullable;

/// Makes what a transaction has written everybody's, and ends it; also where it cannot, which undoes all of it.
///
/// # Errors
/// What it has read was changed, where it is serializable; a name that it has given was taken; no memory, no room on
/// the disk.
pub(crate) fn commit(
    transaction: &Transaction,
    state: &mut TransactionState,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let inner = &running.inner;
    if state.level != Level::Serializable && state.content.is_by_keys() {
        let metas = state.locked.clone();
        if let Some(committed) = commit_by_keys(transaction.open.id, state, running).transpose() {
            end(transaction, state, inner);
            metas.iter().for_each(|(table, meta)| merging::relieve(*table, meta, running));
            return committed;
        }
    }
    let mut metas = state.locked.clone();
    if state.level == Level::Serializable && !state.content.is_empty() {
        let now = inner.catalog.state();
        let reads = state.reads.lock();
        metas.extend(reads.keys().filter_map(|table| Some((*table, Arc::clone(&now.by_id(*table)?.meta)))));
    }
    // Others who commit take theirs in the same order, and nobody else takes several.
    let turns: Result<Vec<WriteTurn<'_>>> =
        metas.values().map(|meta| meta.write_turns.next(|| running.check())).collect();
    let committed = match turns {
        Ok(turns) => {
            let committed = is_serializable(state, running).and_then(|()| match state.content.is_empty() {
                true => Ok(()),
                false => make_everybodys(transaction.open.id, &state.content, running),
            });
            unlock(transaction.open.id, &state.locked, inner);
            state.locked.clear();
            drop(turns);
            committed
        }
        Err(error) => Err(error),
    };
    end(transaction, state, inner);
    metas.iter().for_each(|(table, meta)| merging::relieve(*table, meta, running));
    committed
}

/// Commits rows that were all written by their keys, beside who else writes the tables; `None` where nothing was done.
fn commit_by_keys(id: u64, state: &mut TransactionState, running: &Arc<RunningStatement>) -> Result<Option<()>> {
    let locked = state.locked.clone();
    let turns = locked.values().map(|meta| meta.write_turns.share(|| running.check()));
    let turns: Vec<SharedTurn<'_>> = turns.collect::<Result<_>>()?;
    let Some(writes) = small_writes(id, &state.content, running)? else { return Ok(None) };
    let committed = commit_small(id, writes, running);
    unlock(id, &locked, &running.inner);
    state.locked.clear();
    drop(turns);
    committed.map(Some)
}

/// Undoes all that a transaction has written, and ends it.
pub(crate) fn roll_back(transaction: &Transaction, state: &mut TransactionState, inner: &Arc<Inner>) {
    for (table, meta) in &state.locked {
        // Nobody who has the turn waits for a transaction.
        let _turn = meta.write_turns.next(|| Ok::<(), Infallible>(()));
        unlock(transaction.open.id, &BTreeMap::from([(*table, Arc::clone(meta))]), inner);
    }
    state.locked.clear();
    end(transaction, state, inner);
}

/// Gives back all that a transaction has locked of some tables, for who has their turns.
fn unlock(id: u64, locked: &BTreeMap<u64, Arc<TableMeta>>, inner: &Inner) {
    let now = inner.catalog.state();
    for (table, meta) in locked {
        if let Some(delta) = now.by_id(*table).and_then(|table| table.delta.as_ref()) {
            delta.rows.release_held(id, 0);
        }
        meta.locks.leave(id);
    }
}

/// It holds nothing any more, and nobody waits for it.
fn end(transaction: &Transaction, state: &mut TransactionState, inner: &Arc<Inner>) {
    if !state.locked.is_empty() {
        return roll_back(transaction, state, inner);
    }
    state.content = Content::default();
    state.own = None;
    state.snapshot = None;
    state.savepoints.clear();
    state.deferred = Default::default();
    state.ended.get_or_insert(Ended::Itself);
    transaction.home.begin(Arc::default(), 0);
    inner.transactions.end(transaction.open.id);
}

fn make_everybodys(id: u64, content: &Content, running: &Arc<RunningStatement>) -> Result<()> {
    if !content.has_definitions()
        && config::nearside(running.planner.config_options()).small_writes
        && let Some(writes) = small_writes(id, content, running)?
    {
        return commit_small(id, writes, running);
    }
    match content.pending.is_empty() {
        true => commit_large(id, content, running),
        false => commit_large(id, &with_pending(id, content, None, running)?, running),
    }
}

/// What a transaction has written of a table, as rows of its delta.
struct SmallWriteOf {
    table: Arc<TableEntry>,
    delta: Arc<TableDelta>,
    rows: RecordBatch,
    dead: Vec<TableRow>,
    changes: Vec<KeyChanges>,
    routed: Routed,
}

/// What a transaction has written, where it is few rows of each table; else `None`.
fn small_writes(id: u64, content: &Content, running: &RunningStatement) -> Result<Option<Vec<SmallWriteOf>>> {
    let mut writes = Vec::with_capacity(content.tables.len() + content.pending.len());
    for (table, written) in &content.tables {
        let added = written.added();
        let count: usize = added.iter().map(Part::live_rows).sum();
        let rows = |now: &TableEntry| rows_of(&added, now);
        let gone = || gone(&written.table);
        match small_write(id, (*table, &gone), (count, &rows), running)? {
            Some(write) => writes.extend(write),
            None => return Ok(None),
        }
    }
    for (table, pending) in &content.pending {
        let rows = |now: &TableEntry| pending.batch(&nullable(&now.base.schema));
        let gone = || Error::Serialization("a table that was written was dropped by another transaction".into());
        match small_write(id, (*table, &gone), (pending.count(), &rows), running)? {
            Some(write) => writes.extend(write),
            None => return Ok(None),
        }
    }
    Ok(Some(writes))
}

/// Gives rows in the columns of a table as it is now.
type RowsOf<'a> = dyn Fn(&TableEntry) -> Result<RecordBatch> + 'a;

/// What is written of one table: `count` rows that it gets, and those that the transaction holds; nothing where it is
/// none, `None` where it is not little.
fn small_write(
    id: u64,
    (table, gone): (u64, &dyn Fn() -> Error),
    (count, rows): (usize, &RowsOf<'_>),
    running: &RunningStatement,
) -> Result<Option<Option<SmallWriteOf>>> {
    let now = running.inner.catalog.state();
    let now = now.by_id(table).ok_or_else(gone)?;
    let dead = now.delta.as_ref().map_or_else(Vec::new, |delta| delta.rows.held(id, &now.base));
    if count + dead.len() > SMALL_ROWS_MAX || !now.has_room_for_delta() {
        return Ok(None);
    }
    if count + dead.len() == 0 {
        return Ok(Some(None));
    }
    let delta = match &now.delta {
        Some(delta) => Arc::clone(delta),
        None => {
            let empty = Arc::new(TableDelta::empty(now, &|| running.inner.catalog.units())?);
            running.inner.catalog.commit(|state| state.begin_delta(table, &empty))?;
            empty
        }
    };
    // With the delta, which it may just have got.
    let now = running.inner.catalog.state();
    let now = Arc::clone(now.by_id(table).ok_or_else(gone)?);
    let rows = rows(&now)?;
    let pin = now.newest_keys();
    let mut changes = Vec::new();
    for (number, index) in now.unique_indexes().enumerate() {
        let blocked = |holder: u64| running.blocked_by(holder);
        match key_changes(&now, number, index, &rows, &dead, (pin.as_ref(), &blocked))? {
            Some(change) => changes.push(change),
            // Two keys have one code.
            None => return Ok(None),
        }
    }
    let routed = Routed::of(&rows, &dead, &now, &delta)?;
    Ok(Some(Some(SmallWriteOf { table: now, delta, rows, dead, changes, routed })))
}

/// The live rows of some segments of a table.
fn rows_of(parts: &[Part], table: &TableEntry) -> Result<RecordBatch> {
    let schema = nullable(&table.base.schema);
    let mut batches = Vec::new();
    for of in parts.iter().flat_map(|part| &part.segments) {
        let rows = live_rows(of);
        let columns = of.segment.columns().map(|column| column.take(&rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?);
    }
    Ok(concat_batches(&schema, &batches)?)
}

fn commit_small(id: u64, mut writes: Vec<SmallWriteOf>, running: &Arc<RunningStatement>) -> Result<()> {
    let catalog = &running.inner.catalog;
    let Some(first) = writes.first() else { return Ok(()) };
    let mut keys = first.delta.keys.begin()?;
    let mut written = Vec::with_capacity(writes.len());
    for write in &mut writes {
        let rows = write.routed.write_held(&write.rows, id, &write.delta)?;
        write.routed.number(&mut write.changes, &rows);
        if !write.delta.keys.write(&mut keys, &write.changes)? {
            return Err(Error::Internal("somebody else wrote keys that a transaction has locked".into()));
        }
        written.push(rows);
    }
    let added: Vec<Vec<(u32, &RecordBatch)>> =
        writes.iter().zip(&written).map(|(write, rows)| write.routed.added(&write.rows, rows)).collect();
    let told: Vec<WrittenRows<'_>> = writes
        .iter()
        .zip(&added)
        .map(|(write, added)| WrittenRows { table: write.table.id, added, dead: &write.dead })
        .collect();
    catalog.commit_several(keys, written, &told)?;
    for write in &writes {
        write.table.meta.wrote(write.rows.num_rows() + write.dead.len());
        let rows = &write.delta.rows;
        let free = write.table.meta.budget().available_bytes();
        let size = DeltaSize::of(rows.rows(), rows.entries(), rows.bytes(), free);
        merging::written(write.table.id, &write.table.meta, size, running);
    }
    Ok(())
}

fn commit_large(id: u64, content: &Content, running: &Arc<RunningStatement>) -> Result<()> {
    let catalog = &running.inner.catalog;
    let now = catalog.state();
    let mut tables = Vec::with_capacity(content.tables.len());
    let mut ahead = Vec::new();
    for (table, written) in &content.tables {
        let table = now.by_id(*table).ok_or_else(|| gone(&written.table))?;
        let table = with_rows(id, table, written, running)?;
        ahead.push(catalog.ahead(&table.table().base)?);
        tables.push(table);
    }
    for table in content.own_tables() {
        ahead.push(catalog.ahead(&table.base)?);
    }
    running.check()?;
    let written: Vec<(Arc<TableMeta>, usize)> = tables
        .iter()
        .map(IndexedTable::table)
        .chain(content.own_tables().map(Arc::as_ref))
        .map(|table| (Arc::clone(&table.meta), table.base.rows()))
        .collect();
    catalog.commit(|state| {
        check_names(state, content)?;
        put_definitions(state, content, false)?;
        tables.into_iter().try_for_each(|table| state.set_table(table))
    })?;
    written.iter().for_each(|(meta, rows)| meta.wrote(*rows));
    Ok(())
}

/// A table as it is now with the rows that a transaction has written of it.
fn with_rows(
    id: u64,
    now: &Arc<TableEntry>,
    written: &WrittenTable,
    running: &Arc<RunningStatement>,
) -> Result<IndexedTable> {
    let merged = Arc::new(now.merged_holding(&|| running.inner.catalog.units())?);
    let whole = SharedView { table: Arc::clone(&merged), view: None, whole: Arc::clone(&merged.base) };
    let mut delta = merged.delta.clone();
    let mut held = Vec::new();
    if let Some(holding) = &merged.delta {
        held = holding.rows.held(id, &merged.base);
        holding.rows.release_held(id, 0);
        delta = delta.filter(|delta| delta.rows.has_holds());
    }
    let base = Arc::new(whole.changed(&held, written.added())?);
    indexed(TableEntry { base, delta, ..TableEntry::clone(&merged) }, running)
}

/// Fails where a name that a transaction has changed stands for something else by now, or a schema is not what it was.
fn check_names(state: &CatalogState, content: &Content) -> Result<()> {
    let changed = |name: &Name| {
        Error::Serialization(format!("another transaction has changed what '{}' stands for", name.shown()))
    };
    for (name, change) in &content.names {
        match (state.get(name), &change.before) {
            (None, None) => {}
            (Some(now), Some(before)) if stands_for_same(now, before) => {}
            _ => return Err(changed(name)),
        }
    }
    for (schema, is_made) in &content.schemas {
        if state.has_schema(schema) == *is_made {
            let what = if *is_made { "made" } else { "dropped" };
            return Err(Error::Serialization(format!("another transaction has {what} schema '{schema}'")));
        }
    }
    if let Some(name) = content.roles.as_ref().and_then(|change| change.changed_by_others(state.roles())) {
        return Err(Error::Serialization(format!("another transaction has changed role '{name}'")));
    }
    if let Some(thing) = content.rights.as_ref().and_then(|change| change.changed_by_others(state.rights())) {
        let thing = thing.shown(state);
        return Err(Error::Serialization(format!("another transaction has changed the rights to {thing}")));
    }
    Ok(())
}
