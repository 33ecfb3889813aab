//! A thread group at run time: its queues behind a lock, an inbox in front of them, and a summary that is read without
//! either.
//!
//! Submitters fill the inbox; whoever takes a task first moves what has arrived into the queues. So a submitter and a
//! worker meet at a lock that is held for a few stores only, and the order is the same as with one lock.
//!
//! Invariants: a summary is written under its lock only, so after every unlock it says what the queues, or the inbox,
//! hold; while things move from one to the other they are counted in either or both, never in neither. A reader that
//! sees it stale is either corrected by the fences of the sleep protocol or looks again before it sleeps.
//!
//! # Limits
//! The locks are plain ones; groups are kept small instead (VLDB 2015 section 5.1 gives the same reason).

#[cfg(all(test, loom))]
mod model;

use std::sync::Arc;

use crate::affinity::{Hint, Priority};
use crate::handover::Handover;
use crate::panics;
use crate::policy::{GroupQueues, Nearness, QueueItem, QueueKind, QueueTarget, Reach};
use crate::primitive::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::scope::Job;
use crate::settings::{Binding, StealAmount};
use crate::statement::Statement;

/// What is in a queue.
pub(crate) struct QueueEntry {
    pub(crate) statement: Arc<Statement>,
    pub(crate) work: Work,
    pub(crate) hint: Hint,
    /// As far as pinning goes, decided when it was submitted.
    pub(crate) running: Nearness,
    pub(crate) binding: Binding,
    /// How much whoever steals it takes along, as its statement was set when it was submitted.
    pub(crate) steal: StealAmount,
}

/// What an entry asks of a worker.
pub(crate) enum Work {
    /// Run this.
    Task(Box<dyn FnOnce() + Send>),
    /// Help with a `parallel_for`, beginning with this lane.
    Help { job: Arc<Job>, lane: usize },
}

impl QueueEntry {
    /// Drops what will not be run, and counts it if it is a task.
    pub(crate) fn discard(self, dropped: &std::sync::atomic::AtomicU64) {
        let Work::Task(task) = self.work else { return };
        dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.statement.tally().task_dropped();
        if let Err(text) = panics::caught(|| drop(task)) {
            tracing::warn!("a dropped task panicked: {text}");
        }
    }
}

/// An entry and where it was taken from.
pub(crate) struct FoundEntry {
    pub(crate) entry: QueueEntry,
    pub(crate) target: QueueTarget,
}

/// The rank that an empty queue shows: behind every priority.
const EMPTY: u64 = u64::MAX;
/// An inbox that has grown beyond this many entries is given back when it is empty.
const INBOX_KEPT: usize = 16 * 1024;

/// A most urgent rank, on a cache line of its own: it is read for every task and changes seldom.
#[derive(Debug)]
#[repr(align(128))]
struct Top(AtomicU64);

impl Top {
    fn new() -> Top {
        Top(AtomicU64::new(EMPTY))
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Under the lock that guards it.
    fn set(&self, rank: u64) {
        if self.0.load(Ordering::Relaxed) != rank {
            self.0.store(rank, Ordering::Release);
        }
    }

    fn raise(&self, rank: u64) {
        if rank < self.0.load(Ordering::Relaxed) {
            self.0.store(rank, Ordering::Release);
        }
    }
}

/// Lengths of shared queues, or of what has arrived for them.
#[derive(Debug)]
struct Lengths([AtomicUsize; QueueKind::COUNT]);

impl Lengths {
    fn new() -> Lengths {
        Lengths(std::array::from_fn(|_| AtomicUsize::new(0)))
    }

    /// Adds to a length. Under the lock that guards these.
    fn add(&self, kind: QueueKind, entries: usize) {
        let length = &self.0[kind.index()];
        length.store(length.load(Ordering::Relaxed) + entries, Ordering::Relaxed);
    }
}

/// What has been submitted and not yet sorted in.
#[repr(align(128))]
struct Inbox {
    lengths: Lengths,
    entries: Mutex<Vec<(QueueKind, QueueEntry)>>,
    /// [`EMPTY`] exactly while there is nothing.
    top: Top,
}

/// Length and most urgent rank of a private queue.
#[derive(Debug)]
struct PrivateSummary {
    len: AtomicUsize,
    top: AtomicU64,
}

/// What others may read without the lock.
#[derive(Debug)]
#[repr(align(128))]
struct Summary {
    lengths: Lengths,
    top: Top,
    private: Vec<PrivateSummary>,
    purge: AtomicBool,
}

struct SortedQueues {
    queues: GroupQueues<QueueEntry>,
    /// An empty inbox to put in the place of a full one.
    spare: Vec<(QueueKind, QueueEntry)>,
}

/// A thread group's queues, and who waits for its slots.
pub(crate) struct Group {
    inbox: Inbox,
    summary: Summary,
    sorted: Mutex<SortedQueues>,
    pub(crate) handover: Handover,
}

impl Group {
    pub(crate) fn new(slots: usize) -> Group {
        let private = || PrivateSummary { len: AtomicUsize::new(0), top: AtomicU64::new(EMPTY) };
        Group {
            inbox: Inbox { lengths: Lengths::new(), entries: Mutex::new(Vec::new()), top: Top::new() },
            summary: Summary {
                lengths: Lengths::new(),
                top: Top::new(),
                private: (0..slots).map(|_| private()).collect(),
                purge: AtomicBool::new(false),
            },
            sorted: Mutex::new(SortedQueues { queues: GroupQueues::new(slots), spare: Vec::new() }),
            handover: Handover::new(),
        }
    }

    /// Queues entries for whoever `kind` allows. Returns how many.
    pub(crate) fn push_shared(&self, kind: QueueKind, entries: impl IntoIterator<Item = QueueEntry>) -> usize {
        let mut inbox = self.inbox.entries.lock();
        let before = inbox.len();
        let mut top = EMPTY;
        for entry in entries {
            top = top.min(entry.statement.priority().rank());
            inbox.push((kind, entry));
        }
        let pushed = inbox.len() - before;
        self.inbox.lengths.add(kind, pushed);
        self.inbox.top.raise(top);
        pushed
    }

    /// Queues an entry for the slot at `place` alone.
    pub(crate) fn push_private(&self, place: usize, entry: QueueEntry) {
        // What has arrived goes first: it was submitted earlier.
        let mut sorted = self.sort_in();
        let priority = entry.statement.priority();
        sorted.queues.push_private(place, priority, entry);
        self.sum_up_private(&sorted.queues, place);
    }

    /// Queues stolen entries, whose priorities are given.
    pub(crate) fn push_stolen(&self, kind: QueueKind, stolen: &mut Vec<(Priority, QueueEntry)>) {
        let mut sorted = self.sorted.lock();
        for (priority, entry) in stolen.drain(..) {
            sorted.queues.push_shared(kind, priority, entry);
        }
        self.sum_up_shared(&sorted.queues, kind);
    }

    /// What the worker at `place` of this group runs next.
    pub(crate) fn take_own(&self, place: usize, limit: Option<Priority>) -> Option<QueueItem<QueueEntry>> {
        let tops =
            [self.inbox.top.get(), self.summary.top.get(), self.summary.private[place].top.load(Ordering::Relaxed)];
        if tops == [EMPTY; 3] {
            return None;
        }
        let mut sorted = self.sorted.lock();
        // What has arrived goes behind what is as urgent and here already.
        let first = sorted.queues.top_own(place).map_or(EMPTY, Priority::rank);
        if self.inbox.top.get() < first {
            self.sort_into(&mut sorted);
        }
        let taken = sorted.queues.take_own(place, limit)?;
        match taken.kind {
            Some(kind) => self.sum_up_shared(&sorted.queues, kind),
            None => self.sum_up_private(&sorted.queues, place),
        }
        Some(taken)
    }

    /// What a worker of another group takes from here: one entry to run, and `more` of the same queue where `amount`,
    /// given the queue, how many of that priority it has and the first of them, says so.
    pub(crate) fn take_shared(
        &self,
        reach: Reach,
        limit: Option<Priority>,
        amount: impl FnOnce(QueueKind, usize, &QueueEntry) -> usize,
        more: &mut Vec<(Priority, QueueEntry)>,
    ) -> Option<QueueItem<QueueEntry>> {
        if self.queued_shared(reach) == 0 {
            return None;
        }
        let mut sorted = self.sort_in();
        let taken = sorted.queues.take_bulk(reach, limit, amount, more)?;
        if let Some(kind) = taken.kind {
            self.sum_up_shared(&sorted.queues, kind);
        }
        Some(taken)
    }

    /// Takes out every entry that `unwanted` names. The caller drops them, outside the lock.
    pub(crate) fn remove_where(&self, unwanted: impl FnMut(&QueueEntry) -> bool) -> Vec<QueueEntry> {
        let mut sorted = self.sort_in();
        let removed = sorted.queues.remove_where(unwanted);
        for kind in QueueKind::ALL {
            self.sum_up_shared(&sorted.queues, kind);
        }
        for place in 0..self.summary.private.len() {
            self.sum_up_private(&sorted.queues, place);
        }
        removed
    }

    /// Shows everything that is queued.
    pub(crate) fn for_each(&self, mut show: impl FnMut(Result<QueueKind, usize>, &QueueEntry)) {
        let sorted = self.sort_in();
        sorted.queues.iter().for_each(|(queue, _, entry)| show(queue, entry));
    }

    /// Has the next worker that comes by drop the entries of stopped statements.
    pub(crate) fn request_purge(&self) {
        self.summary.purge.store(true, Ordering::Release);
    }

    /// Whether someone asked for that, and this caller is the one to do it.
    pub(crate) fn take_purge(&self) -> bool {
        self.summary.purge.load(Ordering::Relaxed) && self.summary.purge.swap(false, Ordering::AcqRel)
    }

    /// Whether something more urgent than `rank` waits for the worker at `place` of this group, or a thread that
    /// wants to go on.
    pub(crate) fn has_before(&self, rank: u64, place: usize) -> bool {
        self.inbox.top.get() < rank
            || self.summary.top.get() < rank
            || self.summary.private[place].top.load(Ordering::Relaxed) < rank
            || self.handover.anyone_returns()
    }

    /// Entries in all queues of the group.
    pub(crate) fn queued(&self) -> usize {
        let private: usize = (0..self.summary.private.len()).map(|place| self.queued_private(place)).sum();
        self.queued_shared(Reach::ALL) + private
    }

    /// Entries in the private queue of the worker at `place`.
    pub(crate) fn queued_private(&self, place: usize) -> usize {
        self.summary.private[place].len.load(Ordering::Relaxed)
    }

    /// Entries in the shared queues that `reach` names.
    pub(crate) fn queued_shared(&self, reach: Reach) -> usize {
        QueueKind::ALL.into_iter().filter(|kind| reach.includes(*kind)).map(|kind| self.queued_in(kind)).sum()
    }

    /// Entries in one shared queue.
    pub(crate) fn queued_in(&self, kind: QueueKind) -> usize {
        // The inbox first: if it reads as sorted in, the queue's length below already counts what it held.
        let arrived = self.inbox.lengths.0[kind.index()].load(Ordering::Acquire);
        arrived + self.summary.lengths.0[kind.index()].load(Ordering::Relaxed)
    }

    /// The queues, with all that has arrived sorted in.
    fn sort_in(&self) -> MutexGuard<'_, SortedQueues> {
        let mut sorted = self.sorted.lock();
        if self.inbox.top.get() != EMPTY {
            self.sort_into(&mut sorted);
        }
        sorted
    }

    fn sort_into(&self, sorted: &mut SortedQueues) {
        let spare = std::mem::take(&mut sorted.spare);
        let mut arrived = {
            let mut inbox = self.inbox.entries.lock();
            // In this order: whoever finds the inbox empty finds the entries in the summary.
            self.summary.top.raise(self.inbox.top.get());
            for kind in QueueKind::ALL {
                let length = &self.inbox.lengths.0[kind.index()];
                let arrived = length.load(Ordering::Relaxed);
                if arrived > 0 {
                    self.summary.lengths.add(kind, arrived);
                    length.store(0, Ordering::Release);
                }
            }
            self.inbox.top.set(EMPTY);
            std::mem::replace(&mut *inbox, spare)
        };
        for (kind, entry) in arrived.drain(..) {
            let priority = entry.statement.priority();
            sorted.queues.push_shared(kind, priority, entry);
        }
        if arrived.capacity() <= INBOX_KEPT {
            sorted.spare = arrived;
        }
    }

    fn sum_up_shared(&self, queues: &GroupQueues<QueueEntry>, kind: QueueKind) {
        self.summary.lengths.0[kind.index()].store(queues.len_shared(kind), Ordering::Relaxed);
        self.summary.top.set(queues.top_shared().map_or(EMPTY, Priority::rank));
    }

    fn sum_up_private(&self, queues: &GroupQueues<QueueEntry>, place: usize) {
        let private = &self.summary.private[place];
        private.len.store(queues.len_private(place), Ordering::Relaxed);
        private.top.store(queues.top_private(place).map_or(EMPTY, Priority::rank), Ordering::Relaxed);
    }
}
