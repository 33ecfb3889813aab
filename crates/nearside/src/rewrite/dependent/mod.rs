//! Subqueries that depend on the row around them, where DataFusion has no join for them or a wrong one: LATERAL
//! queries, and queries as values.
//!
//! The query is computed once for all rows around it (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015):
//! ```text
//! rows ─────────────────────────────────────────────────┐
//!   └─ DISTINCT columns the query reads = *outer rows*    ├─ JOIN by these columns, NULLs being equal
//!        └─ pushed down the query: operator by operator ─┘
//! ```
//! `push` says what becomes of each operator. A LATERAL query that only filters, computes and joins needs no DISTINCT
//! and no join with the rows: all of their columns are pushed below it.
//!
//! Queries of which DataFusion makes the right join are left to it (`simple`). EXISTS and IN of others become values
//! first ([`TestsAsValues`]).
//!
//! # Limits
//! The rows around stand in the plan twice. They are one and the same where they could differ (LIMIT, sums of floats):
//! then they are computed once, in any case. Where `random()` and the like take part, it is refused
//! ([`CorrelatedRefusals`](super::correlated::CorrelatedRefusals)).

mod grouping;
mod outer;
mod outer_joins;
mod push;
mod simple;
mod single;
mod tests_as_values;

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{
    Aggregate, Distinct, Expr, Filter, Join, JoinConstraint, LogicalPlan, Projection, Subquery, SubqueryAlias, lit,
};
use datafusion_functions_aggregate::expr_fn::{count, first_value};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::functions::anywhere::any_node;
use crate::rewrite::null_keys::not_null;
use crate::rewrite::volatile::calls_volatile;
use crate::sql::{Wish, fresh_name};

use outer::Outer;
pub(super) use outer_joins::{OuterJoins, has_subquery};
use push::{projected, push};
pub(super) use tests_as_values::TestsAsValues;

use simple::{has_one_row, is_repeatable, is_row_wise, is_simple};

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct DependentJoins;

impl AnalyzerRule for DependentJoins {
    fn name(&self) -> &str {
        "dependent_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is =
            |node: &LogicalPlan| matches!(node, LogicalPlan::Subquery(query) if !query.outer_ref_columns.is_empty());
        if any_node(&plan, |node| Ok(is(node)))? { joined(plan) } else { Ok(plan) }
    }
}

/// The plan with joins in the place of its subqueries, the innermost first.
fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let joined = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => lateral(join),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            values(node)
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(joined.data)
}

/// The join without LATERAL, where it has one that reads columns of the rows beside it.
fn unnested(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(query) = lateral_query(&join.right) else { return Ok(None) };
    if Outer::of(&query, join.left.schema())?.is_empty() {
        return Ok(None);
    }
    let joined = lateral_join(join.clone(), false)?;
    Ok(joined.transformed.then_some(joined.data))
}

/// A join with a query that reads columns of the rows beside it.
fn lateral(join: Join) -> Result<Transformed<LogicalPlan>> {
    lateral_join(join, true)
}

/// `simple`: what DataFusion makes the right join of is left to it.
fn lateral_join(join: Join, simple: bool) -> Result<Transformed<LogicalPlan>> {
    let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let Some(query) = lateral_query(&join.right).filter(|_| is_known) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let outer = Outer::of(&query, join.left.schema())?;
    if outer.is_empty() || (simple && is_simple(without_alias(&query))?) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let equal = join.on.into_iter().map(|(left, right)| left.eq(right));
    let condition = equal.chain(join.filter).reduce(Expr::and);
    if join.join_type == JoinType::Inner && is_row_wise(&query, &outer)? {
        let outer = Outer::all(join.left.schema());
        let rows = outer.rows(&join.left)?;
        let pushed = push(&query, &rows, &outer)?;
        let own = outer.restored().chain(query.schema().columns().into_iter().map(Expr::Column));
        let mut made = projected(pushed, own)?;
        if let Some(condition) = condition {
            made = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(made))?);
        }
        return Ok(Transformed::yes(joined(projected(made, columns)?)?));
    }
    let left = repeatable(&join.left)?;
    let right = push(&query, &outer.distinct_rows(&left)?, &outer)?;
    let both = beside(left, right, &outer, join.join_type, condition)?;
    Ok(Transformed::yes(joined(projected(both, columns)?)?))
}

/// The query of a LATERAL, under its alias.
fn lateral_query(right: &LogicalPlan) -> Option<LogicalPlan> {
    match right {
        LogicalPlan::Subquery(query) => Some(query.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(alias) => {
            let query = Arc::new(lateral_query(&alias.input)?);
            SubqueryAlias::try_new(query, alias.alias.clone()).ok().map(LogicalPlan::SubqueryAlias)
        }
        _ => None,
    }
}

/// DataFusion knows what a LATERAL query is called; below other names it loses columns.
fn without_alias(query: &LogicalPlan) -> &LogicalPlan {
    match query {
        LogicalPlan::SubqueryAlias(alias) => without_alias(&alias.input),
        other => other,
    }
}

/// Queries as values in the expressions of an operator become columns of its input.
fn values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any |= expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !any {
        return Ok(Transformed::no(node));
    }
    let columns = node.schema().columns();
    let first = node.inputs()[0].clone();
    let mut input = None;
    let mut known: Vec<(Expr, Expr)> = Vec::new();
    let names = NamePreserver::new(&node);
    let mut exprs = node.expressions();
    for expr in &mut exprs {
        let name = names.save(expr);
        let replaced = std::mem::take(expr).transform_up(|part| {
            let Expr::ScalarSubquery(query) = &part else { return Ok(Transformed::no(part)) };
            if let Some((_, value)) = known.iter().find(|(query, _)| *query == part) {
                return Ok(Transformed::yes(value.clone()));
            }
            let Some(value) = value(query, &first, &mut input)? else { return Ok(Transformed::no(part)) };
            known.push((part, value.clone()));
            Ok(Transformed::yes(value))
        })?;
        *expr = name.restore(replaced.data);
    }
    let Some(input) = input else { return Ok(Transformed::no(node)) };
    let replaced = node.with_new_exprs(exprs, vec![input])?;
    // Filters and windows give all columns of their input.
    let own = match replaced.schema().fields().len() == columns.len() {
        true => replaced,
        false => projected(replaced, columns.into_iter().map(Expr::Column))?,
    };
    Ok(Transformed::yes(joined(own)?))
}

/// What stands for a query as a value over `rows`; its columns are added to `input`. `None` where it is left alone.
fn value(query: &Subquery, rows: &LogicalPlan, input: &mut Option<LogicalPlan>) -> Result<Option<Expr>> {
    let plan = query.subquery.as_ref();
    let outer = Outer::of(plan, rows.schema())?;
    if outer.is_empty() || (has_one_row(plan) && is_simple(plan)?) {
        return Ok(None);
    }
    let left = match input.take() {
        Some(input) => input,
        None => repeatable(rows)?,
    };
    let right = push(plan, &outer.distinct_rows(&left)?, &outer)?;
    let value = Expr::Column(plan.schema().columns()[0].clone());
    let name = fresh_name("value");
    let column = Expr::Column(Column::from_name(&name));
    let (right, value) = if has_one_row(plan) {
        (projected(right, outer.carriers().chain([value.alias(&name)]))?, column)
    } else {
        let number = fresh_name("rows");
        let groups = outer.carriers().collect();
        let aggregates = vec![count(lit(1_i64)).alias(&number), first_value(value, Vec::new()).alias(&name)];
        let grouped = Aggregate::try_new(Arc::new(right), groups, aggregates)?;
        (LogicalPlan::Aggregate(grouped), single::value(Expr::Column(Column::from_name(number)), column))
    };
    *input = Some(beside(left, right, &outer, JoinType::Left, None)?);
    Ok(Some(value))
}

/// The rows joined with what the pushed query gives for their columns.
fn beside(
    left: LogicalPlan,
    right: LogicalPlan,
    outer: &Outer,
    join_type: JoinType,
    condition: Option<Expr>,
) -> Result<LogicalPlan> {
    let on = not_null(outer.pairs(), [left.schema(), right.schema()])?;
    let (left, right) = (Arc::new(left), Arc::new(right));
    let nulls = NullEquality::NullEqualsNothing;
    let join = Join::try_new(left, right, on, condition, join_type, JoinConstraint::On, nulls, false)?;
    Ok(LogicalPlan::Join(join))
}

/// Rows that may stand in a plan twice: what may differ from one time to the other is computed once for both.
fn repeatable(rows: &LogicalPlan) -> Result<LogicalPlan> {
    if is_repeatable(rows)? {
        return Ok(rows.clone());
    }
    if calls_volatile(rows)? || simple::refers_outside(rows)? {
        let message = "a subquery that refers to the row outside it, beside rows that may differ each time they are \
                       computed, is not supported; put those into a table first";
        return Err(Error::Unsupported(message.into()).into_datafusion());
    }
    let outer = Outer::all(rows.schema());
    let renamed = outer.rows(rows)?;
    let once = SubqueryAlias::try_new(Arc::new(renamed), Wish::Once.fresh_name())?;
    let restored = Projection::try_new(outer.restored().collect(), Arc::new(LogicalPlan::SubqueryAlias(once)))?;
    Ok(LogicalPlan::Projection(restored))
}

/// Equal rows once.
fn distinct(rows: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Distinct(Distinct::All(Arc::new(rows)))
}
