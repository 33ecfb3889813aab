//! What may fail, or give another value each time, and so must not be evaluated for a row more or less than the plan as
//! written would evaluate it for.

use arrow::datatypes::{DataType, SchemaRef};

use super::predicate::Predicate;
use super::{AggregateCall, AggregateFunction, Join, Output, Plan, Window, WindowFunction};

/// May some leaf fail, or change from call to call? Then it is evaluated for no row that the plan as written would not
/// evaluate it for, and behind everything that it was written behind.
pub(crate) fn is_delicate(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } => false,
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(is_delicate),
        Predicate::Not(inner) => is_delicate(inner),
        Predicate::Boolean(expression) => expression.fallible() || expression.volatile(),
    }
}

/// May an output fail or change from call to call?
pub(crate) fn is_delicate_output(output: &Output) -> bool {
    matches!(output, Output::Expression { expression, .. } if expression.fallible() || expression.volatile())
}

/// May a join's residual?
pub(crate) fn is_delicate_join(join: &Join) -> bool {
    join.residual.as_ref().is_some_and(is_delicate)
}

/// May an aggregate fail over some rows of a group and not over others? `input` is the schema of its arguments.
pub(crate) fn is_delicate_call(call: &AggregateCall, input: &SchemaRef) -> bool {
    let argument = || call.arguments.first().map(|&column| input.field(column).data_type());
    match (&call.function, call.field.data_type()) {
        (AggregateFunction::CountRows | AggregateFunction::Count, _) => false,
        (AggregateFunction::Min | AggregateFunction::Max, _) => false,
        (AggregateFunction::Sum | AggregateFunction::Avg, DataType::Float64) => false,
        (AggregateFunction::Nth { .. } | AggregateFunction::Quantile { .. } | AggregateFunction::Mode, _) => false,
        // Ten digits more hold the sum of as many rows as fit any memory.
        (AggregateFunction::Sum, DataType::Decimal128(digits, scale)) => {
            !matches!(argument(), Some(DataType::Decimal128(d, s)) if s == scale && *digits >= d + 10)
        }
        _ => true,
    }
}

/// Would a row more or less below the plan show in what comes out of it? Where no filter goes further down, none does.
pub(crate) fn shows_rows(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } | Plan::Values { .. } | Plan::Limit { .. } | Plan::Shared(_) => false,
        Plan::Source { .. } | Plan::Recursive(_) | Plan::WorkTable { .. } => false,
        Plan::Unnest(unnesting) => shows_rows(&unnesting.input),
        Plan::Filter { input, predicate } => is_delicate(predicate) || shows_rows(input),
        Plan::Project { input, outputs } => outputs.iter().any(is_delicate_output) || shows_rows(input),
        Plan::Aggregate(aggregation) => {
            let schema = aggregation.input.schema();
            aggregation.calls.iter().any(|call| is_delicate_call(call, &schema)) || shows_rows(&aggregation.input)
        }
        Plan::Join(join) => is_delicate_join(join) || shows_rows(&join.left) || shows_rows(&join.right),
        Plan::Sort(sort) => sort.fetch.is_none() && shows_rows(&sort.input),
        Plan::Window(window) => is_delicate_window(window) || shows_rows(&window.input),
        Plan::Union(union) => union.inputs.iter().any(shows_rows),
    }
}

/// May a function fail over some rows of a partition and not over others?
pub(crate) fn is_delicate_window(window: &Window) -> bool {
    let input = window.input.schema();
    window.calls.iter().any(|call| match &call.function {
        WindowFunction::Ntile(_) | WindowFunction::NthValue(_) => true,
        _ => call.aggregate().is_some_and(|call| is_delicate_call(&call, &input)),
    })
}
