//! `LOCK TABLE`: a table that nobody else changes, or writes, until the transaction ends.
//!
//! Two of PostgreSQL's eight modes are told apart by what they keep others from. Up to ROW EXCLUSIVE a table's
//! definition stays as it is; those from SHARE UPDATE EXCLUSIVE on have the table for the transaction alone, but that
//! others read it: nobody waits for a reader, and readers wait for nobody.

use std::sync::Arc;

use sqlparser::ast::{Lock, LockTableMode};

use crate::catalog::Entry;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::locks::{WantedLocks, WantedTable};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;

/// Has the tables locked once the statement ends.
///
/// # Errors
/// Outside of a transaction, or in one that is read only; a name that is no table's.
pub(crate) fn lock_table(lock: &Lock, running: &Arc<RunningStatement>) -> Result<Done> {
    let Some(of) = running.transaction.as_ref().filter(|of| !of.is_implicit) else {
        return Err(Error::transaction(
            SqlState::NoActiveSqlTransaction,
            "LOCK TABLE is for transactions; BEGIN one first",
        ));
    };
    let mode = lock.lock_mode.as_ref().unwrap_or(&LockTableMode::AccessExclusive);
    let alone = !matches!(mode, LockTableMode::AccessShare | LockTableMode::RowShare | LockTableMode::RowExclusive);
    if of.is_read_only && !matches!(mode, LockTableMode::AccessShare) {
        return Err(Error::transaction(
            SqlState::ReadOnlySqlTransaction,
            format!("the transaction is read only: it cannot LOCK TABLE .. IN {mode} MODE"),
        ));
    }
    let mut tables = Vec::new();
    for target in &lock.tables {
        let name = running.named(&target.name)?;
        let table = match running.catalog.get(&name) {
            Some(Entry::Table(table)) if table.materialized.is_none() => table,
            Some(other) => {
                return Err(Error::plan(
                    SqlState::WrongObjectType,
                    format!("'{}' is {}, and only tables are locked", name.shown(), other.described()),
                ));
            }
            None => return Err(running.catalog.not_found("table", &name)),
        };
        tables.push(WantedTable { table: table.id, alone, nowait: lock.nowait, unchanged: false });
    }
    *of.wanted.lock() = Some(WantedLocks::Tables(tables));
    Ok(Done::new("LOCK TABLE"))
}
