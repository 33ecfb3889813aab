//! Transactions: those that a client begins and ends, savepoints in them, and those that the server makes of rows that
//! belong together.
//!
//! A session has one transaction at a time, as with PostgreSQL: who wants several logs in several times. A statement
//! says by the transaction's handle that it is part of it; one that says nothing while there is one is refused, since
//! it was meant to commit by itself.

use std::sync::Arc;

use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionEndSavepointRequest, ActionEndTransactionRequest, EndTransaction,
};
use nearside::{Outcome, Session};
use tokio::sync::OwnedRwLockWriteGuard;

use super::sessions::{Caller, Handle, Open, handle};
use super::status::{malformed, unsupported};
use crate::blocking::blocking;
use crate::fault::{Fault, codes};
use crate::shared::Shared;
use crate::statement::Kind;

/// How a savepoint ends, as ActionEndSavepointRequest numbers it.
const RELEASE: i32 = 1;
const ROLLBACK: i32 = 2;
/// Savepoints of a transaction.
const SAVEPOINTS_MAX: usize = 1024;

fn unknown() -> Fault {
    let message = "there is no open transaction of this handle in the session";
    Fault::new(codes::NO_ACTIVE_SQL_TRANSACTION, message)
}

fn is_open() -> Fault {
    let message = "the session has an open transaction: give its handle with what is part of it, end it, or log in \
                   once more for what is not";
    Fault::new(codes::ACTIVE_SQL_TRANSACTION, message)
}

/// Whether a statement may run that names this transaction, or none.
///
/// # Errors
/// There is another one, or none; it is one that would end the transaction behind its handle.
pub fn may_run(kind: &Kind, transaction: Option<&[u8]>, caller: &Caller) -> Result<(), Fault> {
    let open = caller.transaction.lock();
    match (open.as_ref(), transaction.filter(|id| !id.is_empty())) {
        (None, None) => Ok(()),
        (Some(open), Some(id)) if open.id == id => match kind {
            Kind::Begin { .. } | Kind::Commit | Kind::Rollback | Kind::EndAndChain { .. } => Err(unsupported(
                "a transaction that was begun by BeginTransaction ends by EndTransaction, not by a statement",
            )),
            _ => Ok(()),
        },
        (_, Some(_)) => Err(unknown()),
        (Some(_), None) => Err(is_open()),
    }
}

/// Whether a prepared statement may run: one that was prepared for a transaction runs in the one that there is.
///
/// # Errors
/// As [`may_run`].
pub fn may_run_prepared(kind: &Kind, in_transaction: bool, caller: &Caller) -> Result<(), Fault> {
    let open = caller.transaction.lock().as_ref().map(|open| open.id.clone());
    match (in_transaction, open) {
        (true, None) => Err(unknown()),
        (true, open) => may_run(kind, open.as_deref(), caller),
        (false, _) => may_run(kind, None, caller),
    }
}

/// Begins a transaction.
///
/// # Errors
/// There is one.
pub async fn begin(caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<Handle, Fault> {
    let _gate = caller.gate.read().await;
    let id = handle()?;
    {
        let mut open = caller.transaction.lock();
        if open.is_some() || caller.session.transaction().is_some() {
            return Err(is_open());
        }
        *open = Some(Open { id: id.clone(), savepoints: Vec::new() });
    }
    let begun = run(caller, shared, "BEGIN".into()).await;
    if begun.is_err() {
        *caller.transaction.lock() = None;
    }
    begun.map(|_| id)
}

/// Ends the transaction.
///
/// # Errors
/// There is none of that handle; it had failed, so that there was nothing to commit; COMMIT fails.
pub async fn end(asked: ActionEndTransactionRequest, caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<(), Fault> {
    let words = match EndTransaction::try_from(asked.action) {
        Ok(EndTransaction::Commit) => "COMMIT",
        Ok(EndTransaction::Rollback) => "ROLLBACK",
        _ => return Err(malformed("a transaction ends by COMMIT or by ROLLBACK")),
    };
    {
        let mut open = caller.transaction.lock();
        if open.as_ref().is_none_or(|open| open.id != *asked.transaction_id) {
            return Err(unknown());
        }
        *open = None;
    }
    let tag = run(caller, shared, words.into()).await?;
    match words == "COMMIT" && tag == "ROLLBACK" {
        false => Ok(()),
        true => {
            let message = "the transaction was rolled back, since a statement of it had failed";
            Err(Fault::new(codes::IN_FAILED_SQL_TRANSACTION, message))
        }
    }
}

/// Makes a savepoint.
///
/// # Errors
/// There is no transaction of that handle, or it has failed.
pub async fn begin_savepoint(
    asked: ActionBeginSavepointRequest,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<Handle, Fault> {
    let id = handle()?;
    // Names of clients may be the same; those of handles are not.
    let name = format!("flight_{}", id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    {
        let open = caller.transaction.lock();
        let open = open.as_ref().filter(|open| open.id == *asked.transaction_id).ok_or_else(unknown)?;
        if open.savepoints.len() >= SAVEPOINTS_MAX {
            let message = format!("the transaction has {SAVEPOINTS_MAX} savepoints; release some first");
            return Err(Fault::new(codes::LIMIT_EXCEEDED, message));
        }
    }
    run(caller, shared, format!("SAVEPOINT {name}")).await?;
    if let Some(open) = caller.transaction.lock().as_mut() {
        open.savepoints.push((id.clone(), name));
    }
    Ok(id)
}

/// Releases a savepoint, or goes back to it.
///
/// # Errors
/// There is none of that handle.
pub async fn end_savepoint(
    asked: ActionEndSavepointRequest,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<(), Fault> {
    let (words, stays) = match asked.action {
        RELEASE => ("RELEASE SAVEPOINT", 0),
        ROLLBACK => ("ROLLBACK TO SAVEPOINT", 1),
        _ => return Err(malformed("a savepoint ends by RELEASE or by ROLLBACK")),
    };
    let place = |open: &Open| open.savepoints.iter().position(|(id, _)| *id == *asked.savepoint_id);
    let name = {
        let open = caller.transaction.lock();
        let found = open.as_ref().and_then(|open| Some(open.savepoints[place(open)?].1.clone()));
        found.ok_or_else(|| {
            let message = "there is no savepoint of this handle in the session's transaction";
            Fault::new("3B001", message)
        })?
    };
    run(caller, shared, format!("{words} {name}")).await?;
    if let Some(open) = caller.transaction.lock().as_mut()
        && let Some(place) = place(open)
    {
        // Those behind it are gone with it.
        open.savepoints.truncate(place + stays);
    }
    Ok(())
}

async fn run(caller: &Caller, shared: &Arc<Shared>, words: String) -> Result<String, Fault> {
    let outcome = blocking(&caller.session, shared, move |session| Ok(session.run(&words)?)).await?;
    match outcome {
        Outcome::Done(done) => Ok(done.tag.to_string()),
        Outcome::Rows(_) => Err(Fault::new(codes::INTERNAL_ERROR, "rows of a statement about transactions")),
    }
}

/// What belongs together: all of it or nothing, in the session's transaction if it has one, else in one of its own,
/// which is rolled back where nobody ends it.
pub struct Together {
    session: Session,
    /// Held where the transaction is its own.
    own: Option<OwnedRwLockWriteGuard<()>>,
}

impl Together {
    /// It begins.
    ///
    /// # Errors
    /// What BEGIN says.
    pub async fn begin(caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<Together, Fault> {
        let session = caller.session.clone();
        if caller.transaction.lock().is_some() {
            return Ok(Together { session, own: None });
        }
        let gate = Arc::clone(&caller.gate).write_owned().await;
        if session.transaction().is_some() {
            return Ok(Together { session, own: None });
        }
        let own = Together { session, own: Some(gate) };
        run(caller, shared, "BEGIN".into()).await?;
        Ok(own)
    }

    /// It is complete, or has failed; `done` is what it was.
    ///
    /// # Errors
    /// That it has failed; what COMMIT says.
    pub async fn end<T>(mut self, done: Result<T, Fault>, shared: &Arc<Shared>) -> Result<T, Fault> {
        let session = self.session.clone();
        match (done, self.own.is_some()) {
            (Ok(done), false) => Ok(done),
            (Err(fault), false) => {
                session.fail_transaction();
                Err(fault)
            }
            // Who drops it rolls back.
            (Err(fault), true) => Err(fault),
            (Ok(done), true) => {
                blocking(&session, shared, move |session| Ok(session.run("COMMIT")?)).await?;
                self.own = None;
                Ok(done)
            }
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        let Some(gate) = self.own.take() else { return };
        let session = self.session.clone();
        tokio::task::spawn_blocking(move || {
            if session.transaction().is_some() {
                // A statement of it may be ending still; ROLLBACK waits for it.
                let _ = session.run("ROLLBACK");
            }
            drop(gate);
        });
    }
}
