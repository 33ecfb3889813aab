//! From a logical plan to rows: analyse, optimise, lower, then start natively or on the private runtime.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::config;
use crate::error::Result;
use crate::lower::{bind, lower, wholly_native};
use crate::native::{NativePlanner, context_of};
use crate::statement::Running;
use crate::stream::{ResultStream, block_on};
use crate::watched::watch;

/// Analyses, optimises and lowers a plan; the result can be kept and started often.
pub(crate) fn prepare(plan: LogicalPlan, running: &Running) -> Result<LogicalPlan> {
    let state = &running.state;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let plan = state.optimizer().optimize(plan, running, |_, _| {})?;
    lower(plan, config::nearside(state.config_options()).native_operators)
}

/// Starts a prepared plan over the statement's snapshot.
pub(crate) fn start(plan: &LogicalPlan, running: Arc<Running>) -> Result<ResultStream> {
    running.check()?;
    if let Some(native) = wholly_native(plan) {
        let bound = bind(native, &running.catalog, &running.props())?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        let execution = exec::execute(Arc::new(bound), context_of(&running));
        return Ok(ResultStream::native(schema, execution, running));
    }
    let physical = physical(plan, &running, false)?;
    ResultStream::spawn(physical, running)
}

/// The physical plan of a prepared plan, its joins heeding cancellation; with native operators that count if it is `profiled`.
pub(crate) fn physical(plan: &LogicalPlan, running: &Arc<Running>, profiled: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let native = NativePlanner { running: Arc::clone(running), profiled };
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(native)]);
    let physical = block_on(planner.create_physical_plan(plan, running.state.as_ref()))?;
    watch(physical, running)
}

/// Prepares and starts in one go.
pub(crate) fn run(plan: LogicalPlan, running: Arc<Running>) -> Result<ResultStream> {
    let plan = prepare(plan, &running)?;
    start(&plan, running)
}
