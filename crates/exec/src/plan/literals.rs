//! Plans over one table that are run again with other values for their parameters, and other rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use storage::TableVersion;

use super::Plan;
use super::literal::{Literal, ParameterId};
use super::predicate::Predicate;

impl Plan {
    /// The same plan over another snapshot, of the same columns, with `values[n]` wherever a comparison has the value
    /// of parameter `n`. `None` where the plan is more than a chain of operators over one scan.
    ///
    /// Types are not checked: `values[n]` has one value, of the parameter's type.
    ///
    /// # Panics
    /// If a parameter has no value.
    pub fn with_values(&self, snapshot: &Arc<TableVersion>, values: &[ArrayRef]) -> Option<Plan> {
        self.is_over_one_scan().then(|| self.chain_over(snapshot, Some(values)))
    }

    /// The same plan over another snapshot, of the same columns, with the values that it has. `None` where the plan is
    /// more than a chain of operators over one scan.
    pub fn over(&self, snapshot: &Arc<TableVersion>) -> Option<Plan> {
        self.is_over_one_scan().then(|| self.chain_over(snapshot, None))
    }

    fn is_over_one_scan(&self) -> bool {
        match self {
            Plan::Scan { .. } => true,
            Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => {
                input.is_over_one_scan()
            }
            Plan::Aggregate(of) => of.input.is_over_one_scan(),
            Plan::Sort(of) => of.input.is_over_one_scan(),
            Plan::Window(of) => of.input.is_over_one_scan(),
            Plan::Join(_) | Plan::Union(_) | Plan::Values { .. } | Plan::Shared(_) => false,
            Plan::Source { .. } | Plan::Recursive(_) | Plan::WorkTable { .. } | Plan::Unnest(_) => false,
        }
    }

    fn chain_over(&self, snapshot: &Arc<TableVersion>, values: Option<&[ArrayRef]>) -> Plan {
        match self {
            Plan::Scan { table, columns, .. } => {
                Plan::Scan { table: table.clone(), snapshot: Arc::clone(snapshot), columns: columns.clone() }
            }
            Plan::Filter { input, predicate } => Plan::Filter {
                input: Box::new(input.chain_over(snapshot, values)),
                predicate: values.map_or_else(|| predicate.clone(), |values| predicate.with_values(values)),
            },
            other => other.map_inputs(&mut |input| input.chain_over(snapshot, values)),
        }
    }

    /// How many comparisons of the plan's filters have the value of this parameter.
    pub fn count_parameter(&self, parameter: ParameterId) -> usize {
        let here = match self {
            Plan::Filter { predicate, .. } => predicate.count_parameter(parameter),
            _ => 0,
        };
        here + self.inputs().into_iter().map(|input| input.count_parameter(parameter)).sum::<usize>()
    }
}

impl Predicate {
    fn with_values(&self, values: &[ArrayRef]) -> Predicate {
        let all = |parts: &[Predicate]| parts.iter().map(|p| p.with_values(values)).collect();
        match self {
            Predicate::Compare { column, op, value } => {
                let value = match value.parameter() {
                    Some(parameter) => Literal::of_parameter(parameter, Arc::clone(&values[parameter.0])),
                    None => value.clone(),
                };
                Predicate::Compare { column: *column, op: *op, value }
            }
            Predicate::And(parts) => Predicate::And(all(parts)),
            Predicate::Or(parts) => Predicate::Or(all(parts)),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.with_values(values))),
            Predicate::In { .. } | Predicate::IsNull { .. } | Predicate::Boolean(_) => self.clone(),
        }
    }

    fn count_parameter(&self, parameter: ParameterId) -> usize {
        match self {
            Predicate::Compare { value, .. } => usize::from(value.parameter() == Some(parameter)),
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().map(|p| p.count_parameter(parameter)).sum(),
            Predicate::Not(inner) => inner.count_parameter(parameter),
            Predicate::In { .. } | Predicate::IsNull { .. } | Predicate::Boolean(_) => 0,
        }
    }
}
