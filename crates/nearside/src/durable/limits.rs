//! How fast the background writes: see [`DiskLimits`].

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::catalog::journal::DiskLimits;

/// How long who waits sleeps before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(20);

/// The limits, and when the next bytes may be written.
#[derive(Debug, Default)]
pub(super) struct Limits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: DiskLimits,
    /// When what was let through so far is over at the rate that it was let through.
    busy_until: Option<Instant>,
}

impl Limits {
    pub(super) fn get(&self) -> DiskLimits {
        self.state.lock().limits
    }

    pub(super) fn set(&self, limits: DiskLimits) {
        self.state.lock().limits = limits;
    }

    /// Returns when these bytes may be written, or with `false` once `is_stopped` says so. All who write in the
    /// background share the limit.
    pub(super) fn wait(&self, bytes: u64, is_stopped: &(dyn Fn() -> bool + Sync)) -> bool {
        let from = self.state.lock().next(bytes, Instant::now());
        while let Some(left) = from.and_then(|from| from.checked_duration_since(Instant::now())) {
            if is_stopped() {
                return false;
            }
            std::thread::sleep(left.min(LOOK));
        }
        !is_stopped()
    }
}

impl State {
    /// When the next bytes may be written; `None`: at once.
    fn next(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let per_second = self.limits.background_bytes_per_s;
        if per_second == 0 {
            self.busy_until = None;
            return None;
        }
        let from = self.busy_until.map_or(now, |until| until.max(now));
        self.busy_until = Some(from + Duration::from_secs_f64(bytes as f64 / per_second as f64));
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_let_through_at_the_rate() {
        let limits = DiskLimits { background_bytes_per_s: 1000, ..DiskLimits::default() };
        let mut state = State { limits, busy_until: None };
        let now = Instant::now();
        let after = |ms| Some(now + Duration::from_millis(ms));
        assert_eq!(state.next(500, now), after(0));
        assert_eq!(state.next(0, now), after(500));
        assert_eq!(state.next(1000, now), after(500));
        // What was not used is not saved up.
        assert_eq!(state.next(100, now + Duration::from_secs(9)), after(9000));
        assert_eq!(state.next(100, now + Duration::from_secs(9)), after(9100));
        state.limits.background_bytes_per_s = 0;
        assert_eq!(state.next(1 << 40, now), None);
    }

    #[test]
    fn who_waits_is_stopped() {
        let limits = Limits::default();
        assert!(limits.wait(1 << 40, &|| false));
        limits.set(DiskLimits { background_bytes_per_s: 1, ..DiskLimits::default() });
        assert!(limits.wait(1 << 20, &|| false), "the first bytes go at once");
        let begun = Instant::now();
        assert!(!limits.wait(1, &|| begun.elapsed() > Duration::from_millis(30)));
    }
}
