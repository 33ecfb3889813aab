//! [`Filters`]: what a plan's consumer says of the rows that it has a use for, and what that may change.
//!
//! Rows whose key is not wanted may be left out anywhere below, or not: the join that wants the key tests it again. So
//! scans leave a test out while it keeps nearly everything, and which pieces that concerns depends on which thread
//! comes first. Between the scan and the join something may fail, though, or give another value each time; then whether
//! a row gets there shows. Every test that such a thing lies behind is therefore made *always* ([`Wanted::always`]):
//! what fails, fails in every run.
//!
//! # Limits
//! Whether there is memory for a filter is another matter: a statement that has none sees more rows, and may fail where
//! another run did not.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use crate::keys::key_filter::KeyFilter;
use crate::operators::window;
use crate::optimize::is_delicate;
use crate::plan::{AggregateCall, AggregateFunction, Join, Output, Plan};

/// Keys that a column must have for its row to be of any use.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The column of a pipe, or of a table.
    pub(crate) column: usize,
    /// Its keys.
    pub(crate) keys: Arc<KeyFilter>,
    /// Are rows without a key to be left out every time, if they are at all?
    pub(crate) always: bool,
}

/// What is known of the keys that columns of a pipe must have to be of any use.
pub(crate) type Filters = Vec<Wanted>;

impl Wanted {
    /// By a join; nothing lies between yet.
    pub(crate) fn new(column: usize, keys: Arc<KeyFilter>) -> Wanted {
        Wanted { column, keys, always: false }
    }

    /// Of another column, further down; behind something that a row more or less would show in, if so it is.
    pub(crate) fn below(&self, column: usize, shows: bool) -> Wanted {
        Wanted { column, keys: self.keys.clone(), always: self.always || shows }
    }
}

/// The same columns behind something that a row more or less would show in, if so it is.
pub(crate) fn behind(filters: &Filters, shows: bool) -> Filters {
    filters.iter().map(|wanted| wanted.below(wanted.column, shows)).collect()
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
        Plan::Window(window) => window::is_delicate(window) || shows_rows(&window.input),
        Plan::Union(union) => union.inputs.iter().any(shows_rows),
    }
}
