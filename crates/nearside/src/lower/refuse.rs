//! What no operator is there for, said in words of SQL.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};

use super::support::is_native;
use crate::error::Error;

/// Where a plan stops being native: an operator whose inputs all are.
fn lowest(plan: &LogicalPlan) -> &LogicalPlan {
    let mut lowest = plan;
    while let Some(input) = lowest.inputs().into_iter().find(|input| !is_native(input)) {
        lowest = input;
    }
    lowest
}

/// Why a plan is refused that is not native.
pub(super) fn refusal(plan: &LogicalPlan) -> Error {
    let lowest = lowest(plan);
    let mut reason = None;
    // The walks never fail.
    let _ = lowest.apply_expressions(|expr| {
        let _ = expr.apply(|part| {
            reason = reason.take().or_else(|| of_expression(part));
            Ok(TreeNodeRecursion::Continue)
        });
        Ok(TreeNodeRecursion::Continue)
    });
    Error::Unsupported(reason.unwrap_or_else(|| of_operator(lowest)))
}

fn of_expression(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::OuterReferenceColumn(_, column) => {
            format!(
                "a subquery that reads '{}' of the query around it cannot stand here; write it as a join",
                column.name
            )
        }
        Expr::ScalarSubquery(query) if !query.outer_ref_columns.is_empty() => {
            "a scalar subquery that depends on the row around it cannot stand here; write it as a join".into()
        }
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            "EXISTS, IN and ANY over a query cannot stand here; test them in WHERE".into()
        }
        Expr::Placeholder(parameter) => format!("parameter {} has no value", parameter.id),
        Expr::ScalarVariable(_, names) => format!("variable {} is not supported", names.join(".")),
        Expr::AggregateFunction(call) => format!("aggregate {} cannot stand here", call.func.name()),
        Expr::WindowFunction(call) => format!("window function {} cannot stand here", call.fun.name()),
        Expr::GroupingSet(_) => "GROUPING SETS, ROLLUP and CUBE stand in GROUP BY only".into(),
        Expr::Unnest(_) => "unnest cannot stand here; write it in FROM".into(),
        _ => return None,
    })
}

fn of_operator(plan: &LogicalPlan) -> String {
    let what = match plan {
        LogicalPlan::Join(join) if join.null_aware => {
            "NOT IN of a query that depends on several columns around it, in place of NOT EXISTS,"
        }
        LogicalPlan::Join(_) => "this join",
        LogicalPlan::Sort(_) => "ORDER BY values that have no order",
        LogicalPlan::Limit(_) => "LIMIT or OFFSET by a query",
        LogicalPlan::Union(_) => "UNION of columns whose types differ",
        LogicalPlan::Distinct(_) => "DISTINCT over values that cannot be compared",
        LogicalPlan::Repartition(_) => "DISTRIBUTE BY",
        LogicalPlan::Window(_) => "this window function",
        LogicalPlan::Aggregate(_) => "this aggregate",
        LogicalPlan::TableScan(_) => "this table function",
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => "EXPLAIN within a statement",
        LogicalPlan::Copy(_) => "COPY within a statement",
        LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => "a statement within a query",
        LogicalPlan::DescribeTable(_) => "DESCRIBE within a query",
        _ => "this query",
    };
    format!("{what} is not supported")
}
