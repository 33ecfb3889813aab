//! Texts as they are written take the type of what they meet while SQL is planned: `flag = 'true'`, `'5' + i`,
//! `day - '2024-01-01'`, `ARRAY[day, '2024-01-01']`. The planner would refuse these
//! before any rule saw them; everything else is left to [`kinds`](super::kinds).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{Expr, ExprSchemable, Operator, binary_expr, cast};
use sqlparser::ast::BinaryOperator;

use crate::functions::texts::ANY_DIGITS;
use crate::functions::uuids::UUID;
use crate::functions::{checked, spans};

use super::days;
use super::kinds::{same_kind, take_type, written};

/// The planner of expressions that gives literals their types.
#[derive(Debug)]
struct LiteralTypes;

impl ExprPlanner for LiteralTypes {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        if written(&expr.left).is_some() != written(&expr.right).is_some() {
            let other = if written(&expr.left).is_some() { &expr.right } else { &expr.left };
            let takes = match (&expr.op, other.get_type(schema)) {
                (
                    B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq,
                    Ok(DataType::Boolean | DataType::Interval(_) | UUID),
                ) => true,
                (B::Plus | B::Minus, Ok(DataType::Interval(_))) => true,
                (B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo, Ok(to)) if to.is_numeric() => true,
                (B::Minus, Ok(DataType::Date32 | DataType::Timestamp(..))) => written(&expr.right).is_some(),
                _ => false,
            };
            // A text that is added to a time is an interval.
            if let (B::Plus, Ok(DataType::Timestamp(..))) = (&expr.op, other.get_type(schema)) {
                let text = if written(&expr.left).is_some() { &mut expr.left } else { &mut expr.right };
                *text = cast(std::mem::take(text), DataType::Interval(IntervalUnit::MonthDayNano));
            } else if takes {
                take_type(&mut [&mut expr.left, &mut expr.right], schema)?;
            }
        }
        if expr.op == B::StringConcat {
            of_text(&mut expr.left, &expr.right, schema);
            of_text(&mut expr.right, &expr.left, schema);
            let (left, right) = (expr.left.get_type(schema), expr.right.get_type(schema));
            let is_text = |of: &DataType| same_kind(of, &DataType::Utf8) && *of != DataType::Null;
            for (one, other, of) in [(&mut expr.left, &right, &left), (&mut expr.right, &left, &right)] {
                if let (Ok(of), Ok(other)) = (of, other)
                    && is_text(other)
                    && *of == UUID
                {
                    *one = cast(std::mem::take(one), DataType::Utf8View);
                }
            }
        }
        as_intervals(&mut expr, schema);
        if let Some(scaled) = scaled(&expr, schema) {
            return Ok(PlannerResult::Planned(scaled));
        }
        if let Some(decimal) = decimal(&mut expr, schema) {
            return Ok(PlannerResult::Planned(decimal));
        }
        if let Some(op) = match expr.op {
            B::Plus => Some(Operator::Plus),
            B::Minus => Some(Operator::Minus),
            _ => None,
        } {
            days::shifted(op, &mut expr.left, &mut expr.right, schema);
        }
        Ok(PlannerResult::Original(expr))
    }

    fn plan_array_literal(&self, mut exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        take_type(&mut exprs.iter_mut().collect::<Vec<_>>(), schema)?;
        Ok(PlannerResult::Original(exprs))
    }
}

/// A parameter of no type beside a text is a text.
fn of_text(parameter: &mut Expr, other: &Expr, schema: &DFSchema) {
    let is_unknown = |expr: &Expr| matches!(expr, Expr::Placeholder(of) if of.field.is_none());
    let is_text = other.get_type(schema).is_ok_and(|of| same_kind(&of, &DataType::Utf8) && of != DataType::Null);
    if is_unknown(parameter)
        && (is_text || is_unknown(other))
        && let Expr::Placeholder(of) = parameter
    {
        of.field = Some(Arc::new(Field::new("", DataType::Utf8View, true)));
    }
}

/// A quotient of decimals, or a product of many digits. A parameter of no type beside a decimal is NUMERIC.
fn decimal(expr: &mut RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let made = match expr.op {
        BinaryOperator::Divide => checked::quotient,
        BinaryOperator::Multiply => checked::product,
        BinaryOperator::Modulo => remainder_of_any_digits,
        _ => return None,
    };
    let mut types = [expr.left.get_type(schema).ok()?, expr.right.get_type(schema).ok()?];
    if !types.iter().any(DataType::is_decimal) {
        return None;
    }
    for (side, of) in [&mut expr.left, &mut expr.right].into_iter().zip(&mut types) {
        if let Expr::Placeholder(parameter) = side
            && parameter.field.is_none()
        {
            *of = ANY_DIGITS;
            parameter.field = Some(Arc::new(Field::new("", of.clone(), true)));
        }
    }
    let types = [&types[0], &types[1]];
    match expr.op {
        BinaryOperator::Multiply => checked::product_of_any_digits(&expr.left, &expr.right, types),
        _ => None,
    }
    .or_else(|| made(&expr.left, &expr.right, types))
}

/// Differences of times that meet intervals, or each other, count their days as those do.
fn as_intervals(expr: &mut RawBinaryExpr, schema: &DFSchema) {
    let is_span = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)));
    let sums = matches!(expr.op, BinaryOperator::Plus | BinaryOperator::Minus);
    if !sums || !is_span(&expr.left) || !is_span(&expr.right) {
        return;
    }
    for side in [&mut expr.left, &mut expr.right] {
        if matches!(side.get_type(schema), Ok(DataType::Duration(_))) {
            *side = cast(std::mem::take(side), DataType::Interval(IntervalUnit::MonthDayNano));
        }
    }
}

/// What is left of NUMERIC without digits, which has as many as that; `None` for other types.
fn remainder_of_any_digits(left: &Expr, right: &Expr, types: [&DataType; 2]) -> Option<Expr> {
    let is_exact = |of: &DataType| of.is_integer() || matches!(of, DataType::Decimal128(_, ..=10));
    // Of two such types the remainder is of it too.
    let same =
        |side: &Expr, of: &DataType| if *of == ANY_DIGITS { side.clone() } else { cast(side.clone(), ANY_DIGITS) };
    let remainder = || binary_expr(same(left, types[0]), Operator::Modulo, same(right, types[1]));
    (types.contains(&&ANY_DIGITS) && types.into_iter().all(is_exact)).then(remainder)
}

/// An interval times a number, or over one.
fn scaled(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let is_span = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)));
    let is_number = |e: &Expr| e.get_type(schema).is_ok_and(|data_type| data_type.is_numeric());
    let (left, right) = (&expr.left, &expr.right);
    match expr.op {
        BinaryOperator::Multiply if is_span(left) && is_number(right) => {
            Some(spans::times(left.clone(), right.clone()))
        }
        BinaryOperator::Multiply if is_number(left) && is_span(right) => {
            Some(spans::times(right.clone(), left.clone()))
        }
        BinaryOperator::Divide if is_span(left) && is_number(right) => Some(spans::over(left.clone(), right.clone())),
        _ => None,
    }
}

/// The planner to be asked before DataFusion's.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(LiteralTypes)
}
