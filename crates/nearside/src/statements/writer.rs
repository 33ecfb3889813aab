//! The one writer of a table: what statements do to it, they do one after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Name, TableEntry};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;

/// How long a writer waits at a time before it looks whether it was cancelled.
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// Runs `work` as the one writer of a table, over what exists once it is that.
pub(crate) fn as_writer<T>(
    name: &Name,
    running: &Arc<RunningStatement>,
    work: impl FnOnce(&TableEntry, &Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    let meta = Arc::clone(&running.catalog.table(name)?.meta);
    let _writer = loop {
        running.check()?;
        if let Some(guard) = meta.writer.try_lock_for(LOCK_WAIT) {
            break guard;
        }
    };
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
