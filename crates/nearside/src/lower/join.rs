//! Joins: key expressions become columns below, what is not an equality of keys the residual.
//!
//! A key that differs from call to call is compared for each pair, as it is written, and so are keys whose type
//! nothing can be looked up by. A scalar subquery in the condition is a column of the left side.

use std::borrow::Cow;

use datafusion_common::{Dependency, FunctionalDependence, JoinType, NullEquality};
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Join as Logical, LogicalPlan, Operator};
use exec::{Join, JoinKind, Plan, Predicate, Side};

use super::binder::Binder;
use super::bug;
use super::predicate::predicate;
use super::scope::{Columns, Scope, has_subquery, keep};
use super::support::has_order;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The plan of a join.
pub(super) fn join(binder: &Binder<'_>, node: &Logical) -> Result<Plan> {
    let filter = node.filter.as_ref();
    // Of an inner join it may as well be tested above, where fewer pairs are left.
    match filter.filter(|filter| node.join_type == JoinType::Inner && has_subquery(filter)) {
        None => join_where(binder, node, filter),
        Some(filter) => {
            let mut scope = Scope::new(join_where(binder, node, None)?, &node.schema);
            let filter = scope.resolve(binder, filter)?;
            let predicate = predicate(&filter, &scope.schema, binder.props)?;
            scope.plan = scope.plan.filter(predicate).map_err(bug)?;
            scope.finish()
        }
    }
}

/// Keys that can be looked up, and conditions that are tested for each pair.
struct Split {
    keys: Vec<(Expr, Expr)>,
    conditions: Vec<Expr>,
}

/// Sorts the equalities of a join.
fn split(node: &Logical) -> Result<Split> {
    let equals = match node.null_equality {
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        NullEquality::NullEqualsNothing => Operator::Eq,
    };
    let mut split = Split { keys: Vec::new(), conditions: Vec::new() };
    for (left, right) in &node.on {
        let left_type = left.get_type(node.left.schema())?;
        let right_type = right.get_type(node.right.schema())?;
        let common = match left_type == right_type {
            true => left_type,
            false => comparison_coercion(&left_type, &right_type).ok_or_else(|| {
                Error::plan(
                    SqlState::UndefinedFunction,
                    format!("{left} is {left_type} and {right} is {right_type}, which cannot be compared; cast one"),
                )
            })?,
        };
        let left = left.clone().cast_to(&common, node.left.schema().as_ref())?;
        let right = right.clone().cast_to(&common, node.right.schema().as_ref())?;
        match has_order(&common) && !left.is_volatile() && !right.is_volatile() {
            true => split.keys.push((left, right)),
            false => split.conditions.push(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), equals, Box::new(right)))),
        }
    }
    Ok(split)
}

/// NOT IN of a query whose rows are told apart by more than its value: a row of it that is equal, or not known to
/// differ, counts.
fn not_known_to_differ((left, right): (Expr, Expr)) -> Expr {
    left.clone().is_null().or(right.clone().is_null()).or(left.eq(right))
}

fn join_where(binder: &Binder<'_>, node: &Logical, filter: Option<&Expr>) -> Result<Plan> {
    let Split { keys, mut conditions } = split(node)?;
    // Of a constant `not_in` has spelled out where NOT IN is NULL: what is left asks for an equal value only.
    let null_aware = node.null_aware && filter.is_none() && conditions.is_empty() && !keys.is_empty();
    let keys = match node.null_aware && !null_aware {
        true => {
            conditions.extend(keys.into_iter().map(not_known_to_differ));
            Vec::new()
        }
        false => keys,
    };
    let mut left = Scope::new(binder.plan(&node.left)?, node.left.schema());
    if let Some(filter) = filter {
        conditions.push(left.resolve(binder, filter).map(Cow::into_owned)?);
    }
    let left_schema = left.schema.as_ref();
    let right_schema = node.right.schema().as_ref();
    let mut left_columns = Columns::new(left_schema, binder.props);
    let mut right_columns = Columns::new(right_schema, binder.props);
    let mut on = Vec::with_capacity(keys.len());
    for (left, right) in &keys {
        on.push((left_columns.index(left)?, right_columns.index(right)?));
    }
    let named = left_schema.fields().len();
    let computed = left_columns.computed();
    let widths = Widths {
        left: node.left.schema().fields().len(),
        all_left: named + computed,
        right: right_schema.fields().len(),
        all_right: right_schema.fields().len() + right_columns.computed(),
    };
    let pair = left_schema.join(right_schema)?;
    let mut residual = Vec::with_capacity(conditions.len());
    for condition in &conditions {
        let condition = predicate(condition, &pair, binder.props)?;
        residual.push(condition.map_columns(&|c| if c < named { c } else { c + computed }));
    }
    let residual = match residual.len() {
        0 | 1 => residual.pop(),
        _ => Some(Predicate::And(residual)),
    };
    let left = left_columns.over(left.plan)?;
    let right = right_columns.over(binder.plan(&node.right)?)?;
    let once = matches_once(node, &keys) && residual.is_none();
    let kind = kind(node.join_type);
    let nulls_equal = node.null_equality == NullEquality::NullEqualsNull;
    // Which side is kept is the optimiser's choice.
    let inner = |kind| if once { JoinKind::Inner } else { kind };
    let joined = Join { left, right, kind: inner(kind), on, nulls_equal, null_aware, residual, build: Side::Right };
    let joined = Plan::join(joined).map_err(bug)?;
    match (once, kind) {
        (true, JoinKind::Semi(Side::Left)) => keep(joined, 0..widths.left),
        (true, _) => keep(joined, widths.all_left..widths.all_left + widths.right),
        (false, kind) => widths.named(joined, kind),
    }
}

/// Whether a semi join finds one row at most for each, by a declared key of a stored table: then it is an inner join
/// whose place among others can be chosen, by whatever else its keys are equal to. The planner makes semi joins of
/// those that nobody reads the found rows of.
fn matches_once(node: &Logical, keys: &[(Expr, Expr)]) -> bool {
    let (other, is_right) = match node.join_type {
        JoinType::LeftSemi => (&node.right, true),
        JoinType::RightSemi => (&node.left, false),
        _ => return false,
    };
    if node.null_aware || node.null_equality == NullEquality::NullEqualsNull || !is_of_table(other) {
        return false;
    }
    let schema = other.schema();
    let index = |(left, right): &(Expr, Expr)| match if is_right { right } else { left } {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let columns: Vec<usize> = keys.iter().filter_map(index).collect();
    let dependencies = schema.functional_dependencies();
    let is_key = |of: &FunctionalDependence| {
        !of.source_indices.is_empty() && of.source_indices.iter().all(|column| columns.contains(column))
    };
    !columns.is_empty() && dependencies.iter().any(|of| of.mode == Dependency::Single && is_key(of))
}

/// Whether rows are those of one stored table, some columns and rows left out.
fn is_of_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_of_table)
        }
        _ => false,
    }
}

/// How many columns a join's sides have in SQL, and how many with those that were computed for it.
struct Widths {
    left: usize,
    all_left: usize,
    right: usize,
    all_right: usize,
}

impl Widths {
    /// Without what was computed.
    fn named(&self, plan: Plan, kind: JoinKind) -> Result<Plan> {
        if self.left == self.all_left && self.right == self.all_right {
            return Ok(plan);
        }
        match kind {
            JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) => keep(plan, 0..self.left),
            JoinKind::Semi(Side::Right) | JoinKind::Anti(Side::Right) => keep(plan, 0..self.right),
            JoinKind::Mark(Side::Left) => keep(plan, (0..self.left).chain([self.all_left])),
            JoinKind::Mark(Side::Right) => keep(plan, (0..self.right).chain([self.all_right])),
            _ => keep(plan, (0..self.left).chain(self.all_left..self.all_left + self.right)),
        }
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
