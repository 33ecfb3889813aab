//! Threads that are pinned, start together and count what they do in windows of time.
//!
//! Invariants: each window starts when all threads are there; a thread's rate is its own amount by its own time, so a
//! thread that was held up lowers its rate and not that of the others; a thread that could not be started is told and
//! waited for by nobody.

use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use crate::ids::CpuId;
use crate::process::pin_current_thread;

/// How often and how long is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    /// Repetitions.
    pub(super) windows: u32,
    /// The least time of each.
    pub(super) window: Duration,
}

/// What one thread did in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Bytes or steps.
    pub(super) amount: u64,
    /// How long it took.
    pub(super) elapsed: Duration,
}

impl Tally {
    /// Amount per second; 0 where no time passed.
    pub(super) fn rate(self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.amount as f64 / seconds } else { 0.0 }
    }

    /// Nanoseconds per unit of the amount.
    pub(super) fn ns_per_unit(self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.amount.max(1) as f64
    }
}

/// What a team did.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    /// For each thread that ran, in the order of its cpu, its windows.
    pub(super) threads: Vec<Vec<Tally>>,
    /// Threads that the kernel would not pin.
    pub(super) unpinned: usize,
    /// Threads that could not be started.
    pub(super) missing: usize,
}

impl Tallies {
    /// The threads' rates added up, for each window.
    pub(super) fn rates(&self) -> Vec<f64> {
        let windows = self.threads.iter().map(Vec::len).min().unwrap_or(0);
        (0..windows).map(|w| self.threads.iter().map(|t| t[w].rate()).sum()).collect()
    }
}

/// Where threads wait until it is known how many there are.
#[derive(Default)]
struct Gate {
    barrier: Mutex<Option<Arc<Barrier>>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, threads: usize) {
        *self.barrier.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Barrier::new(threads)));
        self.opened.notify_all();
    }

    fn wait(&self) -> Arc<Barrier> {
        let mut barrier = self.barrier.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*barrier {
                Some(barrier) => return Arc::clone(barrier),
                None => barrier = self.opened.wait(barrier).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Runs a thread pinned to each cpu, as far as there are states, and lets each repeat `step` on its state until the
/// window is over, for each window. A step gives what it did; it should take well under a window.
pub(super) fn run<S: Send>(
    cpus: &[CpuId],
    states: &mut [S],
    timing: Timing,
    clock: &dyn Clock,
    step: impl Fn(&mut S) -> u64 + Sync,
) -> Tallies {
    let gate = Gate::default();
    let body = |cpu: CpuId, state: &mut S| {
        let pinned = pin_current_thread(&[cpu]);
        let barrier = gate.wait();
        let mut tallies = Vec::with_capacity(timing.windows as usize);
        for _ in 0..timing.windows {
            barrier.wait();
            tallies.push(window(timing.window, clock, || step(state)));
        }
        (pinned, tallies)
    };
    let body = &body;
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .zip(states)
            .map(|(cpu, state)| std::thread::Builder::new().spawn_scoped(scope, move || body(*cpu, state)))
            .collect();
        let wanted = threads.len();
        let started: Vec<_> = threads.into_iter().flatten().collect();
        gate.open(started.len());
        let mut result = Tallies { missing: wanted - started.len(), ..Tallies::default() };
        for thread in started {
            // A step that panics is a fault of ours; the others would wait for it for ever, so it is not caught.
            let Ok((pinned, tallies)) = thread.join() else { unreachable!("a probe thread panicked") };
            result.unpinned += usize::from(!pinned);
            result.threads.push(tallies);
        }
        result
    })
}

/// Repeats `step` until the time is over, at least once.
fn window(length: Duration, clock: &dyn Clock, mut step: impl FnMut() -> u64) -> Tally {
    let start = clock.now();
    let mut amount = 0;
    loop {
        amount += step();
        let elapsed = clock.now().saturating_sub(start);
        if elapsed >= length {
            return Tally { amount, elapsed };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{SystemClock, Ticks};
    use super::*;

    #[test]
    fn a_window_counts_what_is_done_until_its_time_is_over() {
        let clock = Ticks::of(Duration::from_millis(2));
        let tally = window(Duration::from_millis(5), &clock, || 10);
        assert_eq!(tally, Tally { amount: 30, elapsed: Duration::from_millis(6) });
        assert_eq!(tally.rate(), 5000.0);
        assert_eq!(tally.ns_per_unit(), 200_000.0);
        assert_eq!(Tally::default().rate(), 0.0);
    }

    #[test]
    fn rates_of_threads_add_up_by_window() {
        let tally = |amount| Tally { amount, elapsed: Duration::from_secs(2) };
        let threads = vec![vec![tally(2), tally(4)], vec![tally(6), tally(8)]];
        assert_eq!(Tallies { threads, ..Tallies::default() }.rates(), [4.0, 6.0]);
        assert!(Tallies::default().rates().is_empty());
    }

    #[test]
    fn every_thread_has_its_state_and_all_windows() {
        let cpus = [CpuId(0), CpuId(0), CpuId(0)];
        let mut states = [0u64, 100, 200];
        let timing = Timing { windows: 3, window: Duration::from_micros(50) };
        let result = run(&cpus, &mut states, timing, &SystemClock::new(), |state| {
            *state += 1;
            1
        });
        assert_eq!((result.threads.len(), result.missing), (3, 0));
        for (i, (windows, state)) in result.threads.iter().zip(states).enumerate() {
            assert_eq!(windows.len(), 3);
            assert_eq!(windows.iter().map(|t| t.amount).sum::<u64>(), state - 100 * i as u64);
            assert!(windows.iter().all(|t| t.amount > 0 && t.elapsed >= timing.window));
        }
    }
}
