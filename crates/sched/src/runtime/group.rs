//! A thread group at run time: its queues behind a lock, and a summary of them that is read without it.
//!
//! Invariant: the summary is written under the lock only, so after every unlock it says what the queues hold. A reader
//! that sees it stale is either corrected by the fences of the sleep protocol or looks again before it sleeps.
//!
//! # Limits
//! The lock is a plain one; groups are kept small instead (VLDB 2015 section 5.1 gives the same reason).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::affinity::Priority;
use crate::panics;
use crate::policy::{GroupQueues, Layout, QueueKind, Reach, Taken, Target};
use crate::scope::Job;
use crate::statement::Statement;

/// What is in a queue.
pub(crate) struct Entry {
    pub(crate) statement: Arc<Statement>,
    pub(crate) work: Work,
}

/// What an entry asks of a worker.
pub(crate) enum Work {
    /// Run this.
    Task(Box<dyn FnOnce() + Send>),
    /// Help with a `parallel_for`, beginning with this lane.
    Help { job: Arc<Job>, lane: usize },
}

impl Entry {
    /// Drops what will not be run, and counts it if it was a task.
    pub(crate) fn discard(self, dropped: &AtomicU64) {
        if let Work::Task(task) = self.work {
            dropped.fetch_add(1, Ordering::Relaxed);
            if let Err(text) = panics::caught(|| drop(task)) {
                tracing::warn!("a dropped task panicked: {text}");
            }
        }
    }
}

/// An entry and where it was taken from.
pub(crate) struct Found {
    pub(crate) entry: Entry,
    pub(crate) target: Target,
}

/// The rank that an empty queue shows: behind every priority.
const EMPTY: u64 = u64::MAX;

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
    shared: [AtomicUsize; 3],
    top_shared: AtomicU64,
    private: Vec<PrivateSummary>,
    purge: AtomicBool,
}

/// A thread group's queues.
pub(crate) struct Group {
    summary: Summary,
    queues: Mutex<GroupQueues<Entry>>,
}

impl Group {
    pub(crate) fn new(slots: usize) -> Group {
        let private = || PrivateSummary { len: AtomicUsize::new(0), top: AtomicU64::new(EMPTY) };
        Group {
            summary: Summary {
                shared: [const { AtomicUsize::new(0) }; 3],
                top_shared: AtomicU64::new(EMPTY),
                private: (0..slots).map(|_| private()).collect(),
                purge: AtomicBool::new(false),
            },
            queues: Mutex::new(GroupQueues::new(slots)),
        }
    }

    /// Queues `count` entries at `target`, which is of this group.
    pub(crate) fn push(&self, layout: &Layout, target: Target, count: usize, mut entry: impl FnMut() -> Entry) {
        let mut queues = self.queues.lock();
        for _ in 0..count {
            let entry = entry();
            let priority = entry.statement.priority();
            match target {
                Target::Slot(slot) => queues.push_private(layout.slot(slot).place, priority, entry),
                Target::Group(_, kind) => queues.push_shared(kind, priority, entry),
            }
        }
        match target {
            Target::Slot(slot) => self.sum_up_private(&queues, layout.slot(slot).place),
            Target::Group(_, kind) => self.sum_up_shared(&queues, kind),
        }
    }

    /// What the worker at `place` of this group runs next.
    pub(crate) fn take_own(&self, place: usize, limit: Option<Priority>) -> Option<Taken<Entry>> {
        if self.queued_shared(Reach::ALL) + self.queued_private(place) == 0 {
            return None;
        }
        let mut queues = self.queues.lock();
        let taken = queues.take_own(place, limit)?;
        match taken.kind {
            Some(kind) => self.sum_up_shared(&queues, kind),
            None => self.sum_up_private(&queues, place),
        }
        Some(taken)
    }

    /// What a worker of another group takes from here.
    pub(crate) fn take_shared(&self, reach: Reach, limit: Option<Priority>) -> Option<Taken<Entry>> {
        if self.queued_shared(reach) == 0 {
            return None;
        }
        let mut queues = self.queues.lock();
        let taken = queues.take_shared(reach, limit)?;
        if let Some(kind) = taken.kind {
            self.sum_up_shared(&queues, kind);
        }
        Some(taken)
    }

    /// Takes out every entry that `unwanted` names. The caller drops them, outside the lock.
    pub(crate) fn remove_where(&self, unwanted: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let mut queues = self.queues.lock();
        let removed = queues.remove_where(unwanted);
        for kind in QueueKind::ALL {
            self.sum_up_shared(&queues, kind);
        }
        for place in 0..self.summary.private.len() {
            self.sum_up_private(&queues, place);
        }
        removed
    }

    /// Has the next worker that comes by drop the entries of stopped statements.
    pub(crate) fn request_purge(&self) {
        self.summary.purge.store(true, Ordering::Release);
    }

    /// Whether someone asked for that, and this caller is the one to do it.
    pub(crate) fn take_purge(&self) -> bool {
        self.summary.purge.load(Ordering::Relaxed) && self.summary.purge.swap(false, Ordering::AcqRel)
    }

    /// Whether something more urgent than `rank` waits for the worker at `place` of this group.
    pub(crate) fn has_before(&self, rank: u64, place: usize) -> bool {
        self.summary.top_shared.load(Ordering::Relaxed) < rank
            || self.summary.private[place].top.load(Ordering::Relaxed) < rank
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
        self.summary.shared[kind.index()].load(Ordering::Relaxed)
    }

    fn sum_up_shared(&self, queues: &GroupQueues<Entry>, kind: QueueKind) {
        self.summary.shared[kind.index()].store(queues.len_shared(kind), Ordering::Relaxed);
        self.summary.top_shared.store(queues.top_shared().map_or(EMPTY, Priority::rank), Ordering::Relaxed);
    }

    fn sum_up_private(&self, queues: &GroupQueues<Entry>, place: usize) {
        let private = &self.summary.private[place];
        private.len.store(queues.len_private(place), Ordering::Relaxed);
        private.top.store(queues.top_private(place).map_or(EMPTY, Priority::rank), Ordering::Relaxed);
    }
}
