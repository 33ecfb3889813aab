//! How a loop runs: rounds of tasks, each of which takes portions off its pile until there are none or its time is up.
//!
//! A round gives each pile a few *runners* per worker. A runner ends after [`RUNNER_NS`] even if there is more, so that
//! the scheduler gets a chance to put something more urgent in between; another one, queued already, goes on. When a
//! round was too short, the next one has as many runners as the speed measured so far asks for.
//!
//! Invariants: every element is visited once, unless the statement stops; no lock is held while the body
//! runs; the loop returns only after the last call of the body did.
//!
//! A worker whose portion takes much longer than expected, while others have found their pile empty, splits the rest of
//! it into a loop of its own, which wakes them again. So skew inside a portion is shared too, and nobody pays for
//! splitting as long as nobody is hungry.
//!
//! # Limits
//! One call of the body is never split; with an adaptive grain it is a quarter of a portion.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.3.2 and 3.3.6.

use std::time::Instant;

use parking_lot::Mutex;

use super::Loop;
use super::grain::{PORTION_NS, Pace, SharedPace};
use super::piles::{LoopPiece, Pile};
use crate::TaskError;

/// After this time a runner ends, between two portions.
const RUNNER_NS: u64 = 500_000;
/// Runners per worker in the first round of a loop.
const FIRST_RUNNERS: u64 = 8;
/// The most runners per worker in a round: half a second of work.
const RUNNERS_MAX: u64 = 1_000;
/// After so long a portion's calls are watched one by one, and its rest is split if it is worth another portion.
const OVERDUE_NS: u64 = 2 * PORTION_NS;

/// What a loop does with its elements. A state belongs to one runner.
pub(super) trait Visit<P>: Sync {
    type State;
    fn begin(&self) -> Self::State;
    /// Visits the elements of a piece.
    fn visit(&self, state: &mut Self::State, piece: P);
    fn end(&self, _state: Self::State) {}
}

/// Visits all elements of the piles.
pub(super) fn run<P: LoopPiece, V: Visit<P>>(
    how: &Loop<'_>,
    fixed_grain: Option<usize>,
    piles: &[Pile<P>],
    visit: &V,
) -> Result<(), TaskError> {
    if how.statement.is_cancelled() {
        return Err(TaskError::Cancelled);
    }
    let engine = Engine { how, visit, pace: SharedPace::new(fixed_grain), split_failed: Mutex::new(None) };
    let ran = engine.rounds(piles);
    // A panic in a split reaches its worker as an error and stops the statement; the caller shall hear the panic.
    match (ran, engine.split_failed.into_inner()) {
        (Err(TaskError::Cancelled), Some(error)) => Err(error),
        (Err(error), _) | (Ok(()), Some(error)) => Err(error),
        (Ok(()), None) => Ok(()),
    }
}

struct Engine<'a, V> {
    how: &'a Loop<'a>,
    visit: &'a V,
    pace: SharedPace,
    /// Why the loop of a split portion failed.
    split_failed: Mutex<Option<TaskError>>,
}

impl<V> Engine<'_, V> {
    fn rounds<P: LoopPiece>(&self, piles: &[Pile<P>]) -> Result<(), TaskError>
    where
        V: Visit<P>,
    {
        let mut first = true;
        while piles.iter().any(|pile| pile.left() > 0) {
            let runners = self.runners(piles, std::mem::replace(&mut first, false));
            let affinity = |task: usize| {
                let (pile, number) = runners[task];
                piles[pile].runners[number]
            };
            self.how.workers.run(self.how.statement, runners.len(), &affinity, &|task| {
                self.runner(&piles[runners[task].0]);
            })?;
        }
        Ok(())
    }

    /// The pile of each task of a round, and which of the pile's affinities it has.
    fn runners<P: LoopPiece>(&self, piles: &[Pile<P>], first: bool) -> Vec<(usize, usize)> {
        let pace = self.pace.get();
        let mut runners = Vec::new();
        for (pile, of) in piles.iter().enumerate().filter(|(_, pile)| pile.left() > 0) {
            let workers = of.runners.len();
            let per_worker = if first {
                FIRST_RUNNERS
            } else {
                // A quarter more, since workers differ and portions end late.
                let each_ns = pace.estimate_ns(of.left()) / workers as u64;
                (each_ns / RUNNER_NS / 4 * 5 + FIRST_RUNNERS).min(RUNNERS_MAX)
            };
            // No more than there are elements, but each affinity once: an element may be for a certain slot.
            let count = usize::try_from(per_worker).unwrap_or(usize::MAX).saturating_mul(workers);
            let count = count.min(of.left().max(workers));
            runners.extend((0..count).map(|number| (pile, number % workers)));
        }
        runners
    }

    fn runner<P: LoopPiece>(&self, pile: &Pile<P>)
    where
        V: Visit<P>,
    {
        let mut state = None;
        let mut pace = self.pace.get();
        let began = Instant::now();
        let mut now = began;
        while !self.stops() {
            let Some(portion) = pile.take(|left| pace.portion(left, pile.runners.len())) else { break };
            let state = state.get_or_insert_with(|| self.visit.begin());
            now = self.portion(pile, portion, &mut pace, state, now);
            if ns_between(began, now) >= RUNNER_NS {
                break;
            }
        }
        if let Some(state) = state {
            self.visit.end(state);
        }
    }

    /// Visits a portion call by call and returns when it ended.
    fn portion<P: LoopPiece>(
        &self,
        pile: &Pile<P>,
        portion: P,
        pace: &mut Pace,
        state: &mut V::State,
        began: Instant,
    ) -> Instant
    where
        V: Visit<P>,
    {
        let call = pace.call(portion.elements());
        let mut rest = Some(portion);
        let mut calls = 0;
        let mut done = 0;
        // When the portion was seen to be overdue: the call since then tells whether its elements are slow, or its
        // thread was interrupted.
        let mut overdue: Option<Instant> = None;
        while let Some(whole) = rest.take() {
            let (piece, after) = if whole.elements() <= call {
                (whole, None)
            } else {
                let (piece, after) = whole.split(call);
                (piece, Some(after))
            };
            (calls, done) = (calls + 1, done + piece.elements());
            self.visit.visit(state, piece);
            let Some(after) = after else { break };
            if self.stops() {
                return Instant::now();
            }
            if overdue.is_some() || pace.looks_at_clock(calls, call) {
                let now = Instant::now();
                let call_ns = overdue.map_or(0, |since| ns_between(since, now));
                let rest_ns = call_ns.saturating_mul(after.elements().div_ceil(call) as u64);
                if rest_ns > PORTION_NS && after.elements() > 1 && pile.left() == 0 && pile.somebody_starved() {
                    pace.observe(done, ns_between(began, now));
                    self.pace.set(*pace);
                    self.split(pile, after);
                    return Instant::now();
                }
                overdue = (ns_between(began, now) > OVERDUE_NS).then_some(now);
            }
            rest = Some(after);
        }
        let now = Instant::now();
        pace.observe(done, ns_between(began, now));
        self.pace.set(*pace);
        now
    }

    /// Makes a loop of its own of the rest of a portion.
    fn split<P: LoopPiece>(&self, pile: &Pile<P>, rest: P)
    where
        V: Visit<P>,
    {
        let rest = Pile::new(pile.runners.clone(), vec![rest]);
        if let Err(error) = self.rounds(std::slice::from_ref(&rest)) {
            let mut failed = self.split_failed.lock();
            if !matches!(*failed, Some(TaskError::Panicked(_))) {
                *failed = Some(error);
            }
        }
    }

    fn stops(&self) -> bool {
        self.how.statement.is_cancelled()
    }
}

fn ns_between(began: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(began).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use numa::Budget;

    use super::*;
    use crate::{Affinity, Inline, Statement};

    /// Counts elements and notes whether they were visited in a split, that is in another state.
    struct Slow(AtomicUsize);

    impl Visit<std::ops::Range<usize>> for Slow {
        type State = usize;
        fn begin(&self) -> usize {
            0
        }
        fn visit(&self, state: &mut usize, piece: std::ops::Range<usize>) {
            *state += piece.len();
            std::thread::sleep(Duration::from_millis(1));
        }
        fn end(&self, state: usize) {
            self.0.fetch_add(state, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_slow_portion_is_split_if_and_only_if_somebody_is_hungry() {
        for hungry in [false, true] {
            let inline = Inline::new();
            let statement = Statement::new(1, Budget::unlimited());
            let how = Loop::new(&inline, &statement);
            let visit = Slow(AtomicUsize::new(0));
            let pace = SharedPace::new(Some(1));
            let engine = Engine { how: &how, visit: &visit, pace, split_failed: Mutex::new(None) };
            let pile: Pile<std::ops::Range<usize>> = Pile::new(vec![Affinity::Anywhere], Vec::new());
            if hungry {
                assert!(pile.take(|left| left).is_none());
            }
            let mut pace = engine.pace.get();
            let mut own = 0;
            engine.portion(&pile, 0..50, &mut pace, &mut own, Instant::now());
            let split = visit.0.into_inner();
            assert_eq!(own + split, 50);
            assert_eq!(split > 0, hungry, "{own} elements visited before the split");
            assert!(own <= 3 || !hungry, "a call that makes it overdue, one that proves it, and one of grace: {own}");
        }
    }
}
