//! The modes of transactions: their levels, and whether they are read only.

use sqlparser::ast::{TransactionAccessMode, TransactionIsolationLevel, TransactionMode};

use crate::catalog::transactions::Level;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The level of a transaction, and whether it is read only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modes {
    pub level: Level,
    pub is_read_only: bool,
}

impl Modes {
    /// With what a statement says.
    ///
    /// # Errors
    /// A level that there is not.
    pub(super) fn with(self, modes: &[TransactionMode]) -> Result<Modes> {
        let mut changed = self;
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => changed.is_read_only = true,
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => changed.is_read_only = false,
                TransactionMode::IsolationLevel(level) => {
                    changed.level = match level {
                        // As in PostgreSQL, nobody reads what is not committed.
                        TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
                            Level::ReadCommitted
                        }
                        TransactionIsolationLevel::RepeatableRead => Level::RepeatableRead,
                        TransactionIsolationLevel::Serializable => Level::Serializable,
                        TransactionIsolationLevel::Snapshot => {
                            return Err(Error::Unsupported(
                                "there is no level SNAPSHOT; REPEATABLE READ is what it is elsewhere".into(),
                            ));
                        }
                    };
                }
            }
        }
        Ok(changed)
    }

    /// Fails where they may not become others behind a savepoint.
    ///
    /// # Errors
    /// The level changes, or what is read only would write.
    pub(super) fn may_become_within(self, changed: Modes) -> Result<()> {
        let why = match self.is_read_only && !changed.is_read_only {
            true => "a transaction that is READ ONLY cannot become READ WRITE behind a savepoint; say it before",
            false if changed.level != self.level => {
                "the level of a transaction cannot change behind a savepoint; say it before"
            }
            false => return Ok(()),
        };
        Err(Error::transaction(SqlState::ActiveSqlTransaction, why))
    }
}
