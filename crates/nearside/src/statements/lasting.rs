//! Statements about what is on the disk: CHECKPOINT, BACKUP DATABASE; and when a statement has to wait for it.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::journal::Journal;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;

fn journal(running: &RunningStatement) -> Result<&Arc<dyn Journal>> {
    running.inner.catalog.journal().ok_or_else(|| {
        Error::Setting(
            "the database is in memory alone; open one in a folder (nearside sql --database DIR, Database::open)"
                .into(),
        )
    })
}

/// `CHECKPOINT`: the log begins anew behind all that is committed.
///
/// # Errors
/// The database has no folder, or the disk failed.
pub(crate) fn checkpoint(running: &RunningStatement) -> Result<Done> {
    let done = journal(running)?.checkpoint(&|| running.check().is_err());
    running.check()?;
    done.map(|()| Done::new("CHECKPOINT"))
}

/// `BACKUP DATABASE TO 'folder'`.
///
/// # Errors
/// As [`checkpoint`]; there is something in the folder.
pub(crate) fn backup(folder: &str, running: &RunningStatement) -> Result<Done> {
    let done = journal(running)?.backup(Path::new(folder), &|| running.check().is_err());
    running.check()?;
    let bytes = done?;
    Ok(Done::new(&format!("BACKUP of {bytes} bytes")))
}

/// A statement without rows has ended: waits until what it has committed is on the disk, where its session wants that.
///
/// # Errors
/// The disk failed: nobody knows whether it is.
pub(crate) fn settle(running: &RunningStatement) -> Result<()> {
    let Some(journal) = running.inner.catalog.journal() else { return Ok(()) };
    match config::nearside(running.planner.config_options()).synchronous_commit {
        true => journal.settle(),
        false => {
            journal.settle_later();
            Ok(())
        }
    }
}
