//! The runtime: threads, locks and clocks around the decisions of [`crate::policy`]. It holds no decision of its own.
//!
//! - [`group`]: a thread group's queues behind their lock, and a summary that others read without it.
//! - [`worker`]: what a worker thread does.
//! - [`Shared`]: what all of them and the handles share.
//!
//! Invariants: a task is in one queue or run or dropped, and whoever drops it says so at its statement's end or in the
//! statistics; no foreign code (a task, its drop, a watcher) runs under a lock of ours; only the last worker to end
//! drains the queues.
//!
//! # Limits
//! One worker per slot; a worker that blocks keeps its slot (handing it over: docs/design/sched.md).
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1.

pub(crate) mod group;
pub(crate) mod parallel;
pub(crate) mod worker;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use group::{Entry, Group, Work};

use crate::affinity::{Affinity, Binding, SlotId};
use crate::policy::{Layout, Target, Wake};
use crate::sleep::Sleep;
use crate::statement::{Statement, Watcher};
use crate::stats::Meter;

/// Numbers schedulers, so that a worker knows its own from another; 0 is none.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The scheduler and slot that this thread works for.
    static WORKS_FOR: Cell<Option<(u64, SlotId)>> = const { Cell::new(None) };
}

/// Whether this thread is a worker of any scheduler.
pub(crate) fn on_worker() -> bool {
    WORKS_FOR.get().is_some()
}

/// What the handles and the workers of one scheduler share.
pub(crate) struct Shared {
    id: u64,
    pub(crate) layout: Layout,
    pub(crate) groups: Vec<Group>,
    pub(crate) sleep: Arc<Sleep>,
    pub(crate) meters: Vec<Meter>,
    /// Tasks dropped by threads that are no workers.
    pub(crate) dropped: AtomicU64,
    pub(crate) binding: Binding,
    started: Instant,
    ending: AtomicBool,
    /// Workers that have not ended.
    live: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(layout: Layout, binding: Binding) -> Shared {
        let sizes: Vec<usize> = layout.groups().iter().map(|group| group.slots.len()).collect();
        Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            groups: sizes.iter().map(|slots| Group::new(*slots)).collect(),
            sleep: Arc::new(Sleep::new(&sizes)),
            meters: layout.slots().iter().map(|_| Meter::default()).collect(),
            dropped: AtomicU64::new(0),
            binding,
            started: Instant::now(),
            ending: AtomicBool::new(false),
            live: AtomicUsize::new(layout.slots().len()),
            layout,
        }
    }

    /// The slot of the calling thread, if it is a worker of this scheduler.
    pub(crate) fn own_slot(&self) -> Option<SlotId> {
        WORKS_FOR.get().filter(|(id, _)| *id == self.id).map(|(_, slot)| slot)
    }

    /// Nanoseconds since the scheduler was started, never 0.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Tasks queued or running, per group.
    pub(crate) fn loads(&self) -> Vec<usize> {
        let busy = |group: usize, slots: usize| slots.saturating_sub(self.sleep.free_in(group));
        let layout = self.layout.groups().iter().enumerate();
        layout.map(|(group, place)| self.groups[group].queued() + busy(group, place.slots.len())).collect()
    }

    /// Where a task of this affinity goes when the calling thread submits it now.
    pub(crate) fn route(&self, affinity: Affinity) -> Target {
        // Loads matter only where there is a choice of groups.
        if self.groups.len() == 1 {
            return self.layout.route(affinity, None, &[0]);
        }
        self.layout.route(affinity, self.own_slot(), &self.loads())
    }

    /// Queues `count` entries at one place and wakes as many workers.
    pub(crate) fn queue(&self, target: Target, count: usize, entry: impl FnMut() -> Entry) {
        self.groups[self.layout.group_of(target).index()].push(&self.layout, target, count, entry);
        if self.sleep.task_queued() {
            for _ in 0..count {
                if !self.wake_for(target) {
                    break;
                }
            }
        }
    }

    /// Wakes someone who can take what is queued at `target`: a free worker, or else all that wait for their own
    /// `parallel_for` (each may find it too little urgent, so all must look). Returns whether a free one was found.
    pub(crate) fn wake_for(&self, target: Target) -> bool {
        let woken = self.wake_free_for(target);
        if !woken {
            for group in self.layout.takers(target) {
                self.sleep.wake_waiting(group.index());
            }
        }
        woken
    }

    /// Wakes the free worker that the policy prefers for what is queued at `target`, or the one that alone may take it.
    pub(crate) fn wake_free_for(&self, target: Target) -> bool {
        match self.layout.wake(target, |group| self.sleep.wake_one_free(group.index())) {
            Some(Wake::Slot(slot)) => {
                self.sleep.wake_slot(slot);
                true
            }
            Some(Wake::Group(_)) => true,
            None => false,
        }
    }

    /// Has this scheduler hear when `statement` stops.
    pub(crate) fn watch(self: &Arc<Self>, statement: &Statement) {
        statement.watch_once(self.id, || {
            let weak: Weak<Shared> = Arc::downgrade(self);
            weak
        });
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Tells all workers to end after what they are doing.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.sleep.wake_all();
    }

    /// A worker has ended. The last one drains the queues: nothing can be queued any more, because only a handle could
    /// and the last handle is gone.
    fn worker_ended(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        for group in &self.groups {
            for entry in group.remove_where(|_| true) {
                // Entries of loops are left over: a loop's caller has a handle, so no loop is under way.
                if matches!(entry.work, Work::Task(_)) {
                    entry.statement.shut_down();
                }
                entry.discard(&self.dropped);
            }
        }
    }
}

impl Watcher for Shared {
    /// Asks every group to drop what the statement has queued. A worker does it between two tasks, not the caller:
    /// dropping a task runs foreign code.
    fn statement_changed(&self, statement: &Statement) {
        if statement.has_stopped() {
            self.groups.iter().filter(|group| group.queued() > 0).for_each(Group::request_purge);
        }
    }
}
