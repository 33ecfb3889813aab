//! Queries within expressions that give something else each time: each is computed for itself.
//!
//! DataFusion takes subqueries that are written alike for one value, also `(SELECT random())`. This rule puts each of
//! them under a name of its own, so that no two are alike. One that refers to the row outside of it would be computed
//! once for all rows; `correlated` refuses that.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan, Subquery, SubqueryAlias};
use datafusion_optimizer::AnalyzerRule;

use crate::sql::fresh_name;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct VolatileSubqueries;

impl AnalyzerRule for VolatileSubqueries {
    fn name(&self) -> &str {
        "volatile_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !calls_volatile(&plan)? {
            return Ok(plan);
        }
        let apart = plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| {
                expr.transform_up(|part| match part {
                    Expr::ScalarSubquery(query) => Ok(apart(query)?.update_data(Expr::ScalarSubquery)),
                    Expr::Exists(mut test) => {
                        let query = apart(test.subquery)?;
                        let transformed = query.transformed;
                        test.subquery = query.data;
                        Ok(Transformed::new_transformed(Expr::Exists(test), transformed))
                    }
                    Expr::InSubquery(mut test) => {
                        let query = apart(test.subquery)?;
                        let transformed = query.transformed;
                        test.subquery = query.data;
                        Ok(Transformed::new_transformed(Expr::InSubquery(test), transformed))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        Ok(apart.data)
    }
}

/// The query under a name that no other has, if it gives something else each time.
fn apart(mut query: Subquery) -> Result<Transformed<Subquery>> {
    if !query.outer_ref_columns.is_empty() || !calls_volatile(&query.subquery)? {
        return Ok(Transformed::no(query));
    }
    let alias = SubqueryAlias::try_new(Arc::clone(&query.subquery), fresh_name("query"))?;
    query.subquery = Arc::new(LogicalPlan::SubqueryAlias(alias));
    Ok(Transformed::yes(query))
}

/// Whether a plan calls functions that give something else each time.
pub(crate) fn calls_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
