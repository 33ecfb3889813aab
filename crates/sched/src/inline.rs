//! The scheduler's slow, obvious twin: everything runs in the caller, one task after the other.
//!
//! Tests compare the two, and a program can be followed in a debugger on it. The idea is Hyrise's
//! `ImmediateExecutionScheduler`.
//!
//! Invariants: when [`Inline::spawn`] returns outside a task, nothing is queued; tasks that a task spawns run after it,
//! by priority and then in the order of submission.
//!
//! # Limits
//! An [`Inline`] belongs to one thread at a time; affinities are ignored, as on a machine with one slot.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::affinity::{Affinity, AffinityOf, CallBody};
use crate::panics;
use crate::policy::Queue;
use crate::runtime::parallel::TaskError;
use crate::statement::Statement;

type QueuedCall = (Arc<Statement>, Box<dyn FnOnce() + Send>);

#[derive(Default)]
struct InlineState {
    queue: Queue<QueuedCall>,
    submitted: u64,
    running: bool,
}

/// Runs every task in the thread that submits it.
#[derive(Default)]
pub struct Inline {
    state: Mutex<InlineState>,
}

impl Inline {
    /// A scheduler without threads.
    pub fn new() -> Inline {
        Inline::default()
    }

    /// Runs a task, and all that it spawns; inside a task, queues it. Panics and stopped statements are treated as
    /// [`crate::Scheduler::spawn`] treats them.
    pub fn spawn(&self, statement: &Arc<Statement>, _affinity: Affinity, task: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.state.lock();
            state.submitted += 1;
            let submitted = state.submitted;
            state.queue.push(statement.priority(), submitted, (Arc::clone(statement), Box::new(task)));
            if std::mem::replace(&mut state.running, true) {
                return;
            }
        }
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.queue.pop();
                state.running = next.is_some();
                next
            };
            let Some((statement, task)) = next else { return };
            // Dropping a task may panic as well as running it.
            let done = panics::caught(|| if statement.is_cancelled() { drop(task) } else { task() });
            if let Err(text) = done {
                statement.fail(text);
            }
        }
    }

    /// Calls `body` with 0 to `tasks - 1`, in this order. Errors as [`crate::Scheduler::parallel_for`] has them.
    ///
    /// # Errors
    /// [`TaskError::Panicked`] when a call panicked, [`TaskError::Cancelled`] when the statement stopped.
    pub fn parallel_for(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        _affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        for index in 0..tasks {
            statement.check().map_err(|_| TaskError::Cancelled)?;
            panics::caught(|| body(index)).map_err(|text| {
                statement.fail(text.clone());
                TaskError::Panicked(text)
            })?;
        }
        statement.check().map_err(|_| TaskError::Cancelled)
    }
}
