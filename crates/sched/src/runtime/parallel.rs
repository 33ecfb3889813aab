//! `parallel_for`: how its indices are queued, and how its caller waits.
//!
//! Invariants: every lane that the caller itself may not or need not finish has an entry queued before the caller
//! waits; a caller that is a worker never blocks while there is something that it may run.
//!
//! # Limits
//! The grain is the caller's: one index is one task. Under a limit (`parallelism`) a thread that helps counts as
//! running also while its index waits in a blocking section or in a loop of its own.
//!
//! Source: the concurrency per thread group follows Psaroudakis et al., VLDB 2015, section 5.1; that a waiting worker
//! helps is Seidel 2011 (NBB), chapter 3.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::group::Work;
use super::worker::Worker;
use super::{Runtime, here};
use crate::affinity::{Affinity, Hint, SlotId};
use crate::handover::Stood;
use crate::policy::{GroupId, QueueTarget};
use crate::primitive::{AtomicU32, Condvar, Mutex};
use crate::scope::{Job, Participation, Waiter, scoped};
use crate::settings::Settings;
use crate::sleep::Sleeper;
use crate::statement::Statement;
use crate::stats::WorkerState;

/// Why a `parallel_for` did not run all its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// The statement stopped; [`Statement::stopped`] says why.
    Cancelled,
    /// A task panicked with this text, or returned an error with it. The statement has failed with it.
    Panicked(String),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Cancelled => f.write_str("the statement was cancelled"),
            TaskError::Panicked(text) => write!(f, "a task of the statement failed: {text}"),
        }
    }
}

impl std::error::Error for TaskError {}

/// Runs `body` for every index below `tasks` and returns when that is done or given up.
pub(crate) fn parallel_for(
    shared: &Arc<Runtime>,
    statement: &Arc<Statement>,
    tasks: usize,
    wish: &(dyn Fn(usize) -> (Affinity, Hint) + Sync),
    body: &(dyn Fn(usize) + Sync),
) -> Result<(), TaskError> {
    if statement.is_cancelled() {
        return Err(TaskError::Cancelled);
    }
    if tasks == 0 {
        return Ok(());
    }
    shared.watch(statement);
    let settings = shared.settings_of(statement);
    let here = here().filter(|here| here.shared.id == shared.id && here.worker.slot().is_some());
    let caller = shared.own_slot();
    let routes = shared.routes(settings, tasks, wish);
    let waiter = match (&here, caller) {
        (Some(here), Some(slot)) => Waiter::Worker {
            slot: AtomicU32::new(slot.0),
            stand: Arc::clone(&here.worker.stand),
            sleep: Arc::clone(&shared.sleep),
        },
        _ => Waiter::Thread(Mutex::new(()), Condvar::new()),
    };
    scoped(body, &routes, statement, waiter, |job| {
        let watcher = job.watcher();
        statement.watch(watcher.clone());
        for lane in job.lanes() {
            lane.set_near(wish(job.first_index(lane)).0 != Affinity::Anywhere);
        }
        job.set_limit(usize::from(settings.parallelism));
        match job.limit() {
            Some(limit) => shared.queue_tickets(job, statement, limit, caller),
            None => shared.queue_lanes(job, statement, caller),
        }
        match &here {
            Some(here) => shared.work_and_wait(job, statement, &here.worker),
            None => job.wait_as_thread(),
        }
        statement.unwatch(&watcher);
        let skipped = job.skipped() as u64;
        if skipped > 0 {
            shared.count_dropped(here.as_ref().map(|here| &*here.worker), skipped);
        }
        // A body that saw the statement stopped may have returned early, so a stop counts even if all were run.
        match job.panicked() {
            Some(text) => Err(TaskError::Panicked(text)),
            None if job.skipped() > 0 || statement.is_cancelled() => Err(TaskError::Cancelled),
            None => Ok(()),
        }
    })
}

impl Runtime {
    /// Where each index goes. Loads grow as indices are dealt out, so that tasks without affinity spread over all
    /// groups, also those of a worker's own loop: its group may have nobody free, and stealing need not reach the
    /// others. A single index stays where the caller is, who can run it at once.
    fn routes(
        &self,
        settings: Settings,
        tasks: usize,
        wish: &(dyn Fn(usize) -> (Affinity, Hint) + Sync),
    ) -> Vec<QueueTarget> {
        let groups = (0..self.groups.len() as u32).map(GroupId);
        let loads: Vec<Cell<usize>> = groups.map(|group| Cell::new(self.load(group))).collect();
        let caller = if tasks == 1 { self.own_slot() } else { None };
        let one = |index| {
            let load = |group: GroupId| loads[group.index()].get();
            let target = self.route_with(settings, wish(index), caller, &load);
            let dealt = &loads[self.layout.group_of(target).index()];
            dealt.set(dealt.get() + 1);
            target
        };
        (0..tasks).map(one).collect()
    }

    /// Queues, per lane, an entry for each worker of its group that could help, or one where only others can; the
    /// caller is one worker that needs none. Further ones are queued as these are taken.
    fn queue_lanes(&self, job: &Arc<Job>, statement: &Arc<Statement>, caller: Option<SlotId>) {
        for (lane, of) in job.lanes().iter().enumerate() {
            let caller = caller.filter(|caller| self.layout.may_take(*caller, of.target));
            let (near, all) = match of.target {
                QueueTarget::Slot(_) => (1, 1),
                QueueTarget::Group(group, _) => {
                    let slots = |group: &GroupId| self.layout.group(*group).slots.len();
                    (slots(&group), self.layout.takers(of.target).iter().map(slots).sum())
                }
            };
            let helpers = all - usize::from(caller.is_some());
            let entries = match caller {
                Some(_) if job.tasks() == 1 => 0,
                _ => near.min(of.len()).min(helpers),
            };
            self.queue_help(job, lane, statement, entries);
        }
    }

    /// The same for a job of a limit: as many entries as may run at a time, dealt out to its lanes in turn. A caller
    /// that is a worker counts as one of them.
    fn queue_tickets(&self, job: &Arc<Job>, statement: &Arc<Statement>, limit: usize, caller: Option<SlotId>) {
        let lanes = job.lanes();
        let mut tickets = (limit - usize::from(caller.is_some())).min(job.tasks());
        let mut entries = vec![0; lanes.len()];
        while tickets > 0 && lanes.iter().zip(&entries).any(|(lane, queued)| *queued < lane.len()) {
            for (queued, lane) in entries.iter_mut().zip(lanes) {
                if tickets > 0 && *queued < lane.len() {
                    (*queued, tickets) = (*queued + 1, tickets - 1);
                }
            }
        }
        entries.into_iter().enumerate().for_each(|(lane, entries)| self.queue_help(job, lane, statement, entries));
    }

    /// Queues `n` entries of a lane.
    pub(crate) fn queue_help(&self, job: &Arc<Job>, lane: usize, statement: &Arc<Statement>, entries: usize) {
        if entries > 0 {
            let of = &job.lanes()[lane];
            of.entries_queued(entries);
            let affinity = if of.is_near() { Affinity::Slot(SlotId(0)) } else { Affinity::Anywhere };
            let settings = self.settings_of(statement);
            let help = |_| {
                let work = Work::Help { job: Arc::clone(job), lane };
                self.entry(statement, settings, affinity, Hint::default(), work)
            };
            self.queue(of.target, (0..entries).map(help));
        }
    }

    /// A worker's own `parallel_for`: runs what it may, then helps others till its job is finished. Where that would
    /// leave its cpu idle although less urgent work waits, another thread gets its slot meanwhile.
    fn work_and_wait(&self, job: &Arc<Job>, statement: &Arc<Statement>, worker: &Arc<Worker>) {
        let (participation, ran) = self.participate(worker, job, None, None);
        debug_assert!(participation == Participation::Exhausted || worker.slot().is_none());
        statement.tally().tasks_run(ran.tasks);
        worker.meter.count(&ran);
        if let Some(left) = job.lane_left() {
            self.queue_help(job, left, statement, 1);
        }
        let limit = Some(statement.priority());
        let handover = &self.groups[worker.group.index()].handover;
        loop {
            let cancelled = statement.is_cancelled();
            if cancelled {
                job.close();
            }
            if job.is_finished() {
                return;
            }
            // A scheduler that ends has taken the slot from a task that came back from a blocking section.
            let Some(slot) = worker.slot() else { return self.wait_without_slot(job, statement, worker) };
            if handover.give_to_returner(slot) {
                self.takes_slot(worker, None);
                return self.wait_without_slot(job, statement, worker);
            }
            if let Some(found) = self.take(worker, slot, limit) {
                self.execute(worker, found);
                self.turn_to(worker, Some(statement));
                continue;
            }
            if self.has_work_for(slot) && self.can_staff(worker.group) {
                self.takes_slot(worker, None);
                self.staff(slot);
                return self.wait_without_slot(job, statement, worker);
            }
            job.waits_in(slot);
            self.sleep.announce(slot, Sleeper::Waiting);
            let found = self.take(worker, slot, limit);
            let unchanged = !job.is_finished() && statement.has_stopped() == cancelled && !handover.anyone_returns();
            if found.is_none() && unchanged && !(self.has_work_for(slot) && self.can_staff(worker.group)) {
                self.set_state(worker, WorkerState::Inactive);
                let until = if cancelled { None } else { statement.deadline() };
                self.sleep.sleep(slot, Sleeper::Waiting, until);
                self.set_state(worker, WorkerState::Working);
                continue;
            }
            self.wake_in_time(slot, Sleeper::Waiting);
            if let Some(found) = found {
                self.execute(worker, found);
            }
        }
    }

    /// Waits for the end of a job as a thread without a slot, and comes back to one.
    fn wait_without_slot(&self, job: &Arc<Job>, statement: &Arc<Statement>, worker: &Arc<Worker>) {
        self.set_state(worker, WorkerState::Inactive);
        loop {
            worker.stand.clear();
            let cancelled = statement.is_cancelled();
            if cancelled {
                job.close();
            }
            if job.is_finished() {
                break;
            }
            let until = if cancelled { None } else { statement.deadline() };
            let stood = worker.stand.wait(true, until);
            debug_assert!(!matches!(stood, Stood::Given(_)), "it stands in no list");
        }
        let wanted = worker.sticky.load(Ordering::Relaxed).then(|| worker.last_slot());
        let slot = self.return_to_slot(worker, wanted);
        self.takes_slot(worker, slot);
        self.set_state(worker, WorkerState::Working);
    }
}
