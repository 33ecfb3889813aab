//! Plans over one table that are run again with other literals and other rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use storage::TableVersion;

use super::predicate::Predicate;
use super::{Aggregation, Plan, Sort};

impl Plan {
    /// The same plan over another snapshot, of the same columns, with `to[i]` wherever a comparison has the very
    /// literal `from[i]` (the same allocation). `None` where the plan is more than a chain of operators over one scan.
    ///
    /// Types are not checked: `to[i]` has one value, of the type of `from[i]`.
    pub fn with_literals(&self, snapshot: &Arc<TableVersion>, from: &[ArrayRef], to: &[ArrayRef]) -> Option<Plan> {
        let input = |plan: &Plan| plan.with_literals(snapshot, from, to);
        Some(match self {
            Plan::Scan { table, columns, .. } => {
                Plan::Scan { table: table.clone(), snapshot: Arc::clone(snapshot), columns: columns.clone() }
            }
            Plan::Filter { input: below, predicate } => Plan::Filter {
                input: Box::new(input(below)?),
                predicate: predicate.map_literals(&|value| {
                    let place = from.iter().position(|literal| Arc::ptr_eq(literal, value));
                    Arc::clone(place.map_or(value, |place| &to[place]))
                }),
            },
            Plan::Project { input: below, outputs } => {
                Plan::Project { input: Box::new(input(below)?), outputs: outputs.clone() }
            }
            Plan::Limit { input: below, skip, fetch } => {
                Plan::Limit { input: Box::new(input(below)?), skip: *skip, fetch: *fetch }
            }
            Plan::Aggregate(of) => Plan::Aggregate(Box::new(Aggregation {
                input: input(&of.input)?,
                keys: of.keys.clone(),
                sets: of.sets.clone(),
                calls: of.calls.clone(),
            })),
            Plan::Sort(of) => {
                Plan::Sort(Box::new(Sort { input: input(&of.input)?, keys: of.keys.clone(), fetch: of.fetch }))
            }
            Plan::Window(of) => Plan::Window(Box::new(of.over(input(&of.input)?))),
            Plan::Join(_) | Plan::Union(_) | Plan::Values { .. } | Plan::Shared(_) => return None,
            Plan::Source { .. } | Plan::Recursive(_) | Plan::WorkTable { .. } | Plan::Unnest(_) => return None,
        })
    }

    /// How many comparisons of the plan's filters have this very literal.
    pub fn count_literal(&self, literal: &ArrayRef) -> usize {
        let here = match self {
            Plan::Filter { predicate, .. } => predicate.count_literal(literal),
            _ => 0,
        };
        here + self.inputs().into_iter().map(|input| input.count_literal(literal)).sum::<usize>()
    }
}

impl Predicate {
    fn map_literals(&self, map: &dyn Fn(&ArrayRef) -> ArrayRef) -> Predicate {
        let all = |parts: &[Predicate]| parts.iter().map(|p| p.map_literals(map)).collect();
        match self {
            Predicate::Compare { column, op, value } => {
                Predicate::Compare { column: *column, op: *op, value: map(value) }
            }
            Predicate::And(parts) => Predicate::And(all(parts)),
            Predicate::Or(parts) => Predicate::Or(all(parts)),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.map_literals(map))),
            Predicate::In { .. } | Predicate::IsNull { .. } | Predicate::Boolean(_) => self.clone(),
        }
    }

    fn count_literal(&self, literal: &ArrayRef) -> usize {
        match self {
            Predicate::Compare { value, .. } => usize::from(Arc::ptr_eq(value, literal)),
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().map(|p| p.count_literal(literal)).sum(),
            Predicate::Not(inner) => inner.count_literal(literal),
            Predicate::In { .. } | Predicate::IsNull { .. } | Predicate::Boolean(_) => 0,
        }
    }
}
