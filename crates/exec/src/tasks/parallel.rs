//! [`SchedParallel`]: lends the scheduler's workers to `storage`, which has no threads of its own.

use std::sync::Arc;

use sched::policy::PackageQueues;
use sched::{Affinity, Hint, Scheduler, Statement, StopReason, TaskError};
use storage::{CostOf, Interruption, NodeOf, Parallel, TaskBody};

/// Runs the tasks of a parallel step of `storage` as tasks of a statement, each near its node.
#[derive(Clone)]
pub struct SchedParallel {
    /// Whose workers.
    pub scheduler: Arc<Scheduler>,
    /// On whose behalf: its priority, deadline and cancellation.
    pub statement: Arc<Statement>,
    /// Nodes whose tasks wait in the queue of their package.
    pub packages: Arc<PackageQueues>,
}

impl SchedParallel {
    /// Workers of `scheduler` on behalf of `statement`.
    pub fn new(scheduler: Arc<Scheduler>, statement: Arc<Statement>) -> SchedParallel {
        SchedParallel { scheduler, statement, packages: Arc::default() }
    }
}

impl Parallel for SchedParallel {
    fn for_each(&self, tasks: usize, node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        self.for_each_costing(tasks, node_of, &|_| (0, 0), body)
    }

    fn for_each_costing(
        &self,
        tasks: usize,
        node_of: &NodeOf<'_>,
        cost_of: &CostOf<'_>,
        body: &TaskBody<'_>,
    ) -> Result<(), Interruption> {
        let wish = |task: usize| {
            let (bytes, cpu_ns) = cost_of(task);
            (node_of(task).map_or(Affinity::Anywhere, |node| self.packages.near(node)), Hint { bytes, cpu_ns })
        };
        self.scheduler.parallel_for_with(&self.statement, tasks, &wish, body).map_err(|error| match error {
            TaskError::Panicked(text) => Interruption::Panicked(text),
            TaskError::Cancelled => match self.statement.stopped() {
                // The one that panicked may have been another task of the statement.
                Some(StopReason::Failed(text)) => Interruption::Panicked(text),
                _ => Interruption::Cancelled,
            },
        })
    }
}
