//! Who writes a table: statements of a few rows beside each other, all others alone.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::delta::TableDelta;
use crate::catalog::index::indexed;
use crate::catalog::{CatalogState, Name, TableEntry, TableMeta};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::statements::merging::relieve;
use crate::statements::small::may_be_small;
use crate::statements::transaction::view::to_be_written;

/// Runs `work` as the one writer of a table without a delta, over what exists once it writes alone.
pub(crate) fn as_writer<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    as_small_writer(name, running, |table, running| {
        let (table, running) = merged(table, running)?;
        work(&table, &running)
    })
}

/// The table with its delta merged, and the statement over a state that has it so; both as they are where there is no
/// delta. Where transactions hold rows of it, it has a delta of no row, in which they do.
pub(crate) fn merged(
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<(Arc<TableEntry>, Arc<RunningStatement>)> {
    if table.delta.is_none() {
        return Ok((Arc::new(table.clone()), Arc::clone(running)));
    }
    let merged = indexed(table.merged_holding(&|| running.home.units())?, running)?;
    let mut state = CatalogState::clone(&running.catalog);
    state.set_table(merged)?;
    let running = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let id = table.id;
    let table = running.catalog.by_id(id).ok_or_else(|| Error::Internal("a table went while it was merged".into()))?;
    Ok((Arc::clone(table), running))
}

/// As [`as_writer`], for who changes more than rows: no transaction may have written the table.
pub(crate) fn as_owner<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    as_any_writer(name, running, CatalogState::stored, |table, running| {
        let (table, running) = merged(table, running)?;
        is_left_alone(&table, &running)?;
        work(&table, &running)
    })
}

/// What a name has to stand for.
type Find = for<'a> fn(&'a CatalogState, &Name) -> Result<&'a Arc<TableEntry>>;

/// Fails where a transaction has written a table, other than that of the statement: it is waited for. And where that
/// of the statement has to look at its rows as they are.
///
/// # Errors
/// One has; the statement's own has yet to look at keys of its rows.
pub(crate) fn is_left_alone(table: &TableEntry, running: &RunningStatement) -> Result<()> {
    if running.transaction.as_ref().is_some_and(|of| of.waited_for.contains(&table.id)) {
        return Err(Error::plan(
            SqlState::ObjectInUse,
            format!(
                "rows of table '{}' have yet to be looked at for constraints that are deferred; COMMIT first, or SET \
                 CONSTRAINTS ALL IMMEDIATE",
                table.name.shown()
            ),
        ));
    }
    match table.meta.locks.other(running.own_transaction()) {
        // What a transaction changes, it owns when the statement ends.
        Some(holder) if running.transaction.is_none() => Err(running.blocked_by(holder)),
        _ => Ok(()),
    }
}

/// Runs `work` as the one writer of a table, over what exists once it writes alone, its delta included. Columns that
/// are
/// on the disk alone stay there: `work` [loads](TableEntry::load) what it reads.
pub(crate) fn as_small_writer<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    as_any_writer(name, running, CatalogState::table, work)
}

fn as_any_writer<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    find: Find,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    if let Some(of) = &running.transaction {
        running.check()?;
        let running = to_be_written(of, &Arc::clone(find(&running.catalog, name)?), running)?;
        let table = Arc::clone(find(&running.catalog, name)?);
        return work(&table, &running);
    }
    let (id, meta) = of_table(find(&running.catalog, name)?);
    let turn = meta.write_turns.next(|| running.check())?;
    let done = as_its_writer((name, find), &meta, running, work);
    drop(turn);
    relieve(id, &meta, running);
    done
}

/// What became of work that was done beside other statements.
pub(crate) enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Nothing was done: who does it has to write the table alone.
    Alone,
    /// Nothing was done, since another statement has changed a row or key that it is about: it is done again.
    Again,
}

/// How often a statement that meets others begins again before it writes the table alone.
const TRIES: u32 = 32;

/// Runs `work`, which writes a few rows of a table's delta, beside others that do so, each time over what exists then;
/// `None` where it has done nothing and has to be done by who writes the table alone.
pub(crate) fn beside_others<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl Fn(&TableEntry, &Arc<RunningStatement>) -> Result<Attempt<T>>,
) -> Result<Option<T>> {
    if running.transaction.is_some() {
        return Ok(None);
    }
    let (id, meta) = of_table(running.catalog.table(name)?);
    let with_delta = |table: &TableEntry, running: &Arc<RunningStatement>| {
        table.load_all(running)?;
        if table.delta.is_some() {
            return work(table, running);
        }
        if !may_be_small(table, running) {
            return Ok(Attempt::Alone);
        }
        match TableDelta::empty(table, &|| running.home.units()) {
            Err(Error::Memory(_)) => Ok(Attempt::Alone),
            empty => {
                let empty = Arc::new(empty?);
                running.home.commit(|state| state.begin_delta(id, &empty))?;
                Ok(Attempt::Again)
            }
        }
    };
    for tries in 0..TRIES {
        let turn = meta.write_turns.share(|| running.check())?;
        let attempt = as_its_writer((name, CatalogState::table), &meta, running, with_delta)?;
        drop(turn);
        match attempt {
            Attempt::Done(done) => {
                relieve(id, &meta, running);
                return Ok(Some(done));
            }
            Attempt::Alone => return Ok(None),
            // Who has the row or key is about to commit.
            Attempt::Again if tries > 0 => std::thread::sleep(Duration::from_micros(u64::from(tries))),
            Attempt::Again => std::thread::yield_now(),
        }
    }
    as_small_writer(name, running, |table, running| {
        table.load_all(running)?;
        match work(table, running)? {
            Attempt::Done(done) => Ok(Some(done)),
            Attempt::Alone | Attempt::Again => Ok(None),
        }
    })
}

/// A table's number and what outlives its versions.
fn of_table(table: &TableEntry) -> (u64, Arc<TableMeta>) {
    (table.id, Arc::clone(&table.meta))
}

/// Runs `work` over what exists, on behalf of the statement whose turn it is.
fn as_its_writer<T>(
    (name, find): (&Name, Find),
    meta: &Arc<TableMeta>,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    running.check()?;
    let running = Arc::new(running.refreshed());
    let table = Arc::clone(find(&running.catalog, name)?);
    if !Arc::ptr_eq(&table.meta, meta) {
        return Err(Error::execution(
            SqlState::ObjectNotInPrerequisiteState,
            format!("table '{}' was replaced meanwhile; run the statement again", name.shown()),
        ));
    }
    match meta.locks.other_owner(None) {
        Some(holder) => Err(running.blocked_by(holder)),
        None => work(&table, &running),
    }
}
