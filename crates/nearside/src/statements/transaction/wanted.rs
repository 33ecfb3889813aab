//! What a statement locks besides what it has written: the rows that a SELECT .. FOR UPDATE gives, and the tables of
//! LOCK TABLE.
//!
//! Rows are held as those that are written are, but live on. The turns of all tables are taken first, in the order of
//! their numbers, as COMMIT does: which rows are left out since others have locked them, and which are held, is decided
//! in one moment. A row that others have changed since the snapshot has the whole statement run again, as for those
//! that write.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use storage::{TableRow, TableVersion};

use super::locking::{Locking, Turns, Unlocked};
use crate::catalog::{CatalogState, TableEntry, TableMeta};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::locks::{SelectedOf, SelectedRows, WantedLocks, WantedTable};
use crate::run::outcome::Outcome;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::run::transaction::{SharedView, Transaction, TransactionState};
use crate::sql::Wait;

/// The rows of a statement that has locked them, if it is one that does.
pub(crate) fn locked_rows(running: &RunningStatement) -> Option<Outcome> {
    let wanted = running.transaction.as_ref()?.wanted.lock().take()?;
    match wanted {
        WantedLocks::Rows(rows) => Some(Outcome::Rows(ResultStream::ready(rows.schema, rows.batches))),
        WantedLocks::Tables(_) => None,
    }
}

/// Locks what a statement wants locked; `after` is the transaction's state that it has left.
pub(super) fn lock_wanted(
    after: &CatalogState,
    transaction: &Transaction,
    state: &mut TransactionState,
    (running, turns): (&Arc<RunningStatement>, &mut Turns<'_>),
) -> Result<(), Unlocked> {
    let Some(of) = &running.transaction else { return Ok(()) };
    match of.wanted.lock().as_mut() {
        None => Ok(()),
        Some(WantedLocks::Tables(tables)) => {
            tables.sort_by_key(|wanted| wanted.table);
            tables.iter().try_for_each(|wanted| lock_table(wanted, transaction, state, (running, turns)))
        }
        Some(WantedLocks::Rows(rows)) => lock_rows(rows, after, transaction, state, (running, turns)),
    }
}

fn lock_table(
    wanted: &WantedTable,
    transaction: &Transaction,
    state: &mut TransactionState,
    (running, turns): (&Arc<RunningStatement>, &mut Turns<'_>),
) -> Result<(), Unlocked> {
    let snapshot = state.snapshot.clone();
    let known = snapshot.as_ref().and_then(|snapshot| snapshot.by_id(wanted.table)).cloned();
    // One that the transaction has made is its own.
    let Some(shared) = known else { return Ok(()) };
    let meta = Arc::clone(&shared.meta);
    let mut locking = Locking { transaction, state, running, shared: &shared, turns };
    let _turn = locking.turn(&meta)?;
    let id = locking.id();
    let now = locking.now()?;
    if wanted.unchanged
        && (meta.last_write() > locking.state.writes_before
            || now.base.schema != shared.base.schema
            || now.indexes != shared.indexes)
    {
        return Err(locking.changed());
    }
    let in_the_way = if wanted.alone { meta.locks.other(Some(id)) } else { meta.locks.other_owner(Some(id)) };
    match in_the_way {
        Some(holder) if wanted.nowait => {
            let what = format!("table '{}' is locked by transaction {holder}", shared.name.shown());
            return Err(not_available(&what).into());
        }
        holder => locking.is_blocked(holder)?,
    }
    match wanted.alone {
        true => meta.locks.own(id, locking.state.step),
        false => meta.locks.join(id, locking.state.step),
    }
    locking.state.locked.insert(wanted.table, Arc::clone(&meta));
    Ok(())
}

fn not_available(what: &str) -> Error {
    Error::execution(SqlState::LockNotAvailable, format!("{what}, and NOWAIT says not to wait"))
}

/// A table of which rows are locked.
struct Of<'a> {
    selected: &'a SelectedOf,
    shared: Arc<TableEntry>,
    now: Arc<TableEntry>,
    /// For each row of the query where it is in `now`; `None` for the transaction's own.
    places: Vec<Option<TableRow>>,
}

fn lock_rows(
    rows: &mut SelectedRows,
    after: &CatalogState,
    transaction: &Transaction,
    state: &mut TransactionState,
    (running, turns): (&Arc<RunningStatement>, &mut Turns<'_>),
) -> Result<(), Unlocked> {
    let Some(of) = &running.transaction else { return Ok(()) };
    let id = transaction.open.id;
    let snapshot = state.snapshot.clone().ok_or_else(|| Error::Internal("a transaction without a snapshot".into()))?;
    let mut metas: BTreeMap<u64, Arc<TableMeta>> = BTreeMap::new();
    let mut selected = Vec::new();
    for table in rows.tables.iter().filter(|table| !of.own.contains(&table.table)) {
        let Some(shared) = snapshot.by_id(table.table) else { continue };
        let view = of.shared.lock().get(&table.table).cloned();
        let view = view.ok_or_else(|| Error::Internal("rows of a table without a view were selected".into()))?;
        metas.insert(shared.id, Arc::clone(&shared.meta));
        selected.push((table, Arc::clone(shared), view));
    }
    turns.is_one_table = metas.len() == 1;
    if turns.with_turn.is_some_and(|table| metas.keys().any(|id| *id != table)) {
        return Err(Unlocked::Changed);
    }
    let with_turn = turns.with_turn;
    let wanted = metas.iter().filter(|(table, _)| with_turn != Some(**table));
    let _turns = wanted.map(|(_, meta)| meta.write_turns.next(|| running.check())).collect::<Result<Vec<_>>>()?;
    let mut tables = Vec::new();
    for (selected, shared, view) in selected {
        let mut locking = Locking { transaction, state, running, shared: &shared, turns };
        locking.is_blocked(shared.meta.locks.other_owner(Some(id)))?;
        // Before anything is held: who changes more than rows asks who has locked some.
        let mut now = locking.now()?;
        shared.meta.locks.join(id, locking.state.step);
        locking.state.locked.insert(shared.id, Arc::clone(&shared.meta));
        locking.begin_delta(&mut now)?;
        let own = after.by_id(shared.id).ok_or_else(|| Error::Internal("a selected table is gone".into()))?;
        let mut places = places_of(&selected.ids, &own.base, &view)?;
        if !view.has_places_of(&now) {
            let were: Vec<TableRow> = places.iter().flatten().copied().collect();
            let mut are = locking.found(&view, &now, &were)?.into_iter();
            places.iter_mut().filter(|place| place.is_some()).for_each(|place| *place = are.next());
        }
        tables.push(Of { selected, shared: Arc::clone(&shared), now, places });
    }
    let kept = kept(&tables, rows, id)?;
    if let Some(kept) = &kept
        && rows.limit.is_some_and(|limit| limit.is_cut && kept.len() < limit.skip.saturating_add(limit.fetch))
    {
        // Others have locked more of them meanwhile.
        return Err(Unlocked::Again);
    }
    for table in &tables {
        let mut locking = Locking { transaction, state, running, shared: &table.shared, turns };
        let all = 0..table.places.len();
        let places = match &kept {
            Some(kept) => kept.iter().filter_map(|row| table.places[*row]).collect::<Vec<TableRow>>(),
            None => all.filter_map(|row| table.places[row]).collect(),
        };
        hold(&mut locking, table, &places)?;
    }
    drop(tables);
    if let Some(kept) = kept {
        let skip = rows.limit.map_or(0, |limit| limit.skip);
        only(rows, kept.get(skip..).unwrap_or_default())?;
    }
    Ok(())
}

/// Where rows of a table, as a transaction has it, are in that of all; `None` for the transaction's own.
fn places_of(ids: &[u64], own: &TableVersion, view: &SharedView) -> Result<Vec<Option<TableRow>>> {
    let mut segments = Vec::new();
    for (part, of) in own.parts.iter().enumerate() {
        segments.extend((0..of.segments.len()).map(|segment| (part, segment)));
    }
    let place = |id: &u64| {
        let found = segments.get((*id >> 32) as usize);
        let (part, segment) = *found.ok_or_else(|| Error::Internal("a row identity names no segment".into()))?;
        match segment < view.segments(part) {
            true => view.row(part, segment, *id as u32).map(Some),
            false => Ok(None),
        }
    };
    ids.iter().map(place).collect()
}

/// Which rows are given: without those that others have locked, where these are left out, and not more than LIMIT says;
/// `None` for all.
fn kept(tables: &[Of<'_>], rows: &SelectedRows, id: u64) -> Result<Option<Vec<usize>>> {
    if rows.tables.iter().all(|table| table.wait != Wait::Skips) {
        return Ok(None);
    }
    let count: usize = rows.batches.iter().map(|batch| batch.num_rows()).sum();
    let most = rows.limit.map_or(usize::MAX, |limit| limit.skip.saturating_add(limit.fetch));
    let mut kept = Vec::new();
    for row in 0..count {
        if kept.len() >= most {
            break;
        }
        let mut is_free = true;
        for table in tables.iter().filter(|table| table.selected.wait == Wait::Skips) {
            if let (Some(place), Some(delta)) = (table.places[row], &table.now.delta) {
                let kind = table.selected.kind;
                is_free &= delta.rows.holder_against(&[place], Some(id), kind, &table.now.base)?.is_none();
            }
        }
        if is_free {
            kept.push(row);
        }
    }
    Ok(Some(kept))
}

/// Holds rows of a table, for who has its turn.
fn hold(locking: &mut Locking<'_, '_>, table: &Of<'_>, places: &[TableRow]) -> Result<(), Unlocked> {
    if places.is_empty() {
        return Ok(());
    }
    let (id, kind, now) = (locking.id(), table.selected.kind, &table.now);
    let Some(delta) = &now.delta else {
        return Err(Error::Internal("a delta that was begun is not there".into()).into());
    };
    match delta.rows.holder_against(places, Some(id), kind, &now.base)? {
        Some(holder) if table.selected.wait == Wait::Fails => {
            let what = format!("a row of table '{}' is locked by transaction {holder}", table.shared.name.shown());
            return Err(not_available(&what).into());
        }
        holder => locking.is_blocked(holder)?,
    }
    let is_live = |row: &TableRow| delta.rows.is_live(*row, &now.base, u64::MAX);
    if !places.iter().all(is_live) || !delta.rows.hold((id, locking.state.step), kind, places, &now.base)? {
        return Err(locking.changed());
    }
    Ok(())
}

/// Leaves some rows of a query.
fn only(rows: &mut SelectedRows, kept: &[usize]) -> Result<()> {
    let mut first = 0;
    let mut kept = kept.iter().peekable();
    for batch in &mut rows.batches {
        let end = first + batch.num_rows();
        let mut mask = vec![false; batch.num_rows()];
        while let Some(row) = kept.next_if(|row| **row < end) {
            mask[*row - first] = true;
        }
        *batch = filter_record_batch(batch, &BooleanArray::from(mask))?;
        first = end;
    }
    Ok(())
}
