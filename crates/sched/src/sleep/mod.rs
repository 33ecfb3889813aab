//! How workers sleep and are woken, and how a slot is lent: nothing lost, nothing burnt. The protocol is told in
//! `README.md` beside this file.
//!
//! Invariants: a worker that announced its sleep and then found no task is woken by every later task that it alone
//! could take; a worker is woken by one waker; a lent slot is taken by one taker; an idle worker uses no cpu.
//!
//! # Limits
//! A lending is told from the next one of the same slot by 29 bits: a worker that blocks while its slot is lent half a
//! billion times more would take it back wrongly.
//!
//! Source: the two announcements around a fence are Dekker's; free and parked workers: Psaroudakis et al., VLDB 2015,
//! section 5.1; that those who look for work keep others from being woken is the Go scheduler's idea.

#[cfg(all(test, loom))]
mod model;

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
/// Nobody runs in this slot: its worker blocks in a marked section, or is gone. Whoever takes it gives it a worker.
const LENT: u32 = 4;
/// The bits that hold one of the above; the rest numbers the lendings.
const KIND_BITS: u32 = 3;
const KIND: u32 = (1 << KIND_BITS) - 1;

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
    /// How often the slot was lent.
    lendings: AtomicU32,
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
    lent: AtomicUsize,
    /// Workers that are awake and look for a task: they find what is queued, so nobody need be woken for it.
    looking: AtomicUsize,
    /// The slots of the group.
    first: usize,
    len: usize,
}

/// The sleeping places of all workers.
#[derive(Debug)]
pub(crate) struct Sleep {
    parkers: Vec<Parker>,
    groups: Vec<Counts>,
    /// Sleepers of either sort and lent slots in all groups; read by everyone who queues a task, written only when
    /// someone sleeps.
    total: AtomicUsize,
}

impl Sleep {
    /// Places for groups of `n` slots, numbered through.
    pub(crate) fn new(group_slots: &[usize]) -> Sleep {
        let mut parkers = Vec::new();
        let mut groups = Vec::new();
        for (group, len) in group_slots.iter().copied().enumerate() {
            let first = parkers.len();
            groups.push(Counts {
                free: AtomicUsize::new(0),
                waiting: AtomicUsize::new(0),
                lent: AtomicUsize::new(0),
                looking: AtomicUsize::new(0),
                first,
                len,
            });
            parkers.extend((0..len).map(|_| Parker {
                state: AtomicU32::new(AWAKE),
                lendings: AtomicU32::new(0),
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
        // Pairs with the fence in `task_queued`: the queue that we look at next was filled before it, or its waker sees
        // us.
        fence(Ordering::SeqCst);
    }

    /// Takes an announcement back. Returns whether a waker had already chosen this worker: then its task may still be
    /// queued while other workers sleep, and the wake-up must be passed on.
    pub(crate) fn stay_awake(&self, slot: SlotId, sleeper: Sleeper) -> bool {
        if self.claim(slot.index(), sleeper, AWAKE) {
            return false;
        }
        // Acquire: the caller must see the task that it was woken for, or it would not know to pass the wake-up on.
        self.parkers[slot.index()].state.swap(AWAKE, Ordering::Acquire);
        true
    }

    /// Sleeps until woken, or until `until` where given. The worker is awake afterwards. Returns whether it was woken.
    pub(crate) fn sleep(&self, slot: SlotId, sleeper: Sleeper, until: Option<Instant>) -> bool {
        let parker = &self.parkers[slot.index()];
        let mut guard = parker.lock.lock();
        while parker.state.load(Ordering::Acquire) == sleeper.state() {
            if until.is_some_and(|until| Instant::now() >= until) {
                drop(guard);
                return self.stay_awake(slot, sleeper);
            }
            wait(&parker.condvar, &mut guard, until);
        }
        parker.state.store(AWAKE, Ordering::Relaxed);
        true
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

    /// How many slots of a group have a worker that runs or looks for a task, as far as a glance tells.
    pub(crate) fn working_in(&self, group: usize) -> usize {
        let counts = &self.groups[group];
        let resting = [&counts.free, &counts.waiting, &counts.lent].map(|count| count.load(Ordering::Relaxed));
        counts.len.saturating_sub(resting.iter().sum())
    }

    /// How many slots of a group are lent, as far as a glance tells.
    pub(crate) fn lent_in(&self, group: usize) -> usize {
        self.groups[group].lent.load(Ordering::Relaxed)
    }

    /// Says that a worker of a group begins to look for a task.
    pub(crate) fn start_looking(&self, group: usize) {
        self.groups[group].looking.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that it found one, or is about to announce its sleep. Whoever found a task must wake someone for what else
    /// is queued, since submitters may have relied on it.
    pub(crate) fn stop_looking(&self, group: usize) {
        self.groups[group].looking.fetch_sub(1, Ordering::AcqRel);
        // Pairs with the fence in `task_queued`: a submitter that still counted us has queued its task before we look
        // again.
        fence(Ordering::SeqCst);
    }

    /// Whether somebody looks for a task of a group. To be asked after [`Sleep::task_queued`] only: its fence makes
    /// sure that whoever is counted here looks at the queue once more.
    pub(crate) fn anyone_looks(&self, group: usize) -> bool {
        self.groups[group].looking.load(Ordering::Relaxed) > 0
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

    /// Offers the slot of a worker that is about to block, or of one that is gone, to whoever needs it. After this the
    /// queues must be looked at once more. Returns what [`Sleep::reclaim`] takes.
    pub(crate) fn lend(&self, slot: SlotId) -> u32 {
        let parker = &self.parkers[slot.index()];
        self.groups[parker.group].lent.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        // Only the slot's worker gets here, so the number is not drawn twice.
        let number = parker.lendings.load(Ordering::Relaxed).wrapping_add(1);
        parker.lendings.store(number, Ordering::Relaxed);
        let lending = number << KIND_BITS | LENT;
        parker.state.store(lending, Ordering::Release);
        // Pairs with the fence in `task_queued`, as that of `announce` does.
        fence(Ordering::SeqCst);
        lending
    }

    /// Ends a lending. Returns false when the slot has been taken meanwhile.
    pub(crate) fn reclaim(&self, slot: SlotId, lending: u32) -> bool {
        self.end_lending(slot.index(), lending)
    }

    /// Takes a lent slot of a group: the caller must give it a worker.
    pub(crate) fn take_lent(&self, group: usize) -> Option<SlotId> {
        let counts = &self.groups[group];
        if counts.lent.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let slots = (counts.first..counts.first + counts.len).map(|place| SlotId(place as u32));
        slots.into_iter().find(|slot| self.take_lent_slot(*slot))
    }

    /// Takes `slot` if it is lent: the caller must give it a worker.
    pub(crate) fn take_lent_slot(&self, slot: SlotId) -> bool {
        let state = self.parkers[slot.index()].state.load(Ordering::Relaxed);
        state & KIND == LENT && self.end_lending(slot.index(), state)
    }

    fn end_lending(&self, place: usize, lending: u32) -> bool {
        let parker = &self.parkers[place];
        // Release: who takes the slot next sees what its worker did before. Acquire: its taker does.
        let ended = parker.state.compare_exchange(lending, AWAKE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if ended {
            self.groups[parker.group].lent.fetch_sub(1, Ordering::Relaxed);
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
        ended
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
