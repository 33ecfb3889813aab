//! What a query that depends on outer rows is like: whether DataFusion makes the right join of it, and what it gives.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::logical_plan::FetchType;
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Operator, Subquery};

use crate::rewrite::correlated::{is_one_group, refuse_anywhere, refuse_as_test};
use crate::rewrite::dependent::outer::Outer;
use crate::rewrite::volatile::calls_volatile;

/// Does the query compare its own columns with outer ones for equality in WHERE, and read those nowhere else? Then
/// DataFusion joins by these.
pub(super) fn is_simple(query: &LogicalPlan) -> Result<bool> {
    if refuse_anywhere(query).is_err() {
        return Ok(false);
    }
    let mut is_simple = !has_one_group_below(query)?;
    query.apply(|node| {
        let reads = node.contains_outer_reference();
        is_simple &= match node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().all(is_plain),
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => !reads,
            _ => !reads && !refers_outside(node)? || is_plain_join(node, reads),
        };
        Ok(if is_simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_simple)
}

/// Whether an aggregate without GROUP BY, which has a row for no row, is not what the query itself gives.
fn has_one_group_below(query: &LogicalPlan) -> Result<bool> {
    let below = match query {
        LogicalPlan::Projection(outputs) => return has_one_group_below(&outputs.input),
        LogicalPlan::Aggregate(grouped) => &grouped.input,
        other => return other.exists(|node| Ok(is_one_group(node) && refers_outside(node)?)),
    };
    below.exists(|node| Ok(is_one_group(node) && refers_outside(node)?))
}

/// Does DataFusion make the right join of EXISTS and IN of the query? It takes conditions out of it, whatever they
/// compare, and of each column that they read the first that is called so.
pub(super) fn is_test(query: &Subquery) -> Result<bool> {
    if query.outer_ref_columns.is_empty() {
        return Ok(true);
    }
    if refuse_as_test(&query.subquery).is_err() || reads_beyond(&query.subquery)? {
        return Ok(false);
    }
    let mut is_test = true;
    query.subquery.apply(|node| {
        is_test &= match node {
            LogicalPlan::Filter(_) => true,
            LogicalPlan::Projection(_) | LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
                !node.contains_outer_reference()
            }
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner && !node.contains_outer_reference(),
            _ => !refers_outside(node)?,
        };
        Ok(if is_test { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_test)
}

/// Whether a query within the expressions of a query reads columns that this one does not have.
fn reads_beyond(query: &LogicalPlan) -> Result<bool> {
    query.exists(|node| {
        let inputs = node.inputs();
        let is_beyond = |reference: &Expr| match reference {
            Expr::OuterReferenceColumn(_, column) => !inputs.iter().any(|input| input.schema().has_column(column)),
            _ => false,
        };
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr
                .exists(|part| Ok(query_of(part).is_some_and(|query| query.outer_ref_columns.iter().any(is_beyond))))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    })
}

fn is_plain_join(node: &LogicalPlan, reads: bool) -> bool {
    matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !reads)
}

/// A condition that reads no outer column, or is that one equals what is the query's own.
fn is_plain(condition: &Expr) -> bool {
    if reads_in_query(condition) {
        return false;
    }
    if !condition.contains_outer() {
        return true;
    }
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let is_outer = |expr: &Expr| expr.contains_outer() && expr.column_refs().is_empty();
    let is_own = |expr: &Expr| !expr.contains_outer() && !expr.column_refs().is_empty();
    (is_outer(left) && is_own(right)) || (is_own(left) && is_outer(right))
}

/// Whether an expression holds a query that refers to rows outside of it.
fn reads_in_query(expr: &Expr) -> bool {
    let found = expr.exists(|part| Ok(query_of(part).is_some_and(|query| !query.outer_ref_columns.is_empty())));
    found.unwrap_or(true)
}

/// The query that an expression is.
pub(super) fn query_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::Exists(test) => Some(&test.subquery),
        Expr::InSubquery(test) => Some(&test.subquery),
        Expr::SetComparison(test) => Some(&test.subquery),
        _ => None,
    }
}

/// Whether a plan refers to rows outside of it.
pub(super) fn refers_outside(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(node.contains_outer_reference()))
}

/// Whether it has one row at most, and that for certain.
pub(super) fn has_one_row(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Aggregate(grouped) => grouped.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        LogicalPlan::Projection(outputs) => has_one_row(&outputs.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        LogicalPlan::Window(window) => has_one_row(&window.input),
        LogicalPlan::Distinct(distinct) => has_one_row(distinct.input()),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(..=1)))) || has_one_row(&limit.input)
        }
        _ => false,
    }
}

/// Whether a query gives for equal outer rows, each for itself, what it is to give: no operator that reads them looks
/// at more than one of its rows.
pub(super) fn is_row_wise(query: &LogicalPlan, outer: &Outer) -> Result<bool> {
    if !outer.is_read_by(query)? {
        return Ok(true);
    }
    Ok(match query {
        LogicalPlan::Projection(outputs) => is_row_wise(&outputs.input, outer)?,
        LogicalPlan::Filter(filter) => is_row_wise(&filter.input, outer)?,
        LogicalPlan::SubqueryAlias(alias) => is_row_wise(&alias.input, outer)?,
        LogicalPlan::Unnest(unnest) => is_row_wise(&unnest.input, outer)?,
        LogicalPlan::Values(_) => true,
        LogicalPlan::Union(union) => {
            for input in &union.inputs {
                if !is_row_wise(input, outer)? {
                    return Ok(false);
                }
            }
            true
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let both = outer.is_read_by(&join.left)? && outer.is_read_by(&join.right)?;
            !both && is_row_wise(&join.left, outer)? && is_row_wise(&join.right, outer)?
        }
        _ => false,
    })
}

/// Whether a plan gives the same rows whenever it is computed.
pub(super) fn is_repeatable(rows: &LogicalPlan) -> Result<bool> {
    if calls_volatile(rows)? {
        return Ok(false);
    }
    let is_other = rows.exists(|node| {
        if let LogicalPlan::Aggregate(grouped) = node {
            return Ok(!grouped.aggr_expr.iter().all(|call| is_exact(call, grouped.input.schema())));
        }
        Ok(!matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::Distinct(Distinct::All(_))
                | LogicalPlan::Union(_)
        ))
    })?;
    Ok(!is_other)
}

/// Whether an aggregate does not depend on the order of its rows.
fn is_exact(call: &Expr, rows: &DFSchema) -> bool {
    let Expr::AggregateFunction(call) = unaliased(call) else { return false };
    let is_float = |argument: &Expr| argument.get_type(rows).map_or(true, |of| of.is_floating());
    match call.func.name() {
        "count" | "min" | "max" | "bool_and" | "bool_or" => true,
        "sum" | "avg" => !call.params.args.iter().any(is_float),
        _ => false,
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
