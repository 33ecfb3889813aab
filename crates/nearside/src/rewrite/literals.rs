//! Texts as they are written take the type of what they meet while SQL is planned: `flag = 'true'`, `'5' + i`,
//! `day - '2024-01-01'`, `ARRAY[day, '2024-01-01']`, `coalesce(day, '2024-01-01')`. The planner would refuse these
//! before any rule saw them; everything else is left to [`kinds`](super::kinds).

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, cast,
};
use datafusion_functions::core::coalesce::CoalesceFunc;
use sqlparser::ast::BinaryOperator;

use crate::functions::spans;
use crate::functions::uuids::UUID;

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
        if let Some(scaled) = scaled(&expr, schema) {
            return Ok(PlannerResult::Planned(scaled));
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

/// `coalesce`, which may have texts among its arguments until literals have their types.
pub(crate) fn coalesce() -> ScalarUDF {
    ScalarUDF::from(Coalesce { known: CoalesceFunc::new() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    known: CoalesceFunc,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow::datatypes::FieldRef> {
        self.known.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.known.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.known.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.known.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.known.short_circuits()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| same_kind(of, &DataType::Utf8);
        let others: Vec<DataType> = types.iter().filter(|of| !is_text(of)).cloned().collect();
        if others.windows(2).any(|pair| !same_kind(&pair[0], &pair[1])) {
            // Refused by `kinds`, in SQL's words.
            return Ok(types.to_vec());
        }
        if others.is_empty() || others.len() == types.len() {
            return self.known.coerce_types(types);
        }
        let to = self.known.coerce_types(&others)?;
        Ok(vec![to.first().cloned().unwrap_or(DataType::Null); types.len()])
    }
}

/// The planner to be asked before DataFusion's.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(LiteralTypes)
}
