//! The two reductions: what each runner keeps, and how the results of all become one.
//!
//! - *Commutative*: a runner folds whatever portions it gets into one accumulator; accumulators are handed on from runner to
//!   runner, so there are no more of them than workers, and they are joined at the end in no certain order.
//! - *Ordered*: a runner folds a portion at a time; results that lie side by side are joined, the left one first. Joining
//!   begins while the loop runs, but only between results of similar weight, so that joins that copy (appending vectors)
//!   cost as much as in a balanced tree.
//!
//! Invariants: no lock is held while foreign code runs; each result is joined once.
//!
//! # Limits
//! The places where operands are split depend on timing, so an operator that is associative only nearly (adding floating
//! point numbers) gives results that differ in the last digits from run to run.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.3.7; its chapter 6 names non-commutative joins as future work.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use parking_lot::Mutex;

use super::engine::Visit;
use super::piles::LoopPiece;
use super::{FirstError, Loop};
use crate::panics;
use crate::{Affinity, TaskError};

/// Joins that take so long are worth being run as tasks.
const HEAVY_JOIN_NS: u128 = 50_000;

/// A reduction that may join in any order.
pub(super) struct Commutative<'a, R, E, I, F> {
    pub(super) identity: I,
    pub(super) fold: F,
    /// Accumulators that no runner has at the moment.
    pub(super) spare: Mutex<Vec<R>>,
    pub(super) error: &'a FirstError<E>,
}

impl<P, R, E, I, F> Visit<P> for Commutative<'_, R, E, I, F>
where
    P: LoopPiece,
    R: Send,
    E: Send,
    I: Fn() -> R + Sync,
    F: Fn(R, P) -> Result<R, E> + Sync,
{
    type State = Option<R>;

    fn begin(&self) -> Option<R> {
        let spare = self.spare.lock().pop();
        Some(spare.unwrap_or_else(&self.identity))
    }

    fn visit(&self, state: &mut Option<R>, piece: P) -> ControlFlow<()> {
        let Some(accumulator) = state.take() else { return ControlFlow::Break(()) };
        let start = piece.start();
        match (self.fold)(accumulator, piece) {
            Ok(accumulator) => {
                *state = Some(accumulator);
                ControlFlow::Continue(())
            }
            Err(error) => self.error.note(start, error),
        }
    }

    fn end(&self, state: Option<R>) {
        self.spare.lock().extend(state);
    }
}

/// A reduction that joins neighbours only, the left one first.
pub(super) struct Ordered<'a, R, E, I, F, J> {
    pub(super) identity: I,
    pub(super) fold: F,
    pub(super) join: J,
    pub(super) parts: Mutex<Parts<R>>,
    pub(super) error: &'a FirstError<E>,
}

/// Results by their first element.
pub(super) type Parts<R> = BTreeMap<usize, OrderedPart<R>>;

/// The result of the elements from one to another.
pub(super) struct OrderedPart<R> {
    end: usize,
    /// How many portions it is the result of.
    weight: usize,
    pub(super) value: R,
}

impl<P, R, E, I, F, J> Visit<P> for Ordered<'_, R, E, I, F, J>
where
    P: LoopPiece,
    R: Send,
    E: Send,
    I: Fn() -> R + Sync,
    F: Fn(R, P) -> Result<R, E> + Sync,
    J: Fn(R, R) -> R + Sync,
{
    /// First element, end, result so far.
    type State = Option<(usize, usize, R)>;

    fn begin(&self) -> Self::State {
        None
    }

    fn visit(&self, state: &mut Self::State, piece: P) -> ControlFlow<()> {
        let (at, end) = (piece.start(), piece.start() + piece.elements());
        let (start, accumulator) = match state.take() {
            Some((start, before, accumulator)) => {
                debug_assert_eq!(before, at, "a portion's calls follow each other");
                (start, accumulator)
            }
            None => (at, (self.identity)()),
        };
        match (self.fold)(accumulator, piece) {
            Ok(accumulator) => {
                *state = Some((start, end, accumulator));
                ControlFlow::Continue(())
            }
            Err(error) => self.error.note(at, error),
        }
    }

    fn portion_done(&self, state: &mut Self::State) {
        if let Some((start, end, value)) = state.take() {
            self.add(start, OrderedPart { end, weight: 1, value });
        }
    }
}

impl<R, E, I, F, J: Fn(R, R) -> R> Ordered<'_, R, E, I, F, J> {
    /// Adds a result, joined with neighbours as long as one is not much heavier than it.
    fn add(&self, mut start: usize, mut part: OrderedPart<R>) {
        loop {
            let mut parts = self.parts.lock();
            let light = |weight: usize| weight <= part.weight.saturating_mul(2);
            let left = parts.range(..start).next_back().filter(|(_, left)| left.end == start && light(left.weight));
            if let Some(at) = left.map(|(at, _)| *at) {
                let left = parts.remove(&at).expect("it was found under the same lock");
                drop(parts);
                start = at;
                part = self.joined(left, part);
            } else if parts.get(&part.end).is_some_and(|right| light(right.weight)) {
                let right = parts.remove(&part.end).expect("it was found under the same lock");
                drop(parts);
                part = self.joined(part, right);
            } else {
                parts.insert(start, part);
                return;
            }
        }
    }

    fn joined(&self, left: OrderedPart<R>, right: OrderedPart<R>) -> OrderedPart<R> {
        OrderedPart { end: right.end, weight: left.weight + right.weight, value: (self.join)(left.value, right.value) }
    }
}

/// Joins neighbours, the left one first, until one result is left; `None` of none. Joins that take long become tasks.
pub(super) fn join_all<R: Send>(
    how: &Loop<'_>,
    mut results: Vec<R>,
    join: &(impl Fn(R, R) -> R + Sync),
) -> Result<Option<R>, TaskError> {
    let mut heavy = false;
    while results.len() > 1 {
        how.statement.check().map_err(|_| TaskError::Cancelled)?;
        if heavy && results.len() > 3 {
            results = join_level(how, results, join)?;
            continue;
        }
        let began = Instant::now();
        let joins = (results.len() / 2) as u128;
        results = panics::caught(|| pairwise(results, join)).map_err(|text| {
            how.statement.fail(text.clone());
            TaskError::Panicked(text)
        })?;
        heavy = began.elapsed().as_nanos() / joins >= HEAVY_JOIN_NS;
    }
    Ok(results.pop())
}

fn pairwise<R>(results: Vec<R>, join: &impl Fn(R, R) -> R) -> Vec<R> {
    let mut joined = Vec::with_capacity(results.len().div_ceil(2));
    let mut results = results.into_iter();
    while let Some(left) = results.next() {
        joined.push(match results.next() {
            Some(right) => join(left, right),
            None => left,
        });
    }
    joined
}

/// As [`pairwise`], a task per pair.
fn join_level<R: Send>(
    how: &Loop<'_>,
    results: Vec<R>,
    join: &(impl Fn(R, R) -> R + Sync),
) -> Result<Vec<R>, TaskError> {
    let results: Vec<Mutex<Option<R>>> = results.into_iter().map(|result| Mutex::new(Some(result))).collect();
    how.workers.run(how.statement, results.len() / 2, &|_| Affinity::Anywhere, &|pair| {
        let (left, right) = (results[2 * pair].lock().take(), results[2 * pair + 1].lock().take());
        if let (Some(left), Some(right)) = (left, right) {
            let joined = join(left, right);
            *results[2 * pair].lock() = Some(joined);
        }
    })?;
    Ok(results.into_iter().filter_map(Mutex::into_inner).collect())
}
