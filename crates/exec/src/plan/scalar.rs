//! [`Scalar`]: an expression whose structure this crate knows, so that it runs over integers and codes instead of Arrow
//! arrays.
//!
//! An [`Expression`](crate::Expression) that can tells its structure by
//! [`Expression::structure`](crate::Expression::structure); it means exactly the same as
//! [`Expression::evaluate`](crate::Expression::evaluate), which stays the slow and obvious twin. Whether the structure
//! is used is decided when the bounds of its columns are known: integer arithmetic runs unchecked in 64 bits where the
//! bounds prove that nothing overflows, and not here otherwise.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::expression::{Expression, Remapped};
use super::predicate::CompareOp;

/// An operator of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; cut towards zero, decimals at the result's scale; by zero is an error.
    Divide,
    /// `%`, with the sign of the left side; by zero is an error.
    Remainder,
}

/// A part of a date or timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatePart {
    /// The year, proleptic Gregorian.
    Year,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// Day of the month, 1 to 31.
    Day,
}

/// A tree over the columns of an [`Expression`](crate::Expression); NULL in, NULL out where nothing else is said.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// Column `n` of the batch that the expression is evaluated over, which is column `columns()[n]` of the input.
    Column(usize),
    /// A constant: an array of one value, which may be NULL.
    Literal(ArrayRef),
    /// Integers or decimals, or floats; overflow of the result's type is an error, never a wrapped value.
    Arithmetic {
        /// Which.
        op: ArithmeticOp,
        /// Left side.
        left: Box<Scalar>,
        /// Right side.
        right: Box<Scalar>,
        /// Type of the result.
        data_type: DataType,
    },
    /// `-x`.
    Negate(Box<Scalar>),
    /// A comparison of two values of one type (decimals of one scale).
    Compare {
        /// Which.
        op: CompareOp,
        /// Left side.
        left: Box<Scalar>,
        /// Right side.
        right: Box<Scalar>,
    },
    /// AND in three-valued logic, left to right.
    And(Vec<Scalar>),
    /// OR in three-valued logic, left to right.
    Or(Vec<Scalar>),
    /// NOT; NULL stays NULL.
    Not(Box<Scalar>),
    /// IS NULL, or IS NOT NULL.
    IsNull {
        /// What is tested.
        input: Box<Scalar>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// Membership of a list without NULLs.
    In {
        /// What is tested.
        input: Box<Scalar>,
        /// The members.
        values: ArrayRef,
        /// NOT IN.
        negated: bool,
    },
    /// CASE WHEN: the first branch whose condition is TRUE; branches are evaluated only for the rows they are for.
    Case {
        /// Conditions and results.
        whens: Vec<(Scalar, Scalar)>,
        /// ELSE; NULL if absent.
        otherwise: Option<Box<Scalar>>,
        /// Type of the result.
        data_type: DataType,
    },
    /// CAST, with an error for what the type cannot hold.
    Cast {
        /// What is cast.
        input: Box<Scalar>,
        /// To what.
        data_type: DataType,
    },
    /// EXTRACT / date_part; the result is an Int32 or, where `data_type` says so, another number.
    DatePart {
        /// Which.
        part: DatePart,
        /// A date or timestamp without a zone.
        input: Box<Scalar>,
        /// Type of the result.
        data_type: DataType,
    },
    /// A part that only its owner can evaluate: its [`columns`](Expression::columns) are columns of this tree.
    Opaque(Arc<dyn Expression>),
}

impl Scalar {
    /// The same tree over columns numbered differently.
    pub fn map_columns(&self, map: &dyn Fn(usize) -> usize) -> Scalar {
        let boxed = |part: &Scalar| Box::new(part.map_columns(map));
        let all = |parts: &[Scalar]| parts.iter().map(|p| p.map_columns(map)).collect();
        match self {
            Scalar::Column(column) => Scalar::Column(map(*column)),
            Scalar::Literal(value) => Scalar::Literal(value.clone()),
            Scalar::Arithmetic { op, left, right, data_type } => {
                Scalar::Arithmetic { op: *op, left: boxed(left), right: boxed(right), data_type: data_type.clone() }
            }
            Scalar::Negate(input) => Scalar::Negate(boxed(input)),
            Scalar::Compare { op, left, right } => Scalar::Compare { op: *op, left: boxed(left), right: boxed(right) },
            Scalar::And(parts) => Scalar::And(all(parts)),
            Scalar::Or(parts) => Scalar::Or(all(parts)),
            Scalar::Not(input) => Scalar::Not(boxed(input)),
            Scalar::IsNull { input, negated } => Scalar::IsNull { input: boxed(input), negated: *negated },
            Scalar::In { input, values, negated } => {
                Scalar::In { input: boxed(input), values: values.clone(), negated: *negated }
            }
            Scalar::Case { whens, otherwise, data_type } => Scalar::Case {
                whens: whens.iter().map(|(when, then)| (when.map_columns(map), then.map_columns(map))).collect(),
                otherwise: otherwise.as_ref().map(|o| boxed(o)),
                data_type: data_type.clone(),
            },
            Scalar::Cast { input, data_type } => Scalar::Cast { input: boxed(input), data_type: data_type.clone() },
            Scalar::Opaque(expression) => Scalar::Opaque(Remapped::over(expression.clone(), map)),
            Scalar::DatePart { part, input, data_type } => {
                Scalar::DatePart { part: *part, input: boxed(input), data_type: data_type.clone() }
            }
        }
    }
}
