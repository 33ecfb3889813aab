//! `parallel_for`: how its indices are queued, and how its caller waits.
//!
//! Invariants: every lane that the caller itself may not or need not finish has an entry queued before the caller
//! waits; a caller that is a worker never blocks while there is something that it may run.
//!
//! # Limits
//! The grain is the caller's: one index is one task.
//!
//! Source: the concurrency per thread group follows Psaroudakis et al., VLDB 2015, section 5.1; that a waiting worker
//! helps is Seidel 2011 (NBB), chapter 3.

use std::fmt;
use std::sync::Arc;

use super::Shared;
use super::group::{Entry, Work};
use crate::affinity::{Affinity, SlotId};
use crate::policy::{GroupId, Target};
use crate::primitive::{Condvar, Mutex};
use crate::scope::{Job, Participation, Ran, Waiter, scoped};
use crate::sleep::Sleeper;
use crate::statement::Statement;
use crate::stats::WorkerState;

/// Why a `parallel_for` did not run all its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// The statement stopped; [`Statement::stopped`] says why.
    Cancelled,
    /// A task panicked, with this text. The statement has failed with it.
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
    shared: &Arc<Shared>,
    statement: &Arc<Statement>,
    tasks: usize,
    affinity: &(dyn Fn(usize) -> Affinity + Sync),
    body: &(dyn Fn(usize) + Sync),
) -> Result<(), TaskError> {
    if statement.is_cancelled() {
        return Err(TaskError::Cancelled);
    }
    if tasks == 0 {
        return Ok(());
    }
    let caller = shared.own_slot();
    let routes = shared.routes(tasks, caller, affinity);
    let waiter = match caller {
        Some(slot) => Waiter::Worker(slot, Arc::clone(&shared.sleep)),
        None => Waiter::Thread(Mutex::new(()), Condvar::new()),
    };
    scoped(body, &routes, statement, waiter, |job| {
        let watcher = job.watcher();
        statement.watch(watcher.clone());
        shared.queue_lanes(job, statement, caller);
        match caller {
            Some(slot) => shared.work_and_wait(job, statement, slot),
            None => job.wait_as_thread(),
        }
        statement.unwatch(&watcher);
        shared.count_dropped(job.skipped() as u64);
        // A body that saw the statement stopped may have returned early, so a stop counts even if all were run.
        match job.panicked() {
            Some(text) => Err(TaskError::Panicked(text)),
            None if job.skipped() > 0 || statement.is_cancelled() => Err(TaskError::Cancelled),
            None => Ok(()),
        }
    })
}

impl Shared {
    /// Where each index goes. Loads grow as indices are dealt out, so that tasks without affinity spread.
    fn routes(
        &self,
        tasks: usize,
        caller: Option<SlotId>,
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
    ) -> Vec<Target> {
        let mut loads = self.loads();
        let one = |index| {
            let target = self.layout.route(affinity(index), caller, &loads);
            loads[self.layout.group_of(target).index()] += 1;
            target
        };
        (0..tasks).map(one).collect()
    }

    /// Queues, per lane, an entry for each worker of its group that could help, or one where only others can; the caller
    /// is one worker that needs none. Further ones are queued as these are taken.
    fn queue_lanes(&self, job: &Arc<Job>, statement: &Arc<Statement>, caller: Option<SlotId>) {
        for (lane, of) in job.lanes().iter().enumerate() {
            let caller = caller.filter(|caller| self.layout.may_take(*caller, of.target));
            let (near, all) = match of.target {
                Target::Slot(_) => (1, 1),
                Target::Group(group, _) => {
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

    /// Queues so many entries of a lane.
    pub(crate) fn queue_help(&self, job: &Arc<Job>, lane: usize, statement: &Arc<Statement>, entries: usize) {
        if entries > 0 {
            job.lanes()[lane].entries_queued(entries);
            let help = || Work::Help { job: Arc::clone(job), lane };
            self.queue(job.lanes()[lane].target, entries, || Entry { statement: Arc::clone(statement), work: help() });
        }
    }

    /// A worker's own `parallel_for`: runs what it may, then helps others till its job is finished.
    fn work_and_wait(&self, job: &Arc<Job>, statement: &Arc<Statement>, slot: SlotId) {
        let mut ran = Ran::default();
        let participation = job.participate(&self.layout, slot, None, &mut ran, || false);
        debug_assert_eq!(participation, Participation::Exhausted);
        self.meters[slot.index()].count(ran);
        let limit = Some(statement.priority());
        loop {
            let cancelled = statement.is_cancelled();
            if cancelled {
                job.close();
            }
            if job.is_finished() {
                return;
            }
            if let Some(found) = self.find(slot, limit) {
                self.execute(slot, found);
                continue;
            }
            self.sleep.announce(slot, Sleeper::Waiting);
            let found = self.find(slot, limit);
            if found.is_none() && !job.is_finished() && statement.has_stopped() == cancelled {
                self.set_state(slot, WorkerState::Inactive);
                let until = if cancelled { None } else { statement.deadline() };
                self.sleep.sleep(slot, Sleeper::Waiting, until);
                self.set_state(slot, WorkerState::Working);
                continue;
            }
            self.wake_in_time(slot, Sleeper::Waiting, found.as_ref());
            if let Some(found) = found {
                self.execute(slot, found);
            }
        }
    }
}
