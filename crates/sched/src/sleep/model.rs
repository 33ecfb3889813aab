//! The sleep protocol under loom: every interleaving and every value that the memory model allows, for a few threads
//! with a few switches that nothing forced. A lost wake-up is a deadlock, which loom reports (by aborting the test).
//!
//! It has earned its keep: it found that a worker which took back its announcement could miss the very task that it had
//! been woken for, and so pass no wake-up on (now an acquire in `stay_awake`).
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-sched --lib model`, in a build folder of its own.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// Switches that nothing forced, for two threads and for three: more take minutes.
const PREEMPTIONS_OF_TWO: usize = 4;
const PREEMPTIONS_OF_THREE: usize = 2;

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A group of workers and a queue that is only a number. Like the real one's summary, it is written and read relaxed.
struct Pool {
    sleep: Sleep,
    queued: AtomicUsize,
}

impl Pool {
    fn new(workers: usize) -> Arc<Pool> {
        Arc::new(Pool { sleep: Sleep::new(&[workers]), queued: AtomicUsize::new(0) })
    }

    /// As `Runtime::queue` does.
    fn push(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        if self.sleep.task_queued() {
            self.sleep.wake_one_free(0);
        }
    }

    fn take(&self) -> bool {
        let mut queued = self.queued.load(Ordering::Relaxed);
        while queued > 0 {
            match self.queued.compare_exchange(queued, queued - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => queued = now,
            }
        }
        false
    }

    /// As the worker loop does, till it has one task.
    fn work(&self, slot: SlotId) {
        while !self.take() {
            self.sleep.announce(slot, Sleeper::Free);
            if self.take() {
                if self.sleep.stay_awake(slot, Sleeper::Free) && self.queued.load(Ordering::Relaxed) > 0 {
                    self.sleep.wake_one_free(0);
                }
                return;
            }
            self.sleep.sleep(slot, Sleeper::Free, None);
        }
    }
}

#[test]
fn a_worker_is_woken_for_its_task() {
    check(PREEMPTIONS_OF_TWO, || {
        let pool = Pool::new(1);
        let other = Arc::clone(&pool);
        let worker = thread::spawn(move || other.work(SlotId(0)));
        pool.push();
        worker.join().unwrap();
        assert!(!pool.sleep.anyone_asleep(), "counts come back to zero");
    });
}

#[test]
fn two_workers_are_woken_for_two_tasks() {
    check(PREEMPTIONS_OF_THREE, || {
        let pool = Pool::new(2);
        let workers = [0, 1].map(|slot| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.work(SlotId(slot)))
        });
        pool.push();
        pool.push();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(pool.queued.load(Ordering::Relaxed), 0);
        assert!(!pool.sleep.anyone_asleep(), "counts come back to zero");
    });
}

#[test]
fn two_submitters_wake_two_workers() {
    check(PREEMPTIONS_OF_THREE, || {
        let pool = Pool::new(2);
        let worker = Arc::clone(&pool);
        let worker = thread::spawn(move || worker.work(SlotId(1)));
        let submitter = Arc::clone(&pool);
        let submitter = thread::spawn(move || submitter.push());
        pool.push();
        pool.work(SlotId(0));
        submitter.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_that_waits_is_woken_by_the_end_of_its_job() {
    check(PREEMPTIONS_OF_TWO, || {
        let sleep = Arc::new(Sleep::new(&[1]));
        let done = Arc::new(AtomicUsize::new(0));
        let other = Arc::clone(&sleep);
        let end = Arc::clone(&done);
        let helper = thread::spawn(move || {
            end.store(1, Ordering::Relaxed);
            other.wake_slot(SlotId(0));
        });
        while done.load(Ordering::Relaxed) == 0 {
            sleep.announce(SlotId(0), Sleeper::Waiting);
            if done.load(Ordering::Relaxed) == 0 {
                sleep.sleep(SlotId(0), Sleeper::Waiting, None);
            } else {
                sleep.stay_awake(SlotId(0), Sleeper::Waiting);
            }
        }
        helper.join().unwrap();
    });
}

/// A worker that announces its sleep against a submitter: either it finds the task, or it is woken. Nobody really
/// sleeps here: loom cannot unwind out of a deadlock.
fn announce_against_push(fence_of_task_queued: bool) {
    check(PREEMPTIONS_OF_TWO, move || {
        let pool = Pool::new(1);
        let other = Arc::clone(&pool);
        let worker = thread::spawn(move || {
            other.sleep.announce(SlotId(0), Sleeper::Free);
            other.take()
        });
        pool.queued.fetch_add(1, Ordering::Relaxed);
        let someone = if fence_of_task_queued { pool.sleep.task_queued() } else { pool.sleep.anyone_asleep() };
        let woke = someone && pool.sleep.wake_one_free(0);
        let found = worker.join().unwrap();
        drop(pool);
        assert!(found || woke, "a wake-up is lost");
    });
}

#[test]
fn an_announcement_and_a_push_never_miss_each_other() {
    announce_against_push(true);
}

/// A submitter that wakes nobody because someone looks: whoever looks finds the task, in its last look at the latest.
#[test]
fn whoever_looks_finds_what_nobody_was_woken_for() {
    check(PREEMPTIONS_OF_TWO, || {
        let pool = Pool::new(1);
        let other = Arc::clone(&pool);
        let worker = thread::spawn(move || {
            other.sleep.start_looking(0);
            let found = other.take();
            other.sleep.stop_looking(0);
            found || {
                other.sleep.announce(SlotId(0), Sleeper::Free);
                other.take()
            }
        });
        pool.queued.fetch_add(1, Ordering::Relaxed);
        let woke = pool.sleep.task_queued() && !pool.sleep.anyone_looks(0) && pool.sleep.wake_one_free(0);
        let found = worker.join().unwrap();
        drop(pool);
        assert!(found || woke, "a wake-up is lost");
    });
}

/// Of a worker that blocks, comes back and takes its slot, and a submitter that takes it for its task, one gets it; and
/// the task is seen by one of them.
#[test]
fn a_lent_slot_has_one_taker() {
    check(PREEMPTIONS_OF_TWO, || {
        let pool = Pool::new(1);
        let other = Arc::clone(&pool);
        let worker = thread::spawn(move || {
            let lending = other.sleep.lend(SlotId(0));
            let seen = other.queued.load(Ordering::Relaxed) > 0;
            (seen, other.sleep.reclaim(SlotId(0), lending))
        });
        pool.queued.fetch_add(1, Ordering::Relaxed);
        let taken = pool.sleep.task_queued() && pool.sleep.take_lent(0).is_some();
        let (seen, reclaimed) = worker.join().unwrap();
        assert!(!(taken && reclaimed), "a slot has two holders");
        assert!(taken || reclaimed, "a slot is lost");
        assert!(taken || seen || reclaimed, "a task is overlooked");
        assert!(!pool.sleep.anyone_asleep(), "counts come back to zero");
    });
}

/// A lending that is over is not mistaken for the next one of the same slot.
#[test]
fn an_old_lending_takes_nothing_back() {
    check(PREEMPTIONS_OF_TWO, || {
        let sleep = Arc::new(Sleep::new(&[1]));
        let first = sleep.lend(SlotId(0));
        let other = Arc::clone(&sleep);
        // The next holder takes the slot and blocks too.
        let next = thread::spawn(move || {
            let taken = other.take_lent_slot(SlotId(0));
            if taken {
                other.lend(SlotId(0));
            }
            taken
        });
        let reclaimed = sleep.reclaim(SlotId(0), first);
        assert!(next.join().unwrap() != reclaimed, "one of them had it");
    });
}

/// The tester's test: without the fence of `task_queued` the model finds the lost wake-up.
#[test]
#[should_panic(expected = "a wake-up is lost")]
fn without_its_fence_a_wake_up_is_lost() {
    announce_against_push(false);
}
