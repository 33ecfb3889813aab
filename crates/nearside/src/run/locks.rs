//! What a statement of a transaction locks besides what it writes: rows that a SELECT .. FOR UPDATE gives, and tables.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use storage::RowHold;

use crate::sql::Wait;

/// See the module; it is locked once the statement has been carried out.
#[derive(Debug)]
pub(crate) enum WantedLocks {
    /// Rows of a query.
    Rows(SelectedRows),
    /// Whole tables.
    Tables(Vec<WantedTable>),
}

/// The rows of a query, and which rows of tables they come from.
#[derive(Debug)]
pub(crate) struct SelectedRows {
    /// What the client sees of them.
    pub schema: SchemaRef,
    /// All of them.
    pub batches: Vec<RecordBatch>,
    /// The tables, each once for each time that it stands in the query.
    pub tables: Vec<SelectedOf>,
    /// Where rows that others have locked are left out: how many of the others are given, behind how many.
    pub limit: Option<RowLimit>,
}

/// A LIMIT that counts rows once they are locked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLimit {
    /// OFFSET.
    pub skip: usize,
    /// LIMIT.
    pub fetch: usize,
    /// Whether there may be more rows than those that were asked for.
    pub is_cut: bool,
}

/// A table of which rows were selected.
#[derive(Debug)]
pub(crate) struct SelectedOf {
    /// Its number.
    pub table: u64,
    /// How its rows are locked.
    pub kind: RowHold,
    /// What is done where others have locked one.
    pub wait: Wait,
    /// For each row of the query which row of it, as `StoredSource::with_row_ids` has it.
    pub ids: Vec<u64>,
}

/// A table that is to be locked.
#[derive(Debug)]
pub(crate) struct WantedTable {
    /// Its number.
    pub table: u64,
    /// Whether nobody else may write it; else nobody changes its definition.
    pub alone: bool,
    /// Whether the statement fails where others are in the way.
    pub nowait: bool,
    /// Whether it has to be as the statement has seen it.
    pub unchanged: bool,
}
