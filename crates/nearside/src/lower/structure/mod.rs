//! What a DataFusion expression is made of, as [`exec::Scalar`]: so that `exec` can run it over integers and codes.
//!
//! The tree means exactly what the physical expression computes, errors included; a part that cannot be mapped exactly
//! stays a [`Scalar::Opaque`]. Arithmetic appears as the checked functions of [`crate::functions::checked`], conditions
//! that may fail as `CASE TRUE WHEN ..` and `CASE FALSE WHEN ..` (module `checked::guard`).
//!
//! # Limits
//! Arithmetic on dates and intervals, text functions, LIKE, casts from and to text, and lists of floats are opaque.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Case, Cast, Expr, Operator};
use exec::{ArithmeticOp, CompareOp, DatePart, Expression, Scalar};

use crate::functions::checked;
use crate::functions::parts::Parts;
use crate::functions::spelled;
use crate::lower::PhysicalExpression;

/// The structure of `expr`, which has checked operators and reads columns `columns` (ascending) of `schema`; `None`
/// where nothing of it is known.
pub(crate) fn structure(expr: &Expr, schema: &DFSchema, columns: &[usize], props: &ExecutionProps) -> Option<Scalar> {
    let mapping = Mapping { schema, columns, props };
    mapping.known(expr).map(|part| part.scalar)
}

/// A part and its type: types come from below, since asking an expression for its own asks everything below it each
/// time.
struct TypedScalar {
    scalar: Scalar,
    data_type: DataType,
}

impl TypedScalar {
    fn boxed(self) -> Box<Scalar> {
        Box::new(self.scalar)
    }
}

fn boolean(scalar: Scalar) -> Option<TypedScalar> {
    Some(TypedScalar { scalar, data_type: DataType::Boolean })
}

/// What expressions are mapped with.
struct Mapping<'a> {
    schema: &'a DFSchema,
    columns: &'a [usize],
    props: &'a ExecutionProps,
}

impl Mapping<'_> {
    /// The expression, opaque if nothing is known of it.
    fn map(&self, expr: &Expr) -> Option<TypedScalar> {
        self.known(expr).or_else(|| self.opaque(expr))
    }

    fn opaque(&self, expr: &Expr) -> Option<TypedScalar> {
        let expression = PhysicalExpression::opaque(expr, self.schema, self.props).ok()?.within(self.columns)?;
        let data_type = expression.data_type().clone();
        Some(TypedScalar { scalar: Scalar::Opaque(Arc::new(expression)), data_type })
    }

    /// The expression if its outermost operator is known.
    fn known(&self, expr: &Expr) -> Option<TypedScalar> {
        if let Some((op, operands)) = checked::as_operator(expr) {
            return match operands {
                [left, right] => self.arithmetic(op, left, right),
                [input] => self.negate(input),
                _ => None,
            };
        }
        match expr {
            Expr::Alias(alias) => self.known(&alias.expr),
            Expr::Column(column) => {
                let index = self.schema.index_of_column(column).ok()?;
                let data_type = self.schema.field(index).data_type().clone();
                Some(TypedScalar { scalar: Scalar::Column(self.columns.binary_search(&index).ok()?), data_type })
            }
            Expr::Literal(value, _) => {
                Some(TypedScalar { scalar: Scalar::Literal(value.to_array().ok()?), data_type: value.data_type() })
            }
            Expr::BinaryExpr(binary) => self.binary(binary, expr),
            Expr::Not(input) => boolean(Scalar::Not(self.map(input)?.boxed())),
            Expr::IsNull(input) | Expr::IsUnknown(input) => {
                boolean(Scalar::IsNull { input: self.map(input)?.boxed(), negated: false })
            }
            Expr::IsNotNull(input) | Expr::IsNotUnknown(input) => {
                boolean(Scalar::IsNull { input: self.map(input)?.boxed(), negated: true })
            }
            Expr::IsTrue(input) => boolean(is(self.map(input)?.scalar, true)),
            Expr::IsNotTrue(input) => boolean(is(self.map(input)?.scalar, false)),
            Expr::IsFalse(input) => boolean(is(Scalar::Not(self.map(input)?.boxed()), true)),
            Expr::IsNotFalse(input) => boolean(is(Scalar::Not(self.map(input)?.boxed()), false)),
            Expr::Negative(input) => self.negate(input).filter(|part| part.data_type == DataType::Float64),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Case(case) => self.case(case),
            Expr::Cast(cast) => self.cast(cast),
            Expr::ScalarFunction(call) => self.date_part(call),
            _ => None,
        }
    }

    fn arithmetic(&self, op: Operator, left: &Expr, right: &Expr) -> Option<TypedScalar> {
        let left = self.map(left)?;
        let right = self.map(right)?;
        let data_type = checked::result_type(&op, &left.data_type, &right.data_type).ok()?;
        // No loop has remainders of floats.
        let op = arithmetic(op).filter(|op| *op != ArithmeticOp::Remainder || !data_type.is_floating())?;
        let scalar = Scalar::Arithmetic { op, left: left.boxed(), right: right.boxed(), data_type: data_type.clone() };
        Some(TypedScalar { scalar, data_type })
    }

    fn negate(&self, input: &Expr) -> Option<TypedScalar> {
        let TypedScalar { scalar, data_type } = self.map(input)?;
        Some(TypedScalar { scalar: Scalar::Negate(Box::new(scalar)), data_type })
    }

    fn binary(&self, binary: &BinaryExpr, whole: &Expr) -> Option<TypedScalar> {
        let BinaryExpr { left, op, right } = binary;
        match op {
            Operator::And => return boolean(Scalar::And(self.operands(Operator::And, whole)?)),
            Operator::Or => return boolean(Scalar::Or(self.operands(Operator::Or, whole)?)),
            _ => {}
        }
        // What the optimiser makes of IS TRUE and of boolean CASEs.
        if let Expr::Literal(ScalarValue::Boolean(Some(value)), _) = right.as_ref()
            && matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
        {
            let input = self.map(left)?;
            let condition = if *value { input.scalar } else { Scalar::Not(input.boxed()) };
            return boolean(is(condition, *op == Operator::IsNotDistinctFrom));
        }
        // Arithmetic of numbers has checked functions in its place; that of dates and intervals is not ours.
        boolean(compare(comparison(*op)?, self.map(left)?, self.map(right)?)?)
    }

    /// The operands of a chain of ANDs or ORs, left to right.
    fn operands(&self, op: Operator, whole: &Expr) -> Option<Vec<Scalar>> {
        // By hand: generated conditions can be thousands long.
        let mut stack = vec![whole];
        let mut operands = Vec::new();
        while let Some(next) = stack.pop() {
            match next {
                Expr::BinaryExpr(binary) if binary.op == op => {
                    stack.push(&binary.right);
                    stack.push(&binary.left);
                }
                operand => operands.push(self.map(operand)?.scalar),
            }
        }
        Some(operands)
    }

    fn between(&self, between: &Between) -> Option<TypedScalar> {
        let low = compare(CompareOp::GtEq, self.map(&between.expr)?, self.map(&between.low)?)?;
        let high = compare(CompareOp::LtEq, self.map(&between.expr)?, self.map(&between.high)?)?;
        let both = Scalar::And(vec![low, high]);
        boolean(if between.negated { Scalar::Not(Box::new(both)) } else { both })
    }

    fn in_list(&self, list: &InList) -> Option<TypedScalar> {
        let input = self.map(&list.expr)?;
        if input.data_type.is_floating() || list.list.is_empty() {
            return None;
        }
        let members = list.list.iter().map(|item| literal_of(item, &input.data_type));
        let values = ScalarValue::iter_to_array(members.collect::<Option<Vec<_>>>()?).ok()?;
        boolean(Scalar::In { input: input.boxed(), values, negated: list.negated })
    }

    fn case(&self, case: &Case) -> Option<TypedScalar> {
        let mut whens = Vec::with_capacity(case.when_then_expr.len());
        let mut data_type = DataType::Null;
        let mut result = |expr: &Expr| -> Option<Scalar> {
            let part = self.map(expr)?;
            if data_type == DataType::Null {
                data_type = part.data_type;
            }
            Some(part.scalar)
        };
        for (when, then) in &case.when_then_expr {
            let condition = match case.expr.as_deref() {
                None => self.map(when)?.scalar,
                // What guards are made of.
                Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => self.map(when)?.scalar,
                Some(Expr::Literal(ScalarValue::Boolean(Some(false)), _)) => Scalar::Not(self.map(when)?.boxed()),
                Some(base) => compare(CompareOp::Eq, self.map(base)?, self.map(when)?)?,
            };
            whens.push((condition, result(then)?));
        }
        let otherwise = match case.else_expr.as_deref() {
            Some(otherwise) => Some(Box::new(result(otherwise)?)),
            None => None,
        };
        Some(TypedScalar { scalar: Scalar::Case { whens, otherwise, data_type: data_type.clone() }, data_type })
    }

    fn cast(&self, cast: &Cast) -> Option<TypedScalar> {
        let input = self.map(&cast.expr)?;
        let from = &input.data_type;
        let to = cast.field.data_type().clone();
        let number = |t: &DataType| t.is_integer() || t.is_decimal() || *t == DataType::Float64;
        let plain = |t: &DataType| matches!(t, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64);
        let exact = *from == to
            || (number(from) && number(&to))
            || (plain(from) && plain(&to))
            || (*from == DataType::Boolean && to.is_integer())
            || (from.is_integer() && to == DataType::Boolean)
            || *from == DataType::Null;
        exact.then_some(())?;
        Some(TypedScalar { scalar: Scalar::Cast { input: input.boxed(), data_type: to.clone() }, data_type: to })
    }

    fn date_part(&self, call: &ScalarFunction) -> Option<TypedScalar> {
        if !spelled::plain(&call.func).inner().is::<Parts>() {
            return None;
        }
        let [Expr::Literal(part, _), input] = call.args.as_slice() else { return None };
        let part = match part.try_as_str()??.to_ascii_lowercase().as_str() {
            "year" => DatePart::Year,
            "quarter" => DatePart::Quarter,
            "month" => DatePart::Month,
            "day" => DatePart::Day,
            _ => return None,
        };
        let input = self.map(input)?;
        let known = matches!(input.data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None));
        known.then_some(())?;
        let data_type = DataType::Int32;
        Some(TypedScalar {
            scalar: Scalar::DatePart { part, input: input.boxed(), data_type: data_type.clone() },
            data_type,
        })
    }
}

fn compare(op: CompareOp, left: TypedScalar, right: TypedScalar) -> Option<Scalar> {
    let a = &left.data_type;
    let b = &right.data_type;
    (a == b || (is_text(a) && is_text(b))).then_some(())?;
    Some(Scalar::Compare { op, left: left.boxed(), right: right.boxed() })
}

/// TRUE where the condition is TRUE, else FALSE; the other way round unless `wanted`.
fn is(condition: Scalar, wanted: bool) -> Scalar {
    let constant = |value: bool| Scalar::Literal(Arc::new(arrow::array::BooleanArray::from(vec![value])));
    Scalar::Case {
        whens: vec![(condition, constant(wanted))],
        otherwise: Some(Box::new(constant(!wanted))),
        data_type: DataType::Boolean,
    }
}

fn arithmetic(op: Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Remainder,
        _ => return None,
    })
}

/// The comparison that an operator is, if it is one that `exec` knows.
pub(crate) fn comparison(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::NotEq,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::LtEq,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::GtEq,
        _ => return None,
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The value of a list's member in the type of what is looked for, unless it is NULL or no literal.
fn literal_of(item: &Expr, data_type: &DataType) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = item else { return None };
    if value.is_null() {
        return None;
    }
    match value {
        value if value.data_type() == *data_type => Some(value.clone()),
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) if *data_type == DataType::Utf8View => {
            Some(ScalarValue::Utf8View(text.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
