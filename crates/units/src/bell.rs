//! When the balancer should look at an object: after enough of its keys were drawn, and not too soon after the last
//! time.
//!
//! Who draws keys tells the bell. Once there were enough it rings, until somebody who passes by hears it, has a cycle
//! begun, and lets it rest. So an object that is not accessed costs nothing.
//!
//! Invariant: from when it was heard until that rest begins it does not ring again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WAITING: u8 = 0;
const RINGING: u8 = 1;
const HEARD: u8 = 2;

/// On a cache line of its own, which changes seldom: everybody who passes by looks at it.
#[derive(Debug)]
#[repr(align(64))]
struct State(AtomicU8);

/// See the module.
#[derive(Debug)]
pub(crate) struct Bell {
    state: State,
    /// Keys drawn since it rang last.
    drawn: AtomicU64,
    /// How many it waits for.
    wanted: u64,
    began: Instant,
    /// Nanoseconds after it began, until which it rests.
    rests_until: AtomicU64,
}

/// A bell that was heard; dropped without more, it waits for as many keys again at once.
#[derive(Debug)]
#[must_use]
pub(crate) struct Heard(Arc<Bell>);

impl Bell {
    /// A bell that waits for so many keys.
    pub(crate) fn new(wanted: u64) -> Bell {
        Bell {
            state: State(AtomicU8::new(WAITING)),
            drawn: AtomicU64::new(0),
            wanted,
            began: Instant::now(),
            rests_until: AtomicU64::new(0),
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keys were drawn until `now`.
    pub(crate) fn count(&self, drawn: u64, now: Instant) {
        let before = self.drawn.fetch_add(drawn, Ordering::Relaxed);
        if before + drawn >= self.wanted && self.nanos(now) >= self.rests_until.load(Ordering::Relaxed) {
            let _ = self.state.0.compare_exchange(WAITING, RINGING, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether somebody should hear it.
    #[inline]
    pub(crate) fn is_ringing(&self) -> bool {
        self.state.0.load(Ordering::Relaxed) == RINGING
    }

    /// Hears it, if it rings and nobody else has.
    pub(crate) fn hear(self: &Arc<Self>) -> Option<Heard> {
        let heard = self.state.0.compare_exchange(RINGING, HEARD, Ordering::Acquire, Ordering::Relaxed);
        heard.is_ok().then(|| Heard(Arc::clone(self)))
    }

    /// What was drawn so far does not count.
    pub(crate) fn forget(&self) {
        self.drawn.store(0, Ordering::Relaxed);
        let _ = self.state.0.compare_exchange(RINGING, WAITING, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Heard {
    /// Lets it rest for a while.
    pub(crate) fn rest(self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.rests_until.store(self.0.nanos(Instant::now()).saturating_add(time), Ordering::Relaxed);
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.drawn.store(0, Ordering::Relaxed);
        self.0.state.0.store(WAITING, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_for_enough_keys_and_rests() {
        let bell = Arc::new(Bell::new(10));
        let begin = bell.began;
        bell.count(9, begin);
        assert!(!bell.is_ringing() && bell.hear().is_none());
        bell.count(1, begin);
        assert!(bell.is_ringing());
        let heard = bell.hear().unwrap();
        bell.count(100, begin);
        assert!(!bell.is_ringing() && bell.hear().is_none(), "it was heard");
        heard.rest(Duration::from_secs(1000));
        bell.count(100, begin + Duration::from_secs(999));
        assert!(!bell.is_ringing(), "it rests");
        bell.count(1, begin + Duration::from_secs(2000));
        assert!(bell.is_ringing());
        // What was to follow did not: it waits for as many keys again.
        drop(bell.hear());
        bell.count(9, begin + Duration::from_secs(3000));
        assert!(!bell.is_ringing());
        bell.count(1, begin + Duration::from_secs(3000));
        assert!(bell.is_ringing());
        bell.forget();
        assert!(!bell.is_ringing() && bell.hear().is_none());
    }

    #[test]
    fn one_of_many_hears_it() {
        for _ in 0..50 {
            let bell = Arc::new(Bell::new(1));
            bell.count(1, Instant::now());
            let heard: Vec<Heard> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| bell.hear())).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(heard.len(), 1);
        }
    }
}
