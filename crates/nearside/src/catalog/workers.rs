//! [`Workers`]: who does a step of storage for a statement, and says what came of it.

use storage::{Parallel, Serial, StoreError};

use crate::error::Result;

/// A statement with its workers, as far as storage asks for them.
pub(crate) trait Workers {
    /// Runs the tasks of a step.
    type Parallel: Parallel;

    /// The statement's workers for storage.
    fn parallel(&self) -> Self::Parallel;

    /// What a step of storage on the statement's workers came to; `step` names it. The step's own word goes first: a
    /// panic in it stops the
    /// statement too, and whoever asks only whether that was stopped takes it for somebody's wish.
    fn finished<T>(&self, result: Result<T, StoreError>, step: impl FnOnce() -> String) -> Result<T>;
}

/// The caller alone.
#[derive(Debug)]
pub(crate) struct Alone;

impl Workers for Alone {
    type Parallel = Serial;

    fn parallel(&self) -> Serial {
        Serial
    }

    fn finished<T>(&self, result: Result<T, StoreError>, _step: impl FnOnce() -> String) -> Result<T> {
        Ok(result?)
    }
}
