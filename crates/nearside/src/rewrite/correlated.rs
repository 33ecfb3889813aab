//! Columns of a correlated condition get names that nothing else in the subquery has.
//!
//! DataFusion makes a join of a correlated subquery: it pulls the condition out of it and refers to the subquery's
//! columns by name alone. Where the subquery joins tables that share a column name (`FROM p JOIN q .. WHERE q.z = o.x`,
//! and `p` has a `z` too), the first of that name would be compared. This rule runs before, and puts a projection below
//! such a condition that repeats the column under a name of its own.
//!
//! Correlated subqueries that DataFusion would answer wrongly are refused by [`CorrelatedRefusals`], where no join of
//! ours takes their place (`dependent`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{Expr, Filter, Join, JoinType, LogicalPlan, Projection};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::rewrite::volatile::calls_volatile;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedNames {
    /// Names given so far.
    given: AtomicU64,
}

impl AnalyzerRule for CorrelatedNames {
    fn name(&self) -> &str {
        "correlated_names"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|node| self.rename(node))?.data)
    }
}

impl CorrelatedNames {
    fn rename(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
        if !filter.predicate.contains_outer() {
            return Ok(Transformed::no(node));
        }
        let schema = filter.input.schema();
        let shared = |column: &Column| schema.fields().iter().filter(|f| *f.name() == column.name).count() > 1;
        let mut renamed: Vec<(Column, String)> = Vec::new();
        let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| {
            if !condition.contains_outer() {
                return Ok(condition.clone());
            }
            let own = condition.clone().transform_up(|e| {
                let Expr::Column(column) = &e else { return Ok(Transformed::no(e)) };
                if !shared(column) {
                    return Ok(Transformed::no(e));
                }
                let known = renamed.iter().find(|(known, _)| known == column).map(|(_, name)| name.clone());
                let name = known.unwrap_or_else(|| {
                    let name = format!("__nearside_outer_{}", self.given.fetch_add(1, Ordering::Relaxed));
                    renamed.push((column.clone(), name.clone()));
                    name
                });
                Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
            })?;
            Ok(own.data)
        });
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let Some(predicate) = conjunction(conditions).filter(|_| !renamed.is_empty()) else {
            return Ok(Transformed::no(node));
        };
        let columns = schema.columns().into_iter().map(Expr::Column);
        let own = renamed.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
        let input = Projection::try_new(columns.chain(own).collect(), Arc::clone(&filter.input))?;
        let input = Arc::new(LogicalPlan::Projection(input));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
    }
}

/// The analyzer rule that refuses EXISTS, IN and ANY of correlated subqueries of which DataFusion would make a wrong
/// join: it takes the correlated condition out of the subquery, from below operators whose rows depend on it.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedRefusals;

impl AnalyzerRule for CorrelatedRefusals {
    fn name(&self) -> &str {
        "correlated_refusals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Subquery(subquery) = node {
                refuse_volatile(&subquery.subquery)?;
                refuse_outer_aggregates(&subquery.subquery)?;
            }
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    match part {
                        Expr::Exists(test) => refuse_as_test(&test.subquery.subquery)?,
                        Expr::InSubquery(test) => refuse_as_test(&test.subquery.subquery)?,
                        Expr::SetComparison(test) => refuse_as_test(&test.subquery.subquery)?,
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }
}

/// What is wrong in DataFusion's joins wherever the subquery stands.
pub(super) fn refuse_anywhere(subquery: &LogicalPlan) -> Result<()> {
    subquery.apply(|node| {
        let what = match node {
            LogicalPlan::Window(_) => "a window function",
            LogicalPlan::Limit(limit) if limit.skip.as_ref().is_some_and(|skip| !is_zero(skip)) => "OFFSET",
            LogicalPlan::Aggregate(grouped) if matches!(grouped.group_expr[..], [Expr::GroupingSet(_)]) => {
                "ROLLUP, CUBE or GROUPING SETS"
            }
            // The empty group's row is made of NULLs and of the aggregates' own values.
            LogicalPlan::Projection(outputs)
                if is_one_group(&outputs.input)
                    && outputs.expr.len() > 1
                    && outputs.expr.iter().any(|output| output.column_refs().is_empty()) =>
            {
                "a constant beside an aggregate"
            }
            // The condition has to be asked of the empty group, which is made behind it.
            LogicalPlan::Filter(having) if is_one_group(&having.input) && is_correlated(&having.input)? => {
                "HAVING without GROUP BY"
            }
            LogicalPlan::Distinct(distinct) if has_one_group(distinct.input())? => {
                "DISTINCT over an aggregate without GROUP BY"
            }
            LogicalPlan::Join(join) => return refuse_padded(join),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        refuse(what, node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// An outer join gives rows for a side that has none: not those that a condition takes away above it. The same goes for
/// rows that a semi or anti join asks for.
fn refuse_padded(join: &Join) -> Result<TreeNodeRecursion> {
    let (left, right) = match join.join_type {
        JoinType::Inner => (false, false),
        JoinType::Full => (true, true),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (true, false),
        _ => (false, true),
    };
    for (side, padded) in [(&join.left, left), (&join.right, right)] {
        if padded {
            refuse("the side of an outer join that gets NULLs", side)?;
        }
    }
    Ok(TreeNodeRecursion::Continue)
}

/// An aggregate of outer columns alone is one of the query around, in SQL.
fn refuse_outer_aggregates(subquery: &LogicalPlan) -> Result<()> {
    subquery.apply(|node| {
        let LogicalPlan::Aggregate(grouped) = node else { return Ok(TreeNodeRecursion::Continue) };
        for expr in &grouped.aggr_expr {
            expr.apply(|part| {
                let Expr::AggregateFunction(call) = part else { return Ok(TreeNodeRecursion::Continue) };
                let filter = call.params.filter.as_deref();
                let is_outer = call.params.args.iter().chain(filter).any(Expr::contains_outer);
                if is_outer && part.column_refs().is_empty() {
                    let message = format!(
                        "{} of columns of the query around alone is an aggregate of that query, and is not supported \
                         in a subquery of it",
                        call.func.name()
                    );
                    return Err(Error::Unsupported(message).into_datafusion());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// A join computes the subquery once for all rows outside of it: what it calls would give all of them the same.
fn refuse_volatile(subquery: &LogicalPlan) -> Result<()> {
    if calls_volatile(subquery)? && is_correlated(subquery)? {
        let message = "not supported: random(), uuid() or the like in a subquery that refers to the row outside it; \
                       call it in the SELECT list";
        return Err(Error::Unsupported(message.into()).into_datafusion());
    }
    Ok(())
}

/// What is wrong where only the subquery's rows are asked for, too: an aggregate without GROUP BY has a row for no
/// row.
pub(super) fn refuse_as_test(subquery: &LogicalPlan) -> Result<()> {
    refuse_anywhere(subquery)?;
    subquery.apply(|node| {
        if is_one_group(node) {
            refuse("an aggregate without GROUP BY, below EXISTS, IN, ANY or ALL", node)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether a plan has an aggregate without GROUP BY over what refers to the row outside.
fn has_one_group(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(is_one_group(node) && is_correlated(node)?))
}

/// Refuses an operator above a condition that refers to the row outside.
fn refuse(what: &str, node: &LogicalPlan) -> Result<()> {
    match is_correlated(node)? {
        true => Err(Error::Unsupported(format!(
            "not supported: {what} in a subquery that refers to the row outside it; join with a query that is grouped \
             or partitioned by the columns compared"
        ))
        .into_datafusion()),
        false => Ok(()),
    }
}

/// Whether an operator or one below it refers to the row outside.
fn is_correlated(node: &LogicalPlan) -> Result<bool> {
    node.exists(|below| {
        let mut any = false;
        below.apply_expressions(|expr| {
            any |= expr.contains_outer();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(any)
    })
}

pub(super) fn is_one_group(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(grouped) if grouped.group_expr.is_empty())
}

fn is_zero(count: &Expr) -> bool {
    matches!(count, Expr::Literal(value, _) if *value == ScalarValue::Int64(Some(0)))
}
