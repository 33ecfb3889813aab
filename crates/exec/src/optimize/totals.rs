//! Aggregates over whole partitions, as windows have them, by grouping: each row is joined with the totals of its
//! partition.
//!
//! Nothing is sorted then, and rows need not be kept: the input is read twice, or once where that is cheaper
//! ([`share`](super::share) decides, as of anything that two places name).
//!
//! Invariants: the same rows with the same columns. NULLs are one partition, as they are one group and equal to each
//! other in the join.
//!
//! # Limits
//! Windows directly over one another keep their sort if one of them needs it: the others cost little beside it.
//! Aggregates that see the order of rows stay.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::{
    AggregateFunction, FrameBound, FrameExclusion, FrameUnits, Join, JoinKind, Output, Plan, Shared, Side, Window,
    WindowCall,
};

/// The plan without windows that grouping can do.
pub(super) fn by_grouping(plan: Plan) -> Plan {
    let operators = plan.operators();
    if !operators.iter().any(|operator| matches!(operator.plan, Plan::Window(window) if is_totals(window))) {
        return plan;
    }
    let number = |operator: &Plan| match operator {
        Plan::Shared(shared) => shared.id + 1,
        Plan::Recursive(recursion) => recursion.id + 1,
        _ => 0,
    };
    let free = operators.iter().map(|operator| number(operator.plan)).max().unwrap_or(0);
    TotalsGrouping { free, shared: HashMap::new() }.rewritten(&plan)
}

struct TotalsGrouping {
    /// Numbers of shared plans from here on are nobody's.
    free: usize,
    /// Shared plans as they are now, by number.
    shared: HashMap<usize, Plan>,
}

impl TotalsGrouping {
    fn rewritten(&mut self, plan: &Plan) -> Plan {
        match plan {
            Plan::Shared(shared) => {
                if let Some(known) = self.shared.get(&shared.id) {
                    return known.clone();
                }
                let now = plan.map_inputs(&mut |input| self.rewritten(input));
                self.shared.insert(shared.id, now.clone());
                now
            }
            Plan::Window(window) => self.window(window),
            other => other.map_inputs(&mut |input| self.rewritten(input)),
        }
    }

    /// A window and those directly below it: all by grouping, or none.
    fn window(&mut self, window: &Window) -> Plan {
        let mut stack = vec![window];
        while let Plan::Window(below) = &stack[stack.len() - 1].input {
            stack.push(below);
        }
        let by_grouping = stack.iter().all(|window| is_totals(window));
        let mut plan = self.rewritten(&stack[stack.len() - 1].input);
        for window in stack.into_iter().rev() {
            plan = match by_grouping {
                true => self.joined(window, plan),
                false => Plan::Window(Box::new(window.over(plan))),
            };
        }
        plan
    }

    fn joined(&mut self, window: &Window, input: Plan) -> Plan {
        let shared = Plan::Shared(Arc::new(Shared { id: self.free, keep: false, plan: input.clone() }));
        match with_totals(window, shared) {
            Some(plan) => {
                self.free += 1;
                plan
            }
            None => Plan::Window(Box::new(window.over(input))),
        }
    }
}

/// Is every call over all rows of a partition, whichever comes first?
fn is_totals(window: &Window) -> bool {
    let of_all = |call: &WindowCall| {
        let Some(aggregate) = call.aggregate() else { return false };
        let frame = &call.frame;
        // Without an order all rows are peers.
        let ends = frame.end == FrameBound::UnboundedFollowing
            || (window.order.is_empty() && frame.units != FrameUnits::Rows && frame.end == FrameBound::CurrentRow);
        let whole = frame.start == FrameBound::UnboundedPreceding && ends;
        let any_order = match aggregate.function {
            AggregateFunction::Opaque(_) => window.order.is_empty(),
            ref function => !function.is_ordered(),
        };
        whole && frame.exclusion == FrameExclusion::NoOthers && any_order
    };
    !window.calls.is_empty() && window.calls.iter().all(of_all)
}

/// Rows of a plan beside the totals of their partitions. `None` where there is no such group or join.
fn with_totals(window: &Window, input: Plan) -> Option<Plan> {
    let mut keys = window.partition.clone();
    keys.sort_unstable();
    keys.dedup();
    let schema = input.schema();
    let width = schema.fields().len();
    let calls = window.calls.iter().map(WindowCall::aggregate).collect::<Option<_>>()?;
    let totals = input.clone().aggregate(keys.clone(), calls).ok()?;
    let join = Plan::join(Join {
        left: input,
        right: totals,
        kind: JoinKind::Inner,
        on: keys.iter().enumerate().map(|(place, &key)| (key, place)).collect(),
        nulls_equal: true,
        null_aware: false,
        residual: None,
        build: Side::Right,
    })
    .ok()?;
    let own = schema.fields().iter().cloned().zip(0..);
    let more = window.calls.iter().map(|call| call.field.clone()).zip(width + keys.len()..);
    join.project(own.chain(more).map(|(field, column)| Output::Column { column, field }).collect()).ok()
}
