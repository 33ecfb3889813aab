//! What checked arithmetic reports: one sentence per fault, typed so that a server can give it its SQLSTATE.
//!
//! The errors travel inside [`DataFusionError::External`]; [`ArithmeticError::of`] finds them again, and also
//! recognises the overflow and division errors that arrow's own kernels raise (dates, intervals, casts).

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

/// An arithmetic fault of a statement: the user's data or text is at fault, never the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArithmeticError {
    /// One operation whose exact result its type cannot hold.
    #[error("{kind} overflow: {operation} does not fit {target}")]
    Overflow {
        /// `integer` or `decimal`.
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
    /// The SQLSTATE: 22012 for division by zero, else 22003 (numeric value out of range).
    pub fn sqlstate(&self) -> &'static str {
        match self {
            ArithmeticError::DivisionByZero => "22012",
            _ => "22003",
        }
    }

    /// The arithmetic fault at the root of `error`, if that is what it is.
    pub fn of(error: &DataFusionError) -> Option<ArithmeticError> {
        match error.find_root() {
            DataFusionError::External(inner) => inner.downcast_ref::<ArithmeticError>().cloned(),
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                ArrowError::DivideByZero => Some(ArithmeticError::DivisionByZero),
                ArrowError::ArithmeticOverflow(text) => Some(kernel(text)),
                ArrowError::ComputeError(text) if says_overflow(text) => Some(kernel(text)),
                ArrowError::ExternalError(inner) => {
                    if let Some(found) = inner.downcast_ref::<ArithmeticError>() {
                        return Some(found.clone());
                    }
                    inner.downcast_ref::<DataFusionError>().and_then(ArithmeticError::of)
                }
                _ => None,
            },
            DataFusionError::Execution(text) if says_overflow(text) => Some(kernel(text)),
            _ => None,
        }
    }
}

/// A kernel's message without the words that the error's own already say.
fn kernel(text: &str) -> ArithmeticError {
    let text = ["Overflow happened on: ", "Date arithmetic overflow: "]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    ArithmeticError::Kernel(text.to_string())
}

/// Whether a kernel's or function's message (`abs`, `lcm`, `factorial`, dates plus intervals) is about an overflow.
fn says_overflow(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("overflow") || text.contains("timestamp out of range")
}

impl From<ArithmeticError> for DataFusionError {
    fn from(error: ArithmeticError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// The SQL name of `t` in messages: `BIGINT`, `DECIMAL(38, 2)`; arrow's own name for what SQL has no word for.
pub(super) fn sql_type_name(t: &DataType) -> String {
    match t {
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INTEGER UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p}, {s})"),
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL".into(),
        other => other.to_string(),
    }
}
