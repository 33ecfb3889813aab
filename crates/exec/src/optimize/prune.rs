//! Columns that nobody reads are dropped: scans read fewer, and what is kept in memory (build sides, sorts, limits)
//! holds only what is asked for above.
//!
//! In a pipeline a column that nobody loads costs nothing, so no projection is put there for its own sake.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Schema;

use super::share::Reads;
use crate::plan::{
    AggregateCall, Aggregation, Join, JoinKind, Output, Plan, Recursion, Shared, Side, Sort, Union, Unnesting, Window,
    WindowCall,
};

/// A pruned plan; `columns[i]` is which of the original output columns its column `i` is.
struct PrunedPlan {
    plan: Plan,
    columns: Vec<usize>,
}

/// Prunes plans; a shared plan once.
#[derive(Default)]
pub(super) struct Pruner {
    /// By number: the plan as it is now, and which of its columns are left.
    shared: HashMap<usize, (Arc<Shared>, Vec<usize>)>,
    /// What is read of each shared plan, once a first walk has found it.
    reads: Reads,
    /// What this walk finds to be read of each.
    found: Reads,
}

impl Pruner {
    /// As [`whole`](Self::whole); of shared plans only what some place reads is left.
    pub(super) fn plan(plan: Plan, schema: &Schema) -> Plan {
        let shares = plan.operators().iter().any(|operator| matches!(operator.plan, Plan::Shared(_)));
        if !shares {
            return Pruner::default().whole(plan, schema);
        }
        // What the outer ones read of the inner ones is known when the outer ones have lost columns: one more walk per
        // level would find it. Two walks leave out what the statement itself does not read.
        let mut first = Pruner::default();
        first.whole(plan.clone(), schema);
        Pruner { reads: first.found, ..Pruner::default() }.whole(plan, schema)
    }

    /// The same rows, with all columns as `schema` has them.
    fn whole(&mut self, plan: Plan, schema: &Schema) -> Plan {
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let pruned = self.prune(plan, &columns);
        if pruned.columns == columns && pruned.plan.schema().fields() == schema.fields() {
            return pruned.plan;
        }
        let place = |c: usize| pruned.columns.iter().position(|&p| p == c).expect("a column that is wanted is there");
        let output = |c: usize| Output::Column { column: place(c), field: schema.fields()[c].clone() };
        let outputs = columns.iter().map(|&c| output(c)).collect();
        Plan::Project { input: Box::new(pruned.plan), outputs }
    }

    /// Just these columns, ascending.
    fn exactly(&mut self, plan: Plan, wanted: &[usize]) -> PrunedPlan {
        let pruned = self.prune(plan, wanted);
        if pruned.columns == wanted {
            return pruned;
        }
        let schema = pruned.plan.schema();
        let output = |c: &usize| {
            let column = pruned.place(*c);
            Output::Column { column, field: schema.fields()[column].clone() }
        };
        let outputs = wanted.iter().map(output).collect();
        PrunedPlan { plan: Plan::Project { input: Box::new(pruned.plan), outputs }, columns: wanted.to_vec() }
    }

    /// These columns (ascending, each once) at least.
    fn prune(&mut self, plan: Plan, wanted: &[usize]) -> PrunedPlan {
        match plan {
            Plan::Scan { table, snapshot, columns } => {
                let columns = wanted.iter().map(|&c| columns[c]).collect();
                PrunedPlan { plan: Plan::Scan { table, snapshot, columns }, columns: wanted.to_vec() }
            }
            Plan::Filter { input, predicate } => {
                let input = self.prune(*input, &union(wanted, predicate.columns()));
                let predicate = predicate.map_columns(&|c| input.place(c));
                PrunedPlan { plan: Plan::Filter { input: Box::new(input.plan), predicate }, columns: input.columns }
            }
            Plan::Project { input, outputs } => self.project(*input, outputs, wanted),
            Plan::Limit { input, skip, fetch } => {
                let input = self.exactly(*input, wanted);
                PrunedPlan { plan: Plan::Limit { input: Box::new(input.plan), skip, fetch }, columns: input.columns }
            }
            Plan::Aggregate(aggregation) => self.aggregate(*aggregation, wanted),
            Plan::Join(join) => self.join(*join, wanted),
            Plan::Sort(sort) => {
                let Sort { input, mut keys, fetch } = *sort;
                let input = self.exactly(input, &union(wanted, keys.iter().map(|k| k.column).collect()));
                keys.iter_mut().for_each(|k| k.column = input.place(k.column));
                PrunedPlan {
                    plan: Plan::Sort(Box::new(Sort { input: input.plan, keys, fetch })),
                    columns: input.columns,
                }
            }
            Plan::Window(window) => self.window(*window, wanted),
            Plan::Union(Union { inputs, schema }) => {
                let inputs = inputs.into_iter().map(|input| self.exactly(input, wanted).plan).collect();
                let fields: Vec<_> = wanted.iter().map(|&c| schema.fields()[c].clone()).collect();
                let plan = Plan::Union(Union { inputs, schema: Arc::new(Schema::new(fields)) });
                PrunedPlan { plan, columns: wanted.to_vec() }
            }
            Plan::Source { source, columns } => {
                let columns = wanted.iter().map(|&c| columns[c]).collect();
                PrunedPlan { plan: Plan::Source { source, columns }, columns: wanted.to_vec() }
            }
            Plan::Recursive(recursion) => {
                let mut whole = |plan: &Plan| self.whole(plan.clone(), &plan.schema());
                let (base, step) = (whole(&recursion.base), whole(&recursion.step));
                let (id, distinct, schema) = (recursion.id, recursion.distinct, recursion.schema.clone());
                let columns = (0..schema.fields().len()).collect();
                PrunedPlan { plan: Plan::Recursive(Arc::new(Recursion { base, step, id, distinct, schema })), columns }
            }
            Plan::Unnest(unnesting) => self.unnest(*unnesting, wanted),
            Plan::Values { .. } | Plan::WorkTable { .. } => {
                let columns = (0..plan.schema().fields().len()).collect();
                PrunedPlan { plan, columns }
            }
            Plan::Shared(shared) => self.shared(&shared, wanted),
        }
    }

    fn shared(&mut self, shared: &Shared, wanted: &[usize]) -> PrunedPlan {
        let schema = shared.schema();
        let (pruned, columns) = match self.shared.get(&shared.id) {
            Some(known) => known.clone(),
            None => {
                let all = || (0..schema.fields().len()).collect();
                let read = self.reads.of(shared.id).unwrap_or_else(all);
                let PrunedPlan { plan, columns } = self.exactly(shared.plan.clone(), &read);
                let pruned = Arc::new(Shared { id: shared.id, keep: shared.keep, plan });
                self.shared.insert(shared.id, (pruned.clone(), columns.clone()));
                (pruned, columns)
            }
        };
        self.found.note(shared.id, &schema, wanted);
        PrunedPlan { plan: Plan::Shared(pruned), columns }
    }

    /// Every list says how many rows there are.
    fn unnest(&mut self, unnesting: Unnesting, wanted: &[usize]) -> PrunedPlan {
        let Unnesting { input, mut lists, outer } = unnesting;
        let width = input.schema().fields().len();
        let reads = wanted.iter().copied().filter(|&c| c < width).chain(lists.iter().map(|l| l.0));
        let input = self.exactly(input, &union(&[], reads.collect()));
        lists.iter_mut().for_each(|list| list.0 = input.place(list.0));
        let columns = input.columns.iter().copied().chain(width..width + lists.len()).collect();
        PrunedPlan { plan: Plan::Unnest(Box::new(Unnesting { input: input.plan, lists, outer })), columns }
    }

    fn project(&mut self, input: Plan, outputs: Vec<Output>, wanted: &[usize]) -> PrunedPlan {
        let reads = wanted.iter().flat_map(|&c| match &outputs[c] {
            Output::Column { column, .. } => vec![*column],
            Output::Expression { expression, .. } => expression.columns().to_vec(),
        });
        let input = self.prune(input, &union(&[], reads.collect()));
        let plain: Option<Vec<usize>> = wanted
            .iter()
            .map(|&c| match &outputs[c] {
                Output::Column { column, .. } => Some(input.place(*column)),
                Output::Expression { .. } => None,
            })
            .collect();
        if plain.is_some_and(|p| p.len() == input.columns.len() && p.iter().enumerate().all(|(i, &c)| i == c)) {
            return PrunedPlan { plan: input.plan, columns: wanted.to_vec() };
        }
        let kept = wanted.iter().map(|&c| match &outputs[c] {
            Output::Column { column, field } => Output::Column { column: input.place(*column), field: field.clone() },
            Output::Expression { expression, field } => {
                let expression =
                    crate::plan::expression::RemappedExpression::over(expression.clone(), &|c| input.place(c));
                Output::Expression { expression, field: field.clone() }
            }
        });
        let outputs = kept.collect();
        PrunedPlan { plan: Plan::Project { input: Box::new(input.plan), outputs }, columns: wanted.to_vec() }
    }

    fn aggregate(&mut self, aggregation: Aggregation, wanted: &[usize]) -> PrunedPlan {
        let groups = aggregation.key_columns();
        let Aggregation { input, mut keys, sets, calls } = aggregation;
        let mut columns: Vec<usize> = (0..groups).collect();
        let mut kept = Vec::new();
        for (number, call) in calls.into_iter().enumerate() {
            // An aggregate without any column would not say how many rows it has.
            if wanted.binary_search(&(groups + number)).is_ok() || (groups == 0 && wanted.is_empty() && number == 0) {
                columns.push(groups + number);
                kept.push(call);
            }
        }
        let arguments = kept.iter().flat_map(AggregateCall::columns);
        let input = self.prune(input, &union(&[], arguments.chain(keys.iter().copied()).collect()));
        keys.iter_mut().for_each(|k| *k = input.place(*k));
        let kept = kept.into_iter().map(|call| call.map_columns(&|c| input.place(c))).collect();
        let aggregation = Aggregation { input: input.plan, keys, sets, calls: kept };
        PrunedPlan { plan: Plan::Aggregate(Box::new(aggregation)), columns }
    }

    fn window(&mut self, window: Window, wanted: &[usize]) -> PrunedPlan {
        let Window { input, mut partition, mut order, calls } = window;
        let width = input.schema().fields().len();
        let own: Vec<usize> = wanted.iter().copied().filter(|&c| c < width).collect();
        let is_wanted = |number: &usize| wanted.binary_search(&(width + number)).is_ok();
        let (numbers, calls): (Vec<usize>, Vec<WindowCall>) =
            calls.into_iter().enumerate().filter(|(number, _)| is_wanted(number)).unzip();
        if calls.is_empty() {
            return self.prune(input, &own);
        }
        let reads = calls.iter().flat_map(WindowCall::columns).chain(order.iter().map(|k| k.column));
        let reads = union(&own, reads.chain(partition.iter().copied()).collect());
        // Windows over one another that nothing lies between may share an order.
        let input = match input {
            Plan::Window(_) => self.prune(input, &reads),
            other => self.exactly(other, &reads),
        };
        partition.iter_mut().for_each(|column| *column = input.place(*column));
        order.iter_mut().for_each(|key| key.column = input.place(key.column));
        let calls = calls.iter().map(|call| call.map_columns(&|c| input.place(c))).collect();
        let columns = input.columns.iter().copied().chain(numbers.iter().map(|number| width + number)).collect();
        let window = Window { input: input.plan, partition, order, calls };
        PrunedPlan { plan: Plan::Window(Box::new(window)), columns }
    }

    fn join(&mut self, join: Join, wanted: &[usize]) -> PrunedPlan {
        let Join { left, right, kind, on, nulls_equal, null_aware, residual, build } = join;
        let (left_width, right_width) = (left.schema().fields().len(), right.schema().fields().len());
        let mut reads = [on.iter().map(|k| k.0).collect::<Vec<_>>(), on.iter().map(|k| k.1).collect()];
        for c in residual.iter().flat_map(|r| r.columns()) {
            if c < left_width { reads[0].push(c) } else { reads[1].push(c - left_width) }
        }
        let both = !matches!(kind, JoinKind::Semi(_) | JoinKind::Anti(_) | JoinKind::Mark(_));
        for &c in wanted {
            match kind {
                JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) => {
                    let of = usize::from(side == Side::Right);
                    if c < [left_width, right_width][of] {
                        reads[of].push(c);
                    }
                }
                _ if c < left_width => reads[0].push(c),
                _ => reads[1].push(c - left_width),
            }
        }
        let [left_reads, right_reads] = reads.map(|r| union(&[], r));
        let mut side =
            |plan, reads: &[usize], builds| if builds { self.exactly(plan, reads) } else { self.prune(plan, reads) };
        let left = side(left, &left_reads, build == Side::Left);
        let right = side(right, &right_reads, build == Side::Right);
        let on = on.iter().map(|&(l, r)| (left.place(l), right.place(r))).collect();
        let shift = left.columns.len();
        let pair = |c: usize| if c < left_width { left.place(c) } else { shift + right.place(c - left_width) };
        let residual = residual.map(|r| r.map_columns(&pair));
        let columns = match kind {
            _ if both => left.columns.iter().copied().chain(right.columns.iter().map(|c| c + left_width)).collect(),
            JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) => left.columns.clone(),
            JoinKind::Mark(Side::Left) => [left.columns.as_slice(), &[left_width]].concat(),
            JoinKind::Mark(_) => [right.columns.as_slice(), &[right_width]].concat(),
            _ => right.columns.clone(),
        };
        let (left, right) = (left.plan, right.plan);
        let join = Join { left, right, kind, on, nulls_equal, null_aware, residual, build };
        PrunedPlan { plan: Plan::Join(Box::new(join)), columns }
    }
}

impl PrunedPlan {
    /// Where an original column is now.
    fn place(&self, column: usize) -> usize {
        self.columns.iter().position(|&c| c == column).expect("a column that is read is wanted")
    }
}

/// Both, ascending, each once.
fn union(a: &[usize], mut b: Vec<usize>) -> Vec<usize> {
    b.extend_from_slice(a);
    b.sort_unstable();
    b.dedup();
    b
}
