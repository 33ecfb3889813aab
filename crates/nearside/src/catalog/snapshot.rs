//! What a statement sees: what exists, and up to which version small statements have written it.
//!
//! States of the catalog change with names, columns, placements and segments; what small statements write is in the
//! deltas of tables, by versions that units count. Both are taken in one moment ([`Catalog::snapshot`]), so that a
//! reader finds each row once: in a table's segments or in its delta.
//!
//! [`Catalog::snapshot`]: crate::catalog::Catalog::snapshot

use std::ops::Deref;
use std::sync::Arc;

use storage::TableVersion;

use crate::catalog::{CatalogState, TableEntry};
use crate::error::Result;

/// See the module; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    state: Arc<CatalogState>,
    version: u64,
}

impl Snapshot {
    /// What exists in a state, written up to a version.
    pub(super) fn new(state: Arc<CatalogState>, version: u64) -> Snapshot {
        Snapshot { state, version }
    }

    /// Another state, to the same version: what a statement has changed already.
    pub(crate) fn over(&self, state: Arc<CatalogState>) -> Snapshot {
        Snapshot { state, version: self.version }
    }

    /// All rows of one of its tables that are seen, as segments: see [`TableEntry::whole`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn whole(&self, table: &TableEntry) -> Result<Arc<TableVersion>> {
        table.whole(self.version)
    }
}

impl Deref for Snapshot {
    type Target = CatalogState;

    fn deref(&self) -> &CatalogState {
        &self.state
    }
}
