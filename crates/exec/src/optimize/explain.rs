//! [`estimates`]: rows per operator, for EXPLAIN.

use std::collections::HashMap;

use super::cardinality::{self, Estimate};
use super::conjuncts::conjuncts;
use super::cost::lookup;
use super::estimates::{limited, sorted, united, windowed};
use crate::plan::{ListedOperator, OperatorId, PerOperator, Plan};

/// Rows that each operator of a plan is taken to give.
pub fn estimates(plan: &Plan) -> PerOperator<f64> {
    let operators = plan.operators();
    let rows = PerOperator::new(&operators, |_| 0.0);
    let mut walk = Walk { operators: PerOperator::new(&operators, Clone::clone), rows, shared: HashMap::new() };
    walk.estimate(OperatorId::TOP);
    walk.rows
}

struct Walk<'p> {
    operators: PerOperator<ListedOperator<'p>>,
    /// Of the operators met so far.
    rows: PerOperator<f64>,
    /// What is shared is estimated once.
    shared: HashMap<OperatorId, Estimate>,
}

impl Walk<'_> {
    fn estimate(&mut self, id: OperatorId) -> Estimate {
        let ListedOperator { plan, inputs, .. } = self.operators[id].clone();
        let estimate = match plan {
            Plan::Scan { snapshot, columns, .. } => cardinality::scan(snapshot, columns, &[]),
            Plan::Filter { input, predicate } => {
                let (mut parts, mut below) = (conjuncts(predicate), input.as_ref());
                let unfiltered = self.estimate(inputs[0]);
                // Conditions on one scan are tried out together.
                while let Plan::Filter { input, predicate } = below {
                    parts = conjuncts(predicate).into_iter().chain(parts).collect();
                    below = input;
                }
                match below {
                    Plan::Scan { snapshot, columns, .. } => cardinality::scan(snapshot, columns, &parts),
                    _ => unfiltered.filtered(&conjuncts(predicate)),
                }
            }
            Plan::Project { outputs, .. } => self.estimate(inputs[0]).projected(outputs),
            Plan::Limit { skip, fetch, .. } => limited(self.estimate(inputs[0]), *skip, *fetch),
            Plan::Aggregate(aggregation) => {
                let input = self.estimate(inputs[0]);
                cardinality::aggregate(&input, aggregation)
            }
            Plan::Join(join) => {
                let (left, right) = (self.estimate(inputs[0]), self.estimate(inputs[1]));
                let schema = join.left.schema();
                let types: Vec<_> = join.on.iter().map(|k| schema.field(k.0).data_type()).collect();
                cardinality::join(&left, &right, join, lookup(&types))
            }
            Plan::Sort(sort) => sorted(self.estimate(inputs[0]), sort.fetch),
            Plan::Window(window) => windowed(self.estimate(inputs[0]), window.calls.len()),
            Plan::Union(_) => {
                let inputs: Vec<Estimate> = inputs.iter().map(|&input| self.estimate(input)).collect();
                united(inputs.iter())
            }
            Plan::Values { schema, batches } => {
                let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
                Estimate::of_rows(rows as f64, schema.fields().len())
            }
            Plan::Source { source, columns } => cardinality::source(source.as_ref(), columns),
            Plan::WorkTable { schema, .. } => cardinality::work_table(schema.fields().len()),
            Plan::Recursive(_) => {
                let (base, step) = (self.estimate(inputs[0]), self.estimate(inputs[1]));
                cardinality::recursion(&base, &step)
            }
            Plan::Unnest(unnesting) => cardinality::unnested(self.estimate(inputs[0]), unnesting.lists.len()),
            Plan::Shared(_) => match self.shared.get(&inputs[0]) {
                Some(known) => known.clone(),
                None => {
                    let estimate = self.estimate(inputs[0]);
                    self.shared.insert(inputs[0], estimate.clone());
                    estimate
                }
            },
        };
        self.rows[id] = estimate.rows;
        estimate
    }
}
