//! Which operator makes which pipe.

use crate::ExecError;
use crate::operators::limit::{self, Limit};
use crate::operators::{aggregate, filter, foreign, join, project, recursion, sort, union, unnest, values, window};
use crate::pipe::Pipe;
use crate::pipe::flow::{Demand, Flow};
use crate::plan::Plan;
use crate::tasks::profile::OperatorPlace;

/// Makes the pipe of a plan's topmost operator.
pub(crate) fn compile(
    flow: &Flow<'_>,
    plan: &Plan,
    place: &OperatorPlace,
    wanted: Demand<'_>,
) -> Result<Pipe, ExecError> {
    let filters = wanted.filters;
    match plan {
        Plan::Scan { .. } => filter::scan(flow, plan, Vec::new(), wanted),
        Plan::Filter { input, predicate } => filter::pipe(flow, input, place, predicate, wanted),
        Plan::Project { input, outputs } => project::pipe(flow, input, place, outputs, wanted),
        Plan::Limit { input, skip, fetch } => limit::pipe(flow, input, place, Limit::new(*skip, *fetch), wanted.rows),
        Plan::Aggregate(aggregation) => aggregate::pipe(flow, aggregation, place, filters),
        Plan::Join(join) => join::pipe(flow, join, place, filters),
        Plan::Sort(sort) => sort::pipe(flow, sort, place, filters),
        Plan::Window(window) => window::pipe(flow, window, place, filters),
        Plan::Union(union) => union::pipe(flow, union, place, filters),
        Plan::Values { schema, batches } => values::pipe(schema, batches),
        Plan::Shared(plan) => flow.shared(plan, place),
        Plan::Source { source, columns } => foreign::pipe(flow, source, columns),
        Plan::Recursive(recursion) => Ok(recursion::pipe(flow, recursion, place)),
        Plan::WorkTable { id, .. } => Ok(flow.work_table(*id)),
        Plan::Unnest(unnesting) => unnest::pipe(flow, unnesting, place, filters),
    }
}
