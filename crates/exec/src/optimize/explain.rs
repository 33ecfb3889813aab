//! [`estimates`]: rows per operator, for EXPLAIN.

use super::cardinality::{self, Estimate};
use super::conjuncts::conjuncts;
use super::push::{limited, lookup, sorted, united};
use crate::plan::Plan;

/// Rows that each operator is taken to give: a plan's own, then those of its [`Plan::inputs`] in order, a shared plan as often as it is
/// an input.
pub fn estimates(plan: &Plan) -> Vec<f64> {
    let mut rows = Vec::new();
    walk(plan, &mut rows);
    rows
}

fn walk(plan: &Plan, rows: &mut Vec<f64>) -> Estimate {
    let line = rows.len();
    rows.push(0.0);
    let estimate = match plan {
        Plan::Scan { snapshot, columns, .. } => cardinality::scan(snapshot, columns, &[]),
        Plan::Filter { input, predicate } => {
            let (mut parts, mut below) = (conjuncts(predicate), input.as_ref());
            let unfiltered = walk(input, rows);
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
        Plan::Project { input, outputs } => walk(input, rows).projected(outputs),
        Plan::Limit { input, skip, fetch } => limited(walk(input, rows), *skip, *fetch),
        Plan::Aggregate(aggregation) => {
            let input = walk(&aggregation.input, rows);
            cardinality::aggregate(&input, aggregation)
        }
        Plan::Join(join) => {
            let (left, right) = (walk(&join.left, rows), walk(&join.right, rows));
            let schema = join.left.schema();
            let types: Vec<_> = join.on.iter().map(|k| schema.field(k.0).data_type()).collect();
            cardinality::join(&left, &right, join, lookup(&types))
        }
        Plan::Sort(sort) => sorted(walk(&sort.input, rows), sort.fetch),
        Plan::Union(union) => {
            let inputs: Vec<Estimate> = union.inputs.iter().map(|i| walk(i, rows)).collect();
            united(inputs.iter())
        }
        Plan::Values { schema, batches } => {
            let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
            Estimate::of_rows(rows as f64, schema.fields().len())
        }
        Plan::Shared(plan) => walk(plan, rows),
    };
    rows[line] = estimate.rows;
    estimate
}
