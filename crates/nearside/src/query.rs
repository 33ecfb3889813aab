//! From a logical plan to rows: analyse, optimise, lower, then start natively or on the private runtime.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use exec::Plan;

use crate::config;
use crate::error::Result;
use crate::floats;
use crate::lower::{bind, lower, wholly_native};
use crate::native::{NativeExec, NativePlanner, context_of};
use crate::planning;
use crate::recording::{self, Recording};
use crate::scheduling;
use crate::shared_queries;
use crate::statement::Running;
use crate::stream::{ResultStream, block_on};
use crate::watched::{WatchedExec, watch};

/// Analyses, optimises and lowers a plan; the result can be kept and started often.
pub(crate) fn prepare(plan: LogicalPlan, running: &Running) -> Result<LogicalPlan> {
    lowered(optimised(plan, running)?, running)
}

/// A plan analysed and optimised.
pub(crate) fn optimised(plan: LogicalPlan, running: &Running) -> Result<LogicalPlan> {
    let analysed = planning::analyse(plan, running)?;
    planning::optimise(planning::deep(|| shared_queries::mark(analysed))?, running)
}

/// An optimised plan lowered.
pub(crate) fn lowered(plan: LogicalPlan, running: &Running) -> Result<LogicalPlan> {
    planning::deep(|| {
        let lowered = lower(plan, config::nearside(running.state.config_options()).native_operators)?;
        match wholly_native(&lowered) {
            Some(_) => Ok(lowered),
            None => Ok(floats::in_plan(lowered)?),
        }
    })
}

/// Starts a prepared plan over the statement's snapshot. Rows come in the plan's order if they are to be `ordered`, which who
/// writes them asks for, so that tables and files come out the same every time; else a scan may begin at any of its nodes.
pub(crate) fn start(plan: &LogicalPlan, running: Arc<Running>, ordered: bool) -> Result<ResultStream> {
    running.check()?;
    if let Some(native) = wholly_native(plan) {
        let bound = planning::deep(|| bind(native, &running.catalog, running.props()))?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        return Ok(start_bound(bound, schema, running, ordered));
    }
    let recorded = recording::wanted(&running);
    let physical = physical(plan, &running, recorded)?;
    scheduling::calibrate(&running, native_bytes(&physical));
    let recording = recorded.then(|| Recording::physical(Arc::clone(&physical), &running));
    Ok(ResultStream::spawn(physical, running)?.recorded(recording))
}

/// Starts a native plan; its rows come under `schema`. `ordered` as in [`start`].
pub(crate) fn start_bound(plan: Plan, schema: SchemaRef, running: Arc<Running>, ordered: bool) -> ResultStream {
    scheduling::calibrate(&running, plan.estimated_bytes());
    let (plan, context) = (Arc::new(plan), exec::Context { ordered, ..context_of(&running) });
    if recording::wanted(&running) {
        let profile = exec::Profile::new(&plan);
        let execution = exec::execute_profiled(Arc::clone(&plan), context, &profile);
        let recording = Recording::native(plan, profile, &running);
        return ResultStream::native(schema, execution, running).recorded(Some(recording));
    }
    ResultStream::native(schema, exec::execute(plan, context), running)
}

/// The physical plan of a prepared plan, its joins heeding cancellation; with native operators that count if it is `profiled`.
pub(crate) fn physical(plan: &LogicalPlan, running: &Arc<Running>, profiled: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let native = NativePlanner { running: Arc::clone(running), profiled };
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(native)]);
    let physical = block_on(planner.create_physical_plan(plan, running.state.as_ref()))?;
    watch(physical, running)
}

/// What the native parts of a plan are estimated to read, in bytes.
fn native_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    if let Some(watched) = plan.downcast_ref::<WatchedExec>() {
        return native_bytes(watched.inner());
    }
    match plan.downcast_ref::<NativeExec>() {
        Some(native) => native.plan().estimated_bytes(),
        None => plan.children().into_iter().fold(0, |bytes, child| bytes.saturating_add(native_bytes(child))),
    }
}

/// Prepares and starts in one go.
pub(crate) fn run(plan: LogicalPlan, running: Arc<Running>, ordered: bool) -> Result<ResultStream> {
    let plan = prepare(plan, &running)?;
    start(&plan, running, ordered)
}
