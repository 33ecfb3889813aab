//! From a logical plan to rows: analyse, optimise, lower, start.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_expr::LogicalPlan;
use exec::{CheckedPlan, ExecError};

use crate::error::Result;
use crate::lower::{LoweredPlan, bind, lower};
use crate::plan::{headers, planning};
use crate::rewrite::effects;
use crate::rewrite::shared_queries;
use crate::run::admission;
use crate::run::config::{self, BATCH_ROWS};
use crate::run::loading::load_read;
use crate::run::profile::{self, Recording};
use crate::run::scheduling;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::stack::deep;

/// Analyses, optimises and lowers a plan; the result can be kept and started often.
pub(crate) fn prepare(plan: LogicalPlan, running: &RunningStatement) -> Result<LoweredPlan> {
    let names = headers::names(&plan);
    lowered(optimised(plan, running)?, &names)
}

/// A plan analysed and optimised.
pub(crate) fn optimised(plan: LogicalPlan, running: &RunningStatement) -> Result<LogicalPlan> {
    optimised_of(planning::analyse(plan, running)?, running)
}

/// An analysed plan, optimised.
pub(crate) fn optimised_of(analysed: LogicalPlan, running: &RunningStatement) -> Result<LogicalPlan> {
    planning::optimise(deep(|| shared_queries::mark(effects::made(analysed)?))?, running)
}

/// An optimised plan lowered; its columns have these names for users.
pub(crate) fn lowered(plan: LogicalPlan, names: &[String]) -> Result<LoweredPlan> {
    let lowered = deep(|| lower(plan))?;
    let schema = headers::named(&lowered.schema, names);
    Ok(LoweredPlan { schema, ..lowered })
}

/// Starts a prepared plan over the statement's snapshot. Rows come in the plan's order if they are to be `ordered`,
/// which who writes them asks for, so that tables and files come out the same every time; else a scan may begin at any
/// of its nodes.
pub(crate) fn start(lowered: &LoweredPlan, running: Arc<RunningStatement>, ordered: bool) -> Result<ResultStream> {
    running.check()?;
    load_read(&lowered.plan, &running)?;
    let bound = deep(|| bind(lowered, &running.catalog, running.props()))?;
    Ok(start_bound(CheckedPlan::new(bound).map_err(ExecError::from)?, Arc::clone(&lowered.schema), running, ordered))
}

/// Starts a native plan; its rows come under `schema`. `ordered` as in [`start`].
pub(crate) fn start_bound(
    plan: CheckedPlan,
    schema: SchemaRef,
    running: Arc<RunningStatement>,
    ordered: bool,
) -> ResultStream {
    if let Some(slow) = running.slow() {
        slow.reads(plan.plan());
    }
    let options = config::nearside(running.planner.config_options());
    let threshold = &running.inner.threshold;
    let scheduler = &running.inner.scheduler;
    let estimated_bytes = plan.estimated_bytes();
    scheduling::calibrate(threshold, &options, scheduler, &running.statement, estimated_bytes);
    let context = exec::Context { ordered, ..context_of(&running) };
    // Who writes holds up others while it waits.
    let ticket = if ordered { None } else { admission::arrive(&running, estimated_bytes) };
    if profile::wanted(&running) {
        let profile = exec::Profile::new(plan.plan());
        let execution = exec::execute_profiled(Arc::clone(plan.plan()), context, &profile);
        let recording = Recording::of(profile, &running);
        return ResultStream::native(schema, execution, running).recorded(Some(recording)).let_in(ticket);
    }
    let execution = match running.waits() {
        true => exec::execute_on_workers(Arc::clone(plan.plan()), context),
        false => exec::execute_checked(&plan, context, estimated_bytes),
    };
    ResultStream::native(schema, execution, running).let_in(ticket)
}

/// Prepares and starts in one go.
pub(crate) fn run(plan: LogicalPlan, running: Arc<RunningStatement>, ordered: bool) -> Result<ResultStream> {
    let plan = prepare(plan, &running)?;
    start(&plan, running, ordered)
}

/// What `exec` runs a statement's plan with.
pub(crate) fn context_of(running: &RunningStatement) -> exec::Context {
    let options = config::nearside(running.planner.config_options());
    exec::Context {
        scheduler: Arc::clone(&running.inner.scheduler),
        statement: Arc::clone(&running.statement),
        batch_rows: BATCH_ROWS,
        ordered: true,
        scan: config::scan_options(running.planner.config_options()),
        packages: running.inner.package_queues.wanted(&options.package_queues),
        traffic: Arc::clone(&running.traffic),
        shared: Arc::clone(&running.inner.shared_scans),
    }
}
