//! What can go wrong: [`PlanError`] when a plan is put together, [`ExecError`] while it runs.
//!
//! A plan error is a fault of the caller (a column that is not there, types that do not meet); an execution error is a
//! fault of the data, the budget or the statement's owner. Faults of ours are asserts, and arrive as
//! [`ExecError::Panicked`] because no statement may harm another.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use numa::MemoryError;
use sched::{Statement, StopReason};
use storage::StoreError;

/// Why a running plan stopped. An [`Execution`](crate::Execution) reports one of these once and then ends.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// A memory budget or a memory node has no room for the result; the text says which and what to do.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The statement was cancelled.
    #[error("the statement was cancelled")]
    Cancelled,
    /// The statement ran past its deadline.
    #[error("the statement ran longer than its time limit allows")]
    DeadlineExceeded,
    /// An expression failed on a row of the input: overflow, division by zero, a text that is no number.
    #[error("{0}")]
    Evaluation(String),
    /// The same of an expression that the plan's owner evaluates, in the owner's own words.
    #[error(transparent)]
    Expression(Box<dyn std::error::Error + Send + Sync>),
    /// A loop over floats met one that is out of range, maybe in a row that does not count. Never reported: who runs
    /// the loop has the expression's owner evaluate it instead, which knows the rows and the words.
    #[error("a float is out of range")]
    FloatRange,
    /// A task of the statement panicked. This is a bug; the process and every other statement go on.
    #[error("internal error: a task of this statement panicked: {0}")]
    Panicked(String),
    /// More rows came together in one place than have numbers.
    #[error(
        "the statement keeps {rows} rows in one place (for a join, a sort, a union or a common table expression), \
         more than the {most} that can be; filter or aggregate its input further"
    )]
    TooManyRows {
        /// How many.
        rows: usize,
        /// How many there can be.
        most: usize,
    },
    /// The storage layer refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan does not fit its inputs.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<ArrowError> for ExecError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::MemoryError(text) => ExecError::Evaluation(format!("out of memory: {text}")),
            other => ExecError::Evaluation(other.to_string()),
        }
    }
}

/// What consumers of a statement that has stopped are told.
pub(crate) fn stopped(statement: &Statement) -> ExecError {
    match statement.stopped() {
        Some(StopReason::Cancelled) => ExecError::Cancelled,
        Some(StopReason::Deadline) => ExecError::DeadlineExceeded,
        Some(StopReason::Failed(text)) => ExecError::Panicked(text),
        Some(StopReason::ShutDown) | None => {
            ExecError::Evaluation("the scheduler was shut down before the statement was done".into())
        }
    }
}

/// Why a [`Plan`](crate::Plan) cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A column index is past the end of the input.
    #[error("{operator} refers to column {column}, but its input has {available} columns (0 to {available} exclusive)")]
    UnknownColumn {
        /// Which operator or part of it.
        operator: String,
        /// The index it used.
        column: usize,
        /// How many columns the input has.
        available: usize,
    },
    /// Two types that must be the same are not.
    #[error("{context}: expected type {expected}, found {found}; cast one side before the plan is built")]
    TypeMismatch {
        /// Where.
        context: String,
        /// The type that the input or the field has.
        expected: DataType,
        /// The type that was given.
        found: DataType,
    },
    /// A comparison over a type that has no order here (lists, structs, maps, unions).
    #[error("{context}: values of type {data_type} cannot be compared here; wrap the comparison as an expression")]
    NotComparable {
        /// Where.
        context: String,
        /// The type.
        data_type: DataType,
    },
    /// A literal that is NULL, or an array of the wrong length.
    #[error("{context}: {problem}")]
    BadLiteral {
        /// Where.
        context: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An expression whose columns are not ascending and unique.
    #[error("expression {expression} must list its columns once each and ascending, it lists {columns:?}")]
    ColumnsOutOfOrder {
        /// The expression's description.
        expression: String,
        /// What it lists.
        columns: Vec<usize>,
    },
}
