//! Transactions as the protocol has them: what belongs together is one, whether the client has begun it or not.
//!
//! The statements of one text are one transaction, and so are those of messages up to a Sync, unless the client began
//! one itself. One statement by itself needs none.

use nearside::{Done, Outcome};

use super::{Connection, Failure, Result};
use crate::fault::{Fault, codes};
use crate::statement::Kind;

impl Connection {
    /// Before a statement runs: a transaction for it where it is not by itself. What is done already is returned, where
    /// the statement says how transactions begin.
    pub(super) async fn begin(&mut self, kind: &Kind, is_alone: bool) -> Result<Option<Done>> {
        let open = self.session.transaction();
        match kind {
            Kind::Begin { modes, .. } if open.is_some() => {
                if open == Some(false) {
                    return Err(in_failed());
                }
                match self.is_implicit {
                    true => self.is_implicit = false,
                    false => self.warn(codes::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress"),
                }
                if !modes.is_empty() {
                    self.run_words(format!("SET TRANSACTION {modes}")).await?;
                }
                return Ok(Some(Done { tag: "BEGIN".into(), rows: None }));
            }
            Kind::Begin { .. } | Kind::Empty => {}
            Kind::Commit | Kind::Rollback => {
                if open.is_none() || self.is_implicit {
                    self.warn(codes::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                }
                // Results of the transaction end with it.
                self.portals.clear();
                self.is_implicit = false;
            }
            Kind::EndAndChain { commits } => {
                self.inside(if *commits { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" })?;
                self.portals.clear();
            }
            Kind::RollbackTo => self.inside("ROLLBACK TO SAVEPOINT")?,
            Kind::Other(word) if word == "savepoint" => self.inside("SAVEPOINT")?,
            Kind::Other(word) if word == "release" => self.inside("RELEASE SAVEPOINT")?,
            // Where nothing has run before it, it commits by itself although more follows.
            Kind::Alone => {}
            _ if !is_alone && open.is_none() => {
                self.run_words("BEGIN".into()).await?;
                self.is_implicit = true;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Fails where the client has begun no transaction: that of a text's statements is not its own.
    fn inside(&self, what: &str) -> Result<()> {
        match self.session.transaction().is_none() || self.is_implicit {
            true => {
                let message = format!("{what} can only be used in transaction blocks");
                Err(Fault::new(codes::NO_ACTIVE_SQL_TRANSACTION, message).into())
            }
            false => Ok(()),
        }
    }

    /// Commits the transaction that the client has not begun itself.
    pub(super) async fn commit_implicit(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_implicit) {
            self.portals.clear();
            self.run_words("COMMIT".into()).await?;
        }
        Ok(())
    }

    /// Something has failed: so has the transaction that it was part of.
    pub(super) async fn abort(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_implicit) {
            self.portals.clear();
            match self.run_words("ROLLBACK".into()).await {
                Ok(()) => {}
                Err(Failure::Gone) => return Err(Failure::Gone),
                Err(Failure::Fault(fault)) => return Err(Fault { is_fatal: true, ..fault }.into()),
            }
        } else if self.session.transaction() == Some(true) {
            self.session.fail_transaction();
        }
        Ok(())
    }

    async fn run_words(&mut self, words: String) -> Result<()> {
        match self.blocking(move |session| session.run(&words)).await?? {
            Outcome::Done(_) => Ok(()),
            Outcome::Rows(_) => Err(Fault::new(codes::INTERNAL_ERROR, "rows of a statement about transactions").into()),
        }
    }
}

/// What is said of a statement that comes after one that has failed.
pub(super) fn in_failed() -> Failure {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Fault::new(codes::IN_FAILED_SQL_TRANSACTION, message).into()
}
