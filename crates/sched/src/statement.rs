//! A running SQL statement as its tasks see it: how urgent, how much memory, and whether to stop.
//!
//! Invariants: a statement stops once, for the first reason that reaches it, and never runs again; whoever waits for it
//! hears of every change.
//!
//! # Limits
//! A deadline is noticed by whoever looks next (a task's check, a worker that takes a task, a waiting caller); no timer
//! runs for it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use numa::Budget;
use numa::counters::Counts;
use parking_lot::Mutex;

use crate::affinity::Priority;
use crate::counting::Events;
use crate::settings::Settings;

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const PAST_DEADLINE: u8 = 2;
const FAILED: u8 = 3;
const SHUT_DOWN: u8 = 4;

/// No deadline, in nanoseconds since the statement began.
const NO_DEADLINE: u64 = u64::MAX;

/// The statement has stopped; [`Statement::stopped`] says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancellation;

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the statement was cancelled")
    }
}

impl std::error::Error for Cancellation {}

/// Why a statement stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Someone asked for it.
    Cancelled,
    /// Its deadline passed.
    Deadline,
    /// A task of it panicked, with this text; or its owner called [`Statement::fail`].
    Failed(String),
    /// The scheduler ended while tasks of it were queued.
    ShutDown,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Cancelled => f.write_str("the statement was cancelled"),
            StopReason::Deadline => f.write_str("the statement took longer than its time limit"),
            StopReason::Failed(text) => write!(f, "a task of the statement failed: {text}"),
            StopReason::ShutDown => f.write_str("the scheduler was shut down before the statement was done"),
        }
    }
}

/// What a statement's tasks have done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    run: AtomicU64,
    dropped: AtomicU64,
    bytes_local: AtomicU64,
    bytes_remote: AtomicU64,
    events: Events,
    /// Workers whose counters count for this statement at the moment.
    counting: AtomicUsize,
}

impl Tally {
    pub(crate) fn tasks_run(&self, tasks: u64) {
        if tasks > 0 {
            self.run.fetch_add(tasks, Ordering::Relaxed);
        }
    }

    pub(crate) fn task_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self, local: bool, bytes: u64) {
        let counter = if local { &self.bytes_local } else { &self.bytes_remote };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a worker's counters count for this statement from here on.
    pub(crate) fn begin_to_count(&self) {
        self.counting.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds what a worker's counters counted till it turned away.
    pub(crate) fn counted(&self, counts: &Counts) {
        self.events.add(counts);
        self.counting.fetch_sub(1, Ordering::Release);
    }

    /// What hardware counters counted.
    pub(crate) fn counts(&self) -> Counts {
        self.events.read()
    }

    /// Tasks run and dropped, bytes local and remote.
    pub(crate) fn read(&self) -> [u64; 4] {
        [&self.run, &self.dropped, &self.bytes_local, &self.bytes_remote].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Counts a statement among those of its scheduler while it is alive.
#[derive(Debug)]
struct Active(Arc<AtomicUsize>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Someone who must hear that a statement stopped or got another deadline. Called without any lock held.
pub(crate) trait Watcher: Send + Sync {
    fn statement_changed(&self, statement: &Statement);
}

/// One SQL statement: what its tasks share. Cheap to share, safe to cancel from any thread.
pub struct Statement {
    user: u8,
    time: AtomicU64,
    budget: Arc<Budget>,
    state: AtomicU8,
    began: Instant,
    /// Nanoseconds since `began`.
    deadline_ns: AtomicU64,
    failure: Mutex<Option<String>>,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
    /// The scheduler that already watches this statement (0: none), so that most submissions take no lock.
    scheduler: AtomicU64,
    /// The settings that hold for it instead of the scheduler's; 0 is none.
    settings: AtomicU64,
    label: OnceLock<String>,
    tally: Tally,
    /// Hardware counters do not count for it.
    uncounted: AtomicBool,
    active: OnceLock<Active>,
}

impl Statement {
    /// A statement issued at `time` (any clock, older goes first) whose memory is charged to `budget`.
    pub fn new(time: u64, budget: Arc<Budget>) -> Arc<Statement> {
        let priority = Priority { user: Priority::USER_DEFAULT, statement_time: time };
        Statement::with_priority(priority, budget)
    }

    /// A statement of this priority whose memory is charged to `budget`.
    pub fn with_priority(priority: Priority, budget: Arc<Budget>) -> Arc<Statement> {
        Arc::new(Statement {
            user: priority.user,
            time: AtomicU64::new(priority.statement_time),
            budget,
            state: AtomicU8::new(RUNNING),
            began: Instant::now(),
            deadline_ns: AtomicU64::new(NO_DEADLINE),
            failure: Mutex::new(None),
            watchers: Mutex::new(Vec::new()),
            scheduler: AtomicU64::new(0),
            settings: AtomicU64::new(0),
            label: OnceLock::new(),
            tally: Tally::default(),
            uncounted: AtomicBool::new(false),
            active: OnceLock::new(),
        })
    }

    /// Has tasks that the statement submits from now on follow these settings, or again the scheduler's for `None`.
    pub fn set_settings(&self, settings: Option<Settings>) {
        self.settings.store(settings.map_or(0, Settings::to_word), Ordering::Relaxed);
    }

    /// The settings that were set for this statement alone.
    pub fn settings(&self) -> Option<Settings> {
        Settings::from_word(self.settings.load(Ordering::Relaxed))
    }

    /// Says what the statement is, for lists: its SQL, say. The first label stays.
    pub fn set_label(&self, label: impl Into<String>) {
        let _ = self.label.set(label.into());
    }

    /// What the statement is called in lists; empty when nobody said.
    pub fn label(&self) -> &str {
        self.label.get().map_or("", String::as_str)
    }

    /// When the statement was made.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Whether workers count what its tasks cost with hardware counters, where there are any; they do unless told
    /// otherwise.
    pub fn set_counted(&self, counted: bool) {
        self.uncounted.store(!counted, Ordering::Relaxed);
    }

    pub(crate) fn is_counted(&self) -> bool {
        !self.uncounted.load(Ordering::Relaxed)
    }

    /// What hardware counters counted for its tasks: cycles, instructions, cache misses. Nothing is known where the
    /// kernel refuses them, and of tasks that ran outside of workers.
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// As [`Statement::counts`], once all workers have told what its tasks cost; they do so some microseconds after its
    /// last task. Waits no longer than `limit`.
    pub fn wait_for_counts(&self, limit: Duration) -> Counts {
        let end = Instant::now() + limit;
        while self.tally.counting.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(20));
        }
        self.counts()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts the statement in `active` until it is dropped.
    pub(crate) fn become_active(&self, active: &Arc<AtomicUsize>) {
        self.active.get_or_init(|| {
            active.fetch_add(1, Ordering::Relaxed);
            Active(Arc::clone(active))
        });
    }

    /// Whether it is counted among those that have submitted something.
    pub(crate) fn is_active(&self) -> bool {
        self.active.get().is_some()
    }

    /// When the statement was issued.
    pub fn time(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    /// Has it count as issued at another time: for one that has waited before its first task and goes behind those that
    /// began meanwhile. Tasks that were submitted already stay where they are.
    pub fn set_time(&self, time: u64) {
        self.time.store(time, Ordering::Relaxed);
    }

    /// How urgent its tasks are.
    pub fn priority(&self) -> Priority {
        Priority { user: self.user, statement_time: self.time() }
    }

    /// What its memory is charged to.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Stops the statement: its queued tasks are dropped soon, running ones stop at their next [`Statement::check`].
    /// Does nothing when it has stopped already.
    pub fn cancel(&self) {
        self.stop(CANCELLED);
    }

    /// Stops the statement as failed, with a text that says why. The first reason to stop is kept.
    pub fn fail(&self, text: impl Into<String>) {
        // The text goes first, so that whoever sees the state finds it; it is read only when FAILED won.
        self.failure.lock().get_or_insert(text.into());
        self.stop(FAILED);
    }

    /// Stops the statement at `deadline`, or lifts or moves an earlier deadline.
    pub fn set_deadline(&self, deadline: Instant) {
        let since_began = deadline.saturating_duration_since(self.began).as_nanos();
        let deadline_ns = u64::try_from(since_began).unwrap_or(NO_DEADLINE);
        self.deadline_ns.store(deadline_ns, Ordering::Release);
        self.tell_watchers();
    }

    /// When the statement will be stopped, if it has a deadline.
    pub fn deadline(&self) -> Option<Instant> {
        match self.deadline_ns.load(Ordering::Acquire) {
            NO_DEADLINE => None,
            deadline_ns => self.began.checked_add(Duration::from_nanos(deadline_ns)),
        }
    }

    /// Whether the statement has stopped, whatever the reason. Cheap enough for every task and every few thousand rows.
    pub fn is_cancelled(&self) -> bool {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return true;
        }
        if self.deadline_ns.load(Ordering::Relaxed) == NO_DEADLINE {
            return false;
        }
        let past = self.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        if past {
            // Watchers are told when `stop` is called for the statement, which who issued it does once it sees this:
            // here a lock of the scheduler's may be held. Loops wake up at the deadline by themselves.
            let _ = self.state.compare_exchange(RUNNING, PAST_DEADLINE, Ordering::AcqRel, Ordering::Acquire);
        }
        past
    }

    /// `Err` once the statement has stopped.
    pub fn check(&self) -> Result<(), Cancellation> {
        if self.is_cancelled() { Err(Cancellation) } else { Ok(()) }
    }

    /// Why the statement stopped; `None` while it runs.
    pub fn stopped(&self) -> Option<StopReason> {
        if !self.is_cancelled() {
            return None;
        }
        Some(match self.state.load(Ordering::Acquire) {
            CANCELLED => StopReason::Cancelled,
            PAST_DEADLINE => StopReason::Deadline,
            FAILED => StopReason::Failed(self.failure.lock().clone().unwrap_or_default()),
            _ => StopReason::ShutDown,
        })
    }

    /// Stops the statement because its scheduler ended.
    pub(crate) fn shut_down(&self) {
        self.stop(SHUT_DOWN);
    }

    /// Whether a reason to stop is already recorded; looks at no clock.
    pub(crate) fn has_stopped(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    /// Tells `watcher` of every change from now on. It must look at the state itself after this returns.
    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0);
        watchers.push(watcher);
    }

    /// Ends a [`Statement::watch`].
    pub(crate) fn unwatch(&self, watcher: &Weak<dyn Watcher>) {
        self.watchers.lock().retain(|known| !std::ptr::addr_eq(known.as_ptr(), watcher.as_ptr()));
    }

    /// Has the scheduler numbered `id` watch this statement, once.
    pub(crate) fn watch_once(&self, id: u64, watcher: impl FnOnce() -> Weak<dyn Watcher>) {
        if self.scheduler.load(Ordering::Acquire) == id {
            return;
        }
        // Under the lock, so that of two first submitters one watches and neither goes on before that is done.
        let mut watchers = self.watchers.lock();
        if self.scheduler.load(Ordering::Relaxed) != id {
            watchers.retain(|known| known.strong_count() > 0);
            watchers.push(watcher());
            self.scheduler.store(id, Ordering::Release);
        }
    }

    fn stop(&self, reason: u8) {
        match self.state.compare_exchange(RUNNING, reason, Ordering::AcqRel, Ordering::Acquire) {
            // Who noticed that the deadline had passed told nobody; what is queued is dropped now.
            Ok(_) | Err(PAST_DEADLINE) => self.tell_watchers(),
            Err(_) => {}
        }
    }

    fn tell_watchers(&self) {
        let watchers: Vec<Arc<dyn Watcher>> = self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        for watcher in watchers {
            watcher.statement_changed(self);
        }
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("priority", &self.priority()).field("stopped", &self.stopped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Arc<Statement> {
        Statement::new(7, Budget::unlimited())
    }

    #[test]
    fn the_first_reason_to_stop_is_kept() {
        let statement = statement();
        assert_eq!((statement.check(), statement.stopped()), (Ok(()), None));
        statement.fail("first");
        statement.cancel();
        statement.fail("second");
        assert_eq!(statement.check(), Err(Cancellation));
        assert_eq!(statement.stopped(), Some(StopReason::Failed("first".into())));
    }

    #[test]
    fn a_deadline_stops_and_can_be_moved_before_it_passes() {
        let statement = statement();
        let far = Instant::now() + Duration::from_secs(3600);
        statement.set_deadline(far);
        assert!(!statement.is_cancelled());
        assert!(statement.deadline().is_some_and(|deadline| deadline <= far));
        statement.set_deadline(Instant::now());
        assert_eq!(statement.stopped(), Some(StopReason::Deadline));
        statement.set_deadline(far);
        assert!(statement.is_cancelled(), "a stopped statement stays stopped");
    }
}
