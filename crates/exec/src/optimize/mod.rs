//! The optimiser: a plan as it was written becomes one that gives the same rows sooner.
//!
//! [`optimize`] is pure but for samples of columns that it keeps, and fast enough to run whenever a statement starts,
//! so plans follow the data. It
//! - pushes filters down, also to the other sides of equalities, and what a disjunction implies for one relation alone;
//! - finds an order for inner, semi and anti joins and the side of each join that is kept ([`order`]), by a model of
//!   what the engine's operators cost ([`cost`]) over estimates from dictionaries and samples ([`cardinality`],
//!   [`statistics`]);
//! - aggregates below an outer join where that gives the same groups ([`eager`]);
//! - groups where a window's aggregates are over whole partitions ([`totals`]);
//! - computes what several places name once or in each place, whichever is cheaper ([`share`]);
//! - groups by fewer keys where the others follow from those ([`keys`]);
//! - drops columns that nobody reads ([`prune`]).
//!
//! Invariants: the result has the same schema and the same rows, though not in the same order; a condition or
//! expression that may fail sees no row that it would not have seen, and volatile ones stay where they are.
//!
//! # Limits
//! Aggregates are not moved past inner joins. Outer and mark joins keep their place.
//!
//! docs/design/optimizer.md is the design.

use crate::plan::Plan;

mod cardinality;
mod cluster;
mod conditions;
mod conjuncts;
mod cost;
mod eager;
mod estimates;
mod explain;
mod keys;
mod optimized;
mod order;
mod prune;
mod push;
mod share;
mod solve;
mod statistics;
mod totals;

pub use explain::estimates;

/// A plan that gives the same rows as `plan`, which is valid, in another order where it may be.
pub fn optimize(plan: Plan) -> Plan {
    if is_simple(&plan) {
        return plan;
    }
    let schema = plan.schema();
    prune::Pruner::plan(share::cheapest(totals::by_grouping(plan)), &schema)
}

/// A chain over one scan is put together well enough when it is compiled.
fn is_simple(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } | Plan::Values { .. } => true,
        Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => is_simple(input),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
