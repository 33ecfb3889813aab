//! The one writer of a table: what statements do to it, they do one after the other.

use std::sync::Arc;

use crate::catalog::index::indexed;
use crate::catalog::{CatalogState, Name, TableEntry, TableMeta};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::statements::merging::relieve;

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
    let (id, meta) = of_table(name, running)?;
    let turn = meta.write_turns.next(|| running.check())?;
    let done = as_its_writer(name, &meta, running, work);
    drop(turn);
    relieve(id, &meta, running);
    done
}

/// As [`as_small_writer`], of work that whoever writes the table does for this statement, if somebody does.
pub(crate) fn by_its_writer<T: Send + 'static>(
    name: &Arc<Name>,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (id, meta) = of_table(name, running)?;
    let (of, name, statement) = (Arc::clone(&meta), Arc::clone(name), Arc::clone(running));
    let done = meta.write_turns.run(move || as_its_writer(&name, &of, &statement, work), || running.check())?;
    relieve(id, &meta, running);
    done
}

/// A table's number and what outlives its versions.
fn of_table(name: &Name, running: &RunningStatement) -> Result<(u64, Arc<TableMeta>)> {
    let table = running.catalog.table(name)?;
    Ok((table.id, Arc::clone(&table.meta)))
}

/// Runs `work` over what exists, on behalf of the statement whose turn it is.
fn as_its_writer<T>(
    name: &Name,
    meta: &Arc<TableMeta>,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    running.check()?;
    let running = Arc::new(running.refreshed());
    let table = Arc::clone(running.catalog.table(name)?);
    if !Arc::ptr_eq(&table.meta, meta) {
        return Err(Error::Execution(format!(
            "table '{}' was replaced meanwhile; run the statement again",
            name.shown()
        )));
    }
    work(&table, &running)
}
