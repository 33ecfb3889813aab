//! The probe's only source of time, so that what it computes from times can be tested with made-up ones.

use std::time::{Duration, Instant};

/// Tells the time since some fixed moment; never goes back.
pub trait Clock: Sync {
    /// The time since that moment.
    fn now(&self) -> Duration;
}

/// The monotonic clock of the system, counted from when this value was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at zero.
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves on by the same step every time it is asked.
#[cfg(test)]
pub(super) struct Ticks {
    step: Duration,
    asked: std::sync::atomic::AtomicU32,
}

#[cfg(test)]
impl Ticks {
    pub(super) fn of(step: Duration) -> Ticks {
        Ticks { step, asked: std::sync::atomic::AtomicU32::new(0) }
    }
}

#[cfg(test)]
impl Clock for Ticks {
    fn now(&self) -> Duration {
        self.step * self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}
