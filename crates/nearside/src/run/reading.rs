//! What reads columns that nobody waits for, so that it ends with the database.

use std::sync::Arc;

use parking_lot::Mutex;
use sched::Statement;

/// The statement on whose behalf columns are read that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Reading(Mutex<Option<Arc<Statement>>>);

impl Reading {
    /// Columns are read on behalf of this one from now on.
    pub(super) fn begin(&self, statement: &Arc<Statement>) {
        *self.0.lock() = Some(Arc::clone(statement));
    }

    /// No further column is read for nobody.
    pub(crate) fn end(&self) {
        if let Some(statement) = self.0.lock().take() {
            statement.cancel();
        }
    }
}
