//! The reduction: what each runner keeps, and how the results of all become one.
//!
//! A runner folds whatever portions it gets into one accumulator; accumulators are handed on from runner to runner, so
//! there are no more of them than workers, and they are joined at the end in no certain order.
//!
//! Invariants: no lock is held while foreign code runs; each result is joined once.
//!
//! # Limits
//! The places where operands are split depend on timing, so an operator that is associative only nearly (adding
//! floating point numbers) gives results that differ in the last digits from run to run.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.3.7.

use std::time::Instant;

use parking_lot::Mutex;

use super::Loop;
use super::engine::Visit;
use super::piles::LoopPiece;
use crate::panics;
use crate::{Affinity, TaskError};

/// Joins that take so long are worth being run as tasks.
const HEAVY_JOIN_NS: u128 = 50_000;

/// A reduction that may join in any order.
pub(super) struct Reduction<R, I, F> {
    pub(super) identity: I,
    pub(super) fold: F,
    /// Accumulators that no runner has at the moment.
    pub(super) spare: Mutex<Vec<R>>,
}

impl<P, R, I, F> Visit<P> for Reduction<R, I, F>
where
    P: LoopPiece,
    R: Send,
    I: Fn() -> R + Sync,
    F: Fn(R, P) -> R + Sync,
{
    /// Taken while it is folded into: a fold that panics leaves none.
    type State = Option<R>;

    fn begin(&self) -> Option<R> {
        let spare = self.spare.lock().pop();
        Some(spare.unwrap_or_else(&self.identity))
    }

    fn visit(&self, state: &mut Option<R>, piece: P) {
        *state = state.take().map(|accumulator| (self.fold)(accumulator, piece));
    }

    fn end(&self, state: Option<R>) {
        self.spare.lock().extend(state);
    }
}

/// Joins two and two until one result is left; `None` of none. Joins that take long become tasks.
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
        let left = results[2 * pair].lock().take();
        let right = results[2 * pair + 1].lock().take();
        if let (Some(left), Some(right)) = (left, right) {
            let joined = join(left, right);
            *results[2 * pair].lock() = Some(joined);
        }
    })?;
    Ok(results.into_iter().filter_map(Mutex::into_inner).collect())
}
