//! Filters on their way down, and each operator rebuilt over what its inputs have become.
//!
//! Invariant: no condition that may fail or is volatile is evaluated for a row that the plan as written would not
//! evaluate it for, nor before one that it was written behind. So such a condition goes down through filters and plain
//! projections only, and nothing moves below an operator that hands out a part of its rows (LIMIT, the first rows of a
//! sort).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::cardinality::{self, Estimate};
use super::cluster::{Cluster, inner_where_rejected, is_small_cluster};
use super::conditions::Conditions;
use super::conjuncts::{all_of, conjuncts, filter, rejects_nulls};
use super::cost::{self, Lookup, lookup};
use super::estimates::{limited, sorted, united, windowed};
use super::optimized::OptimizedPlan;
use super::solve::solve;
use super::{eager, keys};
use crate::plan::delicate::is_delicate;
use crate::plan::predicate::Predicate;
use crate::plan::{Aggregation, Join, JoinKind, Output, Plan, Recursion, Shared, Side, Sort, Union, Unnesting, Window};

/// Rewrites plans; a shared plan once.
#[derive(Default)]
pub(super) struct Rewriter {
    /// By number: the plan as it is now, and what is known of it.
    shared: HashMap<usize, (Arc<Shared>, Estimate)>,
    /// What places ask of shared plans.
    pub(super) conditions: Conditions,
    /// What computing and keeping shared plans costs, each once.
    pub(super) kept_cost: f64,
}

impl Rewriter {
    /// One that pushes what places were found to ask of shared plans below those.
    pub(super) fn pushing(conditions: Conditions) -> Rewriter {
        Rewriter { conditions, ..Rewriter::default() }
    }

    /// The rows of a plan that pass conjuncts over its output.
    pub(super) fn push(&mut self, plan: Plan, filters: Vec<Predicate>) -> OptimizedPlan {
        let rejected = |width: usize| -> Vec<bool> {
            (0..width).map(|column| filters.iter().any(|p| rejects_nulls(p, &|c| c == column))).collect()
        };
        let plan = match plan {
            Plan::Join(_) if !filters.is_empty() => {
                let width = plan.schema().fields().len();
                inner_where_rejected(plan, &rejected(width))
            }
            plan => plan,
        };
        if is_small_cluster(&plan) {
            let schema = plan.schema();
            let mut cluster = Cluster::default();
            let outputs = cluster.take(plan, &rejected(schema.fields().len()));
            filters.iter().for_each(|p| cluster.ask(p.map_columns(&|c| outputs[c])));
            return solve(cluster, &outputs, &schema, &mut |plan, filters| self.push(plan, filters));
        }
        match plan {
            Plan::Scan { ref snapshot, ref columns, .. } => {
                let estimate = cardinality::scan(snapshot, columns, &filters);
                OptimizedPlan { plan: filter(plan, filters), estimate }
            }
            Plan::Filter { input, predicate } => {
                self.push(*input, conjuncts(&predicate).into_iter().chain(filters).collect())
            }
            Plan::Project { input, outputs } => self.project(*input, outputs, filters),
            Plan::Limit { input, skip, fetch } => {
                let input = self.push(*input, Vec::new());
                let estimate = limited(input.estimate, skip, fetch);
                let plan = Plan::Limit { input: Box::new(input.plan), skip, fetch };
                OptimizedPlan { plan, estimate }.filtered(filters)
            }
            Plan::Aggregate(aggregation) => self.aggregate(*aggregation, filters),
            Plan::Join(join) => self.join(*join, filters),
            Plan::Sort(sort) => {
                let Sort { input, keys, fetch } = *sort;
                let (below, above) = if fetch.is_some() { (Vec::new(), filters) } else { split(filters, |_| true) };
                let input = self.push(input, below);
                let estimate = sorted(input.estimate, fetch);
                let plan = Plan::Sort(Box::new(Sort { input: input.plan, keys, fetch }));
                OptimizedPlan { plan, estimate }.filtered(above)
            }
            Plan::Window(window) => self.window(*window, filters),
            Plan::Union(Union { inputs, schema }) => {
                let (below, above) = split(filters, |_| true);
                let inputs: Vec<OptimizedPlan> = inputs.into_iter().map(|i| self.push(i, below.clone())).collect();
                let estimate = united(inputs.iter().map(|i| &i.estimate));
                let plan = Plan::Union(Union { inputs: inputs.into_iter().map(|i| i.plan).collect(), schema });
                OptimizedPlan { plan, estimate }.filtered(above)
            }
            Plan::Source { ref source, ref columns } => {
                let estimate = cardinality::source(source.as_ref(), columns);
                OptimizedPlan { plan, estimate }.filtered(filters)
            }
            Plan::WorkTable { ref schema, .. } => {
                let estimate = cardinality::work_table(schema.fields().len());
                OptimizedPlan { plan, estimate }.filtered(filters)
            }
            Plan::Recursive(recursion) => {
                let base = self.push(recursion.base.clone(), Vec::new());
                let step = self.push(recursion.step.clone(), Vec::new());
                let estimate = cardinality::recursion(&base.estimate, &step.estimate);
                let (id, distinct, schema) = (recursion.id, recursion.distinct, recursion.schema.clone());
                let recursion = Recursion { base: base.plan, step: step.plan, id, distinct, schema };
                OptimizedPlan { plan: Plan::Recursive(Arc::new(recursion)), estimate }.filtered(filters)
            }
            Plan::Unnest(unnesting) => {
                let Unnesting { input, lists, outer } = *unnesting;
                let width = input.schema().fields().len();
                let (below, above) =
                    split(filters, |p| !p.columns().is_empty() && p.columns().iter().all(|&c| c < width));
                let input = self.push(input, below);
                let estimate = cardinality::unnested(input.estimate, lists.len());
                let plan = Plan::Unnest(Box::new(Unnesting { input: input.plan, lists, outer }));
                OptimizedPlan { plan, estimate }.filtered(above)
            }
            Plan::Values { ref schema, ref batches } => {
                let rows = batches.iter().map(|b| b.num_rows()).sum::<usize>();
                let estimate = Estimate::of_rows(rows as f64, schema.fields().len());
                OptimizedPlan { plan, estimate }.filtered(filters)
            }
            Plan::Shared(shared) => self.shared(&shared, filters),
        }
    }

    fn shared(&mut self, shared: &Shared, filters: Vec<Predicate>) -> OptimizedPlan {
        // Into what the user wants computed as it is written goes nothing.
        self.conditions.note(shared.id, if shared.keep { &[] } else { &filters });
        let (plan, estimate) = match self.shared.get(&shared.id) {
            Some(known) => known.clone(),
            None => {
                let OptimizedPlan { plan, mut estimate } =
                    self.push(shared.plan.clone(), self.conditions.of(shared.id));
                let rows = estimate.rows;
                self.kept_cost += estimate.cost.total() + cost::build(rows, estimate.columns.len(), Lookup::Array);
                estimate.cost = cost::Cost { fixed: 0.0, work: rows * cost::ROW };
                let plan = Arc::new(Shared { id: shared.id, keep: shared.keep, plan });
                self.shared.insert(shared.id, (plan.clone(), estimate.clone()));
                (plan, estimate)
            }
        };
        OptimizedPlan { plan: Plan::Shared(plan), estimate }.filtered(filters)
    }

    fn project(&mut self, input: Plan, outputs: Vec<Output>, filters: Vec<Predicate>) -> OptimizedPlan {
        let volatile = |o: &Output| matches!(o, Output::Expression { expression, .. } if expression.volatile());
        let place = |c: usize| match &outputs[c] {
            Output::Column { column, .. } => Some(*column),
            Output::Expression { .. } => None,
        };
        let any_volatile = outputs.iter().any(volatile);
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for part in filters {
            let plain = part.columns().iter().all(|&c| place(c).is_some());
            // A condition that may fail sees the same rows below, if nothing stays above that it was written behind.
            if plain && !any_volatile && (above.is_empty() || !is_delicate(&part)) {
                below.push(part.map_columns(&|c| place(c).unwrap_or(c)));
            } else {
                above.push(part);
            }
        }
        let input = self.push(input, below);
        let estimate = input.estimate.projected(&outputs);
        let plan = Plan::Project { input: Box::new(input.plan), outputs };
        OptimizedPlan { plan, estimate }.filtered(above)
    }

    fn aggregate(&mut self, aggregation: Aggregation, filters: Vec<Predicate>) -> OptimizedPlan {
        if let Some(plan) = eager::below_outer_join(&aggregation) {
            return self.push(plan, filters);
        }
        let types = aggregation.input.schema();
        // A group of floats is of -0.0 and 0.0 and shows either; what some grouping set leaves out is NULL in its rows.
        let exact = |c: usize| aggregation.key_of(c).is_some_and(|k| !types.field(k).data_type().is_floating());
        let (below, above) = split(filters, |p| {
            let columns = p.columns();
            !columns.is_empty() && columns.iter().all(|&c| exact(c))
        });
        let Aggregation { input, keys, sets, calls } = aggregation;
        let below = below.iter().map(|p| p.map_columns(&|c| keys[c])).collect();
        let input = self.push(input, below);
        let aggregation = Aggregation { input: input.plan, keys, sets, calls };
        keys::aggregate(aggregation, &input.estimate).filtered(above)
    }

    /// Conditions on what tells partitions apart keep or drop whole partitions, so they go below.
    fn window(&mut self, window: Window, filters: Vec<Predicate>) -> OptimizedPlan {
        let Window { input, partition, order, calls } = window;
        let types = input.schema();
        // A partition of floats is of -0.0 and 0.0 and shows either.
        let exact = |c: &usize| partition.contains(c) && !types.field(*c).data_type().is_floating();
        let (below, above) = split(filters, |p| {
            let columns = p.columns();
            !columns.is_empty() && columns.iter().all(exact)
        });
        let input = self.push(input, below);
        let estimate = windowed(input.estimate, calls.len());
        let plan = Plan::Window(Box::new(Window { input: input.plan, partition, order, calls }));
        OptimizedPlan { plan, estimate }.filtered(above)
    }

    /// A join that is not taken apart.
    fn join(&mut self, join: Join, filters: Vec<Predicate>) -> OptimizedPlan {
        let Join { left, right, kind, on, nulls_equal, null_aware, residual, build } = join;
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let (left_width, right_width) = (left_schema.fields().len(), right_schema.fields().len());
        let single = match kind {
            JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) => Some(side),
            _ => None,
        };
        let (mut of_left, mut of_right, mut above) = (Vec::new(), Vec::new(), Vec::new());
        for part in filters {
            let columns = part.columns();
            let within = |range: std::ops::Range<usize>| columns.iter().all(|c| range.contains(c));
            let (to_left, to_right) = match (kind, single) {
                (_, Some(Side::Left)) => (within(0..left_width), false),
                (_, Some(Side::Right)) => (false, within(0..right_width)),
                (JoinKind::Left, _) => (within(0..left_width), false),
                (JoinKind::Right, _) => (false, within(left_width..left_width + right_width)),
                (JoinKind::Inner, _) => (within(0..left_width), within(left_width..left_width + right_width)),
                _ => (false, false),
            };
            match () {
                () if is_delicate(&part) || columns.is_empty() => above.push(part),
                () if to_left => of_left.push(part),
                () if to_right && single.is_some() => of_right.push(part),
                () if to_right => of_right.push(part.map_columns(&|c| c - left_width)),
                () => above.push(part),
            }
        }
        let residual = self.of_other_side(residual, kind, left_width, &mut of_left, &mut of_right, null_aware);
        let types: Vec<&DataType> = on.iter().map(|k| left_schema.field(k.0).data_type()).collect();
        let lookup = lookup(&types);
        let (left, right) = (self.push(left, of_left), self.push(right, of_right));
        let (left_estimate, right_estimate) = (left.estimate, right.estimate);
        let (left, right) = (left.plan, right.plan);
        let mut join = Join { left, right, kind, on, nulls_equal, null_aware, residual, build };
        join.build = cheaper_build(&left_estimate, &right_estimate, &mut join, lookup);
        let estimate = cardinality::join(&left_estimate, &right_estimate, &join, lookup);
        OptimizedPlan { plan: Plan::Join(Box::new(join)), estimate }.filtered(above)
    }

    /// Parts of a residual that only the side that is not kept is asked go there: its other rows match nothing.
    fn of_other_side(
        &self,
        residual: Option<Predicate>,
        kind: JoinKind,
        left_width: usize,
        of_left: &mut Vec<Predicate>,
        of_right: &mut Vec<Predicate>,
        null_aware: bool,
    ) -> Option<Predicate> {
        let other = match kind {
            JoinKind::Left | JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) | JoinKind::Mark(Side::Left) => {
                Side::Right
            }
            JoinKind::Right | JoinKind::Semi(_) | JoinKind::Anti(_) | JoinKind::Mark(_) => Side::Left,
            JoinKind::Inner | JoinKind::Full => return residual,
        };
        if null_aware {
            return residual;
        }
        let mut rest = Vec::new();
        for part in residual.iter().flat_map(conjuncts) {
            let columns = part.columns();
            let theirs = |c: &usize| if other == Side::Left { *c < left_width } else { *c >= left_width };
            if columns.is_empty() || is_delicate(&part) || !columns.iter().all(theirs) {
                rest.push(part);
            } else if other == Side::Left {
                of_left.push(part);
            } else {
                of_right.push(part.map_columns(&|c| c - left_width));
            }
        }
        all_of(rest)
    }
}

/// The side to keep.
fn cheaper_build(left: &Estimate, right: &Estimate, join: &mut Join, lookup: Lookup) -> Side {
    let mut cost = |side| {
        join.build = side;
        cardinality::join_cost(left, right, join, lookup, 0.0).total()
    };
    if cost(Side::Left) < cost(Side::Right) { Side::Left } else { Side::Right }
}

/// Those that may move below, and the rest in order.
fn split(filters: Vec<Predicate>, may: impl Fn(&Predicate) -> bool) -> (Vec<Predicate>, Vec<Predicate>) {
    filters.into_iter().partition(|p| !is_delicate(p) && may(p))
}
