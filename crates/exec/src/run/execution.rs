//! [`Execution`]: a running plan as its consumers see it, and [`Context`], what it runs with.
//!
//! Clones share one stream: each poll hands out the next ready batch to whoever asks first. Batches come in the order
//! of the plan's rows, unless the context says that nobody needs it; with several consumers the order among them is
//! free.
//!
//! Invariants: an error ends the stream and is reported once; after the end every poll gives `None`; dropping the last
//! clone stops what still runs. A consumer that waits is woken when there is something for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use sched::Scheduler;

use super::context::Context;
use super::driver::{Driver, WAKE_AFTER};
use crate::plan::{CheckedPlan, Plan};
use crate::tasks::profile::Profile;
use crate::{ExecError, PlanError};

/// Statements that touch less than this run at once on the polling thread: a hand-over costs more than the work.
const TINY_BYTES: u64 = 256 << 10;

/// Prepares a plan to run. Nothing is read, and no task starts, before the first poll. A plan that is not valid gives a
/// stream of one error.
///
/// A plan that touches less than 256 KiB runs on the thread that polls it; [`execute_on_workers`] leaves nothing there.
pub fn execute(plan: Arc<Plan>, context: Context) -> Execution {
    let is_tiny = plan.validate().map(|()| plan.estimated_bytes() < TINY_BYTES);
    let schema = plan.schema();
    start((plan, schema), context, is_tiny, None)
}

/// As [`execute`], of a plan that was checked and whose [`CheckedPlan::estimated_bytes`] are known.
pub fn execute_checked(plan: &CheckedPlan, context: Context, estimated_bytes: u64) -> Execution {
    let of = (Arc::clone(plan.plan()), Arc::clone(plan.schema()));
    start(of, context, Ok(estimated_bytes < TINY_BYTES), None)
}

/// As [`execute`], with every step a task however little it touches: for callers whose thread must not compute.
pub fn execute_on_workers(plan: Arc<Plan>, context: Context) -> Execution {
    let is_tiny = plan.validate().map(|()| false);
    let schema = plan.schema();
    start((plan, schema), context, is_tiny, None)
}

/// As [`execute_on_workers`], with what the plan's operators do counted in a profile of the plan.
pub fn execute_profiled(plan: Arc<Plan>, context: Context, profile: &Profile) -> Execution {
    let is_tiny = plan.validate().map(|()| false);
    let schema = plan.schema();
    start((plan, schema), context, is_tiny, Some(profile))
}

fn start(
    (plan, schema): (Arc<Plan>, SchemaRef),
    context: Context,
    is_tiny: Result<bool, PlanError>,
    profile: Option<&Profile>,
) -> Execution {
    let driver = Driver::new(plan, schema.clone(), context, is_tiny, profile);
    Execution { handle: Arc::new(Handle { driver }), schema }
}

/// A running plan. Clones share its batches.
#[derive(Clone)]
pub struct Execution {
    handle: Arc<Handle>,
    schema: SchemaRef,
}

/// Held by every clone; the last one to go stops the driver, which tasks keep alive for a little longer.
struct Handle {
    driver: Arc<Driver>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.abandon();
    }
}

impl Execution {
    /// Schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch, never empty; `None` at the end. When pending, the waker is called once there is more.
    pub fn poll_next(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<RecordBatch, ExecError>>> {
        self.handle.driver.poll_next(cx.waker(), false, false)
    }

    /// The next batch, waiting for it on this thread. A worker of a scheduler that calls this runs what is queued here
    /// instead of waiting for it.
    pub fn next_blocking(&self) -> Option<Result<RecordBatch, ExecError>> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let started = Instant::now();
        loop {
            // Patient as long as it is going to look again by itself; afterwards it is woken for anything.
            let again = look_again(started);
            match self.handle.driver.poll_next(&waker, Scheduler::on_worker(), again.is_some()) {
                Poll::Ready(next) => return next,
                // A deadline has no timer of its own: whoever waits looks at it.
                Poll::Pending => match self.handle.driver.time_left().into_iter().chain(again).min() {
                    // Marked: on a worker the steps that it waits for need its slot.
                    Some(left) => sched::blocking(|| std::thread::park_timeout(left)),
                    None => sched::blocking(std::thread::park),
                },
            }
        }
    }

    /// All batches, or the first error.
    pub fn collect_blocking(&self) -> Result<Vec<RecordBatch>, ExecError> {
        std::iter::from_fn(|| self.next_blocking()).collect()
    }

    /// A future of the next batch, for callers without a stream trait at hand.
    pub fn next(&self) -> impl Future<Output = Option<Result<RecordBatch, ExecError>>> + Send + '_ {
        NextBatch(self)
    }
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// How long a thread that waits since `started` waits before it looks by itself, if it still does.
fn look_again(started: Instant) -> Option<Duration> {
    (2 * WAKE_AFTER).checked_sub(started.elapsed()).filter(|left| !left.is_zero())
}

struct NextBatch<'a>(&'a Execution);

impl Future for NextBatch<'_> {
    type Output = Option<Result<RecordBatch, ExecError>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.0.poll_next(cx)
    }
}

/// Wakes a thread that waits in [`Execution::next_blocking`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
