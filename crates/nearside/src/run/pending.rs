//! Rows that a transaction has written by their keys and that are not segments yet: [`PendingRows`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::SchemaRef;
use storage::TableRow;

use crate::error::Result;

/// Rows that are kept so: each is a batch of its own, and takes about a KiB.
const ROWS_MAX: usize = 1 << 16;

/// What a transaction has written of a table with one unique index at most, a row at a time. The rows of others that
/// it has taken away are held in the table's delta.
///
/// # Invariants
/// Each row that is there has the key that it is known by.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingRows {
    /// A batch of one row each, `None` where it is gone again.
    rows: Vec<Option<RecordBatch>>,
    /// By the code of its key.
    by_code: HashMap<u64, usize>,
    /// How many rows there are.
    count: usize,
    /// Rows of others that were taken away, where they were then.
    taken: Vec<TableRow>,
}

/// What is known of a key.
pub(crate) enum PendingKey {
    /// No row has it.
    Free,
    /// This one has.
    Row(usize),
    /// Another key has the same code.
    Clash,
}

impl PendingRows {
    /// The row that has a key, in these columns.
    pub(crate) fn find(&self, code: u64, key: &[ArrayRef], columns: &[usize]) -> Result<PendingKey> {
        let Some(place) = self.by_code.get(&code) else { return Ok(PendingKey::Free) };
        let Some(row) = &self.rows[*place] else { return Ok(PendingKey::Free) };
        for (value, column) in key.iter().zip(columns) {
            if !not_distinct(value, row.column(*column))?.value(0) {
                return Ok(PendingKey::Clash);
            }
        }
        Ok(PendingKey::Row(*place))
    }

    /// A row that is there.
    pub(crate) fn row(&self, place: usize) -> Option<&RecordBatch> {
        self.rows.get(place)?.as_ref()
    }

    /// A row was added, with the code of its key where it has one.
    pub(crate) fn add(&mut self, row: RecordBatch, code: Option<u64>) {
        if let Some(code) = code {
            self.by_code.insert(code, self.rows.len());
        }
        self.rows.push(Some(row));
        self.count += 1;
    }

    /// A row that is there has other values, and its key, or is gone.
    pub(crate) fn change(&mut self, place: usize, row: Option<RecordBatch>) {
        let is_there = |row: &Option<RecordBatch>| usize::from(row.is_some());
        self.count = self.count - is_there(&self.rows[place]) + is_there(&row);
        self.rows[place] = row;
    }

    /// A row of others was taken away.
    pub(crate) fn taken(&mut self, row: TableRow) {
        self.taken.push(row);
    }

    /// The rows of others that were taken away, where they were when that was done.
    pub(crate) fn taken_rows(&self) -> &[TableRow] {
        &self.taken
    }

    /// Rows that are there, and rows of others that are gone.
    pub(crate) fn written(&self) -> u64 {
        self.count as u64 + self.taken.len() as u64
    }

    /// Whether more would take much memory that nobody counts.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// All of them.
    pub(crate) fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let of = |row: &RecordBatch| {
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            RecordBatch::try_new_with_options(Arc::clone(schema), row.columns().to_vec(), &options)
        };
        let rows = self.rows.iter().flatten().map(of).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(concat_batches(schema, &rows)?)
    }
}
