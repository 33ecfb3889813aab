//! Cycles that nobody calls: who accesses keys of an object has one begun when the monitors have drawn enough of them.
//!
//! A cycle runs wherever the store was told that it can, by a scheduler's workers say; who has it begun does not wait
//! for it and holds no token. An object that is not accessed has no cycles, and costs nothing.
//!
//! Invariant: one cycle of an object that began by itself is on its way at a time.
//!
//! # Limits
//! A store that was told nothing balances when it is called only.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.3: there a balancer checks periodically.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use numa::Budget;
use sched::{Affinity, Priority, Scheduler, Statement};

use super::{Keyed, Store};
use crate::balancer::Algorithm;
use crate::read::is_in_callback;

/// How long an object is left alone after a cycle. One that moves nothing sorts up to 1,024 drawn keys per unit, with
/// 64 units some milliseconds: a part of one of 64 cpus. A range that moves away is followed within tenths of a second.
const REST: Duration = Duration::from_millis(100);
/// How long after one that failed: what it lacked, memory as a rule, it would lack again.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Is given a cycle to run, and comes back without having waited for it.
pub type Launch = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

/// Where cycles run.
#[derive(Default)]
pub(super) struct Launcher(OnceLock<Box<Launch>>);

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "known" } else { "unknown" })
    }
}

/// An algorithm that threads read without a lock.
#[derive(Debug, Default)]
pub(super) struct Chosen(AtomicU64);

impl Chosen {
    pub(super) fn get(&self) -> Algorithm {
        match self.0.load(Ordering::Relaxed) {
            0 => Algorithm::Off,
            1 => Algorithm::OneShot,
            neighbours => Algorithm::MovingAverage((neighbours - 2) as u32),
        }
    }

    pub(super) fn replace(&self, algorithm: Algorithm) -> Algorithm {
        let word = match algorithm {
            Algorithm::Off => 0,
            Algorithm::OneShot => 1,
            Algorithm::MovingAverage(neighbours) => u64::from(neighbours) + 2,
        };
        let before = self.get();
        self.0.store(word, Ordering::Relaxed);
        before
    }
}

impl Store {
    /// Has cycles begin by themselves from now on, on a scheduler's workers, as [`set_balancer`](Self::set_balancer)
    /// says. The store does not keep the scheduler alive. What was told first stays.
    pub fn balance_on(&self, scheduler: &Arc<Scheduler>) {
        let scheduler = Arc::downgrade(scheduler);
        self.balance_by(Box::new(move |cycle| {
            let Some(scheduler) = scheduler.upgrade() else { return };
            // As urgent as the oldest statement: it is short, and what it mends holds up all of them.
            let priority = Priority { user: Priority::USER_DEFAULT, statement_time: 0 };
            let statement = Statement::with_priority(priority, Budget::unlimited());
            statement.set_label("units: balancing");
            statement.set_counted(false);
            scheduler.spawn(&statement, Affinity::Anywhere, cycle);
        }));
    }

    /// As [`balance_on`](Self::balance_on), wherever `launch` runs what it is given.
    pub fn balance_by(&self, launch: Box<Launch>) {
        let _ = self.launcher.0.set(launch);
    }
}

impl Keyed {
    /// Behind every batch, when no token is held.
    #[inline]
    pub(super) fn pass_by(&self) {
        if self.object.bell.is_ringing() && !is_in_callback() {
            self.begin_cycle();
        }
    }

    #[cold]
    fn begin_cycle(&self) {
        let is_off = self.store.balancer() == Algorithm::Off;
        let Some(launch) = self.store.launcher.0.get().filter(|_| !is_off) else { return };
        let Some(heard) = self.object.bell.hear() else { return };
        let (store, object) = (Arc::downgrade(&self.store), Arc::downgrade(&self.object));
        launch(Box::new(move || {
            let Some((store, object)) = store.upgrade().zip(object.upgrade()) else { return };
            let (cycle, _) = store.cycle(&object, store.balancer());
            heard.rest(if cycle.failure.is_some() { REST_AFTER_FAILURE } else { REST });
        }));
    }
}

#[cfg(test)]
mod tests;
