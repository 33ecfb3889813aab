//! How slots get workers: spare threads, threads that come back, new threads.
//!
//! Invariants: whoever takes a slot gives it to exactly one thread, or lends it again; a thread without a slot runs no
//! task of its own accord; no more threads are started than the scheduler's limit.
//!
//! # Limits
//! Spare threads end after some seconds; their statistics are kept for the next thread of the group.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (inactive, free and parked workers).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::worker::Worker;
use super::{Runtime, here, work};
use crate::affinity::SlotId;
use crate::handover::Stood;
use crate::policy::GroupId;
use crate::stats::WorkerState;

/// How long a spare thread waits for a slot before it ends.
const SPARE_FOR: Duration = Duration::from_secs(5);
/// The least number of spare threads that a group keeps.
const SPARE_MIN: usize = 4;

impl Runtime {
    /// Gives a slot, which the caller holds or has taken, to a thread that comes back, a spare one or a new one. Where
    /// none can be had, the slot is lent: whoever needs it next tries again.
    pub(crate) fn staff(&self, slot: SlotId) {
        let group = self.layout.slot(slot).group;
        let handover = &self.groups[group.index()].handover;
        if handover.give_to_returner(slot) || handover.give_to_spare(slot) {
            return;
        }
        let Err(error) = self.start_worker(slot) else { return };
        if !self.is_ending() {
            tracing::debug!("slot {slot} gets no worker for now: {error}");
        }
        self.sleep.lend(slot);
        // Who came back in the meantime may have seen neither the lent slot nor a worker to wake.
        if handover.anyone_returns() && self.sleep.take_lent_slot(slot) && !handover.give_to_returner(slot) {
            self.sleep.lend(slot);
        }
    }

    /// Whether a slot of a group that is given up would get a worker at once.
    pub(crate) fn can_staff(&self, group: GroupId) -> bool {
        let handover = &self.groups[group.index()].handover;
        !self.is_ending()
            && (self.live.load(Ordering::Relaxed) < self.workers_max
                || handover.anyone_returns()
                || handover.spare() > 0)
    }

    /// Starts a thread that holds `slot`.
    pub(crate) fn start_worker(&self, slot: SlotId) -> io::Result<()> {
        let refused = |why: &str| Err(io::Error::other(why.to_owned()));
        let Some(shared) = self.me.upgrade() else { return refused("the scheduler is gone") };
        let mut threads = self.threads.lock();
        if self.is_ending() {
            return refused("the scheduler is ending");
        }
        if self.live.load(Ordering::Relaxed) >= self.workers_max {
            return refused("as many workers as the configuration allows are there");
        }
        let group = self.layout.slot(slot).group;
        let worker = self.idle_record(group, slot);
        worker.stand.clear();
        worker.stand.give(slot);
        let node = self.layout.group(group).node;
        let own = Arc::clone(&worker);
        // A thread begins with the mask of the one that starts it, which may be pinned, and to another group at that.
        let inherits = here().is_some_and(|here| here.worker.meter.is_pinned());
        // Linux shows 15 bytes of a thread's name.
        match Builder::new()
            .name(format!("worker-{node}-{}", worker.number))
            .spawn(move || work::run(&shared, &own, inherits))
        {
            Ok(thread) => {
                self.live.fetch_add(1, Ordering::AcqRel);
                threads.insert(worker.number, thread);
                Ok(())
            }
            Err(error) => {
                worker.stand.wait(false, Some(Instant::now()));
                worker.alive.store(false, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// The record of an ended worker of a group, or a new one.
    fn idle_record(&self, group: GroupId, slot: SlotId) -> Arc<Worker> {
        let mut workers = self.workers.write();
        if let Some(ended) = workers.iter().find(|worker| worker.group == group && !worker.is_alive()) {
            ended.alive.store(true, Ordering::Relaxed);
            return Arc::clone(ended);
        }
        let worker = Arc::new(Worker::new(workers.len(), group, slot, self.groups.len()));
        workers.push(Arc::clone(&worker));
        worker
    }

    /// Waits without a slot until one is given. `None`: the thread is not needed any more.
    pub(super) fn stand_by(&self, worker: &Worker) -> Option<SlotId> {
        if let Stood::Given(slot) = worker.stand.wait(false, Some(Instant::now())) {
            return Some(slot);
        }
        let handover = &self.groups[worker.group.index()].handover;
        let spare_max = self.layout.group(worker.group).slots.len().max(SPARE_MIN);
        self.set_state(worker, WorkerState::Parked);
        loop {
            worker.stand.clear();
            if self.is_ending() || !handover.stand_by(&worker.stand, spare_max) {
                return None;
            }
            // Looked at after the list was entered: whoever ends the scheduler sees the entry or is seen.
            let stood = if self.is_ending() {
                Stood::Notified
            } else {
                worker.stand.wait(true, Some(Instant::now() + SPARE_FOR))
            };
            match stood {
                Stood::Given(slot) => return Some(slot),
                _ if !handover.leave(&worker.stand) => {
                    // Somebody has taken it out of the list and is about to give it a slot.
                    if let Stood::Given(slot) = worker.stand.wait(false, None) {
                        return Some(slot);
                    }
                }
                Stood::TimeUp => return None,
                Stood::Notified => {}
            }
        }
    }

    /// Waits, as a thread that comes back to its task, for a slot of its group; for `wanted` only, if given. `None`:
    /// the scheduler ends, and the task goes on to its end without one.
    pub(super) fn return_to_slot(&self, worker: &Worker, wanted: Option<SlotId>) -> Option<SlotId> {
        let handover = &self.groups[worker.group.index()].handover;
        worker.stand.clear();
        handover.queue_returner(&worker.stand, wanted);
        // The fence is that of a submitter: who holds a slot of the group sees the returner before it sleeps, or is
        // seen.
        if self.sleep.task_queued() {
            match wanted {
                Some(slot) if self.sleep.take_lent_slot(slot) => self.staff(slot),
                Some(slot) => self.sleep.wake_slot(slot),
                None => {
                    if !self.staff_one(worker.group) && !self.sleep.wake_one_free(worker.group.index()) {
                        self.sleep.wake_waiting(worker.group.index());
                    }
                }
            }
        }
        loop {
            if self.is_ending() && handover.give_up_return(&worker.stand) {
                return None;
            }
            if let Stood::Given(slot) = worker.stand.wait(true, None) {
                return Some(slot);
            }
        }
    }

    /// Notes that a worker thread ends.
    pub(super) fn retire(&self, worker: &Worker) {
        self.set_state(worker, WorkerState::Parked);
        {
            // Under this lock the scheduler does not begin to end.
            let mut threads = self.threads.lock();
            worker.alive.store(false, Ordering::Relaxed);
            if !self.is_ending() {
                // Nobody will join it, and it is not the last one.
                threads.remove(&worker.number);
                self.live.fetch_sub(1, Ordering::AcqRel);
                return;
            }
        }
        self.thread_ended();
    }
}
