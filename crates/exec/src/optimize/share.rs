//! What several places of a plan name: computed once, or in each place again.
//!
//! Computing once saves work, but every place then gets all rows: its conditions, the columns it does not read and the
//! keys of the joins above it thin out nothing below. So a plan is tried both ways, one shared plan after the other,
//! and what the model of costs says is cheaper is kept ([`cheapest`]). Where a plan stays shared and every place asks a
//! condition of it, the disjunction of those is pushed below it ([`Conditions`]).
//!
//! Invariants: what may come out otherwise when it is computed again stays shared ([`gives_the_same`]), and so does
//! what the user called MATERIALIZED. A disjunction is used only if every place asks what it asked when the disjunction
//! was made.
//!
//! # Limits
//! At most [`TRIALS_MAX`] shared plans are tried; further ones stay shared.

use std::collections::HashMap;

use arrow::datatypes::Schema;

use super::optimized::OptimizedPlan;
use super::push::Rewriter;
use crate::plan::predicate::Predicate;
use crate::plan::{AggregateCall, AggregateFunction, Frame, FrameUnits, Output, Plan, Window, WindowFunction};

/// Each trial plans the whole statement once more.
const TRIALS_MAX: usize = 4;
/// Computing a plan in each of its places is chosen where it costs less than this share of computing it once: the model
/// errs.
const CHEAPER: f64 = 0.8;

/// The plan rewritten in the cheapest way that was tried.
pub(super) fn cheapest(plan: Plan) -> Plan {
    let candidates = candidates(&plan);
    if candidates.is_empty() {
        return Rewriter::default().push(plan, Vec::new()).plan;
    }
    let mut inlined = Vec::new();
    let mut best = trial(&plan, &inlined);
    for candidate in candidates.into_iter().filter(|c| c.repeatable).take(TRIALS_MAX) {
        inlined.push(candidate.id);
        let trial = trial(&plan, &inlined);
        if trial.cost < CHEAPER * best.cost {
            best = trial;
        } else {
            inlined.pop();
        }
    }
    best.plan
}

/// A plan that was rewritten, and what it costs.
struct Trial {
    plan: Plan,
    cost: f64,
}

fn trial(plan: &Plan, inlined: &[usize]) -> Trial {
    let plan = inline(plan, inlined);
    let mut rewriter = Rewriter::default();
    let first = finish(rewriter.push(plan.clone(), Vec::new()), &rewriter);
    let conditions = rewriter.conditions.agreed();
    if conditions.is_empty() {
        return first;
    }
    let mut again = Rewriter::pushing(conditions);
    let second = finish(again.push(plan, Vec::new()), &again);
    match again.conditions.held() && second.cost <= first.cost {
        true => second,
        false => first,
    }
}

fn finish(optimized: OptimizedPlan, rewriter: &Rewriter) -> Trial {
    Trial { cost: optimized.estimate.cost.total() + rewriter.kept_cost, plan: optimized.plan }
}

/// A plan that stands in several places.
struct Candidate {
    id: usize,
    /// It may be computed again.
    repeatable: bool,
}

/// The shared plans that stand in several places, outer ones first.
fn candidates(plan: &Plan) -> Vec<Candidate> {
    fn walk(plan: &Plan, met: &mut Vec<(Candidate, usize)>) {
        if let Plan::Shared(shared) = plan {
            if let Some((_, places)) = met.iter_mut().find(|(known, _)| known.id == shared.id) {
                *places += 1;
                return;
            }
            met.push((Candidate { id: shared.id, repeatable: !shared.keep && gives_the_same(shared) }, 1));
        }
        plan.inputs().into_iter().for_each(|input| walk(input, met));
    }
    let mut met = Vec::new();
    walk(plan, &mut met);
    met.into_iter().filter(|(_, places)| *places > 1).map(|(candidate, _)| candidate).collect()
}

/// Does it give the same rows whenever it is computed? Not where a part of them is picked, where functions depend on
/// the moment or on the order of rows, and where floats are added up, whose last digits depend on the order.
fn gives_the_same(plan: &Plan) -> bool {
    let steady = |predicate: &Predicate| !predicate.volatile();
    let own = match plan {
        Plan::Filter { predicate, .. } => steady(predicate),
        Plan::Project { outputs, .. } => {
            !outputs.iter().any(|o| matches!(o, Output::Expression { expression, .. } if expression.volatile()))
        }
        Plan::Limit { .. } => false,
        Plan::Sort(sort) => sort.fetch.is_none(),
        Plan::Aggregate(aggregation) => is_exact(aggregation.calls.iter(), &aggregation.input.schema()),
        Plan::Window(window) => is_steady(window),
        Plan::Join(join) => join.residual.as_ref().is_none_or(steady),
        Plan::Scan { .. } | Plan::Union(_) | Plan::Values { .. } | Plan::Shared(_) => true,
        Plan::Recursive(_) | Plan::WorkTable { .. } | Plan::Unnest(_) => true,
        // A file may be another one when it is read again.
        Plan::Source { .. } => false,
    };
    own && plan.inputs().into_iter().all(gives_the_same)
}

/// Does a window give the same whichever of its peers comes first?
fn is_steady(window: &Window) -> bool {
    let input = window.input.schema();
    window.calls.iter().all(|call| match &call.function {
        WindowFunction::Rank | WindowFunction::DenseRank | WindowFunction::PercentRank | WindowFunction::CumeDist => {
            true
        }
        WindowFunction::Aggregate { .. } => {
            let by_rows = call.frame.units == FrameUnits::Rows && call.frame != Frame::WHOLE;
            !by_rows && is_exact(call.aggregate().iter(), &input)
        }
        _ => false,
    })
}

fn is_exact<'a>(mut calls: impl Iterator<Item = &'a AggregateCall>, input: &Schema) -> bool {
    calls.all(|call| match &call.function {
        AggregateFunction::CountRows | AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max => {
            true
        }
        AggregateFunction::Sum | AggregateFunction::Avg => {
            !call.arguments.iter().any(|&a| input.field(a).data_type().is_floating())
        }
        _ => false,
    })
}

/// The plan with copies in place of some shared plans.
fn inline(plan: &Plan, ids: &[usize]) -> Plan {
    match plan {
        Plan::Shared(shared) if ids.contains(&shared.id) => inline(shared, ids),
        // What lies inside of a plan that stays shared is the same for all of its places.
        Plan::Shared(_) => plan.clone(),
        other => other.map_inputs(&mut |input| inline(input, ids)),
    }
}

/// Which columns the places of shared plans read, all together.
#[derive(Default)]
pub(super) struct Reads(HashMap<usize, Vec<bool>>);

impl Reads {
    /// Notes columns that a place reads.
    pub(super) fn note(&mut self, id: usize, schema: &Schema, columns: &[usize]) {
        let known = self.0.entry(id).or_insert_with(|| vec![false; schema.fields().len()]);
        columns.iter().for_each(|&c| known[c] = true);
    }

    /// Columns that some place reads, ascending.
    pub(super) fn of(&self, id: usize) -> Option<Vec<usize>> {
        let known = self.0.get(&id)?;
        Some((0..known.len()).filter(|&c| known[c]).collect())
    }
}
