//! Columns of a table that are on the disk come into memory before they are read.
//!
//! Who does not ask for them first has them all the same, one after the other and on its own thread; but a file that
//! cannot be read is an error here, and a fault there.

use std::sync::Arc;

use super::{TableEntry, Workers};
use crate::error::{Error, Result};

impl TableEntry {
    /// Brings those columns into memory that are wanted, by all workers.
    ///
    /// # Errors
    /// A file that is damaged or cannot be read, of which table; no memory; a cancelled statement.
    pub(crate) fn load<W: Workers>(&self, is_wanted: impl Fn(usize) -> bool, workers: &Arc<W>) -> Result<()> {
        if self.meta.is_resident() {
            return Ok(());
        }
        let name = || self.name.shown();
        let loaded = self.base.load(is_wanted, &workers.parallel());
        workers.finished(loaded, || format!("reading table '{}'", name())).map_err(|error| match error {
            error @ Error::Disk(_) => Error::disk(error.code(), format!("table '{}': {error}", name())),
            Error::Memory(text) => Error::Memory(format!("table '{}': {text}", name())),
            other => other,
        })
    }

    /// Brings all of it into memory.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn load_all<W: Workers>(&self, workers: &Arc<W>) -> Result<()> {
        self.load(|_| true, workers)
    }
}
