//! Workers without a slot: spare ones that wait for one to be given, and those that come back from a blocking section.
//!
//! Each thread has a [`Stand`], where it waits while it holds no slot. A thread group's [`Handover`] knows who stands
//! there. A slot changes hands by [`Stand::give`] only: the giver holds it before, the receiver after.
//!
//! Invariants: a slot is given to one stand; a stand that a slot was given to is in no list; whoever holds a slot and
//! sees [`Handover::anyone_returns`] gives it away between two tasks, so that a returner waits for one task at most.
//!
//! # Limits
//! Returners that want any slot are served in order; one that wants a certain slot waits for that one.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 ("In cases where tasks may block and become inactive, the
//! scheduler wakes up free or parked threads to correct the number of working threads").

#[cfg(all(test, loom))]
mod model;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::affinity::SlotId;
use crate::primitive::{AtomicUsize, Condvar, Mutex, Ordering, wait};

/// What a waiting thread was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    slot: Option<SlotId>,
    /// Something that it waits for has changed; or it shall end.
    notified: bool,
}

/// Why a wait on a stand ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stood {
    /// A slot was given.
    Given(SlotId),
    /// Someone said to look.
    Notified,
    /// The time is up.
    TimeUp,
}

/// Where a thread waits while it holds no slot.
#[derive(Debug)]
pub(crate) struct Stand {
    told: Mutex<Told>,
    condvar: Condvar,
}

impl Stand {
    pub(crate) fn new() -> Stand {
        Stand { told: Mutex::new(Told::default()), condvar: Condvar::new() }
    }

    /// Gives the thread a slot, which it holds from now on.
    pub(crate) fn give(&self, slot: SlotId) {
        let mut told = self.told.lock();
        debug_assert!(told.slot.is_none(), "a stand is given one slot at a time");
        told.slot = Some(slot);
        self.condvar.notify_one();
    }

    /// Has the thread look at what it waits for.
    pub(crate) fn notify(&self) {
        let mut told = self.told.lock();
        told.notified = true;
        self.condvar.notify_one();
    }

    /// Forgets an earlier [`Stand::notify`]. What it was about must be looked at after this.
    pub(crate) fn clear(&self) {
        self.told.lock().notified = false;
    }

    /// Waits for a slot, for a notification if `notices`, or for the time.
    pub(crate) fn wait(&self, notices: bool, until: Option<Instant>) -> Stood {
        let mut told = self.told.lock();
        loop {
            if let Some(slot) = told.slot.take() {
                return Stood::Given(slot);
            }
            if notices && std::mem::take(&mut told.notified) {
                return Stood::Notified;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Stood::TimeUp;
            }
            wait(&self.condvar, &mut told, until);
        }
    }
}

/// A thread that comes back and wants a slot.
#[derive(Debug)]
struct Returner {
    stand: Arc<Stand>,
    /// Only this one will do: it runs what belongs to that slot.
    wanted: Option<SlotId>,
}

#[derive(Debug, Default)]
struct StandLists {
    spare: Vec<Arc<Stand>>,
    returning: VecDeque<Returner>,
}

/// Who of a thread group waits for a slot.
#[derive(Debug)]
pub(crate) struct Handover {
    standing: Mutex<StandLists>,
    /// Length of `returning`, for a glance.
    returning: AtomicUsize,
}

impl Handover {
    pub(crate) fn new() -> Handover {
        Handover { standing: Mutex::new(StandLists::default()), returning: AtomicUsize::new(0) }
    }

    /// Whether a thread waits to go on with its task.
    pub(crate) fn anyone_returns(&self) -> bool {
        self.returning.load(Ordering::Relaxed) > 0
    }

    /// Enters a thread that wants to go on. The caller then sees to it that somebody looks: a fence, and a wake-up or a
    /// lent slot.
    pub(crate) fn queue_returner(&self, stand: &Arc<Stand>, wanted: Option<SlotId>) {
        let mut standing = self.standing.lock();
        standing.returning.push_back(Returner { stand: Arc::clone(stand), wanted });
        self.returning.store(standing.returning.len(), Ordering::Relaxed);
    }

    /// Gives `slot` to the first thread that waits to go on and may have it. False: there is none, the slot stays.
    pub(crate) fn give_to_returner(&self, slot: SlotId) -> bool {
        if !self.anyone_returns() {
            return false;
        }
        let returner = {
            let mut standing = self.standing.lock();
            let place = standing.returning.iter().position(|returner| returner.wanted.is_none_or(|it| it == slot));
            let returner = place.and_then(|place| standing.returning.remove(place));
            self.returning.store(standing.returning.len(), Ordering::Relaxed);
            returner
        };
        let given = returner.is_some();
        if let Some(returner) = returner {
            returner.stand.give(slot);
        }
        given
    }

    /// Gives `slot` to a spare thread. False: there is none, the slot stays.
    pub(crate) fn give_to_spare(&self, slot: SlotId) -> bool {
        let spare = self.standing.lock().spare.pop();
        let given = spare.is_some();
        if let Some(stand) = spare {
            stand.give(slot);
        }
        given
    }

    /// Takes a thread that has nothing to do into the list of spare ones, unless there are `spare_max` already.
    pub(crate) fn stand_by(&self, stand: &Arc<Stand>, spare_max: usize) -> bool {
        let mut standing = self.standing.lock();
        let room = standing.spare.len() < spare_max;
        if room {
            standing.spare.push(Arc::clone(stand));
        }
        room
    }

    /// Takes a thread out of the list of spare ones. False: it is not there any more, so a slot has been given to it.
    pub(crate) fn leave(&self, stand: &Arc<Stand>) -> bool {
        let mut standing = self.standing.lock();
        let place = standing.spare.iter().position(|spare| Arc::ptr_eq(spare, stand));
        place.map(|place| standing.spare.swap_remove(place)).is_some()
    }

    /// How many threads stand by.
    pub(crate) fn spare(&self) -> usize {
        self.standing.lock().spare.len()
    }

    /// Has every spare thread look, because the scheduler ends.
    pub(crate) fn notify_spare(&self) {
        let spare: Vec<Arc<Stand>> = self.standing.lock().spare.clone();
        spare.iter().for_each(|stand| stand.notify());
    }

    /// Whether a thread is still in the list of those that return; takes it out. Used when the scheduler ends: it goes
    /// on without a slot.
    pub(crate) fn give_up_return(&self, stand: &Arc<Stand>) -> bool {
        let mut standing = self.standing.lock();
        let place = standing.returning.iter().position(|returner| Arc::ptr_eq(&returner.stand, stand));
        let found = place.and_then(|place| standing.returning.remove(place)).is_some();
        self.returning.store(standing.returning.len(), Ordering::Relaxed);
        found
    }

    /// Has every returning thread look, because the scheduler ends.
    pub(crate) fn notify_returners(&self) {
        let stands: Vec<Arc<Stand>> =
            self.standing.lock().returning.iter().map(|returner| Arc::clone(&returner.stand)).collect();
        stands.iter().for_each(|stand| stand.notify());
    }
}
