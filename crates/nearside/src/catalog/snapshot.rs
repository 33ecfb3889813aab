//! What a statement sees: what exists, and up to which version small statements have written it.
//!
//! States of the catalog change with names, columns, placements and segments; what small statements write is in the
//! deltas of tables, by versions that units count. Both are taken in one moment ([`Catalog::snapshot`]), so that a
//! reader finds each row once: in a table's segments or in its delta.
//!
//! [`Catalog::snapshot`]: crate::catalog::Catalog::snapshot

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::TableVersion;

use crate::catalog::{CatalogState, TableEntry};
use crate::error::Result;

/// See the module; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    state: Arc<CatalogState>,
    version: u64,
    /// Which tables are read, where somebody wants to know.
    reads: Option<Reads>,
}

/// The tables that were read, by their numbers.
pub(crate) type Reads = Arc<Mutex<BTreeSet<u64>>>;

impl Snapshot {
    /// What exists in a state, written up to a version.
    pub(super) fn new(state: Arc<CatalogState>, version: u64) -> Snapshot {
        Snapshot { state, version, reads: None }
    }

    /// The same, and tells which tables are read.
    pub(crate) fn telling(self, reads: Reads) -> Snapshot {
        Snapshot { reads: Some(reads), ..self }
    }

    /// The same, and tells whoever another one tells.
    pub(crate) fn telling_as(self, other: &Snapshot) -> Snapshot {
        Snapshot { reads: other.reads.clone(), ..self }
    }

    /// Up to which version small writes are seen.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The state by itself.
    pub(crate) fn state(&self) -> &Arc<CatalogState> {
        &self.state
    }

    /// Another state, to the same version: what a statement has changed already.
    pub(crate) fn over(&self, state: Arc<CatalogState>) -> Snapshot {
        Snapshot { state, version: self.version, reads: self.reads.clone() }
    }

    /// Tells whoever wants to know that a table is read.
    pub(crate) fn tell(&self, table: &TableEntry) {
        if let Some(reads) = &self.reads {
            reads.lock().insert(table.id);
        }
    }

    /// All rows of one of its tables that are seen, as segments: see [`TableEntry::whole`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn whole(&self, table: &TableEntry) -> Result<Arc<TableVersion>> {
        self.tell(table);
        table.whole(self.version)
    }
}

impl Deref for Snapshot {
    type Target = CatalogState;

    fn deref(&self) -> &CatalogState {
        &self.state
    }
}
