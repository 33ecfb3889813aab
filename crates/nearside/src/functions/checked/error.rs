//! What checked arithmetic reports: one sentence per fault. The errors travel inside [`DataFusionError::External`].

use datafusion_common::DataFusionError;

/// An arithmetic fault of a statement: the user's data or text is at fault, never the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArithmeticError {
    /// A float so near to zero that its type has nothing but zero for it.
    #[error("float underflow: {operation} is not zero, but nearer to it than {target} can tell")]
    Underflow {
        /// The operation with its values.
        operation: String,
        /// The SQL name of the result's type.
        target: String,
    },
    /// One operation whose exact result its type cannot hold.
    #[error("{kind} overflow: {operation} does not fit {target}")]
    Overflow {
        /// `integer`, `decimal` or `float`.
        kind: &'static str,
        /// The operation with its values, `9223372036854775807 + 1`.
        operation: String,
        /// The SQL name of the result's type.
        target: String,
    },
    /// An aggregate whose exact result its type cannot hold.
    #[error("{kind} overflow in {aggregate}: {what} does not fit {target}; {advice}")]
    Aggregate {
        /// `integer`, `decimal` or `interval`.
        kind: &'static str,
        /// The call as it stands in the plan, `sum(t.a)`.
        aggregate: String,
        /// `the total` or `the average`.
        what: &'static str,
        /// The SQL name of the result's type.
        target: String,
        /// What to change in the statement.
        advice: &'static str,
    },
    /// `/` or `%` with a zero on the right.
    #[error("division by zero")]
    DivisionByZero,
    /// An overflow that an arrow kernel found, in that kernel's words.
    #[error("arithmetic overflow: {0}")]
    Kernel(String),
}

impl ArithmeticError {
    /// The fault that `error` is, if it is one of these.
    pub(super) fn of(error: &DataFusionError) -> Option<&ArithmeticError> {
        match error {
            DataFusionError::External(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

impl From<ArithmeticError> for DataFusionError {
    fn from(error: ArithmeticError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
