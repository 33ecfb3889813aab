//! What a worker thread does: look for a task where the policy says, run it, and sleep when there is none.
//!
//! Invariants: a task's panic ends at its statement, never the worker; a worker that sleeps has announced it and looked
//! once more; a worker that waits for its own `parallel_for` takes only what is at least as urgent as its statement.
//!
//! The last one keeps nested parallelism from deadlocking: if all workers waited, the most urgent unfinished statement
//! would have an entry queued somewhere, and every worker that reaches it, whomever it waits for, may take it. It also
//! bounds how deep helping nests: each level is at least as urgent as the one below.
//!
//! # Limits
//! A waiting worker may run another task of the same statement inside its own, so a task must not hold a lock across
//! `parallel_for` that another task of its statement takes.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1, "Main loop of a worker thread".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::group::{Found, Work};
use super::{Shared, WORKS_FOR};
use crate::affinity::{Binding, Priority, SlotId};
use crate::panics;
use crate::policy::{GroupId, QueueKind, Target};
use crate::scope::{Participation, Ran};
use crate::sleep::Sleeper;
use crate::stats::WorkerState;

/// How often a worker looks again, giving way in between, before it announces its sleep: a task that comes within a
/// few microseconds then needs no system call.
const LOOKS_BEFORE_SLEEP: usize = 4;

/// The life of a worker thread.
pub(crate) fn run(shared: &Arc<Shared>, slot: SlotId) {
    WORKS_FOR.set(Some((shared.id, slot)));
    if shared.binding == Binding::Always {
        let cpus = &shared.layout.group(shared.layout.slot(slot).group).cpus;
        shared.meters[slot.index()].set_pinned(numa::pin_current_thread(cpus));
    }
    shared.set_state(slot, WorkerState::Free);
    while !shared.is_ending() {
        shared.purge(slot);
        match shared.find(slot, None).or_else(|| shared.look_again(slot)) {
            Some(found) => {
                shared.set_state(slot, WorkerState::Working);
                shared.execute(slot, found);
            }
            None => shared.idle(slot),
        }
    }
    shared.set_state(slot, WorkerState::Parked);
    WORKS_FOR.set(None);
    shared.worker_ended();
}

impl Shared {
    /// The next entry for the worker of `slot`, unless less urgent than `limit`: its own group's, then others' in the
    /// policy's order.
    pub(crate) fn find(&self, slot: SlotId, limit: Option<Priority>) -> Option<Found> {
        let own = self.layout.slot(slot);
        for step in self.layout.search(own.group) {
            let group = &self.groups[step.group.index()];
            let taken = if step.group == own.group {
                group.take_own(own.place, limit)
            } else {
                group.take_shared(step.reach, limit)
            };
            if let Some(taken) = taken {
                // More is queued: one more worker may come, who does the same.
                self.for_queued(step.group, |target| self.wake_free_for(target));
                let target = taken.kind.map_or(Target::Slot(slot), |kind| Target::Group(step.group, kind));
                return Some(Found { entry: taken.item, target });
            }
        }
        None
    }

    /// Runs an entry, or drops it if its statement has stopped.
    pub(crate) fn execute(&self, slot: SlotId, found: Found) {
        let Found { entry, target } = found;
        let meter = &self.meters[slot.index()];
        if entry.statement.is_cancelled() {
            entry.discard(&meter.dropped);
            return;
        }
        match entry.work {
            Work::Task(task) => {
                if let Err(text) = panics::caught(task) {
                    entry.statement.fail(text);
                }
                let stolen = self.layout.group_of(target) != self.layout.slot(slot).group;
                meter.count(Ran { tasks: 1, stolen: u64::from(stolen) });
            }
            Work::Help { job, lane } => {
                if job.lanes()[lane].entry_taken() {
                    self.queue_help(&job, lane, &entry.statement, 1);
                }
                let own = self.layout.slot(slot);
                let (group, rank) = (&self.groups[own.group.index()], entry.statement.priority().rank());
                let mut ran = Ran::default();
                let yields = || group.has_before(rank, own.place);
                let participation = job.participate(&self.layout, slot, Some(lane), &mut ran, yields);
                meter.count(ran);
                if participation == Participation::Yielded {
                    self.queue_help(&job, lane, &entry.statement, 1);
                }
            }
        }
    }

    /// Drops what stopped statements have queued in the worker's group, if someone asked for it.
    fn purge(&self, slot: SlotId) {
        let group = &self.groups[self.layout.slot(slot).group.index()];
        if group.take_purge() {
            for entry in group.remove_where(|entry| entry.statement.has_stopped()) {
                entry.discard(&self.meters[slot.index()].dropped);
            }
        }
    }

    fn look_again(&self, slot: SlotId) -> Option<Found> {
        self.set_state(slot, WorkerState::Free);
        (0..LOOKS_BEFORE_SLEEP).find_map(|_| {
            std::thread::yield_now();
            self.find(slot, None)
        })
    }

    /// Sleeps till there may be a task, unless one came while the sleep was announced: then runs that.
    fn idle(&self, slot: SlotId) {
        self.sleep.announce(slot, Sleeper::Free);
        let found = self.find(slot, None);
        if found.is_none() && !self.is_ending() {
            self.set_state(slot, WorkerState::Parked);
            self.sleep.sleep(slot, Sleeper::Free, None);
            self.set_state(slot, WorkerState::Free);
            return;
        }
        self.wake_in_time(slot, Sleeper::Free, found.as_ref());
        if let Some(found) = found {
            self.set_state(slot, WorkerState::Working);
            self.execute(slot, found);
        }
    }

    /// Takes back an announced sleep. If a waker had chosen this worker, its task may be another one than the worker
    /// found: then whoever else can take something is woken instead.
    pub(crate) fn wake_in_time(&self, slot: SlotId, sleeper: Sleeper, found: Option<&Found>) {
        if self.sleep.stay_awake(slot, sleeper) && found.is_some() {
            for step in self.layout.search(self.layout.slot(slot).group) {
                self.for_queued(step.group, |target| self.wake_for(target));
            }
        }
    }

    fn for_queued(&self, group: GroupId, wake: impl Fn(Target) -> bool) {
        if self.sleep.anyone_asleep() {
            for kind in QueueKind::ALL {
                if self.groups[group.index()].queued_in(kind) > 0 {
                    wake(Target::Group(group, kind));
                }
            }
        }
    }

    pub(crate) fn set_state(&self, slot: SlotId, state: WorkerState) {
        self.meters[slot.index()].set_state(state, || self.now_ns());
    }

    /// Counts tasks that were dropped by the calling thread.
    pub(crate) fn count_dropped(&self, tasks: u64) {
        let counter = self.own_slot().map_or(&self.dropped, |slot| &self.meters[slot.index()].dropped);
        counter.fetch_add(tasks, Ordering::Relaxed);
    }
}
