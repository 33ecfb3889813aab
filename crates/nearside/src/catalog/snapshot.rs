//! What a statement sees: what exists, and up to which version small statements have written it.
//!
//! States of the catalog change with names, columns, placements and segments; what small statements write is in the
//! deltas of tables, by versions that units count. Both are taken in one moment ([`Catalog::snapshot`]), so that a
//! reader finds each row once: in a table's segments or in its delta.
//!
//! [`Catalog::snapshot`]: crate::catalog::Catalog::snapshot

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::ArrayRef;
use exec::{Plan, Predicate};
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

/// What was read of tables, by their numbers.
pub(crate) type Reads = Arc<Mutex<BTreeMap<u64, ReadOf>>>;

/// Scans with conditions that are kept apart for a table; of one that is scanned more often all counts as read.
const SCANS_MAX: usize = 256;

/// What was read of a table.
#[derive(Debug)]
pub(crate) enum ReadOf {
    /// All of it, as far as anybody knows.
    All,
    /// The rows that these give.
    Rows(Vec<FilteredScan>),
}

/// A scan of a table with its conditions.
#[derive(Debug, Clone)]
pub(crate) struct FilteredScan {
    /// Over a version without rows.
    pub plan: Plan,
    /// Whether its version gives numbers of rows.
    pub has_row_ids: bool,
}

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
            reads.lock().insert(table.id, ReadOf::All);
        }
    }

    /// Whether somebody wants to know what is read.
    pub(crate) fn is_telling(&self) -> bool {
        self.reads.is_some()
    }

    /// Tells whoever wants to know that rows are read of a table, those that a plan over its rows gives.
    pub(crate) fn tell_scan(&self, table: &TableEntry, version: &TableVersion, scan: &Plan) {
        let Some(reads) = &self.reads else { return };
        if matches!(scan, Plan::Scan { .. }) {
            return self.tell(table);
        }
        let mut reads = reads.lock();
        let of = reads.entry(table.id).or_insert_with(|| ReadOf::Rows(Vec::new()));
        let ReadOf::Rows(known) = of else { return };
        // It must not hold what may be reclaimed.
        let has_row_ids = version.schema.fields().len() > table.base.schema.fields().len();
        match scan.over(&Arc::new(TableVersion::empty(&version.schema))) {
            Some(plan) if known.len() < SCANS_MAX => known.push(FilteredScan { plan, has_row_ids }),
            _ => *of = ReadOf::All,
        }
    }

    /// Tells whoever wants to know that rows with these values in some columns are read of a table.
    pub(crate) fn tell_keys(&self, table: &TableEntry, columns: &[String], values: Vec<ArrayRef>) {
        let schema = &table.base.schema;
        let scan = || {
            let columns: Vec<usize> =
                columns.iter().map(|column| schema.index_of(column).ok()).collect::<Option<_>>()?;
            let is_one_of = |(column, values): (usize, ArrayRef)| Predicate::In { column, values, negated: false };
            let all = Predicate::And(values.into_iter().enumerate().map(is_one_of).collect());
            let empty = Arc::new(TableVersion::empty(schema));
            Plan::scan(table.name.shown(), empty, columns).ok()?.filter(all).ok()
        };
        match self.reads.as_ref().map(|_| scan()) {
            Some(Some(scan)) => self.tell_scan(table, &table.base, &scan),
            Some(None) => self.tell(table),
            None => {}
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
