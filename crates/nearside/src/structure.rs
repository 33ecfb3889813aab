//! What a DataFusion expression is made of, as [`exec::Scalar`]: so that `exec` can run it over integers and codes.
//!
//! The tree means exactly what the physical expression computes, errors included; a part that cannot be mapped exactly
//! stays a [`Scalar::Opaque`]. Arithmetic appears as the checked functions of [`crate::checked`], conditions that may fail as
//! `CASE TRUE WHEN ..` and `CASE FALSE WHEN ..` (module `checked::guard`).
//!
//! # Limits
//! Arithmetic on dates and intervals, text functions, LIKE, casts from and to text, and lists of floats are opaque.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator};
use exec::{ArithmeticOp, CompareOp, DatePart, Scalar};

use crate::checked;
use crate::lower::PhysicalExpression;

/// The structure of `expr`, which has checked operators and reads columns `columns` (ascending) of `schema`; `None` where
/// nothing of it is known.
pub(crate) fn structure(expr: &Expr, schema: &DFSchema, columns: &[usize], props: &ExecutionProps) -> Option<Scalar> {
    let mapping = Mapping { schema, columns, props };
    mapping.known(expr)
}

/// What expressions are mapped with.
struct Mapping<'a> {
    schema: &'a DFSchema,
    columns: &'a [usize],
    props: &'a ExecutionProps,
}

impl Mapping<'_> {
    /// The expression, opaque if nothing is known of it.
    fn map(&self, expr: &Expr) -> Option<Scalar> {
        self.known(expr).or_else(|| self.opaque(expr))
    }

    fn boxed(&self, expr: &Expr) -> Option<Box<Scalar>> {
        self.map(expr).map(Box::new)
    }

    fn data_type(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(self.schema).ok()
    }

    fn opaque(&self, expr: &Expr) -> Option<Scalar> {
        let expression = PhysicalExpression::opaque(expr, self.schema, self.props).ok()?;
        Some(Scalar::Opaque(Arc::new(expression.within(self.columns)?)))
    }

    /// The expression if its outermost operator is known.
    fn known(&self, expr: &Expr) -> Option<Scalar> {
        if let Some((op, operands)) = checked::as_operator(expr) {
            return match operands {
                [left, right] => self.arithmetic(arithmetic(op)?, left, right, self.data_type(expr)?),
                [input] => Some(Scalar::Negate(self.boxed(input)?)),
                _ => None,
            };
        }
        Some(match expr {
            Expr::Alias(alias) => return self.known(&alias.expr),
            Expr::Column(column) => {
                let index = self.schema.index_of_column(column).ok()?;
                Scalar::Column(self.columns.binary_search(&index).ok()?)
            }
            Expr::Literal(value, _) => Scalar::Literal(value.to_array().ok()?),
            Expr::BinaryExpr(binary) => return self.binary(binary, expr),
            Expr::Not(input) => Scalar::Not(self.boxed(input)?),
            Expr::IsNull(input) => Scalar::IsNull { input: self.boxed(input)?, negated: false },
            Expr::IsNotNull(input) => Scalar::IsNull { input: self.boxed(input)?, negated: true },
            Expr::IsTrue(input) => is(self.map(input)?, true),
            Expr::IsNotTrue(input) => is(self.map(input)?, false),
            Expr::IsFalse(input) => is(Scalar::Not(self.boxed(input)?), true),
            Expr::IsNotFalse(input) => is(Scalar::Not(self.boxed(input)?), false),
            Expr::IsUnknown(input) => Scalar::IsNull { input: self.boxed(input)?, negated: false },
            Expr::IsNotUnknown(input) => Scalar::IsNull { input: self.boxed(input)?, negated: true },
            Expr::Negative(input) if self.data_type(input)? == DataType::Float64 => Scalar::Negate(self.boxed(input)?),
            Expr::Between(between) => return self.between(between),
            Expr::InList(list) => return self.in_list(list),
            Expr::Case(case) => return self.case(case, self.data_type(expr)?),
            Expr::Cast(cast) => return self.cast(cast),
            Expr::ScalarFunction(call) => return self.date_part(call, self.data_type(expr)?),
            _ => return None,
        })
    }

    fn arithmetic(&self, op: ArithmeticOp, left: &Expr, right: &Expr, data_type: DataType) -> Option<Scalar> {
        Some(Scalar::Arithmetic { op, left: self.boxed(left)?, right: self.boxed(right)?, data_type })
    }

    fn binary(&self, binary: &BinaryExpr, whole: &Expr) -> Option<Scalar> {
        let BinaryExpr { left, op, right } = binary;
        match op {
            Operator::And => return Some(Scalar::And(self.operands(Operator::And, whole)?)),
            Operator::Or => return Some(Scalar::Or(self.operands(Operator::Or, whole)?)),
            _ => {}
        }
        let (a, b) = (self.data_type(left)?, self.data_type(right)?);
        if let Some(op) = comparison(*op) {
            return self.compare(op, left, right);
        }
        match arithmetic(*op)? {
            // Integers and decimals have checked functions in their place.
            ArithmeticOp::Remainder => None,
            op if a == DataType::Float64 && b == DataType::Float64 => self.arithmetic(op, left, right, a),
            _ => None,
        }
    }

    /// The operands of a chain of ANDs or ORs, left to right.
    fn operands(&self, op: Operator, whole: &Expr) -> Option<Vec<Scalar>> {
        // By hand: generated conditions can be thousands long.
        let (mut stack, mut operands) = (vec![whole], Vec::new());
        while let Some(next) = stack.pop() {
            match next {
                Expr::BinaryExpr(binary) if binary.op == op => {
                    stack.push(&binary.right);
                    stack.push(&binary.left);
                }
                operand => operands.push(self.map(operand)?),
            }
        }
        Some(operands)
    }

    fn compare(&self, op: CompareOp, left: &Expr, right: &Expr) -> Option<Scalar> {
        let (a, b) = (self.data_type(left)?, self.data_type(right)?);
        (a == b || (is_text(&a) && is_text(&b))).then_some(())?;
        Some(Scalar::Compare { op, left: self.boxed(left)?, right: self.boxed(right)? })
    }

    fn between(&self, between: &Between) -> Option<Scalar> {
        let low = self.compare(CompareOp::GtEq, &between.expr, &between.low)?;
        let high = self.compare(CompareOp::LtEq, &between.expr, &between.high)?;
        let both = Scalar::And(vec![low, high]);
        Some(if between.negated { Scalar::Not(Box::new(both)) } else { both })
    }

    fn in_list(&self, list: &InList) -> Option<Scalar> {
        let data_type = self.data_type(&list.expr)?;
        if data_type.is_floating() || list.list.is_empty() {
            return None;
        }
        let values: Option<Vec<ScalarValue>> = list.list.iter().map(|item| literal_of(item, &data_type)).collect();
        let values = ScalarValue::iter_to_array(values?).ok()?;
        Some(Scalar::In { input: self.boxed(&list.expr)?, values, negated: list.negated })
    }

    fn case(&self, case: &Case, data_type: DataType) -> Option<Scalar> {
        let mut whens = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            let condition = match case.expr.as_deref() {
                None => self.map(when)?,
                // What guards are made of.
                Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => self.map(when)?,
                Some(Expr::Literal(ScalarValue::Boolean(Some(false)), _)) => Scalar::Not(self.boxed(when)?),
                Some(base) => self.compare(CompareOp::Eq, base, when)?,
            };
            whens.push((condition, self.map(then)?));
        }
        let otherwise = match case.else_expr.as_deref() {
            Some(otherwise) => Some(self.boxed(otherwise)?),
            None => None,
        };
        Some(Scalar::Case { whens, otherwise, data_type })
    }

    fn cast(&self, cast: &Cast) -> Option<Scalar> {
        let (from, to) = (self.data_type(&cast.expr)?, cast.field.data_type().clone());
        let number = |t: &DataType| t.is_integer() || t.is_decimal() || *t == DataType::Float64;
        let plain = |t: &DataType| matches!(t, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64);
        let exact = from == to
            || (number(&from) && number(&to))
            || (plain(&from) && plain(&to))
            || (from == DataType::Boolean && to.is_integer())
            || (from.is_integer() && to == DataType::Boolean)
            || from == DataType::Null;
        exact.then_some(())?;
        Some(Scalar::Cast { input: self.boxed(&cast.expr)?, data_type: to })
    }

    fn date_part(&self, call: &ScalarFunction, data_type: DataType) -> Option<Scalar> {
        if !call.func.inner().is::<DatePartFunc>() {
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
        let known = matches!(
            self.data_type(input)?,
            DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, None)
                | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None)
        );
        known.then_some(())?;
        Some(Scalar::DatePart { part, input: self.boxed(input)?, data_type })
    }
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

fn comparison(op: Operator) -> Option<CompareOp> {
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
