//! The handle to a scheduler: start, submit, wait, look, end.
//!
//! Invariant: while any handle lives, every task that was submitted is run or dropped as its statement's; when the last
//! handle goes, the threads end after the tasks that they are running, and what is still queued is dropped and its
//! statement stopped as [`crate::Stopped::ShutDown`].
//!
//! # Limits
//! The number of threads is fixed at the start.

use std::fmt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use numa::Topology;
use parking_lot::Mutex;

use crate::affinity::{Affinity, Config};
use crate::policy::Layout;
use crate::runtime::group::{Entry, Work};
use crate::runtime::parallel::{TaskError, parallel_for};
use crate::runtime::{Shared, on_worker, worker};
use crate::statement::Statement;
use crate::stats::SchedulerStats;

/// A pool of workers, one per slot, near every node's memory. See the crate's documentation for an example.
pub struct Scheduler {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    topology: Arc<Topology>,
}

impl Scheduler {
    /// Starts the workers of a machine. Where the system allows fewer threads than asked for, fewer are started and a
    /// warning is logged; where it allows none, no query could run, and this panics.
    pub fn new(topology: Arc<Topology>, config: Config) -> Arc<Scheduler> {
        let mut threads = config.threads.map(|threads| threads.clamp(1, Config::THREADS_MAX));
        loop {
            let layout = Layout::new(&topology, threads, config.stealing);
            let shared = Arc::new(Shared::new(layout, config.binding));
            match start(&shared) {
                Ok(threads) => return Arc::new(Scheduler { shared, threads: Mutex::new(threads), topology }),
                Err((started, error)) => {
                    assert!(!started.is_empty(), "the system refuses to start any worker thread: {error}");
                    tracing::warn!("the system allows only {} worker threads: {error}", started.len());
                    threads = Some(started.len());
                    shared.end();
                    started.into_iter().for_each(join);
                }
            }
        }
    }

    /// How many worker threads there are; slots are numbered below it.
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
        self.shared.watch(statement);
        let entry = Entry { statement: Arc::clone(statement), work: Work::Task(Box::new(task)) };
        if statement.has_stopped() {
            entry.discard(&self.shared.dropped);
            return;
        }
        let mut entry = Some(entry);
        let target = self.shared.route(affinity);
        self.shared.queue(target, 1, || entry.take().expect("one entry is asked for"));
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
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(), TaskError> {
        parallel_for(&self.shared, statement, tasks, affinity, body)
    }

    /// What the workers have done so far.
    pub fn stats(&self) -> SchedulerStats {
        SchedulerStats::of(&self.shared)
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
        // A worker that drops the last handle is one of those that would be waited for; they end by themselves.
        if self.shared.own_slot().is_none() {
            self.threads.get_mut().drain(..).for_each(join);
        }
    }
}

/// Starts a thread per slot; on failure gives back those that run.
fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, (Vec<JoinHandle<()>>, std::io::Error)> {
    let mut threads = Vec::new();
    for slot in (0..shared.layout.slots().len() as u32).map(crate::SlotId) {
        let node = shared.layout.group(shared.layout.slot(slot).group).node;
        let worker = Arc::clone(shared);
        // Linux shows 15 bytes of a thread's name.
        match Builder::new().name(format!("worker-{}-{}", node.0, slot)).spawn(move || worker::run(&worker, slot)) {
            Ok(thread) => threads.push(thread),
            Err(error) => return Err((threads, error)),
        }
    }
    Ok(threads)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a worker thread panicked outside a task: this is a bug in the scheduler");
    }
}
