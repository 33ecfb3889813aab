//! Where workers get their hardware counters from, and sums of what those counted.
//!
//! Invariant: a counter of which nothing was ever told stays unknown; it is not 0.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use numa::counters::{Counter, Counts, ThreadCounters};

/// Tells what the calling thread's counters counted since it was last called.
pub type ReadCounters = Box<dyn FnMut() -> Counts>;

/// Where workers get their counters from.
#[derive(Clone)]
pub struct CounterSource(Arc<dyn Fn() -> Option<ReadCounters> + Send + Sync>);

impl CounterSource {
    /// A source that is asked once on each worker thread; `None` where that thread has no counters.
    pub fn new(open: impl Fn() -> Option<ReadCounters> + Send + Sync + 'static) -> CounterSource {
        CounterSource(Arc::new(open))
    }

    /// Asks for the calling thread's counters.
    pub(crate) fn open(&self) -> Option<ReadCounters> {
        (self.0)()
    }
}

impl Default for CounterSource {
    /// The cpu's, as far as the kernel lets them be read.
    fn default() -> CounterSource {
        CounterSource::new(|| {
            let mut counters = ThreadCounters::of_this_thread()?;
            let read: ReadCounters = Box::new(move || counters.since_last());
            Some(read)
        })
    }
}

impl fmt::Debug for CounterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterSource")
    }
}

/// Sums of counts that many threads may add to.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// A bit per counter of which anything is known.
    known: AtomicU8,
    sums: [AtomicU64; Counter::ALL.len()],
}

impl Events {
    pub(crate) fn add(&self, counts: &Counts) {
        for counter in Counter::ALL {
            if let Some(count) = counts.get(counter) {
                self.sums[counter as usize].fetch_add(count, Ordering::Relaxed);
                self.known.fetch_or(1 << counter as u8, Ordering::Release);
            }
        }
    }

    pub(crate) fn read(&self) -> Counts {
        let known = self.known.load(Ordering::Acquire);
        let known = Counter::ALL.into_iter().filter(|counter| known & (1 << *counter as u8) != 0);
        known.fold(Counts::default(), |counts, counter| {
            counts.with(counter, self.sums[counter as usize].load(Ordering::Relaxed))
        })
    }
}
