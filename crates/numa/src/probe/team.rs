//! Threads that are pinned, start together and count what they do in windows of time.
//!
//! Invariants: each window starts for all when the first thread that was let go looks at the clock, and ends for all at
//! the same time, so a thread that comes late, because its cpu was busy, makes the sum smaller; were each to have a
//! window of its own, threads that took turns would seem to run side by side. A thread that could not be started is
//! told and waited for by nobody.

use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, PoisonError};
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
    /// When it began with them.
    pub(super) begin: Duration,
    /// When it was done.
    pub(super) end: Duration,
}

impl Tally {
    /// Nanoseconds of this thread's own time per unit of the amount.
    pub(super) fn ns_per_unit(self) -> f64 {
        self.end.saturating_sub(self.begin).as_secs_f64() * 1e9 / self.amount.max(1) as f64
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
    /// What all threads did in a second, for each window: from the begin of the first to the end of the last.
    pub(super) fn rates(&self) -> Vec<f64> {
        rates(&self.threads)
    }
}

/// See [`Tallies::rates`].
pub(super) fn rates(threads: &[Vec<Tally>]) -> Vec<f64> {
    let windows = threads.iter().map(Vec::len).min().unwrap_or(0);
    let rate = |w: usize| {
        let tallies = || threads.iter().map(|t| t[w]);
        let amount: u64 = tallies().map(|t| t.amount).sum();
        let begin = tallies().map(|t| t.begin).min().unwrap_or_default();
        let end = tallies().map(|t| t.end).max().unwrap_or_default();
        let seconds = end.saturating_sub(begin).as_secs_f64();
        if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
    };
    (0..windows).map(rate).collect()
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
    let starts: Vec<OnceLock<Duration>> = (0..timing.windows).map(|_| OnceLock::new()).collect();
    let body = |cpu: CpuId, state: &mut S| {
        let pinned = pin_current_thread(&[cpu]);
        let barrier = gate.wait();
        let mut tallies = Vec::with_capacity(starts.len());
        for start in &starts {
            barrier.wait();
            tallies.push(window(start, timing.window, clock, || step(state)));
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

/// Repeats `step` until the window that began at `start` is over, at least once.
fn window(start: &OnceLock<Duration>, length: Duration, clock: &dyn Clock, mut step: impl FnMut() -> u64) -> Tally {
    let begin = clock.now();
    let over = *start.get_or_init(|| begin) + length;
    let mut amount = 0;
    loop {
        amount += step();
        let end = clock.now();
        if end >= over {
            return Tally { amount, begin, end };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{SystemClock, Ticks};
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_window_counts_what_is_done_until_its_time_is_over() {
        let clock = Ticks::of(MS(2));
        let tally = window(&OnceLock::new(), MS(5), &clock, || 10);
        assert_eq!(tally, Tally { amount: 30, begin: MS(0), end: MS(6) });
        assert_eq!(tally.ns_per_unit(), 200_000.0);
        // Who comes late ends with the others: at 5 ms, though it begins at 8.
        let started = OnceLock::from(MS(0));
        assert_eq!(window(&started, MS(5), &clock, || 10), Tally { amount: 10, begin: MS(8), end: MS(10) });
    }

    #[test]
    fn threads_that_take_turns_do_not_seem_to_run_side_by_side() {
        let tally = |amount, begin, end| Tally { amount, begin: MS(begin), end: MS(end) };
        let together = vec![vec![tally(20, 0, 2000)], vec![tally(20, 0, 2000)]];
        let in_turn = vec![vec![tally(20, 0, 2000)], vec![tally(20, 2000, 4000)]];
        assert_eq!((rates(&together), rates(&in_turn)), (vec![20.0], vec![10.0]));
        assert_eq!(rates(&[vec![tally(5, 3, 3)]]), [0.0]);
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
            assert!(windows.iter().all(|t| t.amount > 0 && t.end >= t.begin));
        }
    }
}
