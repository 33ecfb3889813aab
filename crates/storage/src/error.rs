//! What can go wrong between a batch of rows and a stored column.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use numa::MemoryError;

/// Why a parallel step ended before all its tasks ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Interruption {
    /// The statement was cancelled.
    #[error("the statement was cancelled")]
    Cancelled,
    /// A task panicked: a fault of ours; the text is the panic's.
    #[error("internal error: {0}")]
    Panicked(String),
}

/// Why rows could not be stored, changed or compared. Every variant but `Memory` and `Interruption` is a fault of the
/// data or of the caller's statement, and its text is fit for a user.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A batch has another number of columns than the table.
    #[error("the rows have {found} columns, the table has {expected}")]
    ColumnCount {
        /// Columns of the table.
        expected: usize,
        /// Columns of the batch.
        found: usize,
    },
    /// A batch's column has another type than the table's.
    #[error("column \"{column}\" is of type {expected}, the rows have {found}; cast them to {expected}")]
    TypeMismatch {
        /// The column's name.
        column: String,
        /// The column's type.
        expected: DataType,
        /// What the batch brought.
        found: DataType,
    },
    /// A NULL for a column that takes none.
    #[error("column \"{column}\" is NOT NULL, the rows have a NULL there")]
    NullNotAllowed {
        /// The column's name.
        column: String,
    },
    /// A string or binary value of 2 GiB or more.
    #[error("a value of column \"{column}\" has {bytes} bytes; values must be shorter than 2 GiB")]
    ValueTooLong {
        /// The column's name.
        column: String,
        /// Length of the value.
        bytes: usize,
    },
    /// A constant of another type than the dictionary it is compared with.
    #[error("a value of type {found} cannot be compared with a column of type {expected}; cast it to {expected}")]
    NotComparable {
        /// The dictionary's type.
        expected: DataType,
        /// The constant's type.
        found: DataType,
    },
    /// A constant that is NULL or not exactly one value.
    #[error("one value that is not NULL is needed here, got {values} of which {nulls} NULL")]
    NotOneValue {
        /// Values given.
        values: usize,
        /// NULLs among them.
        nulls: usize,
    },
    /// A table must keep unique column names.
    #[error("the table already has a column \"{column}\"")]
    DuplicateColumn {
        /// The column's name.
        column: String,
    },
    /// An index that no column, part, segment or row has.
    #[error("there is no {what} {index}, only {count}")]
    NotThere {
        /// "column", "part", "segment" or "row".
        what: &'static str,
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// More rows than one write to a delta may have, or than its rows have numbers.
    #[error("{rows} rows are too many for one small write, at most {rows_max} fit; load them in bulk")]
    TooManyRows {
        /// Rows of the write.
        rows: usize,
        /// How many would do.
        rows_max: usize,
    },
    /// A column whose values have no order of ours.
    #[error("column \"{column}\" is of type {data_type}, which has no order; leave it out of indexes and keys")]
    NotIndexable {
        /// The column's name.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A key is checked by an index, and a segment has none on any of the key's columns.
    #[error("none of the key's columns has an index; create one on at least one of them first")]
    NoIndex,
    /// Rows of a column cannot be moved where every node has all of them.
    #[error("column \"{column}\" has a copy on several nodes; place the whole column on one node or striped first")]
    Replicated {
        /// The column's name.
        column: String,
    },
    /// A table cannot be cut into parts like this; the text says why and what would do.
    #[error("{0}")]
    BadPartitioner(String),
    /// A column that is on the disk could not be read.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// The budget or the node's memory is used up.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The caller's threads stopped before all was done.
    #[error(transparent)]
    Interrupted(#[from] Interruption),
    /// Arrow could not bring the rows into the table's types.
    #[error("cannot store the rows: {0}")]
    Arrow(#[from] ArrowError),
}
