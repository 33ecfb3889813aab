//! The driver of one pipeline: it hands steps to workers, keeps a window of them in flight, puts what they make in order
//! and wakes who waits for it.
//!
//! [`Driver::pump`] is the one place where things move: it is called by a consumer that polls, by a worker whose step made
//! something at the front of the window, and by the pipeline below when it has more. It never waits: consumers that find nothing
//! leave a waker, workers that fill the window simply go on to other tasks, and consuming opens the window again.
//!
//! Invariants:
//! - No foreign code (spawning, waking, polling the pipeline below, dropping of user data aside) runs under the lock.
//! - A waker is stored under the lock that was held when nothing was ready, and taken by the next pump that finds something: no wake-up
//!   is lost. Whoever is patient, and so looks again by itself, may be left waiting for a little more ([`Driver::serves`]).
//! - A queued step whose task is dropped unrun (its statement stopped, the scheduler ended) ends its slot with an error.

mod window;
#[cfg(test)]
mod window_tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use numa::Reservation;
use parking_lot::Mutex;
use sched::policy::concurrency::Pieces;
use sched::{Affinity, Hint, report_bytes};
use storage::{Parallel, Serial};

use crate::ExecError;
use crate::SchedParallel;
use crate::charge::batch_bytes;
use crate::engine::{Run, StreamNext, StreamStep, Streamed};
use crate::error::stopped;
use crate::execution::Context;
use crate::locate::PageMaps;
use crate::operators::scan::cost::{BytesRead, Lookup};
use crate::operators::scan::{Cursor, Next, Places, Scan, Step as ScanStep};
use crate::pipeline::{Pipeline, Source, Stage, compile};
use crate::plan::Plan;
use crate::profile::Profile;
use window::{Bounds, Charged, ITEMS_PER_STEP, Item, Window};

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

/// Runs one pipeline.
pub(crate) struct Driver {
    context: Context,
    schema: SchemaRef,
    source: DriverSource,
    stages: Vec<Stage>,
    /// Steps run on the thread that polls.
    inline: bool,
    state: Mutex<State>,
    me: Weak<Driver>,
}

enum DriverSource {
    Scan(Arc<Scan>),
    Below(Arc<Driver>),
    Engine(Arc<Streamed>),
    /// The plan is not valid; the window holds the reason.
    Nothing,
}

struct State {
    window: Window<Step>,
    cursor: Cursor,
    /// Steps of the engine that were handed out.
    handed_out: usize,
    wakers: Vec<Waker>,
    /// Since when those who wait do, if all of them look again after [`WAKE_AFTER`].
    waiting_since: Option<Instant>,
    /// Someone polls the pipeline below.
    pulling: bool,
    /// Poll it once more: it called while someone polled.
    pull_again: bool,
}

/// What a task runs.
enum Step {
    Scan(ScanStep),
    Engine(StreamStep),
    /// A batch of the pipeline below.
    Batch(RecordBatch, Reservation),
}

impl Driver {
    /// Compiles `plan`; nothing starts. Below `tiny_bytes` it will run on the thread that polls.
    pub(crate) fn new(plan: &Plan, context: Context, tiny_bytes: u64, profile: Option<&Profile>) -> Arc<Driver> {
        let compiled = plan.validate().map_err(ExecError::from).and_then(|()| compile(plan, profile));
        match compiled {
            Ok(pipeline) => Driver::of(pipeline, context, plan.estimated_bytes() < tiny_bytes),
            Err(error) => Driver::build(plan.schema(), DriverSource::Nothing, Vec::new(), context, true, |bounds| {
                let mut window = Window::new(bounds, None);
                window.close_with(error);
                window
            }),
        }
    }

    fn of(pipeline: Pipeline, context: Context, inline: bool) -> Arc<Driver> {
        let source = match pipeline.source {
            Source::Scan(scan) => DriverSource::Scan(scan),
            Source::Engine(streamed) => DriverSource::Engine(streamed),
            Source::Pipeline(below) => DriverSource::Below(Driver::of(*below, context.clone(), inline)),
        };
        let limit = pipeline.limit;
        Driver::build(pipeline.schema, source, pipeline.stages, context, inline, |bounds| Window::new(bounds, limit))
    }

    fn build(
        schema: SchemaRef,
        source: DriverSource,
        stages: Vec<Stage>,
        mut context: Context,
        inline: bool,
        window: impl FnOnce(Bounds) -> Window<Step>,
    ) -> Arc<Driver> {
        context.batch_rows = context.batch_rows.max(1);
        let bounds = Bounds {
            steps: (2 * context.scheduler.threads()).max(STEPS_MIN),
            tasks: context.scheduler.threads(),
            bytes: context.statement.budget().available_bytes().map_or(u64::MAX, |b| b / WINDOW_SHARE),
            step_bytes: match &source {
                DriverSource::Scan(scan) => scan.morsel_bytes(),
                DriverSource::Engine(streamed) => streamed.morsel_bytes(),
                _ => 0,
            },
            batch_rows: context.batch_rows,
        };
        let state = State {
            window: window(bounds),
            cursor: Cursor::default(),
            handed_out: 0,
            wakers: Vec::new(),
            waiting_since: None,
            pulling: false,
            pull_again: false,
        };
        Arc::new_cyclic(|me| Driver {
            context,
            schema,
            source,
            stages,
            inline,
            state: Mutex::new(state),
            me: me.clone(),
        })
    }

    /// The next batch; see [`Execution::poll_next`](crate::Execution::poll_next). With `help`, steps that nobody has begun
    /// are run here rather than waited for. `patient`: whoever is told to wait polls again by itself, later than [`WAKE_AFTER`], so that
    /// it need not be woken for little before.
    pub(crate) fn poll_next(
        &self,
        waker: &Waker,
        help: bool,
        patient: bool,
    ) -> Poll<Option<Result<RecordBatch, ExecError>>> {
        loop {
            if self.context.statement.is_cancelled() {
                let mut state = self.state.lock();
                if !state.window.is_finished() {
                    state.window.fail(stopped(&self.context.statement));
                }
            }
            self.pump(help);
            let mut state = self.state.lock();
            if let Some(item) = state.window.pop() {
                state.wakers.retain(|known| !known.will_wake(waker));
                drop(state);
                // Room for more, and perhaps the end that others wait for.
                self.pump(help);
                return Poll::Ready(Some(self.hand_over(item)));
            }
            if state.window.is_finished() {
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
        if let DriverSource::Below(below) = &self.source {
            below.abandon();
        }
    }

    /// Moves everything that can move; see the module. `help` as in [`Driver::poll_next`].
    fn pump(&self, help: bool) {
        loop {
            let mut spawns = Vec::new();
            let tasks = self.tasks();
            let step_bytes = match &self.source {
                DriverSource::Scan(scan) => Some(scan.morsel_bytes()),
                DriverSource::Engine(streamed) => Some(streamed.morsel_bytes()),
                _ => None,
            };
            let (pull, wake, ended) = {
                let mut state = self.state.lock();
                state.window.set_tasks(tasks);
                if let Some(bytes) = step_bytes {
                    state.window.set_step_bytes(bytes);
                }
                state.window.advance();
                let pull = self.fill(&mut state, &mut spawns);
                state.window.advance();
                let ended = state.window.is_finished();
                let serves = self.serves(&state) || ended || (self.inline && state.window.has_unclaimed());
                (pull, if serves { std::mem::take(&mut state.wakers) } else { Vec::new() }, ended)
            };
            spawns.into_iter().for_each(|(number, affinity, hint)| self.spawn(number, affinity, hint));
            wake.into_iter().for_each(Waker::wake);
            if ended && let DriverSource::Below(below) = &self.source {
                below.abandon();
            }
            if !pull || !self.pull(help) {
                return;
            }
        }
    }

    /// Whether it is time to wake who waits: a call of the kernel for each of many small batches would cost more than they do. While a
    /// step runs, more will come, and pump again.
    fn serves(&self, state: &State) -> bool {
        let ready = state.window.ready();
        let enough = ready >= WAKE_ITEMS || !state.window.has_unfinished();
        ready > 0 && (enough || state.waiting_since.is_none_or(|since| since.elapsed() >= WAKE_AFTER))
    }

    /// Pushes steps while the window is open. True where the pipeline below has to be polled for one.
    fn fill(&self, state: &mut State, spawns: &mut Vec<(u64, Affinity, Hint)>) -> bool {
        while state.window.is_open() {
            match &self.source {
                DriverSource::Scan(scan) => match scan.next(&mut state.cursor) {
                    Next::Step(step, affinity, hint) => {
                        let number = state.window.push(Step::Scan(step));
                        if !self.inline {
                            spawns.push((number, affinity, hint));
                        }
                    }
                    Next::Wait => return false,
                    Next::End => state.window.close(),
                },
                DriverSource::Engine(streamed) => match streamed.next(&mut state.handed_out) {
                    StreamNext::Step(step, affinity) => {
                        let number = state.window.push(Step::Engine(step));
                        if !self.inline {
                            spawns.push((number, affinity, Hint::default()));
                        }
                    }
                    StreamNext::Wait => return false,
                    StreamNext::End => state.window.close(),
                },
                DriverSource::Below(_) if state.pulling => {
                    state.pull_again = true;
                    return false;
                }
                DriverSource::Below(_) => {
                    state.pulling = true;
                    return true;
                }
                DriverSource::Nothing => return false,
            }
        }
        false
    }

    /// Polls the pipeline below for one step. False where it has none now; it will call.
    fn pull(&self, help: bool) -> bool {
        let (DriverSource::Below(below), Some(me)) = (&self.source, self.me.upgrade()) else { return false };
        let waker = Waker::from(Arc::new(Pump(Arc::downgrade(&me))));
        loop {
            let polled = below.poll_next(&waker, help, false);
            let charged = match &polled {
                Poll::Ready(Some(Ok(batch))) => Some(self.context.statement.budget().reserve(batch_bytes(batch))),
                _ => None,
            };
            let mut state = self.state.lock();
            let mut queued = None;
            match (polled, charged) {
                (Poll::Pending, _) if state.pull_again => {
                    state.pull_again = false;
                    continue;
                }
                (Poll::Pending, _) => {
                    state.pulling = false;
                    return false;
                }
                (Poll::Ready(Some(Ok(batch))), Some(Ok(reservation))) => {
                    if !state.window.is_finished() {
                        queued = Some(state.window.push(Step::Batch(batch, reservation)));
                    }
                }
                (Poll::Ready(Some(Ok(_))), Some(Err(error))) => state.window.close_with(error.into()),
                (Poll::Ready(Some(Err(error))), _) => state.window.close_with(error),
                (Poll::Ready(_), _) => state.window.close(),
            }
            (state.pulling, state.pull_again) = (false, false);
            drop(state);
            if let (Some(number), false) = (queued, self.inline) {
                self.spawn(number, Affinity::Anywhere, Hint::default());
            }
            return true;
        }
    }

    fn spawn(&self, number: u64, affinity: Affinity, hint: Hint) {
        let Some(driver) = self.me.upgrade() else { return };
        let task = Task { driver, number };
        self.context.scheduler.spawn_with(&self.context.statement, affinity, hint, move || task.run());
    }

    /// How many steps may be queued or run now: the concurrency hint, which follows the cpus near the rows, how they lie, and
    /// the statements that are active (VLDB 2015, sections 5.1 and 5.2).
    fn tasks(&self) -> usize {
        let Context { scheduler, statement, .. } = &self.context;
        if self.inline {
            return usize::MAX;
        }
        let spread = if let DriverSource::Scan(scan) = &self.source { scan.spread() } else { None };
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
    fn run(&self, number: u64, step: Step) {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(number, step)));
        let result = worked.unwrap_or_else(|payload| Err(ExecError::Panicked(panic_text(payload))));
        self.end(number, result);
    }

    fn end(&self, number: u64, result: Result<(), ExecError>) {
        self.state.lock().window.finish(number, result);
        self.pump(false);
    }

    fn work(&self, number: u64, step: Step) -> Result<(), ExecError> {
        let statement = &self.context.statement;
        statement.check().map_err(|_| stopped(statement))?;
        match (step, &self.source) {
            (Step::Scan(ScanStep::Prepare), DriverSource::Scan(scan)) => scan.prepare(statement, self.places()),
            (Step::Scan(ScanStep::Entries(chunk)), DriverSource::Scan(scan)) => {
                scan.evaluate_entries(chunk, statement, self.places())
            }
            (Step::Scan(ScanStep::Morsel(morsel)), DriverSource::Scan(scan)) => {
                let mut read = BytesRead::default();
                let ran = scan.run(morsel, self.context.batch_rows, &mut read, &mut |batch| {
                    // Of a batch or of nothing: either way it looks whether the statement goes on.
                    match batch {
                        Some(batch) => self.emit(number, batch),
                        None => statement.check().map(|()| true).map_err(|_| stopped(statement)),
                    }
                });
                read.iter().for_each(|(node, bytes)| report_bytes(statement, node, bytes));
                ran
            }
            (Step::Engine(step), DriverSource::Engine(streamed)) => {
                let parallel: &dyn Parallel = if self.inline {
                    &Serial
                } else {
                    &SchedParallel::new(self.context.scheduler.clone(), statement.clone())
                };
                let threads = if self.inline { 1 } else { self.context.scheduler.threads() };
                let run = Run { statement, parallel, threads, places: self.places() };
                streamed.run(step, run, &mut |batch| self.emit(number, batch))
            }
            (Step::Batch(batch, reservation), _) => {
                self.emit(number, batch)?;
                drop(reservation);
                Ok(())
            }
            (Step::Scan(_) | Step::Engine(_), _) => unreachable!("steps come from their source"),
        }
    }

    /// Page maps are worth reading only where there is a choice of nodes.
    fn places(&self) -> Places<'static> {
        let (scheduler, options) = (&self.context.scheduler, self.context.scan);
        let morsels_min = MORSELS_PER_THREAD * scheduler.threads();
        let turn = |nodes| if self.context.ordered { None } else { scheduler.rotation(nodes).next() };
        match scheduler.topology().nodes() {
            _ if self.inline => Places { lookup: Lookup::Nowhere, options, turn: None, morsels_min: 1 },
            [only] => Places { lookup: Lookup::Only(only.id), options, turn: None, morsels_min },
            _ => Places { lookup: Lookup::Maps(PageMaps::of_kernel()), options, turn: turn(TURNS), morsels_min },
        }
    }

    /// Sends a batch of the source through the stages and into the window. False where nobody wants more.
    fn emit(&self, number: u64, mut batch: RecordBatch) -> Result<bool, ExecError> {
        let statement = &self.context.statement;
        statement.check().map_err(|_| stopped(statement))?;
        for stage in &self.stages {
            batch = stage.run(batch)?;
            if batch.num_rows() == 0 {
                return Ok(true);
            }
        }
        let reservation = statement.budget().reserve(batch_bytes(&batch))?;
        let wanted = self.state.lock().window.emit(number, Charged { batch, reservation });
        if wanted == Some(true) {
            self.pump(false);
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
fn closed_window() -> Window<Step> {
    let mut window = Window::new(Bounds { steps: 0, tasks: 0, bytes: 0, step_bytes: 0, batch_rows: 1 }, None);
    window.close();
    window
}

/// A queued step.
struct Task {
    driver: Arc<Driver>,
    number: u64,
}

impl Task {
    fn run(self) {
        // Someone who would otherwise wait may have run it meanwhile, and an abandoned window has no steps.
        let step = self.driver.state.lock().window.claim(self.number);
        if let Some(step) = step {
            self.driver.run(self.number, step);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let unrun = self.driver.state.lock().window.claim(self.number);
        if unrun.is_some() {
            self.driver.end(self.number, Err(stopped(&self.driver.context.statement)));
        }
    }
}

/// Pumps the driver above when the one below has more.
struct Pump(Weak<Driver>);

impl Wake for Pump {
    fn wake(self: Arc<Self>) {
        if let Some(driver) = self.0.upgrade() {
            driver.pump(false);
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
