//! What a worker thread does: look for a task where the policy says, run it, and sleep when there is none.
//!
//! Invariants: a task's panic ends at its statement, never the worker; a worker that sleeps has announced it and looked
//! once more; a worker that waits for its own `parallel_for` takes only what is at least as urgent as its statement.
//!
//! The last one keeps nested parallelism from deadlocking even where no further thread can be had: if all workers
//! waited, the most urgent unfinished statement would have an entry queued somewhere, and every worker that reaches it,
//! whomever it waits for, may take it. It also bounds how deep helping nests: each level is at least as urgent as the
//! one below. What is less urgent is run by another thread, which gets the waiting worker's slot.
//!
//! # Limits
//! A waiting worker may run another task of the same statement inside its own, so a task must not hold a lock across
//! `parallel_for` that another task of its statement takes.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1, "Main loop of a worker thread".

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::group::{FoundEntry, QueueEntry, Work};
use super::worker::Worker;
use super::{HERE, Here, RUNNING, Runtime, WORKS_FOR};
use crate::affinity::{Priority, SlotId};
use crate::panics;
use crate::policy::{GroupId, QueueKind, QueueTarget, Reach, binds, bulk};
use crate::scope::{Participation, RunCount};
use crate::settings::Binding;
use crate::sleep::Sleeper;
use crate::statement::Statement;
use crate::stats::WorkerState;

/// How often a worker looks again before it announces its sleep, spinning in between and at last giving way: a task
/// that comes within some microseconds then needs no system call.
const LOOKS_BEFORE_SLEEP: u32 = 12;
/// From this look on it gives way to other threads.
const LOOKS_THAT_SPIN: u32 = 7;
/// How long a free worker sleeps before it wakes up by itself, to find nothing and park without a limit.
const FREE_FOR: Duration = Duration::from_millis(50);

/// What a worker keeps to itself while it runs.
#[derive(Default)]
struct WorkerLocal {
    /// The statement whose tasks it counts, and how many it has run since it told.
    counted: Option<(Arc<Statement>, u64)>,
    /// It woke up by itself last time and found nothing.
    parks: bool,
}

/// The life of a worker thread. `inherits` says that a pinned thread started it, so that it is pinned like that one.
pub(crate) fn run(shared: &Arc<Runtime>, worker: &Arc<Worker>, inherits: bool) {
    HERE.set(Some(Here { shared: Arc::clone(shared), worker: Arc::clone(worker) }));
    // What an earlier thread of this record was bound to is not ours.
    worker.meter.set_pinned(false);
    if shared.settings().binding == Binding::Always {
        shared.bind(worker, true);
    } else if inherits {
        shared.bind(worker, false);
    }
    let mut local = WorkerLocal::default();
    while let Some(slot) = shared.stand_by(worker) {
        shared.takes_slot(worker, Some(slot));
        shared.set_state(worker, WorkerState::Free);
        shared.work(worker, &mut local);
        shared.takes_slot(worker, None);
        shared.tell(worker, &mut local);
        if shared.is_ending() {
            break;
        }
    }
    HERE.set(None);
    shared.retire(worker);
}

impl WorkerLocal {
    /// Counts one more task of a statement.
    fn count(&mut self, statement: Arc<Statement>) {
        match &mut self.counted {
            Some((counted, tasks)) if Arc::ptr_eq(counted, &statement) => *tasks += 1,
            _ => {
                self.flush();
                self.counted = Some((statement, 1));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((statement, tasks)) = self.counted.take() {
            statement.tally().tasks_run(tasks);
        }
    }
}

impl Runtime {
    /// Notes that the calling worker holds this slot from now on, or none.
    pub(crate) fn takes_slot(&self, worker: &Worker, slot: Option<SlotId>) {
        worker.set_slot(slot);
        WORKS_FOR.set(slot.map(|slot| (self.id, slot)));
    }

    /// Runs tasks as long as the worker has a slot.
    fn work(&self, worker: &Worker, local: &mut WorkerLocal) {
        while !self.is_ending() {
            let Some(slot) = worker.slot() else { return };
            let group = worker.group;
            self.purge(worker, group);
            if self.groups[group.index()].handover.give_to_returner(slot) {
                return;
            }
            match self.take(worker, slot, None).or_else(|| self.look_again(worker, slot, local)) {
                Some(found) => {
                    local.parks = false;
                    self.execute_found(worker, found, local);
                }
                None => {
                    self.tell(worker, local);
                    self.idle(worker, slot, local);
                }
            }
        }
    }

    /// Says what the worker has run, since it has nothing to do for now.
    fn tell(&self, worker: &Worker, local: &mut WorkerLocal) {
        local.flush();
        self.turn_to(worker, None);
    }

    /// Runs an entry, and counts it.
    fn execute_found(&self, worker: &Worker, found: FoundEntry, local: &mut WorkerLocal) {
        self.set_state(worker, WorkerState::Working);
        if let Some(statement) = self.execute(worker, found) {
            local.count(statement);
        }
    }

    /// The next entry for a worker, as [`Runtime::find`] gives it; wakes somebody for what is left.
    pub(crate) fn take(&self, worker: &Worker, slot: SlotId, limit: Option<Priority>) -> Option<FoundEntry> {
        let found = self.find(worker, slot, limit);
        if found.is_some() {
            self.pass_on(worker.group);
        }
        found
    }

    /// The next entry for the worker of `slot`, unless less urgent than `limit`: its own group's, then others' in the
    /// policy's order. Whether they still have something is checked again under their locks.
    fn find(&self, worker: &Worker, slot: SlotId, limit: Option<Priority>) -> Option<FoundEntry> {
        let own = self.layout.slot(slot);
        for step in self.layout.search(own.group) {
            let group = &self.groups[step.group.index()];
            if step.group == own.group {
                if let Some(taken) = group.take_own(own.place, limit) {
                    let target =
                        taken.kind.map_or(QueueTarget::Slot(slot), |kind| QueueTarget::Group(step.group, kind));
                    return Some(FoundEntry { entry: taken.item, target });
                }
            } else if group.queued_shared(step.reach) > 0
                && let Some(found) = self.steal(worker, own.group, step.group, step.reach, limit)
            {
                return Some(found);
            }
        }
        None
    }

    /// Takes from another group, in bulk if the settings of the statement that is stolen from say so.
    fn steal(
        &self,
        worker: &Worker,
        own: GroupId,
        victim: GroupId,
        reach: Reach,
        limit: Option<Priority>,
    ) -> Option<FoundEntry> {
        let mut more = Vec::new();
        let take = |kind, queued, first: &QueueEntry| bulk(&self.layout, first.steal, kind, own, victim, queued);
        let taken = self.groups[victim.index()].take_shared(reach, limit, take, &mut more)?;
        let kind = taken.kind?;
        if !more.is_empty() {
            worker.meter.count_moved(victim, more.len() as u64);
            self.groups[own.index()].push_stolen(kind, &mut more);
            self.sleep.task_queued();
        }
        Some(FoundEntry { entry: taken.item, target: QueueTarget::Group(victim, kind) })
    }

    /// Runs an entry, or drops it if its statement has stopped. Returns the statement whose task it ran.
    pub(crate) fn execute(&self, worker: &Worker, found: FoundEntry) -> Option<Arc<Statement>> {
        let FoundEntry { entry, target } = found;
        if entry.statement.is_cancelled() {
            entry.discard(&worker.meter.dropped);
            return None;
        }
        worker.meter.step();
        self.turn_to(worker, Some(&entry.statement));
        let QueueEntry { statement, work, running, binding, .. } = entry;
        let binds_now = binds(binding, running);
        if binds_now != worker.meter.is_pinned() {
            self.bind(worker, binds_now);
        }
        let outer = RUNNING.replace(running);
        match work {
            Work::Task(task) => {
                let outer_sticky = worker.sticky.load(Ordering::Relaxed);
                worker.sticky.store(matches!(target, QueueTarget::Slot(_)), Ordering::Relaxed);
                if let Err(text) = panics::caught(task) {
                    statement.fail(text);
                }
                worker.sticky.store(outer_sticky, Ordering::Relaxed);
                worker.meter.count_task(self.from(worker, target));
                RUNNING.set(outer);
                Some(statement)
            }
            Work::Help { job, lane } => {
                if job.entry_taken(lane) {
                    self.queue_help(&job, lane, &statement, 1);
                }
                let ran = self.participate(worker, &job, Some(lane), Some(statement.priority()));
                RUNNING.set(outer);
                statement.tally().tasks_run(ran.1.tasks);
                worker.meter.count(&ran.1);
                if ran.0 == Participation::Yielded {
                    self.queue_help(&job, lane, &statement, 1);
                } else if let Some(left) = job.lane_left() {
                    self.queue_help(&job, left, &statement, 1);
                }
                None
            }
        }
    }

    /// Runs indices of a loop as the worker of the slot it holds. Gives way to what is more urgent than `priority`.
    pub(crate) fn participate(
        &self,
        worker: &Worker,
        job: &Arc<crate::scope::Job>,
        home: Option<usize>,
        priority: Option<Priority>,
    ) -> (Participation, RunCount) {
        let mut ran = RunCount::default();
        let Some(slot) = worker.slot() else { return (Participation::Exhausted, ran) };
        let own = self.layout.slot(slot);
        let group = &self.groups[own.group.index()];
        let outer_sticky = worker.sticky.load(Ordering::Relaxed);
        worker.sticky.store(outer_sticky || job.has_private_lane(), Ordering::Relaxed);
        let yields = || {
            worker.meter.step();
            priority.is_some_and(|priority| group.has_before(priority.rank(), own.place)) || worker.slot().is_none()
        };
        let participation = job.participate(&self.layout, slot, home, &mut ran, yields);
        worker.sticky.store(outer_sticky, Ordering::Relaxed);
        (participation, ran)
    }

    /// The group that a task was stolen from, if it was.
    fn from(&self, worker: &Worker, target: QueueTarget) -> Option<GroupId> {
        Some(self.layout.group_of(target)).filter(|group| *group != worker.group)
    }

    /// Pins a worker to the cpus of its group, or leaves it to all usable ones.
    pub(crate) fn bind(&self, worker: &Worker, bound: bool) {
        if bound {
            if !worker.meter.is_refused() {
                let pinned = numa::pin_current_thread(&self.layout.group(worker.group).cpus);
                worker.meter.set_pinned(pinned);
                worker.meter.set_refused(!pinned);
            }
        } else {
            numa::pin_current_thread(&self.usable_cpus);
            worker.meter.set_pinned(false);
        }
    }

    /// Drops what stopped statements have queued in a worker's group, if someone asked for it.
    fn purge(&self, worker: &Worker, group: GroupId) {
        let group = &self.groups[group.index()];
        if group.take_purge() {
            for entry in group.remove_where(|entry| entry.statement.has_stopped()) {
                entry.discard(&worker.meter.dropped);
            }
        }
    }

    /// Looks a few times more. Meanwhile submitters need wake nobody of this group; whoever finds something here looks
    /// at the queues again afterwards and wakes others for what is left in them.
    fn look_again(&self, worker: &Worker, slot: SlotId, local: &mut WorkerLocal) -> Option<FoundEntry> {
        self.set_state(worker, WorkerState::Free);
        let group = worker.group.index();
        self.sleep.start_looking(group);
        let mut found = None;
        for look in 0..LOOKS_BEFORE_SLEEP {
            if look < LOOKS_THAT_SPIN {
                (0..1 << look).for_each(|_| std::hint::spin_loop());
            } else {
                if look == LOOKS_THAT_SPIN {
                    self.tell(worker, local);
                }
                std::thread::yield_now();
            }
            found = self.find(worker, slot, None);
            if found.is_some() || self.groups[group].handover.anyone_returns() {
                break;
            }
        }
        // A submitter that saw this worker look woke nobody: either we see what it queued, or it sees that we stopped.
        // A worker that found nothing announces its sleep next and looks behind a fence of its own.
        self.sleep.stop_looking(group);
        if found.is_some() {
            self.pass_on(worker.group);
        }
        found
    }

    /// Sleeps till there may be a task, unless one came while the sleep was announced: then runs that.
    fn idle(&self, worker: &Worker, slot: SlotId, local: &mut WorkerLocal) {
        let handover = &self.groups[worker.group.index()].handover;
        self.sleep.announce(slot, Sleeper::Free);
        let found = self.find(worker, slot, None);
        if found.is_none() && !self.is_ending() && !handover.anyone_returns() {
            self.set_state(worker, if local.parks { WorkerState::Parked } else { WorkerState::Free });
            let until = if local.parks { None } else { Some(Instant::now() + FREE_FOR) };
            local.parks = !self.sleep.sleep(slot, Sleeper::Free, until);
            if !local.parks {
                self.dog.poke();
            }
            return;
        }
        self.wake_in_time(slot, Sleeper::Free);
        if let Some(found) = found {
            self.pass_on(worker.group);
            self.execute_found(worker, found, local);
        }
    }

    /// Takes back an announced sleep. If a waker had chosen this worker, its task may be another one than the worker
    /// found, or the worker may not come to it because it gives its slot away: then whoever else can take something is
    /// woken instead.
    pub(crate) fn wake_in_time(&self, slot: SlotId, sleeper: Sleeper) {
        if self.sleep.stay_awake(slot, sleeper) {
            for step in self.layout.search(self.layout.slot(slot).group) {
                self.for_queued(step.group, |target| self.wake_for(target));
            }
        }
    }

    /// More is queued than the calling worker took: one more worker may come, who does the same.
    fn pass_on(&self, group: GroupId) {
        if self.sleep.anyone_asleep() {
            for step in self.layout.search(group) {
                if !self.sleep.anyone_looks(step.group.index()) {
                    self.for_queued(step.group, |target| self.wake_free_for(target));
                }
            }
        }
    }

    fn for_queued(&self, group: GroupId, wake: impl Fn(QueueTarget) -> bool) {
        if self.sleep.anyone_asleep() {
            for kind in QueueKind::ALL {
                if self.groups[group.index()].queued_in(kind) > 0 {
                    wake(QueueTarget::Group(group, kind));
                }
            }
        }
    }

    pub(crate) fn set_state(&self, worker: &Worker, state: WorkerState) {
        worker.meter.set_state(state, || self.now_ns());
    }

    /// Counts tasks that were dropped by the calling thread.
    pub(crate) fn count_dropped(&self, worker: Option<&Worker>, tasks: u64) {
        let counter = worker.map_or(&self.dropped, |worker| &worker.meter.dropped);
        counter.fetch_add(tasks, Ordering::Relaxed);
    }
}
