//! The time of statements: older ones have smaller numbers, and their tasks go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts statements of a database; a clone goes on with the same count.
#[derive(Clone, Debug)]
pub(crate) struct StatementClock(Arc<AtomicU64>);

impl Default for StatementClock {
    fn default() -> StatementClock {
        StatementClock(Arc::new(AtomicU64::new(1)))
    }
}

impl StatementClock {
    /// The next statement's time.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
