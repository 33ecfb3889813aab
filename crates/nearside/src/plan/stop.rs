//! [`Stop`]: when planning a statement is to end early.

use std::sync::Arc;
use std::time::Instant;

use sched::StopReason;

use crate::error::{Error, Result};

/// Tells planning to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    statement: Arc<sched::Statement>,
    deadline: Option<Instant>,
}

impl Stop {
    /// When this statement stops, or the deadline is past.
    pub(crate) fn new(statement: &Arc<sched::Statement>, deadline: Option<Instant>) -> Stop {
        Stop { statement: Arc::clone(statement), deadline }
    }

    /// An error when the statement was cancelled or is out of time.
    pub(crate) fn check(&self) -> Result<()> {
        go_on(&self.statement, self.deadline)
    }
}

/// An error once a statement was stopped, or is past its deadline. The statement itself heeds its deadline too: why
/// it stopped is asked once, so
/// that a deadline that passes meanwhile is not taken for somebody's wish.
pub(crate) fn go_on(statement: &sched::Statement, deadline: Option<Instant>) -> Result<()> {
    match statement.stopped() {
        Some(StopReason::Deadline) => Err(Error::Timeout),
        Some(StopReason::Failed(text)) => Err(Error::Internal(text)),
        _ if deadline.is_some_and(|deadline| Instant::now() >= deadline) => Err(Error::Timeout),
        Some(_) => Err(Error::Cancelled),
        None => Ok(()),
    }
}
