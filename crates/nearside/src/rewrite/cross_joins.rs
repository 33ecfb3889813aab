//! Tables in a FROM list, joined by conditions in WHERE, are joined in an order in which each has a key to those
//! before, where there is one.
//!
//! In the place of DataFusion's rule, which loses keys: of `a CROSS JOIN b JOIN c ON a.x + b.x = c.x AND a.y = c.y` it
//! joins `a` with `c` first, and then `a.x + b.x = c.x` is a key of no join and is dropped. It also takes keys of joins
//! in which NULL equals NULL for those of others. Here what is no key of a join stays a condition above.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection};
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use std::sync::Arc;

/// The optimizer rule.
#[derive(Debug, Default)]
pub(crate) struct KeyedJoins;

impl OptimizerRule for KeyedJoins {
    fn name(&self) -> &str {
        "keyed_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut parts = Parts::default();
        match &plan {
            LogicalPlan::Filter(filter) if is_flat(&filter.input) => {
                parts.take(&filter.input);
                parts.conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
            }
            LogicalPlan::Join(_) if is_flat(&plan) => parts.take(&plan),
            _ => return Ok(Transformed::no(plan)),
        }
        if parts.without_keys == 0 {
            return Ok(Transformed::no(plan));
        }
        let before = parts.without_keys;
        let (joined, without_keys) = parts.joined()?;
        if without_keys >= before {
            return Ok(Transformed::no(plan));
        }
        // The columns in the order that others know.
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?)))
    }
}

/// Inner joins may be taken apart; if NULL equals NULL in one that has keys, these are not like other conditions.
fn is_flat(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    let nulls = join.null_equality == NullEquality::NullEqualsNothing || join.on.is_empty();
    join.join_type == JoinType::Inner && nulls && !join.null_aware
}

/// What joins are made of.
#[derive(Default)]
struct Parts {
    inputs: Vec<LogicalPlan>,
    conditions: Vec<Expr>,
    /// Joins that have no key.
    without_keys: usize,
}

impl Parts {
    fn take(&mut self, plan: &LogicalPlan) {
        match plan {
            LogicalPlan::Join(join) if is_flat(plan) => {
                self.take(&join.left);
                self.take(&join.right);
                self.conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
                self.conditions.extend(join.filter.iter().flat_map(|f| split_conjunction_owned(f.clone())));
                self.without_keys += usize::from(join.on.is_empty());
            }
            other => self.inputs.push(other.clone()),
        }
    }

    /// The inputs joined, under the conditions that became no key, and how many joins have no key.
    fn joined(self) -> Result<(LogicalPlan, usize)> {
        let mut conditions: Vec<Option<Expr>> = self.conditions.into_iter().map(Some).collect();
        // What follows from a condition does not take its place.
        let implied: Vec<Expr> = conditions.iter().flatten().flat_map(implied_keys).collect();
        let mut inputs = self.inputs.into_iter();
        let Some(mut left) = inputs.next() else {
            return datafusion_common::internal_err!("a join has inputs");
        };
        let mut rest: Vec<LogicalPlan> = inputs.collect();
        let mut without_keys = 0;
        while !rest.is_empty() {
            let keyed = rest.iter().position(|right| {
                conditions.iter().flatten().chain(&implied).any(|condition| key(condition, &left, right).is_some())
            });
            let right = rest.remove(keyed.unwrap_or(0));
            let mut on = Vec::new();
            for condition in &mut conditions {
                if let Some(pair) = condition.as_ref().and_then(|condition| key(condition, &left, &right)) {
                    on.push(pair);
                    *condition = None;
                }
            }
            for pair in implied.iter().filter_map(|condition| key(condition, &left, &right)) {
                if !on.contains(&pair) {
                    on.push(pair);
                }
            }
            without_keys += usize::from(on.is_empty());
            let nulls = NullEquality::NullEqualsNothing;
            let (l, r) = (Arc::new(left), Arc::new(right));
            left = LogicalPlan::Join(Join::try_new(l, r, on, None, JoinType::Inner, JoinConstraint::On, nulls, false)?);
        }
        Ok(match conjunction(conditions.into_iter().flatten()) {
            Some(condition) => (LogicalPlan::Filter(Filter::try_new(condition, Arc::new(left))?), without_keys),
            None => (left, without_keys),
        })
    }
}

/// The condition as a key of a join of these two: what of it is the left side's, and what the right side's.
fn key(condition: &Expr, left: &LogicalPlan, right: &LogicalPlan) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left: a, op: Operator::Eq, right: b }) = condition else { return None };
    if condition.is_volatile() || condition.contains_outer() {
        return None;
    }
    let is_of = |expr: &Expr, side: &LogicalPlan| {
        let columns = expr.column_refs();
        let is_own = |column: &&Column| side.schema().has_column(column);
        !columns.is_empty() && columns.iter().all(is_own)
    };
    match () {
        () if is_of(a, left) && is_of(b, right) => Some((a.as_ref().clone(), b.as_ref().clone())),
        () if is_of(b, left) && is_of(a, right) => Some((b.as_ref().clone(), a.as_ref().clone())),
        () => None,
    }
}

/// Equalities that every alternative of an OR has.
fn implied_keys(condition: &Expr) -> Vec<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = condition else { return Vec::new() };
    let equalities = |side: &Expr| -> Vec<Expr> {
        let of_part = |part: &Expr| match part {
            Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => vec![part.clone()],
            other => implied_keys(other),
        };
        split_conjunction(side).into_iter().flat_map(of_part).collect()
    };
    let others = equalities(right);
    equalities(left).into_iter().filter(|key| others.contains(key)).collect()
}
