//! The one writer of a table: what statements do to it, they do one after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::index::indexed;
use crate::catalog::{CatalogState, Name, TableEntry};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;

/// How long a writer waits at a time before it looks whether it was cancelled.
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// How often a writer looks whether it is its turn before it falls asleep.
const LOOKS: usize = 50;

/// Runs `work` as the one writer of a table without a delta, over what exists once it is that.
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
/// delta.
pub(crate) fn merged(
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<(Arc<TableEntry>, Arc<RunningStatement>)> {
    if table.delta.is_none() {
        return Ok((Arc::new(table.clone()), Arc::clone(running)));
    }
    let merged = indexed(table.merged()?, running)?;
    let mut state = CatalogState::clone(&running.catalog);
    state.set_table(merged)?;
    let running = Arc::new(running.over(Arc::new(state)));
    let id = table.id;
    let table = running.catalog.by_id(id).ok_or_else(|| Error::Internal("a table went while it was merged".into()))?;
    Ok((Arc::clone(table), running))
}

/// Runs `work` as the one writer of a table, over what exists once it is that, its delta included.
pub(crate) fn as_small_writer<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    let meta = Arc::clone(&running.catalog.table(name)?.meta);
    // A small write holds the lock for less time than falling asleep and being woken takes.
    let mut looks = (0..LOOKS).filter_map(|_| {
        let writer = meta.writer.try_lock();
        if writer.is_none() {
            std::thread::yield_now();
        }
        writer
    });
    let mut writer = looks.next();
    while writer.is_none() {
        running.check()?;
        writer = meta.writer.try_lock_for(LOCK_WAIT);
    }
    running.check()?;
    let running = Arc::new(running.refreshed());
    let table = Arc::clone(running.catalog.table(name)?);
    if !Arc::ptr_eq(&table.meta, &meta) {
        return Err(Error::Execution(format!(
            "table '{}' was replaced meanwhile; run the statement again",
            name.shown()
        )));
    }
    work(&table, &running)
}
