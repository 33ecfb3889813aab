//! Joins: key expressions become columns below, what is not an equality of keys the residual.

use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::Join as Logical;
use exec::{Join, JoinKind, Plan, Side};

use super::bind::Binder;
use super::bug;
use super::predicate::predicate;
use super::scope::{Columns, Scope, has_subquery, keep};
use crate::error::Result;

/// The plan of a join.
pub(super) fn join(binder: &Binder<'_>, node: &Logical) -> Result<Plan> {
    let (left_schema, right_schema) = (node.left.schema(), node.right.schema());
    let mut left_columns = Columns::new(left_schema, binder.props);
    let mut right_columns = Columns::new(right_schema, binder.props);
    let mut on = Vec::with_capacity(node.on.len());
    for (left, right) in &node.on {
        on.push((left_columns.index(left)?, right_columns.index(right)?));
    }
    let (left_width, right_width) = (left_schema.fields().len(), right_schema.fields().len());
    let (left_more, right_more) = (left_columns.computed(), right_columns.computed());
    let left = left_columns.over(binder.plan(&node.left)?)?;
    let right = right_columns.over(binder.plan(&node.right)?)?;
    let residual = match &node.filter {
        Some(filter) if !has_subquery(filter) => {
            let predicate = predicate(filter, &left_schema.join(right_schema)?, binder.props)?;
            Some(predicate.map_columns(&|c| if c < left_width { c } else { c + left_more }))
        }
        _ => None,
    };
    let kind = kind(node.join_type);
    let nulls_equal = node.null_equality == NullEquality::NullEqualsNull;
    // Which side is kept is the optimiser's choice.
    let joined = Join { left, right, kind, on, nulls_equal, null_aware: node.null_aware, residual, build: Side::Right };
    let mut plan = Plan::join(joined).map_err(bug)?;
    if left_more + right_more > 0 {
        let own = move |c: &usize| {
            *c < left_width || (left_width + left_more..left_width + left_more + right_width).contains(c)
        };
        plan = match kind {
            JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) => keep(plan, 0..left_width)?,
            JoinKind::Semi(Side::Right) | JoinKind::Anti(Side::Right) => keep(plan, 0..right_width)?,
            JoinKind::Mark(Side::Left) => keep(plan, (0..left_width).chain([left_width + left_more]))?,
            JoinKind::Mark(Side::Right) => keep(plan, (0..right_width).chain([right_width + right_more]))?,
            _ => keep(plan, (0..left_width + left_more + right_width).filter(own))?,
        };
    }
    match &node.filter {
        Some(filter) if has_subquery(filter) => {
            let mut scope = Scope::new(plan, &node.schema);
            let filter = scope.resolve(binder, filter)?;
            let predicate = predicate(&filter, &scope.schema, binder.props)?;
            scope.plan = scope.plan.filter(predicate).map_err(bug)?;
            scope.finish()
        }
        _ => Ok(plan),
    }
}

fn kind(join_type: JoinType) -> JoinKind {
    match join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Right => JoinKind::Right,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::Semi(Side::Left),
        JoinType::RightSemi => JoinKind::Semi(Side::Right),
        JoinType::LeftAnti => JoinKind::Anti(Side::Left),
        JoinType::RightAnti => JoinKind::Anti(Side::Right),
        JoinType::LeftMark => JoinKind::Mark(Side::Left),
        JoinType::RightMark => JoinKind::Mark(Side::Right),
    }
}
