//! Whether something stands anywhere in a plan, the queries within its expressions included. Most rules have nothing to
//! do for most plans, and look first.

use datafusion_common::Result;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};

/// Whether a node is such a one.
pub(crate) fn any_node(plan: &LogicalPlan, mut is: impl FnMut(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any = is(node)?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

/// Whether an expression of a node, or a part of one, is such a one.
pub(crate) fn any_part(node: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any = expr.exists(|part| Ok(is(part)))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}
