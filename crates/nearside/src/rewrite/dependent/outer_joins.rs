//! Subqueries in the ON of joins that are no inner ones.
//!
//! ```text
//! read columns of one side      a column of that side, which the condition reads
//! l LEFT JOIN r ON c, of both   l LEFT JOIN LATERAL (r WHERE c) ON true
//! l RIGHT JOIN r ON c           the same with the sides changed over
//! l FULL JOIN r ON c            the LEFT JOIN, and all rows of r for which no row of l is so
//! l SEMI JOIN r ON c            l WHERE EXISTS (r WHERE c)
//! ```

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, JoinType, NullEquality, Result, ScalarValue, Spans};
use datafusion_expr::{Expr, Filter, Join, JoinConstraint, LogicalPlan, Projection, Subquery, Union, lit, not};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::functions::anywhere::any_node;
use crate::rewrite::dependent::lateral_query;
use crate::rewrite::dependent::outer::Outer;
use crate::rewrite::dependent::push::projected;
use crate::rewrite::dependent::simple::query_of;
use crate::rewrite::dependent::tests_as_values::exists;
use crate::rewrite::volatile::calls_volatile;
use crate::sql::fresh_name;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct OuterJoins;

impl AnalyzerRule for OuterJoins {
    fn name(&self) -> &str {
        "outer_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one = |node: &LogicalPlan| match node {
            LogicalPlan::Join(join) => {
                join.join_type != JoinType::Inner && join.filter.as_ref().is_some_and(has_subquery)
            }
            _ => false,
        };
        if !any_node(&plan, |node| Ok(is_one(node)))? {
            return Ok(plan);
        }
        let moved = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if join.join_type != JoinType::Inner => below(join),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(moved.data)
    }
}

/// Whether a query stands in an expression.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    matches!(expr.exists(|part| Ok(query_of(part).is_some())), Ok(true))
}

/// The join with its subqueries elsewhere.
///
/// # Errors
/// Sides that may give other rows each time, where they have to be computed twice.
fn below(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take_if(|filter| has_subquery(filter)) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let of_left = subqueries(&filter, join.left.schema())?;
    let of_right = subqueries(&filter, join.right.schema())?;
    let of_both = of_left.iter().any(|query| of_right.contains(query));
    let made = if of_both || lateral_query(&join.right).is_some() {
        of_both_sides(join, filter)?
    } else {
        of_one_side(join, filter, &of_right)?
    };
    Ok(Transformed::yes(projected(made, columns)?))
}

/// The subqueries of a condition that read columns of rows of this shape.
fn subqueries(condition: &Expr, rows: &DFSchema) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    condition.apply(|part| {
        let Some(query) = query_of(part) else { return Ok(TreeNodeRecursion::Continue) };
        let beside = part.column_refs().into_iter().any(|column| rows.has_column(column));
        if beside || !Outer::of(&query.subquery, rows)?.is_empty() {
            found.push(part.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(found)
}

/// Each subquery is a column of the side that it reads.
fn of_one_side(join: Join, filter: Expr, of_right: &[Expr]) -> Result<LogicalPlan> {
    let own = |side: &LogicalPlan| side.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let (mut left, mut right) = (own(&join.left), own(&join.right));
    let (of_left, of_both) = (left.len(), right.len());
    let condition = filter.transform_down(|part| {
        if query_of(&part).is_none() {
            return Ok(Transformed::no(part));
        }
        let name = fresh_name("on");
        let side = if of_right.contains(&part) { &mut right } else { &mut left };
        side.push(part.alias(&name));
        Ok(Transformed::new(Expr::Column(Column::from_name(name)), true, TreeNodeRecursion::Jump))
    })?;
    let side = |input: Arc<LogicalPlan>, outputs: Vec<Expr>, before: usize| match outputs.len() == before {
        true => Ok(input),
        false => Ok::<_, datafusion_common::DataFusionError>(Arc::new(LogicalPlan::Projection(Projection::try_new(
            outputs, input,
        )?))),
    };
    let left = side(join.left, left, of_left)?;
    let right = side(join.right, right, of_both)?;
    let (kind, constraint, nulls) = (join.join_type, join.join_constraint, join.null_equality);
    let made = Join::try_new(left, right, join.on, Some(condition.data), kind, constraint, nulls, join.null_aware)?;
    Ok(LogicalPlan::Join(made))
}

fn of_both_sides(join: Join, filter: Expr) -> Result<LogicalPlan> {
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = equal.fold(filter, |all, one| one.and(all));
    let (left, right) = (join.left, join.right);
    match join.join_type {
        JoinType::Left | JoinType::Inner => beside(left, &right, condition, join.join_type),
        JoinType::Right => beside(right, &left, condition, JoinType::Left),
        JoinType::LeftSemi | JoinType::LeftAnti => {
            filtered(left, &right, condition, join.join_type == JoinType::LeftAnti)
        }
        JoinType::RightSemi | JoinType::RightAnti => {
            filtered(right, &left, condition, join.join_type == JoinType::RightAnti)
        }
        JoinType::Full => {
            if calls_volatile(&left)? || calls_volatile(&right)? {
                return Err(refused());
            }
            let shape = join.schema.columns();
            let paired = beside(Arc::clone(&left), &right, condition.clone(), JoinType::Left)?;
            let paired = projected(paired, shape.iter().cloned().map(Expr::Column))?;
            let mut outputs = Vec::with_capacity(shape.len());
            for (place, column) in shape.iter().enumerate() {
                let output = match place < left.schema().fields().len() {
                    true => Expr::Literal(ScalarValue::try_from(join.schema.field(place).data_type())?, None),
                    false => Expr::Column(column.clone()),
                };
                outputs.push(output.alias_qualified(column.relation.clone(), &column.name));
            }
            let alone = projected(filtered(right, &left, condition, true)?, outputs)?;
            let both = LogicalPlan::Union(Union::try_new(vec![Arc::new(paired), Arc::new(alone)])?);
            let named = both.schema().columns().into_iter().zip(shape);
            let named = named.map(|(made, own)| Expr::Column(made).alias_qualified(own.relation, own.name));
            let named: Vec<Expr> = named.collect();
            projected(both, named)
        }
        _ => Err(refused()),
    }
}

fn refused() -> datafusion_common::DataFusionError {
    let message = "a subquery that reads both sides of this join in its ON is not supported; write it in WHERE";
    Error::Unsupported(message.into()).into_datafusion()
}

/// The rows with those of the other side beside them for which the condition holds.
fn beside(rows: Arc<LogicalPlan>, other: &LogicalPlan, condition: Expr, kind: JoinType) -> Result<LogicalPlan> {
    let query = Arc::new(LogicalPlan::Subquery(matching(&rows, other, condition)?));
    let nulls = NullEquality::NullEqualsNothing;
    let on = Some(lit(true));
    Ok(LogicalPlan::Join(Join::try_new(rows, query, Vec::new(), on, kind, JoinConstraint::On, nulls, false)?))
}

/// The rows for which the other side has one, or has none.
fn filtered(rows: Arc<LogicalPlan>, other: &LogicalPlan, condition: Expr, negated: bool) -> Result<LogicalPlan> {
    let found = exists(&matching(&rows, other, condition)?)?;
    let found = if negated { not(found) } else { found };
    Ok(LogicalPlan::Filter(Filter::try_new(found, rows)?))
}

/// The other side's rows for which a condition holds beside a row.
fn matching(rows: &LogicalPlan, other: &LogicalPlan, condition: Expr) -> Result<Subquery> {
    let shape = rows.schema();
    let condition = condition.transform_up(|part| match part {
        Expr::Column(column) if shape.has_column(&column) => {
            let (_, field) = shape.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let other = lateral_query(other).unwrap_or_else(|| other.clone());
    let plan = LogicalPlan::Filter(Filter::try_new(condition.data, Arc::new(other))?);
    let mut outer_ref_columns = plan.all_out_ref_exprs();
    for column in Outer::of(&plan, shape)?.columns() {
        let (_, field) = shape.qualified_field_from_column(column)?;
        let reference = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
        if !outer_ref_columns.contains(&reference) {
            outer_ref_columns.push(reference);
        }
    }
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() })
}
