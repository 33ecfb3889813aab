//! Which operator makes which pipe.

use crate::ExecError;
use crate::operators::limit::{self, Limit};
use crate::operators::{aggregate, filter, foreign, join, project, recursion, sort, union, unnest, values, window};
use crate::pipe::Pipe;
use crate::pipe::flow::{Demand, Flow};
use crate::plan::Plan;

/// Makes the pipe of a plan's topmost operator.
pub(crate) fn compile(flow: &Flow<'_>, plan: &Plan, wanted: Demand<'_>) -> Result<Pipe, ExecError> {
    let filters = wanted.filters;
    match plan {
        Plan::Scan { .. } => filter::scan(flow, plan, Vec::new(), wanted),
        Plan::Filter { input, predicate } => filter::pipe(flow, input, predicate, wanted),
        Plan::Project { input, outputs } => project::pipe(flow, input, outputs, wanted),
        Plan::Limit { input, skip, fetch } => limit::pipe(flow, input, Limit::new(*skip, *fetch), wanted.rows),
        Plan::Aggregate(aggregation) => aggregate::pipe(flow, aggregation, filters),
        Plan::Join(join) => join::pipe(flow, join, filters),
        Plan::Sort(sort) => sort::pipe(flow, sort, filters),
        Plan::Window(window) => window::pipe(flow, window, filters),
        Plan::Union(union) => union::pipe(flow, union, filters),
        Plan::Values { schema, batches } => values::pipe(schema, batches),
        Plan::Shared(plan) => flow.shared(plan),
        Plan::Source { source, columns } => foreign::pipe(flow, source, columns),
        Plan::Recursive(recursion) => Ok(recursion::pipe(flow, recursion)),
        Plan::WorkTable { id, .. } => Ok(flow.work_table(*id)),
        Plan::Unnest(unnesting) => unnest::pipe(flow, unnesting, filters),
    }
}
