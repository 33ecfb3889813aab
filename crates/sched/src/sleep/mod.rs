//! How workers sleep and are woken: nothing lost, nothing burnt. The protocol is told in `README.md` beside this file.
//!
//! Invariants: a worker that announced its sleep and then found no task is woken by every later task that it alone
//! could take; a worker is woken by one waker; an idle worker uses no cpu.
//!
//! # Limits
//! A slot has one worker. When a blocking worker hands over its slot, the parkers will be per thread.
//!
//! Source: the two announcements around a fence are Dekker's; free and parked workers: Psaroudakis et al., VLDB 2015,
//! section 5.1. Free workers do not wake by themselves here: a wake-up is never lost, so there is nothing to look for.

use std::time::Instant;

use crate::affinity::SlotId;
use crate::primitive::{AtomicU32, AtomicUsize, Condvar, Mutex, Ordering, fence, wait};

/// At work, or looking for work.
const AWAKE: u32 = 0;
/// Free: asleep, takes any task that it may take.
const ASLEEP: u32 = 1;
/// Waiting for its own `parallel_for`: asleep, takes what is at least as urgent as its own statement.
const WAITING: u32 = 2;
/// Woken, but not yet running.
const NOTIFIED: u32 = 3;

/// As what a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleeper {
    /// It has nothing to do.
    Free,
    /// It waits for a `parallel_for` that it called.
    Waiting,
}

impl Sleeper {
    fn state(self) -> u32 {
        match self {
            Sleeper::Free => ASLEEP,
            Sleeper::Waiting => WAITING,
        }
    }
}

/// Where one worker sleeps. Aligned so that no two share a cache line (or the pair that is fetched together).
#[repr(align(128))]
#[derive(Debug)]
struct Parker {
    state: AtomicU32,
    group: usize,
    lock: Mutex<()>,
    condvar: Condvar,
}

/// How many workers of a group sleep. Never less than the parkers that say so.
#[repr(align(128))]
#[derive(Debug)]
struct Counts {
    free: AtomicUsize,
    waiting: AtomicUsize,
    /// The slots of the group.
    first: usize,
    len: usize,
}

/// The sleeping places of all workers.
#[derive(Debug)]
pub(crate) struct Sleep {
    parkers: Vec<Parker>,
    groups: Vec<Counts>,
    /// Sleepers of either sort in all groups; read by everyone who queues a task, written only when someone sleeps.
    total: AtomicUsize,
}

impl Sleep {
    /// Places for groups of so many slots, numbered through.
    pub(crate) fn new(group_slots: &[usize]) -> Sleep {
        let mut parkers = Vec::new();
        let mut groups = Vec::new();
        for (group, len) in group_slots.iter().copied().enumerate() {
            let first = parkers.len();
            groups.push(Counts { free: AtomicUsize::new(0), waiting: AtomicUsize::new(0), first, len });
            parkers.extend((0..len).map(|_| Parker {
                state: AtomicU32::new(AWAKE),
                group,
                lock: Mutex::new(()),
                condvar: Condvar::new(),
            }));
        }
        Sleep { parkers, groups, total: AtomicUsize::new(0) }
    }

    /// Announces that the worker of `slot` is about to sleep. After this it must look for a task once more, and then
    /// call either [`Sleep::stay_awake`] or [`Sleep::sleep`].
    pub(crate) fn announce(&self, slot: SlotId, sleeper: Sleeper) {
        let parker = &self.parkers[slot.index()];
        self.count(parker.group, sleeper).fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        parker.state.store(sleeper.state(), Ordering::Relaxed);
        // Pairs with the fence in `task_queued`: the queue that we look at next was filled before it, or its waker sees us.
        fence(Ordering::SeqCst);
    }

    /// Takes an announcement back. Returns whether a waker had already chosen this worker: then its task may still be
    /// queued while other workers sleep, and the wake-up must be passed on.
    pub(crate) fn stay_awake(&self, slot: SlotId, sleeper: Sleeper) -> bool {
        if self.claim(slot.index(), sleeper, AWAKE) {
            return false;
        }
        self.parkers[slot.index()].state.store(AWAKE, Ordering::Relaxed);
        true
    }

    /// Sleeps until woken, or until `until` where given. The worker is awake afterwards.
    pub(crate) fn sleep(&self, slot: SlotId, sleeper: Sleeper, until: Option<Instant>) {
        let parker = &self.parkers[slot.index()];
        let mut guard = parker.lock.lock();
        while parker.state.load(Ordering::Acquire) == sleeper.state() {
            if until.is_some_and(|until| Instant::now() >= until) {
                drop(guard);
                self.stay_awake(slot, sleeper);
                return;
            }
            wait(&parker.condvar, &mut guard, until);
        }
        parker.state.store(AWAKE, Ordering::Relaxed);
    }

    /// To be called between queueing a task (or finishing a job, or raising the shutdown flag) and choosing whom to
    /// wake. Returns whether anyone sleeps at all.
    pub(crate) fn task_queued(&self) -> bool {
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        self.anyone_asleep()
    }

    /// Whether anyone sleeps, as far as a glance tells.
    pub(crate) fn anyone_asleep(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// How many workers of a group are free and asleep, as far as a glance tells.
    pub(crate) fn free_in(&self, group: usize) -> usize {
        self.groups[group].free.load(Ordering::Relaxed)
    }

    /// Wakes one free worker of a group. Returns false when there was none any more.
    pub(crate) fn wake_one_free(&self, group: usize) -> bool {
        let counts = &self.groups[group];
        counts.free.load(Ordering::Relaxed) > 0
            && (counts.first..counts.first + counts.len).any(|place| self.wake(place, Sleeper::Free))
    }

    /// Wakes every waiting worker of a group.
    pub(crate) fn wake_waiting(&self, group: usize) {
        let counts = &self.groups[group];
        if counts.waiting.load(Ordering::Relaxed) > 0 {
            for place in counts.first..counts.first + counts.len {
                self.wake(place, Sleeper::Waiting);
            }
        }
    }

    /// Wakes the worker of `slot` if it sleeps.
    pub(crate) fn wake_slot(&self, slot: SlotId) {
        fence(Ordering::SeqCst);
        let place = slot.index();
        let _ = self.wake(place, Sleeper::Free) || self.wake(place, Sleeper::Waiting);
    }

    /// Wakes everyone.
    pub(crate) fn wake_all(&self) {
        for slot in 0..self.parkers.len() as u32 {
            self.wake_slot(SlotId(slot));
        }
    }

    fn wake(&self, place: usize, sleeper: Sleeper) -> bool {
        if !self.claim(place, sleeper, NOTIFIED) {
            return false;
        }
        let parker = &self.parkers[place];
        // Taking the lock puts us before the sleeper's look at its state, or after it has begun to wait.
        drop(parker.lock.lock());
        parker.condvar.notify_one();
        true
    }

    /// Moves a sleeping parker to `state`; only one caller succeeds, and it adjusts the counts.
    fn claim(&self, place: usize, sleeper: Sleeper, state: u32) -> bool {
        let parker = &self.parkers[place];
        // A look first: the exchange would take the cache line away from a worker that is awake.
        let claimed = parker.state.load(Ordering::Relaxed) == sleeper.state()
            && parker.state.compare_exchange(sleeper.state(), state, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if claimed {
            self.count(parker.group, sleeper).fetch_sub(1, Ordering::Relaxed);
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
        claimed
    }

    fn count(&self, group: usize, sleeper: Sleeper) -> &AtomicUsize {
        match sleeper {
            Sleeper::Free => &self.groups[group].free,
            Sleeper::Waiting => &self.groups[group].waiting,
        }
    }
}
