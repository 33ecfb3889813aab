//! The shared state of one `parallel_for`, and the one place where a lifetime is erased.
//!
//! The indices of a `parallel_for` are sorted into *lanes*, one per queue that the policy chose for them. A lane has a
//! cursor; to run an index is to move a cursor past it. Queues hold only a few entries per lane (as many as workers
//! could help), each of which runs indices till its lane is empty, so an index costs a counter and not a queue access.
//!
//! Invariants:
//! - An index is run at most once (the cursor's addition is atomic), and exactly once unless the job is closed early.
//! - The body is called only between [`Job::enter`] and [`Job::leave`], for an index that was claimed. [`scoped`] does
//!   not return before all lanes are exhausted and nobody is between the two. Hence no call outlives `scoped`, while an
//!   entry that a worker finds later touches counters only.
//! - While a lane has unclaimed indices, an entry of it is queued or somebody works on it who will requeue it; while it
//!   has more than those at work on it will begin with, an entry is queued, so that whoever gets free finds it.
//!
//! # Limits
//! One index is claimed at a time: bodies should be worth a microsecond or more.

#[cfg(all(test, loom))]
mod model;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::affinity::SlotId;
use crate::handover::Stand;
use crate::panics;
use crate::policy::{GroupId, Layout, QueueTarget};
use crate::primitive::{AtomicBool, AtomicU32, AtomicUsize, Condvar, Mutex, Ordering, fence, wait, yield_now};
use crate::sleep::Sleep;
use crate::statement::{Statement, Watcher};

/// Where a closed lane's cursor stands: behind every end, and far from overflow.
const CLOSED: usize = usize::MAX / 2;

/// The indices of a job that were routed to one queue.
pub(crate) struct Lane {
    pub(crate) target: QueueTarget,
    /// A part of the job's `order`.
    range: Range<usize>,
    cursor: AtomicUsize,
    /// Entries of this lane that are in a queue.
    queued: AtomicUsize,
    /// Its tasks asked for a place.
    near: AtomicBool,
}

impl Lane {
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Notes whether its tasks asked for a place.
    pub(crate) fn set_near(&self, near: bool) {
        self.near.store(near, Ordering::Relaxed);
    }

    pub(crate) fn is_near(&self) -> bool {
        self.near.load(Ordering::Relaxed)
    }

    /// Notes that entries are about to be queued.
    pub(crate) fn entries_queued(&self, entries: usize) {
        self.queued.fetch_add(entries, Ordering::Relaxed);
    }

    /// Notes that an entry was taken. Returns whether it was the last one while there is more to do than its taker
    /// begins with: then another must be queued, for whoever gets free later or further away.
    fn entry_taken(&self) -> bool {
        let others = self.queued.fetch_sub(1, Ordering::Relaxed) - 1;
        others == 0 && self.cursor.load(Ordering::Relaxed) + 1 < self.range.end
    }
}

/// Who waits for a job.
pub(crate) enum Waiter {
    /// A thread that is no worker.
    Thread(Mutex<()>, Condvar),
    /// A worker, which sleeps in the slot that it said it has, or at its stand when it gave that away.
    Worker { slot: AtomicU32, stand: Arc<Stand>, sleep: Arc<Sleep> },
}

/// What a worker did for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Participation {
    /// Nothing is left that this worker may run.
    Exhausted,
    /// Something more urgent came; the entry must be queued again.
    Yielded,
}

/// How many indices a worker ran, and how many of them belonged to another group.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCount {
    pub(crate) tasks: u64,
    /// Of other groups: which, and how many.
    pub(crate) stolen: Vec<(GroupId, u64)>,
}

/// A `parallel_for` that is under way.
pub(crate) struct Job {
    body: Body,
    /// The indices, those of a lane side by side and ascending.
    order: Vec<usize>,
    lanes: Vec<Lane>,
    /// Threads between `enter` and `leave`.
    active: AtomicUsize,
    /// As many threads at a time, and no more; 0 is no limit.
    limit: AtomicUsize,
    statement: Arc<Statement>,
    /// Indices that were closed off before anybody claimed them.
    skipped: AtomicUsize,
    /// The text of the first panic.
    panicked: Mutex<Option<String>>,
    waiter: Waiter,
}

/// The body of a job without its lifetime.
struct Body(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointer is to a `Sync` closure, which any thread may call through a shared reference.
unsafe impl Send for Body {}
// SAFETY: as above; `Body` gives nothing but shared access.
unsafe impl Sync for Body {}

/// Makes a job of `body`, lends it to `run`, and comes back only when nobody can call `body` any more: also when `run`
/// gives up early or panics, in which case indices that nobody had begun are never run.
pub(crate) fn scoped<R>(
    body: &(dyn Fn(usize) + Sync),
    routes: &[QueueTarget],
    statement: &Arc<Statement>,
    waiter: Waiter,
    run: impl FnOnce(&Arc<Job>) -> R,
) -> R {
    // SAFETY: only the lifetime changes. The pointer is followed in `Job::call` alone, for a claimed index and between
    // `enter` and `leave`; `JobGuard` below, dropped on every way out of this function and so within the lifetime of
    // `body`, makes claims impossible and then waits until nobody is between the two.
    let erased = unsafe {
        std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(body)
    };
    let closing = JobGuard { job: Arc::new(Job::new(Body(erased), routes, statement, waiter)), body: PhantomData };
    run(&closing.job)
}

/// Ends a job when dropped.
struct JobGuard<'a> {
    job: Arc<Job>,
    body: PhantomData<&'a (dyn Fn(usize) + Sync)>,
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.job.close();
        // The usual way out has waited already; this is for a panic between submitting and waiting.
        while !self.job.is_finished() {
            yield_now();
        }
    }
}

impl Job {
    fn new(body: Body, routes: &[QueueTarget], statement: &Arc<Statement>, waiter: Waiter) -> Job {
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|index| routes[*index]);
        let mut lanes: Vec<Lane> = Vec::new();
        for (place, index) in order.iter().enumerate() {
            match lanes.last_mut().filter(|lane| lane.target == routes[*index]) {
                Some(lane) => lane.range.end = place + 1,
                None => {
                    let range = place..place + 1;
                    let cursor = AtomicUsize::new(range.start);
                    let queued = AtomicUsize::new(0);
                    let near = AtomicBool::new(false);
                    lanes.push(Lane { target: routes[*index], cursor, range, queued, near });
                }
            }
        }
        Job {
            body,
            order,
            lanes,
            active: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            skipped: AtomicUsize::new(0),
            statement: Arc::clone(statement),
            panicked: Mutex::new(None),
            waiter,
        }
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Has `n` threads at a time run this job; 0 is no limit. Before anything is queued.
    ///
    /// A limited job has as many *tickets*: an entry that is queued, or a thread that took one (or the caller) and runs
    /// indices. Whoever ends with indices left elsewhere passes its ticket on ([`Job::lane_left`]), so none is lost
    /// while there is something to do, and there are never more.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many threads may run it at a time, if that is limited.
    pub(crate) fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Notes that an entry of a lane was taken. Returns whether another must be queued.
    pub(crate) fn entry_taken(&self, lane: usize) -> bool {
        self.lanes[lane].entry_taken() && self.limit().is_none()
    }

    /// Where the ticket of a thread that has nothing left to run goes, if the job is limited and not done.
    pub(crate) fn lane_left(&self) -> Option<usize> {
        self.limit()?;
        self.lanes.iter().position(|lane| lane.cursor.load(Ordering::Relaxed) < lane.range.end)
    }

    /// The first index of a lane.
    pub(crate) fn first_index(&self, lane: &Lane) -> usize {
        self.order[lane.range.start]
    }

    /// Whether some indices belong to one slot alone.
    pub(crate) fn has_private_lane(&self) -> bool {
        self.lanes.iter().any(|lane| matches!(lane.target, QueueTarget::Slot(_)))
    }

    /// How many indices the job has.
    pub(crate) fn tasks(&self) -> usize {
        self.order.len()
    }

    /// The text of the first panic in the body.
    pub(crate) fn panicked(&self) -> Option<String> {
        self.panicked.lock().clone()
    }

    /// How many indices were closed off; final once the job is finished.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Runs indices that the worker of `slot` may run: of the lane `home` first, then of the others in the order of its
    /// search. After each, `yields` says whether to stop for something more urgent.
    pub(crate) fn participate(
        &self,
        layout: &Layout,
        slot: SlotId,
        home: Option<usize>,
        ran: &mut RunCount,
        yields: impl Fn() -> bool,
    ) -> Participation {
        self.enter();
        let _leave = EnterGuard(self);
        let group = layout.slot(slot).group;
        let own = self.lanes.iter().filter(|lane| lane.target == QueueTarget::Slot(slot));
        let reached = layout.search(group).iter().flat_map(|step| {
            let is_here = move |lane: &&Lane| match lane.target {
                QueueTarget::Group(group, kind) => group == step.group && step.reach.includes(kind),
                QueueTarget::Slot(_) => false,
            };
            self.lanes.iter().filter(is_here)
        });
        for lane in home.map(|home| &self.lanes[home]).into_iter().chain(own).chain(reached) {
            let foreign = layout.group_of(lane.target);
            let before = ran.tasks;
            let mut yielded = false;
            while !yielded && let Some(index) = self.claim(lane) {
                // SAFETY: claimed just now, after `enter` above and before `_leave` is dropped.
                unsafe { self.call(index) };
                ran.tasks += 1;
                yielded = yields();
            }
            if foreign != group && ran.tasks > before {
                ran.stolen.push((foreign, ran.tasks - before));
            }
            if yielded {
                return Participation::Yielded;
            }
        }
        Participation::Exhausted
    }

    /// Blocks a thread that is no worker until the job is finished.
    pub(crate) fn wait_as_thread(&self) {
        let Waiter::Thread(lock, condvar) = &self.waiter else {
            unreachable!("a worker waits in its own loop");
        };
        let mut guard = lock.lock();
        loop {
            // Whoever stops the statement or leaves last takes the lock before it notifies, so it comes either before
            // these two looks or after the wait has begun.
            let cancelled = self.statement.is_cancelled();
            if cancelled {
                self.close();
            }
            if self.is_finished() {
                return;
            }
            let until: Option<Instant> = if cancelled { None } else { self.statement.deadline() };
            wait(condvar, &mut guard, until);
        }
    }

    /// Makes every unclaimed index unclaimable.
    pub(crate) fn close(&self) {
        for lane in &self.lanes {
            let cursor = lane.cursor.swap(CLOSED, Ordering::AcqRel);
            self.skipped.fetch_add(lane.range.end.saturating_sub(cursor), Ordering::Relaxed);
        }
        // Pairs with the fence in `leave`: either we see that the last one left, or it sees that we closed.
        fence(Ordering::SeqCst);
    }

    /// Whether all indices were run or closed off and nobody runs any.
    pub(crate) fn is_finished(&self) -> bool {
        // Cursors first: one that reads exhausted tells of the claims before it, and each claim of an `enter` before
        // it.
        self.is_exhausted() && self.active.load(Ordering::Acquire) == 0
    }

    fn is_exhausted(&self) -> bool {
        self.lanes.iter().all(|lane| lane.cursor.load(Ordering::Acquire) >= lane.range.end)
    }

    fn claim(&self, lane: &Lane) -> Option<usize> {
        if lane.cursor.load(Ordering::Relaxed) >= lane.range.end {
            return None;
        }
        if self.statement.is_cancelled() {
            self.close();
            return None;
        }
        let place = lane.cursor.fetch_add(1, Ordering::AcqRel);
        (place < lane.range.end).then(|| self.order[place])
    }

    /// Runs the body for one index.
    ///
    /// # Safety
    /// `index` was claimed, and the caller is between `enter` and `leave`.
    unsafe fn call(&self, index: usize) {
        // SAFETY: by the caller's promise `scoped` has not returned, so the closure that it borrows is alive.
        let body = unsafe { &*self.body.0 };
        if let Err(text) = panics::caught(|| body(index)) {
            self.panicked.lock().get_or_insert_with(|| text.clone());
            // Whoever claims next sees the statement stopped, and closes the job.
            self.statement.fail(text);
        }
    }

    fn enter(&self) {
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    fn leave(&self) {
        if self.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            fence(Ordering::SeqCst);
            if self.is_exhausted() {
                self.notify();
            }
        }
    }

    fn notify(&self) {
        match &self.waiter {
            Waiter::Thread(lock, condvar) => {
                drop(lock.lock());
                condvar.notify_one();
            }
            Waiter::Worker { slot, stand, sleep } => {
                stand.notify();
                // Pairs with the fence of the waiter's announcement: we see the slot, or it sees what we tell of.
                fence(Ordering::SeqCst);
                sleep.wake_slot(SlotId(slot.load(Ordering::Relaxed)));
            }
        }
    }

    /// Says in which slot the waiting worker is about to sleep: after a body that blocked it may be another one than
    /// before. The announcement of the sleep comes after this.
    pub(crate) fn waits_in(&self, own: SlotId) {
        if let Waiter::Worker { slot, .. } = &self.waiter {
            slot.store(own.0, Ordering::Relaxed);
        }
    }

    /// This job as its statement tells it of changes.
    pub(crate) fn watcher(self: &Arc<Job>) -> Weak<dyn Watcher> {
        let weak: Weak<Job> = Arc::downgrade(self);
        weak
    }
}

impl Watcher for Job {
    fn statement_changed(&self, _statement: &Statement) {
        self.notify();
    }
}

/// Leaves a job when dropped, so that no way out of `participate` forgets it.
struct EnterGuard<'a>(&'a Job);

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
