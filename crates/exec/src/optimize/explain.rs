//! [`estimates`]: rows per operator, for EXPLAIN.

use std::collections::HashMap;

use super::cardinality::{self, Estimate};
use super::conjuncts::conjuncts;
use super::cost::lookup;
use super::estimates::{limited, sorted, united, windowed};
use crate::plan::Plan;

/// Rows that each of [`Plan::operators`] is taken to give.
pub fn estimates(plan: &Plan) -> Vec<f64> {
    let mut walk = Walk::default();
    walk.estimate(plan);
    walk.rows
}

#[derive(Default)]
struct Walk {
    /// Of the operators met so far.
    rows: Vec<f64>,
    /// What shared plans are taken to give, by number.
    shared: HashMap<usize, Estimate>,
}

impl Walk {
    fn estimate(&mut self, plan: &Plan) -> Estimate {
        let line = self.rows.len();
        self.rows.push(0.0);
        let estimate = match plan {
            Plan::Scan { snapshot, columns, .. } => cardinality::scan(snapshot, columns, &[]),
            Plan::Filter { input, predicate } => {
                let (mut parts, mut below) = (conjuncts(predicate), input.as_ref());
                let unfiltered = self.estimate(input);
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
            Plan::Project { input, outputs } => self.estimate(input).projected(outputs),
            Plan::Limit { input, skip, fetch } => limited(self.estimate(input), *skip, *fetch),
            Plan::Aggregate(aggregation) => {
                let input = self.estimate(&aggregation.input);
                cardinality::aggregate(&input, aggregation)
            }
            Plan::Join(join) => {
                let (left, right) = (self.estimate(&join.left), self.estimate(&join.right));
                let schema = join.left.schema();
                let types: Vec<_> = join.on.iter().map(|k| schema.field(k.0).data_type()).collect();
                cardinality::join(&left, &right, join, lookup(&types))
            }
            Plan::Sort(sort) => sorted(self.estimate(&sort.input), sort.fetch),
            Plan::Window(window) => windowed(self.estimate(&window.input), window.calls.len()),
            Plan::Union(union) => {
                let inputs: Vec<Estimate> = union.inputs.iter().map(|i| self.estimate(i)).collect();
                united(inputs.iter())
            }
            Plan::Values { schema, batches } => {
                let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
                Estimate::of_rows(rows as f64, schema.fields().len())
            }
            Plan::Source { source, columns } => cardinality::source(source.as_ref(), columns),
            Plan::WorkTable { schema, .. } => cardinality::work_table(schema.fields().len()),
            Plan::Recursive(recursion) => {
                let (base, step) = (self.estimate(&recursion.base), self.estimate(&recursion.step));
                cardinality::recursion(&base, &step)
            }
            Plan::Unnest(unnesting) => cardinality::unnested(self.estimate(&unnesting.input), unnesting.lists.len()),
            Plan::Shared(shared) => match self.shared.get(&shared.id) {
                Some(known) => known.clone(),
                None => {
                    let estimate = self.estimate(shared);
                    self.shared.insert(shared.id, estimate.clone());
                    estimate
                }
            },
        };
        self.rows[line] = estimate.rows;
        estimate
    }
}
