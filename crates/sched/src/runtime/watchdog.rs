//! The watchdog: a thread that samples the groups now and then and does what [`crate::policy::watchdog`] says.
//!
//! Nothing depends on it: a wake-up is never lost without it. It corrects what a glance at stale summaries got wrong,
//! gives lent slots that could not be staffed another try, samples statistics, and reports workers that are stuck.
//!
//! Invariant: while nothing runs, it sleeps without a time limit.
//!
//! # Limits
//! Statistics are as coarse as its period. It falls asleep half a second after the last task.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1, "Watchdog".

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Runtime;
use crate::config::Watchdog;
use crate::policy::GroupId;
use crate::policy::watchdog::{Action, Progress, Sample, decide};
use crate::stats::WorkerState;

/// Looks that find nothing at work before it falls asleep.
const IDLE_LOOKS: u32 = 50;

/// What it has sampled of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupSamples {
    pub(crate) samples: AtomicU64,
    pub(crate) working: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) unsaturated: AtomicU64,
}

#[derive(Debug, Default)]
struct Leash {
    poked: bool,
    ended: bool,
}

/// The watchdog as others see it.
#[derive(Debug)]
pub(crate) struct Dog {
    leash: Mutex<Leash>,
    condvar: Condvar,
    asleep: AtomicBool,
    pub(crate) config: Watchdog,
    pub(crate) sampled: Vec<GroupSamples>,
    /// Wake-ups that it had to order.
    pub(crate) woke: AtomicU64,
    /// Workers that it reported as stuck.
    pub(crate) stuck: AtomicU64,
}

impl Dog {
    pub(crate) fn new(groups: usize, config: Watchdog) -> Dog {
        Dog {
            leash: Mutex::new(Leash::default()),
            condvar: Condvar::new(),
            asleep: AtomicBool::new(false),
            config: Watchdog { period: config.period.max(Duration::from_millis(1)), ..config },
            sampled: (0..groups).map(|_| GroupSamples::default()).collect(),
            woke: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
        }
    }

    /// Something begins to run.
    pub(crate) fn poke(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.leash.lock().poked = true;
            self.condvar.notify_one();
        }
    }

    pub(crate) fn end(&self) {
        self.leash.lock().ended = true;
        self.condvar.notify_one();
    }

    /// Waits for a period, or till poked. False: it shall end.
    fn wait(&self, until_poked: bool) -> bool {
        let mut leash = self.leash.lock();
        if until_poked {
            while !leash.poked && !leash.ended {
                self.condvar.wait(&mut leash);
            }
        } else if !leash.ended {
            self.condvar.wait_for(&mut leash, self.config.period);
        }
        leash.poked = false;
        !leash.ended
    }
}

/// The life of the watchdog's thread. It does not keep the scheduler alive.
pub(crate) fn run(shared: &Weak<Runtime>) {
    let mut progress: BTreeMap<usize, Progress> = BTreeMap::new();
    let mut idle_looks = 0;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let busy = shared.look(&mut progress);
        idle_looks = if busy { 0 } else { idle_looks + 1 };
        let sleeps = idle_looks > IDLE_LOOKS;
        if sleeps {
            shared.dog.asleep.store(true, Ordering::SeqCst);
            if shared.is_busy() {
                shared.dog.asleep.store(false, Ordering::SeqCst);
                idle_looks = 0;
                continue;
            }
            idle_looks = 0;
        }
        if !shared.dog.wait(sleeps) {
            return;
        }
    }
}

impl Runtime {
    fn is_busy(&self) -> bool {
        (0..self.groups.len()).any(|group| self.sleep.working_in(group) > 0 || self.groups[group].queued() > 0)
    }

    /// One look at everything. Returns whether anything runs or waits to run.
    fn look(&self, progress: &mut BTreeMap<usize, Progress>) -> bool {
        let samples: Vec<Sample> = (0..self.groups.len()).map(|group| self.sample(group)).collect();
        for (sample, sampled) in samples.iter().zip(&self.dog.sampled) {
            sampled.samples.fetch_add(1, Ordering::Relaxed);
            sampled.working.fetch_add(sample.load.working as u64, Ordering::Relaxed);
            sampled.queued.fetch_add(sample.queued_shared() as u64, Ordering::Relaxed);
            let behind = !sample.is_saturated() && sample.queued_shared() > 0;
            sampled.unsaturated.fetch_add(u64::from(behind), Ordering::Relaxed);
        }
        for action in decide(&self.layout, &samples) {
            self.dog.woke.fetch_add(1, Ordering::Relaxed);
            match action {
                Action::Wake(group) => self.sleep.wake_one_free(group.index()),
                Action::Staff(group) => self.staff_one(group),
            };
        }
        self.report_stuck(progress);
        self.is_busy()
    }

    fn sample(&self, group: usize) -> Sample {
        Sample {
            load: self.work_load(GroupId(group as u32)),
            asleep: self.sleep.free_in(group),
            lent: self.sleep.lent_in(group),
            queued: self.queued_by_kind(group),
        }
    }

    fn report_stuck(&self, progress: &mut BTreeMap<usize, Progress>) {
        let now_ns = self.now_ns();
        let stuck_ns = self.dog.config.stuck_after.as_nanos() as u64;
        // Of all workers there ever were, those that are stuck are told of when the lock is free: a log is foreign
        // code.
        let workers: Vec<_> = self.workers.read().iter().map(std::sync::Arc::clone).collect();
        for worker in &workers {
            let working = worker.meter.state() == WorkerState::Working;
            let known = progress.entry(worker.number).or_default();
            if let Some(there_ns) = known.look(working, worker.meter.steps(), now_ns, stuck_ns) {
                self.dog.stuck.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "worker {} of group {} (slot {}) has been at one task for {:.1} s: a statement that does not check \
                     whether it was cancelled, or a wait outside a blocking section",
                    worker.number,
                    worker.group.0,
                    worker.last_slot(),
                    there_ns as f64 / 1e9
                );
            }
        }
    }
}
