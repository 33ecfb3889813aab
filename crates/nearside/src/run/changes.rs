//! Which rows came and went by a statement of a transaction, where keys have to know.

use std::sync::Arc;

use arrow::array::RecordBatch;
use numa::{Budget, Reservation};
use parking_lot::Mutex;

use crate::catalog::rules::Deferral;
use crate::error::Result;

/// How rows went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// By DELETE.
    Deleted,
    /// Others came in their place, and which for which is not known.
    Updated,
}

/// Rows of a table that came or went: values of the columns that foreign keys are about.
#[derive(Debug)]
pub(crate) enum RowChange {
    /// They came.
    Came { table: u64, rows: RecordBatch },
    /// They went.
    Went { table: u64, rows: RecordBatch, went: Went },
    /// They are others now, row by row.
    Changed { table: u64, old: RecordBatch, new: RecordBatch },
}

/// What is to be done because rows came or went.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The table that refers, or whose key it is.
    pub child: u64,
    /// The foreign key's name, or that of a key that is DEFERRABLE.
    pub key: String,
    /// The table whose rows came or went.
    pub of: u64,
    /// When it is looked at, where it changes nothing.
    pub deferral: Deferral,
    /// What has happened.
    pub what: What,
}

/// What has happened to rows: values of the columns that a foreign key is about.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Rows of the child, or of the table with the key, came.
    Came(RecordBatch),
    /// Keys of the table that is referred to went.
    Went(RecordBatch, Went),
    /// They became others: as they were, and as they are.
    Changed(RecordBatch, RecordBatch),
}

/// See the module; in the statement's budget.
#[derive(Debug, Default)]
pub(crate) struct RowChanges(Mutex<(Vec<RowChange>, Vec<Reservation>)>);

impl RowChanges {
    fn add(&self, change: RowChange, bytes: usize, budget: &Arc<Budget>) -> Result<()> {
        let held = budget.reserve(bytes as u64)?;
        let mut all = self.0.lock();
        all.0.push(change);
        all.1.push(held);
        Ok(())
    }

    /// Rows came.
    pub(crate) fn came(&self, table: u64, rows: RecordBatch, budget: &Arc<Budget>) -> Result<()> {
        let bytes = rows.get_array_memory_size();
        self.add(RowChange::Came { table, rows }, bytes, budget)
    }

    /// Rows went.
    pub(crate) fn went(&self, table: u64, rows: RecordBatch, went: Went, budget: &Arc<Budget>) -> Result<()> {
        let bytes = rows.get_array_memory_size();
        self.add(RowChange::Went { table, rows, went }, bytes, budget)
    }

    /// Rows are others now.
    pub(crate) fn changed(
        &self,
        table: u64,
        (old, new): (RecordBatch, RecordBatch),
        budget: &Arc<Budget>,
    ) -> Result<()> {
        let bytes = old.get_array_memory_size() + new.get_array_memory_size();
        self.add(RowChange::Changed { table, old, new }, bytes, budget)
    }

    /// All that was told since it was asked last.
    pub(crate) fn take(&self) -> Vec<RowChange> {
        let (changes, held) = std::mem::take(&mut *self.0.lock());
        drop(held);
        changes
    }
}
