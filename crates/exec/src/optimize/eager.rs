//! Aggregates below outer joins: `SELECT c.key, count(o.key) FROM c LEFT JOIN o ON o.customer = c.key GROUP BY c.key`
//! groups the orders by customer and joins the customers with their groups, so that no pair of a customer and an order
//! is ever made.
//!
//! Where each key of the preserved side belongs to one row there, a group of the result is that row with all rows of
//! the other side that have its key: the group by that key alone. A row without a match has the results of no row:
//! NULL, and 0 of the counts.
//!
//! # Limits
//! Joins by one pair of keys; calls over the other side alone that cannot overflow. `count(*)` counts the preserved row
//! where nothing matches and stays above.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, Scalar as ArrowScalar};
use arrow::compute::is_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Schema};

use super::conjuncts::conjuncts;
use super::statistics;
use crate::ExecError;
use crate::plan::delicate::is_delicate;
use crate::plan::expression::{Expression, Scalar};
use crate::plan::{AggregateCall, AggregateFunction, Aggregation, Join, JoinKind, Output, Plan, Side};

/// Digits that the sum of a column needs more than its values, for up to ten thousand million rows.
const SUM_DIGITS: u8 = 10;

/// Has each row of a plan a value of its own in this column, and none NULL?
fn is_unique(plan: &Plan, column: usize) -> bool {
    match plan {
        Plan::Scan { snapshot, columns, .. } => statistics::is_unique(snapshot, columns[column]),
        Plan::Filter { input, .. } | Plan::Limit { input, .. } => is_unique(input, column),
        Plan::Sort(sort) => is_unique(&sort.input, column),
        Plan::Window(window) => column < window.input.schema().fields().len() && is_unique(&window.input, column),
        Plan::Project { input, outputs } => match &outputs[column] {
            Output::Column { column, .. } => is_unique(input, *column),
            Output::Expression { .. } => false,
        },
        Plan::Join(join) => match join.kind {
            JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) => is_unique(&join.left, column),
            JoinKind::Semi(Side::Right) | JoinKind::Anti(Side::Right) => is_unique(&join.right, column),
            _ => false,
        },
        _ => false,
    }
}

/// The aggregation with the join above it, where that is possible.
pub(super) fn below_outer_join(aggregation: &Aggregation) -> Option<Plan> {
    Found::in_aggregation(aggregation).map(|found| found.plan(aggregation))
}

/// An aggregation over an outer join, taken apart.
struct Found<'a> {
    join: &'a Join,
    /// The side whose rows all come out.
    preserved: Side,
    /// Its key, and the other side's.
    key: usize,
    other_key: usize,
    /// Columns of the preserved side that the result begins with.
    keys: Vec<usize>,
    /// Over the other side.
    calls: Vec<AggregateCall>,
}

impl<'a> Found<'a> {
    fn in_aggregation(aggregation: &'a Aggregation) -> Option<Found<'a>> {
        let (join, columns) = outer_join(&aggregation.input).filter(|_| aggregation.sets.is_none())?;
        let (preserved, &[(left, right)]) = (preserved(join.kind)?, &join.on[..]) else { return None };
        let width = join.left.schema().fields().len();
        let of_left = |column: usize| (column < width).then_some(column);
        let of_right = |column: usize| column.checked_sub(width);
        type Of<'f> = &'f dyn Fn(usize) -> Option<usize>;
        let (of_preserved, of_other, key, other_key, side): (Of<'_>, Of<'_>, _, _, _) = match preserved {
            Side::Left => (&of_left, &of_right, left, right, &join.left),
            Side::Right => (&of_right, &of_left, right, left, &join.right),
        };
        let residual = join.residual.iter().flat_map(conjuncts);
        let others_only = |p: &crate::Predicate| !is_delicate(p) && p.columns().iter().all(|&c| of_other(c).is_some());
        if join.nulls_equal || !residual.into_iter().all(|part| others_only(&part)) {
            return None;
        }
        let keys: Vec<usize> =
            aggregation.keys.iter().map(|&k| of_preserved(columns[k]?)).collect::<Option<Vec<usize>>>()?;
        let call = |call: &AggregateCall| {
            let known = cannot_fail(call, &aggregation.input.schema());
            let place = |column: usize| of_other(columns[column]?);
            let arguments = call.arguments.iter().map(|&a| place(a)).collect::<Option<Vec<usize>>>()?;
            let filter = match call.filter {
                Some(filter) => Some(place(filter)?),
                None => None,
            };
            known.then(|| AggregateCall { arguments, filter, ..call.clone() })
        };
        let calls = aggregation.calls.iter().map(call).collect::<Option<Vec<_>>>()?;
        // Reading whether the key is unique takes time, so it comes last.
        let float = side.schema().field(key).data_type().is_floating();
        let found = Found { join, preserved, key, other_key, keys, calls };
        (found.keys.contains(&key) && !found.calls.is_empty() && !float && is_unique(side, key)).then_some(found)
    }

    fn plan(self, aggregation: &Aggregation) -> Plan {
        let schema = aggregation.schema();
        let Found { join, preserved, key, other_key, keys, calls } = self;
        let width = join.left.schema().fields().len();
        let (side, mut other) = match preserved {
            Side::Left => (join.left.clone(), join.right.clone()),
            Side::Right => (join.right.clone(), join.left.clone()),
        };
        if let Some(residual) = &join.residual {
            let shift = if preserved == Side::Left { width } else { 0 };
            other = Plan::Filter { input: Box::new(other), predicate: residual.map_columns(&|c| c - shift) };
        }
        let preserved_width = side.schema().fields().len();
        let counts: Vec<bool> = calls.iter().map(|call| matches!(call.function, AggregateFunction::Count)).collect();
        let groups = Plan::Aggregate(Box::new(Aggregation { input: other, keys: vec![other_key], sets: None, calls }));
        let joined = Plan::Join(Box::new(Join {
            left: side,
            right: groups,
            kind: JoinKind::Left,
            on: vec![(key, 0)],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build: Side::Right,
        }));
        let fields = schema.fields();
        let key = |(&column, field): (&usize, &Arc<_>)| Output::Column { column, field: Arc::clone(field) };
        let mut outputs: Vec<Output> = keys.iter().zip(fields).map(key).collect();
        for (number, (counts, field)) in counts.into_iter().zip(&fields[keys.len()..]).enumerate() {
            let (column, field) = (preserved_width + 1 + number, Arc::clone(field));
            outputs.push(match counts {
                true => Output::Expression { expression: Arc::new(NullAsZero::of(column)), field },
                false => Output::Column { column, field },
            });
        }
        Plan::Project { input: Box::new(joined), outputs }
    }
}

/// Is it a known function of some argument that gives a result for any group? Groups that match nothing are computed
/// too.
fn cannot_fail(call: &AggregateCall, input: &Schema) -> bool {
    let Some(&argument) = call.arguments.first() else { return false };
    match call.function {
        AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max => true,
        // The average of decimals may have more digits than there is room for.
        AggregateFunction::Avg => *call.field.data_type() == DataType::Float64,
        AggregateFunction::Sum => match (input.field(argument).data_type(), call.field.data_type()) {
            (_, DataType::Float64) => true,
            // As many rows as no memory holds.
            (DataType::Decimal128(of, _), DataType::Decimal128(sum, _)) => *sum >= of + SUM_DIGITS,
            _ => false,
        },
        _ => false,
    }
}

/// The outer join below plain projections, and which of its columns each column is.
fn outer_join(plan: &Plan) -> Option<(&Join, Vec<Option<usize>>)> {
    match plan {
        Plan::Join(join) => {
            preserved(join.kind)?;
            Some((join, (0..plan.schema().fields().len()).map(Some).collect()))
        }
        Plan::Project { input, outputs } => {
            let (join, below) = outer_join(input)?;
            let column = |output: &Output| match output {
                Output::Column { column, .. } => below[*column],
                Output::Expression { .. } => None,
            };
            Some((join, outputs.iter().map(column).collect()))
        }
        _ => None,
    }
}

fn preserved(kind: JoinKind) -> Option<Side> {
    match kind {
        JoinKind::Left => Some(Side::Left),
        JoinKind::Right => Some(Side::Right),
        _ => None,
    }
}

/// A count, 0 where there was nothing to count.
#[derive(Debug)]
struct NullAsZero {
    columns: [usize; 1],
    tree: Scalar,
}

impl NullAsZero {
    fn of(column: usize) -> NullAsZero {
        let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        let missing = Scalar::IsNull { input: Box::new(Scalar::Column(0)), negated: false };
        let tree = Scalar::Case {
            whens: vec![(missing, Scalar::Literal(zero))],
            otherwise: Some(Box::new(Scalar::Column(0))),
            data_type: DataType::Int64,
        };
        NullAsZero { columns: [column], tree }
    }
}

impl Expression for NullAsZero {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let counts = batch.column(0);
        if counts.null_count() == 0 {
            return Ok(counts.clone());
        }
        Ok(zip(&is_null(counts)?, &ArrowScalar::new(Int64Array::from(vec![0])), counts)?)
    }

    fn data_type(&self) -> &DataType {
        &DataType::Int64
    }

    fn describe(&self) -> String {
        "coalesce(count, 0)".into()
    }

    fn fallible(&self) -> bool {
        false
    }

    fn structure(&self) -> Option<&Scalar> {
        Some(&self.tree)
    }
}

#[cfg(test)]
#[path = "tests/eager.rs"]
mod tests;
