//! Operators of lists and subscripts, planned as calls of the functions here.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, cast, lit};
use sqlparser::ast::BinaryOperator;

use super::bounds::{ELEMENT, SLICE};
use super::change::{APPENDED, CAT_OF, PREPENDED};
use super::order::{EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL, UNEQUAL, has_intervals};
use super::sets::{CONTAINS, OVERLAPS};
use super::{dimensions, is_list, is_text};
use crate::catalog::named_types::is_vector;
use crate::functions::texts::nested::element;

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(super::functions);

fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    let function = FUNCTIONS.iter().find(|function| function.name() == name)?;
    Some(function.call(arguments))
}

fn planned<T>(name: &str, arguments: Vec<Expr>, or: T) -> PlannerResult<T> {
    call(name, arguments).map_or(PlannerResult::Original(or), PlannerResult::Planned)
}

/// A text whose type nobody has said.
fn written(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_)), _))
}

#[derive(Debug)]
struct Lists;

/// The planner of these operators.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Lists)
}

impl ExprPlanner for Lists {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        if !matches!(
            expr.op,
            B::StringConcat
                | B::AtArrow
                | B::ArrowAt
                | B::PGOverlap
                | B::Eq
                | B::NotEq
                | B::Lt
                | B::LtEq
                | B::Gt
                | B::GtEq
        ) {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(mut left), Ok(mut right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if !is_list(&left) && !is_list(&right) {
            return Ok(PlannerResult::Original(expr));
        }
        // A text as it is written is a list of the other's type.
        if written(&expr.left) && is_list(&right) {
            expr.left = cast(expr.left, right.clone());
            left = right.clone();
        } else if written(&expr.right) && is_list(&left) {
            expr.right = cast(expr.right, left.clone());
            right = left.clone();
        }
        let sides = |expr: &RawBinaryExpr| vec![expr.left.clone(), expr.right.clone()];
        Ok(match expr.op {
            B::StringConcat if is_text_beside_list(&left, &right) => PlannerResult::Original(expr),
            B::StringConcat if left == DataType::Null || right == DataType::Null => planned(CAT_OF, sides(&expr), expr),
            B::StringConcat => {
                let function = match (dimensions(&left), dimensions(&right)) {
                    (left, right) if left == right => CAT_OF,
                    (left, right) if left > right => APPENDED,
                    _ => PREPENDED,
                };
                planned(function, sides(&expr), expr)
            }
            B::AtArrow => planned(CONTAINS, sides(&expr), expr),
            B::ArrowAt => planned(CONTAINS, vec![expr.right.clone(), expr.left.clone()], expr),
            B::Eq if has_intervals(&left) => planned(EQUAL, sides(&expr), expr),
            B::NotEq if has_intervals(&left) => planned(UNEQUAL, sides(&expr), expr),
            B::Lt => planned(LESS, sides(&expr), expr),
            B::LtEq => planned(LESS_OR_EQUAL, sides(&expr), expr),
            B::Gt => planned(GREATER, sides(&expr), expr),
            B::GtEq => planned(GREATER_OR_EQUAL, sides(&expr), expr),
            B::PGOverlap => planned(OVERLAPS, sides(&expr), expr),
            _ => PlannerResult::Original(expr),
        })
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let Ok(data_type) = expr.expr.get_type(schema) else { return Ok(PlannerResult::Original(expr)) };
        if !is_list(&data_type) && data_type != DataType::Null {
            return Ok(PlannerResult::Original(expr));
        }
        Ok(match &expr.field_access {
            GetFieldAccess::ListIndex { key } => {
                let is_vector = expr.expr.to_field(schema).is_ok_and(|(_, field)| is_vector(&field));
                let key = if is_vector { key.as_ref().clone() + lit(1_i64) } else { key.as_ref().clone() };
                planned(ELEMENT, vec![expr.expr.clone(), key], expr)
            }
            GetFieldAccess::ListRange { start, stop, stride } => {
                let mut arguments = vec![expr.expr.clone(), start.as_ref().clone(), stop.as_ref().clone()];
                if !matches!(stride.as_ref(), Expr::Literal(ScalarValue::Int64(Some(1)), _)) {
                    arguments.push(stride.as_ref().clone());
                }
                planned(SLICE, arguments, expr)
            }
            GetFieldAccess::NamedStructField { .. } => PlannerResult::Original(expr),
        })
    }
}

/// Whether a text that is no element stands beside a list: that is put together as texts.
fn is_text_beside_list(left: &DataType, right: &DataType) -> bool {
    let apart = |text: &DataType, list: &DataType| {
        is_text(text) && element(list).is_some_and(|of| !is_text(of) && !is_list(of))
    };
    apart(left, right) || apart(right, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_behind_operators_are_there() {
        for name in [ELEMENT, SLICE, APPENDED, CAT_OF, PREPENDED, CONTAINS, OVERLAPS] {
            assert!(call(name, vec![]).is_some(), "{name}");
        }
    }
}
