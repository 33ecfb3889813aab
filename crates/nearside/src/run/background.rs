//! What the workers do on behalf of no statement of anybody's.

use std::sync::Arc;

use exec::SchedParallel;
use numa::Budget;
use sched::{Priority, Scheduler, Statement};
use storage::StoreError;

use crate::catalog::Workers;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::statement::of_step;

/// The workers, on behalf of no statement of anybody's.
#[derive(Debug)]
pub(crate) struct Background {
    scheduler: Arc<Scheduler>,
    statement: Arc<Statement>,
}

impl Background {
    /// The workers for a [`statement`].
    pub(crate) fn new(scheduler: &Arc<Scheduler>, statement: Arc<Statement>) -> Background {
        Background { scheduler: Arc::clone(scheduler), statement }
    }
}

impl Workers for Background {
    type Parallel = SchedParallel;

    fn parallel(&self) -> SchedParallel {
        SchedParallel::new(Arc::clone(&self.scheduler), Arc::clone(&self.statement))
    }

    fn finished<T>(&self, result: Result<T, StoreError>, step: impl FnOnce() -> String) -> Result<T> {
        let check = || if self.statement.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) };
        of_step(result, step, check)
    }
}

/// What the workers do for nobody: after everything else.
pub(crate) fn statement(inner: &Inner, label: &str) -> Arc<Statement> {
    let priority = Priority { user: u8::MAX, statement_time: inner.clock.next() };
    let statement = Statement::with_priority(priority, Budget::unlimited());
    statement.set_label(label);
    statement.set_counted(false);
    statement
}
