//! The checked operators as scalar functions: what [`super::rewrite`] puts in the place of `+ - * / %` and unary
//! minus on integers and decimals.
//!
//! A function named `+` keeps the column name `a + b` of the operator it replaces, has its type and nullability, and
//! tells the planner what the operator told it (strictness, ordering, bounds). It is not in any registry: SQL text
//! cannot call it by name.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::binary::BinaryTypeCoercer;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::interval_arithmetic::{Interval, apply_operator};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::{kernels, quotient};
use crate::error::statement_err;

/// The checked form of one of `+ - * / %`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Arithmetic {
    op: Operator,
    name: &'static str,
    signature: Signature,
}

/// The checked form of unary minus on a signed integer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Negate {
    signature: Signature,
}

/// One function per operator, made once: plans are compared by pointer first.
static FUNCTIONS: LazyLock<[(Operator, Arc<ScalarUDF>); 5]> = LazyLock::new(|| {
    [
        (Operator::Plus, "+"),
        (Operator::Minus, "-"),
        (Operator::Multiply, "*"),
        (Operator::Divide, "/"),
        (Operator::Modulo, "%"),
    ]
    .map(|(op, name)| {
        let function = Arithmetic { op, name, signature: Signature::any(2, Volatility::Immutable) };
        (op, Arc::new(ScalarUDF::new_from_impl(function)))
    })
});

static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Negate { signature: Signature::any(1, Volatility::Immutable) }))
});

/// `left op right`, checked; `None` when `op` is not one of `+ - * / %`.
pub(super) fn function(op: Operator) -> Option<&'static Arc<ScalarUDF>> {
    FUNCTIONS.iter().find(|(candidate, _)| *candidate == op).map(|(_, function)| function)
}

/// `-arg`, checked.
pub(super) fn negate(arg: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&NEGATE), args: vec![arg] })
}

/// The plain operator that `expr` is the checked form of, if it is one; children as they are.
pub(super) fn plain(expr: Expr) -> Result<Expr, Expr> {
    let of_decimals = quotient::operands(&expr).map(|(op, _)| op);
    let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
        return Err(expr);
    };
    let checked = func.inner().downcast_ref::<Arithmetic>().map(|arithmetic| arithmetic.op);
    if let Some(op) = of_decimals.or(checked)
        && args.len() == 2
    {
        let right = Box::new(args.remove(1));
        let left = Box::new(args.remove(0));
        return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    }
    if func.inner().is::<Negate>() && args.len() == 1 {
        return Ok(Expr::Negative(Box::new(args.remove(0))));
    }
    Err(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// The operator and operands of a checked `+ - * / %` (two operands) or unary minus (one), for code that lowers a plan
/// and would rather see the operator than a function; `None` for every other expression.
pub fn as_operator(expr: &Expr) -> Option<(Operator, &[Expr])> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let inner = call.func.inner();
    if let Some(arithmetic) = inner.downcast_ref::<Arithmetic>() {
        return Some((arithmetic.op, &call.args));
    }
    inner.is::<Negate>().then_some((Operator::Minus, call.args.as_slice()))
}

/// As [`as_operator`], with what is computed of decimals alone.
fn as_written(expr: &Expr) -> Option<(Operator, &[Expr])> {
    as_operator(expr).or_else(|| quotient::operands(expr))
}

/// `left op right` as the plain operator's column name has it. The planner asks for names at every level of an
/// expression, so this is one pass into one string, without recursion.
fn name_of(op: Operator, left: &Expr, right: &Expr) -> String {
    enum NamePiece<'a> {
        Operand(&'a Expr),
        Sign(Operator),
    }
    let mut name = String::new();
    let mut pieces = vec![NamePiece::Operand(right), NamePiece::Sign(op), NamePiece::Operand(left)];
    while let Some(piece) = pieces.pop() {
        // Writing to a string does not fail.
        let _ = match piece {
            NamePiece::Sign(op) => write!(name, " {op} "),
            NamePiece::Operand(expr) => match as_written(expr) {
                Some((op, [left, right])) => {
                    pieces.push(NamePiece::Operand(right));
                    pieces.push(NamePiece::Sign(op));
                    pieces.push(NamePiece::Operand(left));
                    Ok(())
                }
                _ => write!(name, "{}", expr.schema_name()),
            },
        };
    }
    name
}

/// Whether `expr` is a call of one of the functions of this module.
pub(super) fn is_checked(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    let function = call.func.inner();
    function.is::<Arithmetic>() || function.is::<Negate>() || quotient::operands(expr).is_some()
}

/// The type of `l op r`, as DataFusion's plain operator has it.
pub(crate) fn result_type(op: &Operator, l: &DataType, r: &DataType) -> Result<DataType> {
    if l == r && l.is_integer() {
        return Ok(l.clone());
    }
    BinaryTypeCoercer::new(l, op, r).get_result_type()
}

impl Arithmetic {
    /// Whether `expr` is the integer that, on the right, leaves the other operand as it is. Both are of one type then.
    fn is_neutral(&self, expr: &Expr) -> Result<bool> {
        let Expr::Literal(value, _) = expr else {
            return Ok(false);
        };
        let t = value.data_type();
        Ok(t.is_integer()
            && match self.op {
                Operator::Plus | Operator::Minus => *value == ScalarValue::new_zero(&t)?,
                Operator::Multiply | Operator::Divide => *value == ScalarValue::new_one(&t)?,
                _ => false,
            })
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("{} takes two arguments", self.name);
        };
        Ok(name_of(self.op, left, right))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else {
            return internal_err!("{} takes two arguments", self.name);
        };
        result_type(&self.op, left, right)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [left, right] = args.arg_fields else {
            return internal_err!("{} takes two arguments", self.name);
        };
        let t = result_type(&self.op, left.data_type(), right.data_type())?;
        let nullable = left.is_nullable() || right.is_nullable();
        Ok(Arc::new(Field::new(self.name, t, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.name);
        };
        kernels::binary(self.op, left, right, args.number_rows, args.return_type())
    }

    /// NULL operands and neutral elements; nothing that would drop an operand which may fail. Types are asked for only
    /// where they are needed, see `operators_checked`.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [left, right] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let is_null = |e: &Expr| matches!(e, Expr::Literal(value, _) if value.is_null());
        if is_null(left) || is_null(right) {
            let lt = info.get_data_type(left)?;
            let rt = info.get_data_type(right)?;
            let null = ScalarValue::try_from(&result_type(&self.op, &lt, &rt)?)?;
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(null, None)));
        }
        let commutes = matches!(self.op, Operator::Plus | Operator::Multiply);
        let other = if self.is_neutral(right)? {
            left
        } else if commutes && self.is_neutral(left)? {
            right
        } else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        if matches!(other, Expr::Placeholder(_)) {
            // It may have no type yet.
            return Ok(ExprSimplifyResult::Original(args));
        }
        Ok(ExprSimplifyResult::Simplified(other.clone()))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match (self.op, inputs) {
            (Operator::Plus | Operator::Minus, [left, right]) => apply_operator(&self.op, left, right),
            (_, [left, right]) => {
                Interval::make_unbounded(&result_type(&self.op, &left.data_type(), &right.data_type())?)
            }
            _ => internal_err!("{} takes two arguments", self.name),
        }
    }

    /// A checked sum never wraps, so order in gives order out.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let [left, right] = inputs else {
            return internal_err!("{} takes two arguments", self.name);
        };
        let left = left.sort_properties;
        let right = right.sort_properties;
        Ok(match self.op {
            Operator::Plus => left.add(&right),
            Operator::Minus => left.sub(&right),
            _ if left == SortProperties::Singleton && right == SortProperties::Singleton => SortProperties::Singleton,
            _ => SortProperties::Unordered,
        })
    }
}

impl ScalarUDFImpl for Negate {
    fn name(&self) -> &str {
        "-"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [arg] = args else {
            return internal_err!("unary - takes one argument");
        };
        Ok(format!("(- {})", arg.schema_name()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t] if t.is_signed_integer() || t.is_null() => Ok(t.clone()),
            [t] => statement_err!(UndefinedFunction, "unary minus on {t} is not checked arithmetic"),
            _ => internal_err!("unary - takes one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [arg] = args.arg_fields else {
            return internal_err!("unary - takes one argument");
        };
        // The plain operator passes its argument's field through, metadata and all.
        Ok(Arc::clone(arg))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = args.args.as_slice() else {
            return internal_err!("unary - takes one argument");
        };
        kernels::negate(arg, args.number_rows)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs {
            [arg] => arg.arithmetic_negate(),
            _ => internal_err!("unary - takes one argument"),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match inputs {
            [arg] => Ok(-arg.sort_properties),
            _ => internal_err!("unary - takes one argument"),
        }
    }
}
