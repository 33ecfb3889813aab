//! INTERSECT ALL and EXCEPT ALL: how often a row occurs counts.
//!
//! DataFusion plans them as a semi join and an anti join of their rows, which keeps all of equal rows or none. This
//! rule numbers equal rows on both sides first and joins by the number too: the third `x` of one side meets the third
//! of the other, or none. INTERSECT and EXCEPT without ALL have a DISTINCT on their left side, where every number is 1.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion_functions_window::expr_fn::row_number;
use datafusion_optimizer::AnalyzerRule;

/// The columns that number equal rows of the left and of the right side.
const NUMBERS: [&str; 2] = ["__nearside_number", "__nearside_other_number"];

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct SetOperationsAll;

impl AnalyzerRule for SetOperationsAll {
    fn name(&self) -> &str {
        "set_operations_all"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        plan.apply_with_subqueries(|node| {
            any |= matches!(node, LogicalPlan::Join(join) if counts_rows(join));
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !any {
            return Ok(plan);
        }
        let numbered = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if counts_rows(&join) => Ok(Transformed::yes(by_number(join)?)),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(numbered.data)
    }
}

/// True for what the planner makes of INTERSECT ALL and EXCEPT ALL: no other join of a statement has equal NULLs.
fn counts_rows(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn by_number(mut join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    join.left = Arc::new(numbered(&join.left, NUMBERS[0])?);
    join.right = Arc::new(numbered(&join.right, NUMBERS[1])?);
    join.on.push(NUMBERS.map(|number| Expr::Column(Column::from_name(number))).into());
    let joined = LogicalPlan::Join(join).recompute_schema()?;
    LogicalPlanBuilder::from(joined).project(columns.into_iter().map(Expr::Column))?.build()
}

/// The rows with a number for each, in a column of this name: how many equal ones there are up to it.
fn numbered(plan: &LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns.clone()).build()?;
    let made = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let outputs = columns.into_iter().chain([made.alias(name)]);
    LogicalPlanBuilder::from(plan.clone()).window(vec![number])?.project(outputs)?.build()
}
