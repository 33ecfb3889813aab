//! Waiting for one task: as a thread, as a worker, or as a future.
//!
//! Invariants: a completion ends exactly once, also when its task is dropped unrun; a worker that waits for one lends
//! its slot; waiting as a future holds no thread.
//!
//! # Limits
//! One waiter: the result is moved out.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use super::blocking::blocking;
use super::parallel::TaskError;

enum Outcome<T> {
    Pending(Option<Waker>),
    Ready(Result<T, TaskError>),
    Taken,
}

struct CompletionState<T> {
    outcome: Mutex<Outcome<T>>,
    condvar: Condvar,
}

/// The result of a task to come: wait for it, or await it. Dropping it leaves the task alone.
pub struct Completion<T> {
    state: Arc<CompletionState<T>>,
}

/// The other end: fulfils a [`Completion`] when it is given a value, or dropped without one.
pub(crate) struct Promise<T> {
    state: Option<Arc<CompletionState<T>>>,
}

/// A completion and what fulfils it.
pub(crate) fn promise<T>() -> (Promise<T>, Completion<T>) {
    let state = Arc::new(CompletionState { outcome: Mutex::new(Outcome::Pending(None)), condvar: Condvar::new() });
    (Promise { state: Some(Arc::clone(&state)) }, Completion { state })
}

impl<T> Promise<T> {
    pub(crate) fn fulfil(mut self, outcome: Result<T, TaskError>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Result<T, TaskError>) {
        let Some(state) = self.state.take() else { return };
        let before = std::mem::replace(&mut *state.outcome.lock(), Outcome::Ready(outcome));
        state.condvar.notify_one();
        if let Outcome::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.end(Err(TaskError::Cancelled));
    }
}

impl<T> Completion<T> {
    /// Blocks the calling thread until the task has ended. A worker lends its slot meanwhile.
    ///
    /// # Errors
    /// [`TaskError::Panicked`] when the task panicked, [`TaskError::Cancelled`] when it was dropped because its
    /// statement had stopped.
    pub fn wait(self) -> Result<T, TaskError> {
        if let Some(outcome) = self.take() {
            return outcome;
        }
        blocking(|| {
            let mut outcome = self.state.outcome.lock();
            while matches!(*outcome, Outcome::Pending(_)) {
                self.state.condvar.wait(&mut outcome);
            }
        });
        self.take().unwrap_or(Err(TaskError::Cancelled))
    }

    /// Whether the task has ended.
    pub fn is_done(&self) -> bool {
        !matches!(*self.state.outcome.lock(), Outcome::Pending(_))
    }

    fn take(&self) -> Option<Result<T, TaskError>> {
        let mut outcome = self.state.outcome.lock();
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Ready(ready) => Some(ready),
            before => {
                *outcome = before;
                None
            }
        }
    }
}

impl<T> Future for Completion<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Wakers are foreign code: they are cloned before, and dropped after, the lock is held.
        let waker = context.waker().clone();
        let mut outcome = self.state.outcome.lock();
        let before = match &mut *outcome {
            Outcome::Pending(known) => known.replace(waker),
            ready => match std::mem::replace(ready, Outcome::Taken) {
                Outcome::Ready(ready) => return Poll::Ready(ready),
                _ => panic!("a completion was polled after it was ready"),
            },
        };
        drop(outcome);
        drop(before);
        Poll::Pending
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("done", &self.is_done()).finish()
    }
}
