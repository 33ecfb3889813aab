//! [`SharedSubtrees`]: equal subtrees of a plan, which are computed once.
//!
//! A common table expression that is named twice is planned twice, and filters and columns that its places do not need have gone from
//! both by the time it comes here; what is still equal then, and joins or aggregates, is shared. Only expressions that give the
//! same whenever they are evaluated get here.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Which subtrees of one plan are equal to others.
#[derive(Debug, Default)]
pub(super) struct SharedSubtrees {
    /// By the address of the subtree's root, which the plan keeps alive: which of the sets of equal subtrees it is in.
    sets: HashMap<usize, usize>,
}

impl SharedSubtrees {
    /// Finds them.
    pub(super) fn of(plan: &LogicalPlan) -> SharedSubtrees {
        let mut found = SharedSubtrees::default();
        let mut costly = 0;
        // The walk never fails.
        let _ = plan.apply_with_subqueries(|node| {
            costly += usize::from(is_costly(node));
            Ok(TreeNodeRecursion::Continue)
        });
        if costly < 2 {
            return found;
        }
        let mut places: HashMap<&LogicalPlan, Vec<usize>> = HashMap::new();
        walk(plan, &mut places);
        for (set, places) in places.into_values().filter(|p| p.len() > 1).enumerate() {
            found.sets.extend(places.into_iter().map(|place| (place, set)));
        }
        found
    }

    /// The set of equal subtrees that this one is in, if it has equals.
    pub(super) fn set_of(&self, plan: &LogicalPlan) -> Option<usize> {
        match self.sets.is_empty() {
            true => None,
            false => self.sets.get(&address(plan)).copied(),
        }
    }
}

/// What lies inside a subtree that was met before is part of that one.
fn walk<'p>(plan: &'p LogicalPlan, places: &mut HashMap<&'p LogicalPlan, Vec<usize>>) {
    if is_costly(plan) {
        let known = places.entry(plan).or_default();
        known.push(address(plan));
        if known.len() > 1 {
            return;
        }
    }
    for query in subqueries(plan) {
        walk(query, places);
    }
    for input in plan.inputs() {
        walk(input, places);
    }
}

/// The scalar subqueries in the expressions of an operator that may hold some.
fn subqueries(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    let expressions: Vec<&Expr> = match plan {
        LogicalPlan::Filter(filter) => vec![&filter.predicate],
        LogicalPlan::Projection(projection) => projection.expr.iter().collect(),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect(),
        LogicalPlan::Sort(sort) => sort.expr.iter().map(|s| &s.expr).collect(),
        LogicalPlan::Join(join) => join.filter.iter().collect(),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for expr in expressions {
        // The walk never fails.
        let _ = expr.apply(|e| {
            if let Expr::ScalarSubquery(query) = e {
                found.push(query.subquery.as_ref());
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    found
}

fn is_costly(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_))
}

fn address(plan: &LogicalPlan) -> usize {
    std::ptr::from_ref(plan) as usize
}
