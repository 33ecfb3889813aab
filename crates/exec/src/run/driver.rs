//! The driver of a plan: it hands steps of the last pipeline to workers, keeps a window of them in flight, puts what
//! they make in order and wakes who waits for it.
//!
//! [`Driver::pump`] is the one place where things move: it is called by a consumer that polls and by a worker whose
//! step made something at the front of the window. It never waits: consumers that find nothing leave a waker, workers
//! that fill the window simply go on to other tasks, and consuming opens the window again.
//!
//! Invariants:
//! - No foreign code (spawning, waking, dropping of user data aside) runs under the lock.
//! - A waker is stored under the lock that was held when nothing was ready, and taken by the next pump that finds
//!   something: no wake-up is lost. Whoever is patient, and so looks again by itself, may be left waiting for a little
//!   more ([`Driver::serves`]).
//! - A queued step whose task is dropped unrun (its statement stopped, the scheduler ended) ends its slot with an
//!   error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use sched::policy::concurrency::Pieces;
use sched::{Affinity, Hint};
use storage::{Parallel, Serial};

use super::context::Context;
use super::streamed::{PlanStream, StreamNext, StreamStep};
use super::window::{Bounds, ChargedBatch, ITEMS_PER_STEP, Item, Window};
use crate::charge::batch_bytes;
use crate::codes::shared::{AttachedScans, ScanSharing};
use crate::error::stopped;
use crate::operators::filter::attach_scans;
use crate::plan::Plan;
use crate::tasks::locate::PageMaps;
use crate::tasks::places::{Lookup, Places};
use crate::tasks::profile::Profile;
use crate::tasks::run::Run;
use crate::tasks::traffic;
use crate::{ExecError, PlanError, SchedParallel};

/// Fewest steps in flight, however few threads there are.
const STEPS_MIN: usize = 4;
/// Morsels that each thread should find at least, so that all end at about the same time.
const MORSELS_PER_THREAD: usize = 16;
/// A scan starts at one of so many turns, of which it takes the remainder by its nodes.
const TURNS: usize = 1 << 32;
/// Items that are worth waking a consumer for at once.
const WAKE_ITEMS: usize = 16;
const _: () = assert!(WAKE_ITEMS <= STEPS_MIN * ITEMS_PER_STEP, "as many items are ready before the window is full");
/// A consumer that has waited so long is woken for less.
pub(crate) const WAKE_AFTER: Duration = Duration::from_micros(200);
/// Share of the memory that a statement has left which the window may fill.
const WINDOW_SHARE: u64 = 4;

/// Runs a plan.
pub(crate) struct Driver {
    context: Context,
    schema: SchemaRef,
    /// Where steps come from; without it the plan is not valid, and the window holds the reason.
    source: Option<PlanStream>,
    /// Steps run on the thread that polls.
    inline: bool,
    /// Its scans that share passes with others, where some may.
    attached: Option<AttachedScans>,
    /// Somebody has polled.
    polled: Once,
    state: Mutex<DriverState>,
    me: Weak<Driver>,
}

struct DriverState {
    window: Window<StreamStep>,
    /// Steps that were handed out.
    handed_out: usize,
    wakers: Vec<Waker>,
    /// Since when those who wait do, if all of them look again after [`WAKE_AFTER`].
    waiting_since: Option<Instant>,
}

impl Driver {
    /// Of a plan whose schema is given; nothing starts. If it `is_tiny` it will run on the thread that polls; an error
    /// if it is not valid.
    pub(crate) fn new(
        plan: Arc<Plan>,
        schema: SchemaRef,
        mut context: Context,
        is_tiny: Result<bool, PlanError>,
        profile: Option<&Profile>,
    ) -> Arc<Driver> {
        context.batch_rows = context.batch_rows.max(1);
        let (source, inline, invalid) = match is_tiny {
            Ok(is_tiny) => (Some(plan), is_tiny, None),
            Err(error) => (None, true, Some(error)),
        };
        let source = source.map(|plan| PlanStream::new(plan, schema.clone(), profile));
        let bounds = Bounds {
            steps: (2 * context.scheduler.threads()).max(STEPS_MIN),
            tasks: context.scheduler.threads(),
            bytes: context.statement.budget().available_bytes().map_or(u64::MAX, |b| b / WINDOW_SHARE),
            step_bytes: source.as_ref().map_or(0, PlanStream::morsel_bytes),
            batch_rows: context.batch_rows,
        };
        let sharing = context.scan.sharing;
        let may_share = source.is_some() && !inline && sharing != ScanSharing::Off;
        let attached =
            may_share.then(|| AttachedScans::new(context.shared.clone(), sharing, context.statement.clone()));
        let mut window = Window::new(bounds, source.as_ref().and_then(PlanStream::limit));
        if let Some(error) = invalid {
            window.close_with(error.into());
        }
        let state = DriverState { window, handed_out: 0, wakers: Vec::new(), waiting_since: None };
        let (polled, state) = (Once::new(), Mutex::new(state));
        Arc::new_cyclic(|me| Driver { context, schema, source, inline, attached, polled, state, me: me.clone() })
    }

    /// The next batch; see [`Execution::poll_next`](crate::Execution::poll_next). With `help`, steps that nobody has
    /// begun are run here rather than waited for. `patient`: whoever is told to wait polls again by itself, later than
    /// [`WAKE_AFTER`], so that it need not be woken for little before.
    pub(crate) fn poll_next(
        &self,
        waker: &Waker,
        help: bool,
        patient: bool,
    ) -> Poll<Option<Result<RecordBatch, ExecError>>> {
        self.polled.call_once(|| self.attach_early());
        loop {
            if self.context.statement.is_cancelled() {
                let mut state = self.state.lock();
                if !state.window.is_finished() {
                    state.window.fail(stopped(&self.context.statement));
                }
            }
            self.pump();
            let mut state = self.state.lock();
            if let Some(item) = state.window.pop() {
                state.wakers.retain(|known| !known.will_wake(waker));
                let ended = state.window.is_finished();
                drop(state);
                if ended {
                    self.wants_no_more();
                }
                // Room for more, and perhaps the end that others wait for.
                self.pump();
                return Poll::Ready(Some(self.hand_over(item)));
            }
            if state.window.is_finished() {
                drop(state);
                self.wants_no_more();
                return Poll::Ready(None);
            }
            if (self.inline || help)
                && let Some((number, step)) = state.window.claim_any()
            {
                drop(state);
                self.run(number, step);
                continue;
            }
            state.waiting_since = match patient {
                true if state.wakers.is_empty() => Some(Instant::now()),
                true => state.waiting_since,
                false => None,
            };
            if !state.wakers.iter().any(|known| known.will_wake(waker)) {
                state.wakers.push(waker.clone());
            }
            return Poll::Pending;
        }
    }

    /// Time until the statement's deadline, if it has one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.context.statement.deadline()?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Nobody will poll again: queued steps are forgotten, running ones stop at their next batch.
    pub(crate) fn abandon(&self) {
        let (wakers, gone) = {
            let mut state = self.state.lock();
            let slots = std::mem::replace(&mut state.window, closed_window());
            (std::mem::take(&mut state.wakers), slots)
        };
        drop((wakers, gone));
        self.wants_no_more();
    }

    /// Older statements run before this one's first step: they find its rows meanwhile, if they share passes. Where
    /// there is none, nothing is bound for them. What is wrong with a condition is found again, and told, when it is
    /// prepared.
    fn attach_early(&self) {
        let Context { scheduler, shared, statement, .. } = &self.context;
        if let (Some(attached), Some(source)) = (&self.attached, &self.source)
            && attached.attaches_early(|| scheduler.other_statements(statement) > 0 || !shared.is_idle())
        {
            let attach = || attach_scans(source.plan(), attached, self.context.scan).is_ok();
            let _ = catch_unwind(AssertUnwindSafe(attach));
        }
    }

    /// Others need not work for its scans.
    fn wants_no_more(&self) {
        if let Some(attached) = &self.attached {
            attached.end();
        }
    }

    /// Moves everything that can move; see the module.
    fn pump(&self) {
        let mut spawns = Vec::new();
        let tasks = self.tasks();
        let wake = {
            let mut state = self.state.lock();
            state.window.set_tasks(tasks);
            if let Some(streamed) = &self.source {
                state.window.set_step_bytes(streamed.morsel_bytes());
            }
            state.window.advance();
            self.fill(&mut state, &mut spawns);
            state.window.advance();
            let ended = state.window.is_finished();
            let serves = self.serves(&state) || ended || (self.inline && state.window.has_unclaimed());
            if serves { std::mem::take(&mut state.wakers) } else { Vec::new() }
        };
        spawns.into_iter().for_each(|(number, affinity, hint)| self.spawn(number, affinity, hint));
        wake.into_iter().for_each(Waker::wake);
    }

    /// Whether it is time to wake who waits: a call of the kernel for each of many small batches would cost more than
    /// they do. While a step runs, more will come, and pump again.
    fn serves(&self, state: &DriverState) -> bool {
        let ready = state.window.ready();
        let enough = ready >= WAKE_ITEMS || !state.window.has_unfinished();
        ready > 0 && (enough || state.waiting_since.is_none_or(|since| since.elapsed() >= WAKE_AFTER))
    }

    /// Pushes steps while the window is open.
    fn fill(&self, state: &mut DriverState, spawns: &mut Vec<(u64, Affinity, Hint)>) {
        let Some(streamed) = &self.source else { return };
        while !self.inline
            && let Some(number) = state.window.resume()
        {
            spawns.push((number, Affinity::Anywhere, Hint::default()));
        }
        while state.window.is_open() {
            match streamed.next(&mut state.handed_out) {
                StreamNext::Step(step, node, hint) => {
                    let affinity = node.map_or(Affinity::Anywhere, |node| self.context.packages.near(node));
                    let number = state.window.push(step);
                    if !self.inline {
                        spawns.push((number, affinity, hint));
                    }
                }
                StreamNext::Wait => return,
                StreamNext::End => state.window.close(),
            }
        }
    }

    fn spawn(&self, number: u64, affinity: Affinity, hint: Hint) {
        let Some(driver) = self.me.upgrade() else { return };
        let task = Task { driver, number, begun: false };
        self.context.scheduler.spawn_with(&self.context.statement, affinity, hint, move || task.run());
    }

    /// How many steps may be queued or run now: the concurrency hint, which follows the cpus near the rows, how they
    /// lie, and the statements that are active (VLDB 2015, sections 5.1 and 5.2).
    fn tasks(&self) -> usize {
        let Context { scheduler, statement, .. } = &self.context;
        if self.inline {
            return usize::MAX;
        }
        let spread = self.source.as_ref().and_then(PlanStream::spread);
        let (nodes, pieces) = spread.unwrap_or((&[], Pieces::Whole));
        let hint = scheduler.concurrency_hint(statement, nodes, pieces);
        let tasks = if let Pieces::Parts(parts) = pieces { hint * parts } else { hint };
        // Rounding up to whole partitions does not lift a limit that the user has set.
        match scheduler.settings_of(statement).parallelism {
            0 => tasks,
            limit => tasks.min(usize::from(limit)),
        }
    }

    /// Runs a step to its end, whatever happens in it.
    fn run(&self, number: u64, step: StreamStep) {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(number, step)));
        match worked.unwrap_or_else(|payload| Err(ExecError::Panicked(panic_text(payload)))) {
            Ok(Some(step)) => {
                self.state.lock().window.pause(number, step);
                self.pump_after();
            }
            Ok(None) => self.end(number, Ok(())),
            Err(error) => self.end(number, Err(error)),
        }
    }

    fn end(&self, number: u64, result: Result<(), ExecError>) {
        self.state.lock().window.finish(number, result);
        self.pump_after();
    }

    /// After a step: whoever runs one on the thread that polls looks at once what is there.
    fn pump_after(&self) {
        if !self.inline {
            self.pump();
        }
    }

    /// Runs a step; the step if it has more to make.
    fn work(&self, number: u64, step: StreamStep) -> Result<Option<StreamStep>, ExecError> {
        let Context { statement, scheduler, batch_rows, packages, .. } = &self.context;
        statement.check().map_err(|_| stopped(statement))?;
        let streamed = self.source.as_ref().expect("steps come from a source");
        let lent = SchedParallel::new(scheduler.clone(), statement.clone());
        let parallel: &dyn Parallel =
            if self.inline { &Serial } else { &SchedParallel { packages: packages.clone(), ..lent } };
        let threads = if self.inline { 1 } else { scheduler.threads() };
        let places = self.places(matches!(step, StreamStep::Prepare));
        let traffic = &self.context.traffic;
        let _task = traffic::Task::begin(traffic, statement, streamed.expected(step));
        let run = Run { statement, parallel, threads, places, traffic };
        let more = streamed.run(step, run, *batch_rows, &mut |batch| self.emit(number, batch))?;
        Ok(more.then_some(step))
    }

    /// Page maps are worth reading only where there is a choice of nodes. `begins`: scans are to be prepared.
    fn places(&self, begins: bool) -> Places<'_> {
        let (scheduler, options) = (&self.context.scheduler, self.context.scan);
        let attached = self.attached.as_ref();
        let morsels_min = MORSELS_PER_THREAD * scheduler.threads();
        let turn = || match self.context.ordered || !begins {
            true => None,
            false => scheduler.rotation(TURNS).next(),
        };
        match scheduler.topology().nodes() {
            [only] if self.inline => {
                Places { lookup: Lookup::Only(only.id), options, turn: None, morsels_min: 1, attached }
            }
            _ if self.inline => {
                Places { lookup: Lookup::Maps(PageMaps::of_kernel()), options, turn: None, morsels_min: 1, attached }
            }
            [only] => {
                let turn = attached.and_then(|_| turn());
                Places { lookup: Lookup::Only(only.id), options, turn, morsels_min, attached }
            }
            _ => Places { lookup: Lookup::Maps(PageMaps::of_kernel()), options, turn: turn(), morsels_min, attached },
        }
    }

    /// Sends a batch into the window. False where nobody wants more.
    fn emit(&self, number: u64, batch: RecordBatch) -> Result<bool, ExecError> {
        let statement = &self.context.statement;
        statement.check().map_err(|_| stopped(statement))?;
        let reservation = statement.budget().reserve(batch_bytes(&batch))?;
        let wanted = self.state.lock().window.emit(number, ChargedBatch { batch, reservation });
        if wanted == Some(true) {
            self.pump();
        }
        Ok(wanted.is_some())
    }

    /// What a consumer gets for an item; the batches are its own from here.
    fn hand_over(&self, item: Item) -> Result<RecordBatch, ExecError> {
        match item {
            Item::Error(error) => Err(error),
            Item::Batches(mut batches) => match (batches.pop(), batches.is_empty()) {
                (Some(one), true) => Ok(one.batch),
                (last, _) => {
                    let parts = batches.iter().chain(&last).map(|c| &c.batch);
                    Ok(concat_batches(&self.schema, parts)?)
                }
            },
        }
    }
}

/// A window that takes nothing and gives nothing.
fn closed_window() -> Window<StreamStep> {
    let mut window = Window::new(Bounds { steps: 0, tasks: 0, bytes: 0, step_bytes: 0, batch_rows: 1 }, None);
    window.close();
    window
}

/// A queued step.
struct Task {
    driver: Arc<Driver>,
    number: u64,
    begun: bool,
}

impl Task {
    fn run(mut self) {
        self.begun = true;
        // Someone who would otherwise wait may have run it meanwhile, and an abandoned window has no steps.
        let step = self.driver.state.lock().window.claim(self.number);
        if let Some(step) = step {
            self.driver.run(self.number, step);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // The slot may have a task of its own again by then.
        if self.begun {
            return;
        }
        let unrun = self.driver.state.lock().window.claim(self.number);
        if unrun.is_some() {
            self.driver.end(self.number, Err(stopped(&self.driver.context.statement)));
        }
    }
}

fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&'static str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    };
    // A payload may panic when dropped; that second panic must not reach the worker.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    text
}
