//! Puts checked operators into a plan, and takes them out again for display.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, internal_err};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion_optimizer::AnalyzerRule;

use super::guard::{guard, guard_condition};
use super::nearest::{is_nearest, is_nearest_call, nearest, rounds};
use super::operators;
use super::quotient::quotient_as;
use super::ranges::{in_range, is_range_call};
use crate::functions::domains::is_partial;

/// The analyzer rule: replaces every `+ - * / %` on numbers, and unary minus on integers, by its
/// checked form. Runs after type coercion, since it asks for the operands' final types. A plan that went through it
/// already is left as it is.
#[derive(Debug, Default)]
pub struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite_node)?.data)
    }
}

/// Replaces the operators in the expressions of one plan node; its inputs were done before.
fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        expr.apply(|e| {
            found |= is_candidate(e);
            Ok(if found {
                datafusion_common::tree_node::TreeNodeRecursion::Stop
            } else {
                datafusion_common::tree_node::TreeNodeRecursion::Continue
            })
        })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        // A scan's filters may name columns that its projection leaves out.
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    if let LogicalPlan::Dml(dml) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(dml.table_name.clone(), &dml.target.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_));
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = operators_checked(expr, &schema)?;
        let expr = expr.transform_data(|e| match is_condition {
            true => guard_condition(e, &schema),
            false => guard(e, &schema),
        })?;
        Ok(expr.update_data(|e| name.restore(e)))
    })?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

/// `expr` with its operators checked, as the analyzer rule does it; for expressions that are no part of a plan.
/// `schema` holds the columns that it names; the types must have been coerced.
pub fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    operators_checked(expr, schema)?.transform_data(|e| guard(e, schema))
}

/// Goes from the top down: the type of a plain operator is cheap to ask for, that of a function computes the name of
/// every function below it, which for a sum of hundreds of terms is felt.
fn operators_checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|e| match e {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if op == Operator::Divide {
                let types = [&left.get_type(schema)?, &right.get_type(schema)?];
                if types.iter().all(|of| of.is_decimal()) {
                    let result = operators::result_type(&op, types[0], types[1])?;
                    return match quotient_as(*left, *right, types, result) {
                        Some(quotient) => Ok(Transformed::yes(quotient)),
                        None => internal_err!("no quotient of {} and {}", types[0], types[1]),
                    };
                }
            }
            if let Some(function) = operators::function(op)
                && covers(op, &left.get_type(schema)?, &right.get_type(schema)?)
            {
                return Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction {
                    func: Arc::clone(function),
                    args: vec![*left, *right],
                })));
            }
            let unchanged = BinaryExpr { left, op, right };
            Ok(Transformed::no(Expr::BinaryExpr(unchanged)))
        }
        Expr::Negative(arg) if arg.get_type(schema)?.is_signed_integer() => {
            Ok(Transformed::yes(operators::negate(*arg)))
        }
        Expr::Cast(Cast { expr, field }) if casts_down(&expr, field.data_type(), schema)? => {
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(nearest(*expr)), field })))
        }
        Expr::TryCast(TryCast { expr, field }) if casts_down(&expr, field.data_type(), schema)? => {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(nearest(*expr)), field })))
        }
        Expr::Cast(Cast { expr, field }) if is_float(field.data_type()) => {
            let checked = in_range(&expr, &expr.get_type(schema)?, field.data_type(), false);
            let changed = checked.is_some();
            let expr = checked.map_or(expr, Box::new);
            Ok(Transformed::new_transformed(Expr::Cast(Cast { expr, field }), changed))
        }
        Expr::TryCast(TryCast { expr, field }) if is_float(field.data_type()) => {
            let checked = in_range(&expr, &expr.get_type(schema)?, field.data_type(), true);
            let changed = checked.is_some();
            let expr = checked.map_or(expr, Box::new);
            Ok(Transformed::new_transformed(Expr::TryCast(TryCast { expr, field }), changed))
        }
        other => Ok(Transformed::no(other)),
    })
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Does a cast to a type have digits to round, which nobody has rounded yet?
fn casts_down(expr: &Expr, to: &DataType, schema: &DFSchema) -> Result<bool> {
    Ok(to.is_integer() && !is_nearest(expr) && rounds(&expr.get_type(schema)?, to))
}

/// `expr` with plain operators in the place of checked ones: reads as it was written. For display only.
pub fn plain(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|e| {
        Ok(match operators::plain(e) {
            Ok(operator) => Transformed::yes(operator),
            Err(Expr::ScalarFunction(mut call)) if is_nearest_call(&call) || is_range_call(&call) => {
                Transformed::yes(call.args.remove(0))
            }
            Err(other) => Transformed::no(other),
        })
    })
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => operators::function(binary.op).is_some(),
        Expr::Negative(_) => true,
        Expr::ScalarFunction(_) => is_partial(expr),
        Expr::Cast(cast) => cast.field.data_type().is_integer() || is_float(cast.field.data_type()),
        Expr::TryCast(cast) => cast.field.data_type().is_integer() || is_float(cast.field.data_type()),
        _ => false,
    }
}

/// Whether `l op r` is arithmetic that DataFusion's plain operator gets wrong, in result or in message. Dates with
/// intervals, timestamps, durations and intervals are checked by arrow's kernels already.
fn covers(op: Operator, l: &DataType, r: &DataType) -> bool {
    let exact = |t: &DataType| t.is_integer() || t.is_decimal() || t.is_null();
    match (l, r) {
        (DataType::Date64, DataType::Date64) => op == Operator::Minus,
        (DataType::Null, DataType::Null) => false,
        (l, r) if l.is_integer() && r.is_integer() => l == r,
        (DataType::Float32, DataType::Float32) | (DataType::Float64, DataType::Float64) => true,
        (l, r) if l.is_decimal() && r.is_decimal() => std::mem::discriminant(l) == std::mem::discriminant(r),
        (l, r) => exact(l) && exact(r) && (l.is_null() || r.is_null()),
    }
}
