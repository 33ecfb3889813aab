//! What is accessed of a partition: how often, which keys, and how long it takes, by samples.
//!
//! Each thread draws one key of about `KEYS_PER_SAMPLE`, whatever the batches and objects; the rest costs it a
//! subtraction. Where a batch has a sample, its execution is timed too.
//!
//! # Limits
//! A partition remembers its last `SAMPLES` keys. Who draws may be interrupted between two of its stores; then a key
//! of before is in the sample in place of one.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use random::mixed;

use crate::balancer::{Accesses, KEYS_PER_SAMPLE, SAMPLES};
use crate::bell::Bell;

/// See the module.
#[derive(Debug)]
pub(crate) struct Monitor {
    keys: Box<[AtomicU64]>,
    /// Keys ever drawn.
    drawn: AtomicU64,
    /// Those that the last cycle has counted.
    counted: AtomicU64,
    timed_keys: AtomicU64,
    timed_ns: AtomicU64,
    /// The object's.
    bell: Arc<Bell>,
}

/// A batch that is being executed; tells the monitor when it is done.
#[must_use]
pub(crate) struct Watch<'a> {
    monitor: &'a Monitor,
    keys: usize,
    /// Keys that were drawn of it.
    drawn: u64,
    /// When it began, if it is timed.
    begin: Option<Instant>,
}

impl Monitor {
    /// A monitor of a partition; it tells the object's bell what it draws.
    pub(crate) fn new(bell: Arc<Bell>) -> Monitor {
        Monitor {
            bell,
            keys: (0..SAMPLES).map(|_| AtomicU64::new(0)).collect(),
            drawn: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            timed_keys: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
        }
    }

    /// Draws from a batch that is about to be executed.
    #[inline]
    pub(crate) fn watch<'a>(&'a self, keys: &[u64]) -> Watch<'a> {
        let count = keys.len();
        thread_local!(static NEXT: Cell<(usize, u64)> = const { Cell::new((0, 0)) });
        let drawn = NEXT.with(|next| {
            let (mut place, mut state) = next.get();
            let before = state;
            while place < count {
                self.draw(keys[place]);
                // Not every so many keys exactly: batches may be regular.
                state += 1;
                place += 1 + (mixed(state) % (2 * KEYS_PER_SAMPLE - 1)) as usize;
            }
            next.set((place - count, state));
            state - before
        });
        Watch { monitor: self, keys: count, drawn, begin: (drawn > 0).then(Instant::now) }
    }

    #[cold]
    fn draw(&self, key: u64) {
        let place = self.drawn.fetch_add(1, Ordering::Relaxed) as usize % SAMPLES;
        self.keys[place].store(key, Ordering::Relaxed);
    }

    /// About how many accesses there were since monitoring began.
    pub(crate) fn accesses(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed) * KEYS_PER_SAMPLE
    }

    /// Keys drawn since they were last counted.
    pub(crate) fn uncounted(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed) - self.counted.load(Ordering::Relaxed)
    }

    /// What was accessed since the last time, which begins anew; for one thread at a time.
    pub(crate) fn count(&self) -> Accesses {
        let drawn = self.drawn.load(Ordering::Relaxed);
        let fresh = drawn - self.counted.swap(drawn, Ordering::Relaxed);
        let remembered = fresh.min(SAMPLES as u64);
        let key = |number: u64| self.keys[number as usize % SAMPLES].load(Ordering::Relaxed);
        let sample = (drawn - remembered..drawn).map(key).collect();
        Accesses { count: (fresh * KEYS_PER_SAMPLE) as f64, sample }
    }

    /// What was accessed until here does not count.
    pub(crate) fn forget(&self) {
        self.counted.store(self.drawn.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The mean time of a key of a batch, if any was timed.
    pub(crate) fn time_per_key(&self) -> Option<Duration> {
        let keys = self.timed_keys.load(Ordering::Relaxed);
        (keys > 0).then(|| Duration::from_nanos(self.timed_ns.load(Ordering::Relaxed) / keys))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(begin) = self.begin {
            let now = Instant::now();
            self.monitor.timed_keys.fetch_add(self.keys as u64, Ordering::Relaxed);
            self.monitor.timed_ns.fetch_add((now - begin).as_nanos() as u64, Ordering::Relaxed);
            self.monitor.bell.count(self.drawn, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_stands_for_what_was_accessed() {
        let bell = Arc::new(Bell::new(2000));
        let monitor = Monitor::new(Arc::clone(&bell));
        let other = Monitor::new(Arc::new(Bell::new(u64::MAX)));
        for batch in 0..3000_u64 {
            let keys: Vec<u64> = (0..1 + batch % 130).map(|place| batch << 8 | place).collect();
            drop(monitor.watch(&keys));
            drop(other.watch(&keys[..1]));
        }
        let expected: u64 = (0..3000).map(|batch| 1 + batch % 130).sum();
        let near = |accesses: u64, expected: u64| accesses.abs_diff(expected) < expected / 4;
        assert!(near(monitor.accesses(), expected), "{} of {expected}", monitor.accesses());
        assert!(other.accesses() < monitor.accesses() / 10);
        assert!(monitor.time_per_key().is_some());
        assert!(bell.is_ringing() && !other.bell.is_ringing());
        let accesses = monitor.count();
        assert!(near(accesses.count as u64, expected) && accesses.sample.len() == SAMPLES);
        let mut sample = accesses.sample;
        sample.sort_unstable();
        sample.dedup();
        assert_eq!(sample.len(), SAMPLES, "no key is drawn twice");
        assert!(sample.iter().all(|key| key >> 8 > 1000), "it remembers the last");
        assert_eq!((monitor.uncounted(), monitor.count()), (0, Accesses::default()));
    }
}
