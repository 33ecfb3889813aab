//! Slots that change hands, under loom: never two holders, never a thread that waits for ever.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-sched --lib model`, in a build folder of its own.

use loom::sync::Arc as LoomArc;
use loom::thread;

use super::*;
use crate::sleep::{Sleep, Sleeper};

const PREEMPTIONS: usize = 2;
const SLOT: SlotId = SlotId(0);

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// A group of one slot.
struct Pool {
    sleep: Sleep,
    handover: Handover,
    queued: AtomicUsize,
    /// Threads that hold the slot.
    holders: AtomicUsize,
    over: AtomicUsize,
}

impl Pool {
    fn new() -> LoomArc<Pool> {
        LoomArc::new(Pool {
            sleep: Sleep::new(&[1]),
            handover: Handover::new(),
            queued: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            over: AtomicUsize::new(0),
        })
    }

    fn hold(&self) {
        assert_eq!(self.holders.fetch_add(1, Ordering::SeqCst), 0, "a slot has two holders");
    }

    fn release(&self) {
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }

    /// As `Runtime::staff` does, when there is a spare thread.
    fn staff(&self) {
        if !self.handover.give_to_returner(SLOT) && !self.handover.give_to_spare(SLOT) {
            self.sleep.lend(SLOT);
            if self.handover.anyone_returns()
                && self.sleep.take_lent_slot(SLOT)
                && !self.handover.give_to_returner(SLOT)
            {
                self.sleep.lend(SLOT);
            }
        }
    }

    /// A worker's blocking section, as `runtime/blocking.rs` has it. It holds the slot before and after.
    fn block(&self, stand: &Arc<Stand>) {
        self.release();
        let lending = self.sleep.lend(SLOT);
        let given = self.queued.load(Ordering::Relaxed) > 0;
        if given && self.sleep.reclaim(SLOT, lending) {
            self.staff();
        }
        if given || !self.sleep.reclaim(SLOT, lending) {
            stand.clear();
            self.handover.queue_returner(stand, None);
            if self.sleep.task_queued() {
                if self.sleep.take_lent(0).is_some() {
                    self.staff();
                } else {
                    self.sleep.wake_one_free(0);
                }
            }
            assert_eq!(stand.wait(false, None), Stood::Given(SLOT));
        }
        self.hold();
    }

    /// A spare worker: once it is given the slot, it works until somebody comes back for it, or all is over.
    fn stand_by(&self, stand: &Stand) {
        assert_eq!(stand.wait(false, None), Stood::Given(SLOT));
        loop {
            if self.over.load(Ordering::SeqCst) > 0 || self.handover.give_to_returner(SLOT) {
                return;
            }
            self.hold();
            self.queued.store(0, Ordering::Relaxed);
            self.release();
            self.sleep.announce(SLOT, Sleeper::Free);
            if self.handover.anyone_returns() || self.over.load(Ordering::SeqCst) > 0 {
                self.sleep.stay_awake(SLOT, Sleeper::Free);
            } else {
                self.sleep.sleep(SLOT, Sleeper::Free, None);
            }
        }
    }
}

#[test]
fn a_worker_that_blocks_gets_a_slot_back() {
    check(|| {
        let pool = Pool::new();
        pool.hold();
        let own = Arc::new(Stand::new());
        let spare = Arc::new(Stand::new());
        assert!(pool.handover.stand_by(&spare, 1));
        let other = LoomArc::clone(&pool);
        let worker = thread::spawn(move || {
            other.block(&own);
            // The end: whoever stands by still is let go.
            other.release();
            other.over.store(1, Ordering::SeqCst);
            other.handover.give_to_spare(SLOT);
        });
        let other = LoomArc::clone(&pool);
        let spare_worker = thread::spawn(move || other.stand_by(&spare));
        // As `Runtime::queue` does.
        pool.queued.store(1, Ordering::Relaxed);
        if pool.sleep.task_queued() && pool.sleep.take_lent(0).is_some() {
            pool.staff();
        }
        worker.join().unwrap();
        spare_worker.join().unwrap();
        assert!(!pool.handover.anyone_returns());
    });
}

#[test]
fn a_spare_thread_that_leaves_is_given_a_slot_or_not() {
    check(|| {
        let handover = LoomArc::new(Handover::new());
        let stand = Arc::new(Stand::new());
        assert!(handover.stand_by(&stand, 1));
        let other = LoomArc::clone(&handover);
        let giver = thread::spawn(move || other.give_to_spare(SLOT));
        let left = handover.leave(&stand);
        if !left {
            assert_eq!(stand.wait(false, None), Stood::Given(SLOT));
        }
        assert_ne!(giver.join().unwrap(), left, "the slot went to it, or stayed");
    });
}

#[test]
fn a_thread_that_gives_up_its_return_is_given_a_slot_or_not() {
    check(|| {
        let handover = LoomArc::new(Handover::new());
        let stand = Arc::new(Stand::new());
        handover.queue_returner(&stand, Some(SLOT));
        let other = LoomArc::clone(&handover);
        let giver = thread::spawn(move || other.give_to_returner(SLOT));
        let gave_up = handover.give_up_return(&stand);
        if !gave_up {
            assert_eq!(stand.wait(false, None), Stood::Given(SLOT));
        }
        assert_ne!(giver.join().unwrap(), gave_up);
        assert!(!handover.anyone_returns());
    });
}
