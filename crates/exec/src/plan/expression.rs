//! [`Expression`]: a function of some input columns, opaque to this crate; [`Scalar`], its structure where that is
//! known, so that it runs over integers and codes instead of Arrow arrays; and [`RemappedExpression`], the same
//! function over columns that are numbered differently.
//!
//! The caller wraps whatever evaluates expressions for it; this crate decides over which rows (or dictionary entries)
//! and how often it is evaluated. An expression that can tells its structure by [`Expression::structure`]; it means
//! exactly the same as [`Expression::evaluate`], which stays the slow and obvious twin. Whether the structure is used
//! is decided when the bounds of its columns are known: integer arithmetic runs unchecked in 64 bits where the bounds
//! prove that nothing overflows, and not here otherwise.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::text::TextTest;
use crate::ExecError;

/// A function of one row of the input.
///
/// It must be deterministic and treat rows apart from each other: it is evaluated over any subset of the input's rows,
/// in any order, by any thread, and, when it has one column, possibly once per distinct value instead of once per row
/// (`random()` and the like must therefore say so through [`Expression::volatile`]).
pub trait Expression: Send + Sync + Debug {
    /// Input columns that it reads, ascending, each once. Empty for a constant.
    fn columns(&self) -> &[usize];

    /// Evaluates it for every row of `batch`, whose columns are exactly [`Expression::columns`], in that order, with
    /// their surface types. The result has `batch.num_rows()` rows of [`Expression::data_type`].
    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError>;

    /// Type of the result.
    fn data_type(&self) -> &DataType;

    /// Text for EXPLAIN.
    fn describe(&self) -> String;

    /// May it fail on some value? Then a failure over a value that no live row of the result holds is never reported.
    fn fallible(&self) -> bool;

    /// May two evaluations over the same values differ? Then it is evaluated exactly once per row, never per distinct
    /// value.
    fn volatile(&self) -> bool {
        false
    }

    /// What it is made of, where that is known: column `n` of the tree is `columns()[n]`. It must mean what
    /// [`Expression::evaluate`] computes, errors included.
    fn structure(&self) -> Option<&Scalar> {
        None
    }

    /// Where it is LIKE over its only column, which pattern: texts are then searched as they are stored.
    fn text_test(&self) -> Option<&TextTest> {
        None
    }
}

/// Schema of the batch that `expression` is evaluated over: its columns of `input`.
pub(crate) fn argument_schema(expression: &dyn Expression, input: &Schema) -> SchemaRef {
    let fields: Vec<_> =
        expression.columns().iter().map(|&c| Arc::new(input.field(c).clone().with_nullable(true))).collect();
    Arc::new(Schema::new(fields))
}

/// Evaluates over `arguments`, one array per column of the expression.
pub(crate) fn evaluate_over(
    expression: &dyn Expression,
    schema: &SchemaRef,
    arguments: Vec<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef, ExecError> {
    if let Some(test) = expression.text_test()
        && let [texts] = &arguments[..]
        && let Some(result) = test.evaluate(texts)
    {
        return Ok(Arc::new(result));
    }
    evaluate_by_owner(expression, schema, arguments, rows)
}

/// As [`evaluate_over`], by [`Expression::evaluate`], and checks what comes back.
pub(crate) fn evaluate_by_owner(
    expression: &dyn Expression,
    schema: &SchemaRef,
    arguments: Vec<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef, ExecError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arguments, &options)?;
    let mut result = expression.evaluate(&batch)?;
    // What parts of a type are called says nothing of the values.
    if result.data_type() != expression.data_type() && result.data_type().equals_datatype(expression.data_type()) {
        let named = result.to_data().into_builder().data_type(expression.data_type().clone());
        result = make_array(named.build()?);
    }
    if result.len() != rows || result.data_type() != expression.data_type() {
        return Err(ExecError::Evaluation(format!(
            "expression {} returned {} rows of {} for {rows} rows of {}",
            expression.describe(),
            result.len(),
            result.data_type(),
            expression.data_type(),
        )));
    }
    Ok(result)
}

/// An expression whose column `i` is `columns[i]` of another input, which may order or repeat columns differently.
#[derive(Debug)]
pub(crate) struct RemappedExpression {
    inner: Arc<dyn Expression>,
    /// Ascending, unique columns of the new input.
    columns: Vec<usize>,
    /// For each column of `inner`, its position in `columns`.
    positions: Vec<usize>,
    structure: Option<Scalar>,
}

impl RemappedExpression {
    /// `map` gives the new number of each column that `inner` reads.
    pub(crate) fn over(inner: Arc<dyn Expression>, map: &dyn Fn(usize) -> usize) -> Arc<dyn Expression> {
        let mapped: Vec<usize> = inner.columns().iter().map(|&c| map(c)).collect();
        if mapped == inner.columns() {
            return inner;
        }
        let mut columns = mapped.clone();
        columns.sort_unstable();
        columns.dedup();
        let positions: Vec<usize> =
            mapped.iter().map(|m| columns.binary_search(m).expect("built from the same list")).collect();
        let structure = inner.structure().map(|tree| tree.map_columns(&|c| positions[c]));
        Arc::new(RemappedExpression { inner, columns, positions, structure })
    }
}

impl Expression for RemappedExpression {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let schema = batch.schema();
        let fields: Vec<_> = self.positions.iter().map(|&p| schema.fields()[p].clone()).collect();
        let arguments = self.positions.iter().map(|&p| batch.column(p).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let arguments = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arguments, &options)?;
        self.inner.evaluate(&arguments)
    }

    fn data_type(&self) -> &DataType {
        self.inner.data_type()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn fallible(&self) -> bool {
        self.inner.fallible()
    }

    fn volatile(&self) -> bool {
        self.inner.volatile()
    }

    fn structure(&self) -> Option<&Scalar> {
        self.structure.as_ref()
    }

    fn text_test(&self) -> Option<&TextTest> {
        self.inner.text_test()
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl CompareOp {
    /// The comparison that is TRUE exactly where this one is FALSE.
    pub fn negated(self) -> CompareOp {
        match self {
            CompareOp::Eq => CompareOp::NotEq,
            CompareOp::NotEq => CompareOp::Eq,
            CompareOp::Lt => CompareOp::GtEq,
            CompareOp::LtEq => CompareOp::Gt,
            CompareOp::Gt => CompareOp::LtEq,
            CompareOp::GtEq => CompareOp::Lt,
        }
    }

    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::NotEq => "<>",
            CompareOp::Lt => "<",
            CompareOp::LtEq => "<=",
            CompareOp::Gt => ">",
            CompareOp::GtEq => ">=",
        }
    }
}

/// An operator of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; of integers cut towards zero, of decimals rounded half away from zero at the result's scale; by zero is an
    /// error.
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

/// A tree over the columns of an [`Expression`]; NULL in, NULL out where nothing else is said.
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
            Scalar::Opaque(expression) => Scalar::Opaque(RemappedExpression::over(expression.clone(), map)),
            Scalar::DatePart { part, input, data_type } => {
                Scalar::DatePart { part: *part, input: boxed(input), data_type: data_type.clone() }
            }
        }
    }
}
