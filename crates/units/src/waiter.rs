//! Sleeping until something is so, without a wake-up that is lost. See `routing/README.md`.
//!
//! Who waits counts itself, fences, and looks whether it is over; who makes it so fences and looks whether anybody is
//! counted. At least one of the two sees the other. Nobody is counted as a rule, and then waking is a fence and a load.

use crate::primitive::{AtomicU64, Condvar, Mutex, Ordering, fence, locked};

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiter {
    sleepers: AtomicU64,
    lock: Mutex<()>,
    bell: Condvar,
}

/// Looks before a waiter sleeps: some microseconds, about what a wake-up costs.
#[cfg(not(loom))]
const LOOKS: u32 = 200;
#[cfg(not(loom))]
const PAUSES_PER_LOOK: u32 = 8;

impl Waiter {
    pub(crate) fn new() -> Waiter {
        Waiter { sleepers: AtomicU64::new(0), lock: Mutex::new(()), bell: Condvar::new() }
    }

    /// Sleeps until `is_over`. Whoever makes it so calls [`wake`](Self::wake) afterwards.
    pub(crate) fn sleep(&self, is_over: impl Fn() -> bool) {
        let mut guard = locked(&self.lock);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while !is_over() {
            guard = self.bell.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes who sleeps, after something was made so that it may wait for.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Who is counted and has not begun to wait holds the lock: it waits by the time that this one has it.
        drop(locked(&self.lock));
        self.bell.notify_all();
    }
}

#[cfg(not(loom))]
impl Waiter {
    /// Looks for a short while, then sleeps, as [`sleep`](Self::sleep); a worker that sleeps gives its slot to another.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) {
        if !spin(&is_over) {
            sched::blocking(|| self.sleep(is_over));
        }
    }

    /// As [`wait`](Self::wait), but not for longer than `limit`: whether it is over.
    pub(crate) fn wait_for(&self, limit: std::time::Duration, is_over: impl Fn() -> bool) -> bool {
        if spin(&is_over) {
            return true;
        }
        sched::blocking(|| {
            let guard = locked(&self.lock);
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let waited = self.bell.wait_timeout_while(guard, limit, |()| !is_over());
            drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        });
        is_over()
    }

    /// How many sleep.
    #[cfg(test)]
    pub(crate) fn sleepers(&self) -> u64 {
        self.sleepers.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
fn spin(is_over: impl Fn() -> bool) -> bool {
    for _ in 0..LOOKS {
        if is_over() {
            return true;
        }
        (0..PAUSES_PER_LOOK).for_each(|_| std::hint::spin_loop());
    }
    is_over()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sleepers_wake_when_it_is_over_and_not_before() {
        let waiter = Waiter::new();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| waiter.wait(|| done.load(Ordering::Acquire) == 2));
            }
            while waiter.sleepers.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            done.store(1, Ordering::Release);
            waiter.wake();
            assert!(!waiter.wait_for(Duration::from_millis(1), || done.load(Ordering::Acquire) == 2));
            assert_eq!(waiter.sleepers.load(Ordering::Relaxed), 3);
            done.store(2, Ordering::Release);
            waiter.wake();
        });
        assert_eq!(waiter.sleepers(), 0);
        assert!(waiter.wait_for(Duration::ZERO, || true));
    }

    #[test]
    fn no_wake_up_of_many_is_lost() {
        let (ping, pong) = (Waiter::new(), Waiter::new());
        let turn = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..3000 {
                    ping.wait(|| turn.load(Ordering::Acquire) == 2 * round + 1);
                    turn.store(2 * round + 2, Ordering::Release);
                    pong.wake();
                }
            });
            for round in 0..3000 {
                turn.store(2 * round + 1, Ordering::Release);
                ping.wake();
                pong.wait(|| turn.load(Ordering::Acquire) == 2 * round + 2);
            }
        });
        assert_eq!(turn.into_inner(), 6000);
    }
}
