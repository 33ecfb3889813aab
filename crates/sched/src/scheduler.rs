//! The handle to a scheduler: start, submit, wait, look, end.
//!
//! Invariant: while any handle lives, every task that was submitted is run or dropped as its statement's; when the last
//! handle goes, the threads end after the tasks that they are running, and what is still queued is dropped and its
//! statement stopped as [`crate::StopReason::ShutDown`].
//!
//! # Limits
//! The number of slots is fixed at the start.

use std::fmt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use numa::{NodeId, Topology};
use parking_lot::Mutex;

use crate::affinity::{Affinity, AffinityOf, CallBody, Hint};
use crate::config::Config;
use crate::panics;
use crate::policy::Layout;
use crate::policy::concurrency::{self, Pieces};
use crate::runtime::completion::{Completion, promise};
use crate::runtime::group::Work;
use crate::runtime::parallel::{TaskError, parallel_for};
use crate::runtime::{Runtime, here, on_worker, watchdog};
use crate::settings::Settings;
use crate::statement::Statement;
use crate::stats::{QueuedTask, SchedulerStats, StatementStats};

/// A pool of workers near every node's memory; as many work at a time as there are slots. See the crate's documentation
/// for an example.
pub struct Scheduler {
    shared: Arc<Runtime>,
    watchdog: Mutex<Option<JoinHandle<()>>>,
    topology: Arc<Topology>,
}

impl Scheduler {
    /// Starts the workers of a machine. Where the system allows fewer threads than asked for, fewer are started and a
    /// warning is logged; where it allows none, no query could run, and this panics.
    pub fn new(topology: Arc<Topology>, config: Config) -> Arc<Scheduler> {
        let mut threads = config.threads.map(|threads| threads.clamp(1, Config::THREADS_MAX));
        loop {
            let layout = Layout::new(&topology, threads, config.split);
            let shared = Runtime::new(layout, &topology, &config);
            let slots = (0..shared.layout.slots().len() as u32).map(crate::SlotId);
            let refused = slots.map(|slot| shared.start_worker(slot)).find_map(Result::err);
            let Some(error) = refused else {
                let dog = Arc::downgrade(&shared);
                let watchdog = Builder::new().name("watchdog".to_owned()).spawn(move || watchdog::run(&dog));
                if let Err(error) = &watchdog {
                    tracing::warn!("the scheduler does without a watchdog: {error}");
                }
                return Arc::new(Scheduler { shared, watchdog: Mutex::new(watchdog.ok()), topology });
            };
            let started = shared.threads.lock().len();
            assert!(started > 0, "the system refuses to start any worker thread: {error}");
            tracing::warn!("the system allows only {started} worker threads: {error}");
            threads = Some(started);
            shared.end();
            join_all(&shared);
        }
    }

    /// How many slots there are, and so how many workers work at a time; slots are numbered below it.
    pub fn threads(&self) -> usize {
        self.shared.layout.slots().len()
    }

    /// The machine that the workers were laid out for.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Which slots and thread groups there are.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// Queues a task and returns at once. A panic in it fails `statement` with the panic's text. If `statement` has
    /// stopped by the time a worker comes to the task, it is dropped without being run.
    pub fn spawn(&self, statement: &Arc<Statement>, affinity: Affinity, task: impl FnOnce() + Send + 'static) {
        self.shared.submit(statement, affinity, Hint::default(), Box::new(task));
    }

    /// As [`Scheduler::spawn`], with an estimate of what the task costs: soft tasks that want much memory for their
    /// time then stay on their node (see [`crate::Affinities::Weighed`]).
    pub fn spawn_with(
        &self,
        statement: &Arc<Statement>,
        affinity: Affinity,
        hint: Hint,
        task: impl FnOnce() + Send + 'static,
    ) {
        self.shared.submit(statement, affinity, hint, Box::new(task));
    }

    /// Queues a task and gives what it returns to whoever waits for, or awaits, the completion.
    pub fn submit<T: Send + 'static>(
        &self,
        statement: &Arc<Statement>,
        affinity: Affinity,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Completion<T> {
        let (promise, completion) = promise();
        let own = Arc::clone(statement);
        let run = move || match panics::caught(task) {
            Ok(value) => promise.fulfil(Ok(value)),
            Err(text) => {
                own.fail(text.clone());
                promise.fulfil(Err(TaskError::Panicked(text)));
            }
        };
        self.shared.submit(statement, affinity, Hint::default(), Box::new(run));
        completion
    }

    /// Runs `body(0)` to `body(tasks - 1)` on the workers, each where `affinity` says, and returns when no call runs
    /// any more; `body` may therefore borrow. Calls may run in any order and at the same time.
    ///
    /// A worker may call this too: it then runs calls itself, and while it waits for others it runs other tasks that
    /// are at least as urgent; so `body` must not hold a lock across a nested `parallel_for` that another task of its
    /// statement takes.
    ///
    /// # Errors
    /// [`TaskError::Panicked`] when a call panicked (the statement has then failed), [`TaskError::Cancelled`] when the
    /// statement stopped before all was done; calls that had not begun are then never made.
    pub fn parallel_for(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        self.parallel_for_with(statement, tasks, &|task| (affinity(task), Hint::default()), body)
    }

    /// As [`parallel_for`](Self::parallel_for), told of each task what it is expected to cost as well, so that settings
    /// which hold memory-intensive tasks to their place can.
    ///
    /// # Errors
    /// As [`parallel_for`](Self::parallel_for).
    pub fn parallel_for_with(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        wish: &(dyn Fn(usize) -> (Affinity, Hint) + Sync),
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        parallel_for(&self.shared, statement, tasks, wish, body)
    }

    /// The settings that hold for statements without their own.
    pub fn settings(&self) -> Settings {
        self.shared.settings()
    }

    /// The settings that hold for a statement: its own, or else the scheduler's.
    pub fn settings_of(&self, statement: &Statement) -> Settings {
        self.shared.settings_of(statement)
    }

    /// Changes the settings for tasks submitted from now on. Workers pinned for good are let go when they next run a
    /// task.
    pub fn set_settings(&self, settings: Settings) {
        self.shared.set_settings(settings);
    }

    /// How many tasks an operation of `statement` may issue over data on `nodes` (none: anywhere) that lies in
    /// `pieces`; see [`concurrency::hint`]. Statements count while they are alive and have submitted something.
    pub fn concurrency_hint(&self, statement: &Arc<Statement>, nodes: &[NodeId], pieces: Pieces) -> usize {
        self.shared.watch(statement);
        let active = self.shared.active.load(std::sync::atomic::Ordering::Relaxed);
        let parallelism = self.shared.settings_of(statement).parallelism;
        concurrency::hint(&self.shared.layout, nodes, active, parallelism, pieces)
    }

    /// How many statements but this one are alive and have submitted something.
    pub fn other_statements(&self, statement: &Statement) -> usize {
        let active = self.shared.active.load(std::sync::atomic::Ordering::Relaxed);
        active.saturating_sub(usize::from(statement.is_active()))
    }

    /// The order in which an operation over `n` pieces visits them: each operation begins one further.
    pub fn rotation(&self, pieces: usize) -> impl Iterator<Item = usize> + use<> {
        concurrency::rotated(self.shared.next_turn(), pieces)
    }

    /// The statements that have submitted something and are alive, the oldest first.
    pub fn statements(&self) -> Vec<StatementStats> {
        self.shared.statement_stats()
    }

    /// What is queued, the most urgent of each queue first; at most `most` entries.
    pub fn tasks(&self, most: usize) -> Vec<QueuedTask> {
        self.shared.queued_tasks(most)
    }

    /// What the workers have done so far.
    pub fn stats(&self) -> SchedulerStats {
        self.shared.stats()
    }

    /// Whether the calling thread is a worker (of any scheduler).
    pub fn on_worker() -> bool {
        on_worker()
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.end();
        // A running task may wait for one that is queued: nobody would run that any more.
        self.shared.drain();
        // A worker that drops the last handle is one of those that would be waited for; they end by themselves.
        let inside = here().is_some_and(|here| here.shared.id == self.shared.id);
        if !inside {
            join_all(&self.shared);
            if let Some(watchdog) = self.watchdog.get_mut().take() {
                let _ = watchdog.join();
            }
        }
    }
}

impl Runtime {
    /// Queues one task, or drops it if its statement has stopped or the scheduler ends.
    pub(crate) fn submit(
        &self,
        statement: &Arc<Statement>,
        affinity: Affinity,
        hint: Hint,
        task: Box<dyn FnOnce() + Send>,
    ) {
        self.watch(statement);
        let settings = self.settings_of(statement);
        let entry = self.entry(statement, settings, affinity, hint, Work::Task(task));
        if statement.has_stopped() {
            entry.discard(&self.dropped);
            return;
        }
        if self.is_ending() {
            statement.shut_down();
            entry.discard(&self.dropped);
            return;
        }
        let target = self.route(settings, affinity, hint);
        self.queue(target, std::iter::once(entry));
        // The scheduler may have ended, and been drained, in between.
        if self.is_ending() {
            self.drain();
        }
    }
}

/// Waits for the end of every thread, also of those that others were still starting.
fn join_all(shared: &Runtime) {
    loop {
        let next = shared.threads.lock().pop_first();
        let Some((_, thread)) = next else { return };
        if thread.join().is_err() {
            tracing::error!("a worker thread panicked outside a task: this is a bug in the scheduler");
        }
    }
}
