//! Refuses what DataFusion would answer wrongly.
//!
//! `x NOT IN (query)` below an OR, a CASE or another NOT becomes a mark join, which takes "unknown" for "false": rows with NULL in
//! `x`, or any row when the query gives a NULL, would pass. As a condition of its own, joined to others by AND, it becomes
//! an anti join that knows about NULL, and is right.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct RefuseWrongAnswers;

impl AnalyzerRule for RefuseWrongAnswers {
    fn name(&self) -> &str {
        "refuse_wrong_answers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Filter(filter) = node {
                for condition in split_conjunction(&filter.predicate) {
                    check(condition)?;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

/// One condition of those that all must hold.
fn check(condition: &Expr) -> Result<()> {
    let alone = match condition {
        Expr::Not(inner) => matches!(inner.as_ref(), Expr::InSubquery(_)),
        other => matches!(other, Expr::InSubquery(_)),
    };
    if !alone && below_not(condition, false)? {
        let message = "NOT IN (query) below OR, CASE or NOT is not supported, since NULLs would be taken wrongly; \
                       use NOT EXISTS (query with x = y)";
        return Err(Error::Unsupported(message.into()).into_datafusion());
    }
    Ok(())
}

/// Whether an IN (query) stands where its being unknown matters: negated, or below something that may negate it.
fn below_not(expr: &Expr, negated: bool) -> Result<bool> {
    Ok(match expr {
        Expr::InSubquery(test) => negated || test.negated,
        Expr::BinaryExpr(b) if b.op.is_logic_operator() => {
            below_not(&b.left, negated)? || below_not(&b.right, negated)?
        }
        other => {
            let mut found = false;
            other.apply_children(|child| {
                found |= below_not(child, true)?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
            found
        }
    })
}
