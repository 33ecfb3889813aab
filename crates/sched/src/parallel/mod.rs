//! Loops and reductions that run next to the memory they read: NBB's building blocks on this crate's scheduler.
//!
//! A [`Loop`] says how to run: on which workers, for which statement, with which [`Grain`] and [`PolicyHint`]. It runs
//! a body over a [`Span`]: a range of numbers, or a [`StripedArray`] whose pages a [`StripingPartitioner`] dealt to the
//! nodes. The body gets one stretch of indices per call.
//!
//! ```
//! use numa::{Budget, Topology};
//! use sched::parallel::Loop;
//! use sched::{Config, Scheduler, Statement};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scheduler = Scheduler::new(Topology::discover()?.into(), Config::default());
//! let statement = Statement::new(1, Budget::unlimited());
//! let how = Loop::new(&scheduler, &statement);
//!
//! // A loop: squares, written in place. There is no grain to choose, it is measured as the loop runs.
//! let mut squares = vec![0u64; 100_000];
//! how.parallel_for_mut(&mut squares, |start, items| {
//!     for (i, item) in (start..).zip(items) {
//!         *item = (i * i) as u64;
//!     }
//! })?;
//! assert_eq!(squares[99_999], 99_999 * 99_999);
//!
//! // A reduction: what to begin with, how to add a stretch to a result, how to join two results.
//! let sum = how.parallel_reduce(
//!     0..squares.len(),
//!     || 0,
//!     |sum, range| sum + squares[range].iter().sum::<u64>(),
//!     |a, b| a + b,
//! )?;
//! assert_eq!(sum, squares.iter().sum::<u64>());
//! # Ok(())
//! # }
//! ```
//!
//! Loops may be nested, and run inside tasks: a worker that waits for its loop works on it. A loop stops with its
//! statement (cancelled, past its deadline, failed); a panic in a body fails the statement and comes back as an error,
//! as with [`Scheduler::parallel_for`](crate::Scheduler::parallel_for), on which everything here is built.
//!
//! Invariants: a body is called for every index once, unless the statement stops; it may borrow, since no call outlives
//! the loop; a loop gives way to more urgent tasks about every half millisecond.
//!
//! # Limits
//! Spans have one dimension. `docs/design/parallel.md` tells how it works and what it costs.
//!
//! Source: Seidel 2011, NUMA Building Blocks, chapter 3; adaptive grains are what its chapter 6 leaves as future work.

mod array;
pub mod bench;
mod engine;
mod grain;
mod hint;
mod piles;
mod reduce;
mod span;
mod stripes;
#[cfg(test)]
mod tests;
mod workers;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

pub use array::{ArrayError, StripedArray};
pub use grain::Grain;
pub use hint::{Bound, Os, PolicyHint, Target};
pub use span::{PiecesMut, Span, SpanMut};
pub use stripes::StripingPartitioner;
pub use workers::Workers;

use crate::{Statement, TaskError};
use engine::{Visit, run};
use piles::{Items, LoopPiece, Pile};
use reduce::{Reduction, join_all};

/// How to run loops: on whose workers, for which statement, with which grain and hint. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Loop<'a> {
    workers: &'a dyn Workers,
    statement: &'a Arc<Statement>,
    grain: Grain,
    hint: &'a dyn PolicyHint,
}

impl<'a> Loop<'a> {
    /// Loops of `statement` on these workers (a [`Scheduler`](crate::Scheduler), or [`Inline`](crate::Inline) to follow
    /// a program in a debugger), with an adaptive grain, next to their memory where it is known.
    pub fn new(workers: &'a dyn Workers, statement: &'a Arc<Statement>) -> Loop<'a> {
        Loop { workers, statement, grain: Grain::Adaptive, hint: &Target }
    }

    /// The same with another grain: how many elements a body gets per call.
    #[must_use]
    pub fn grain(self, grain: Grain) -> Loop<'a> {
        Loop { grain, ..self }
    }

    /// The same with another policy hint: which workers may run what.
    #[must_use]
    pub fn hint(self, hint: &'a dyn PolicyHint) -> Loop<'a> {
        Loop { hint, ..self }
    }

    /// Calls `body` for ranges that together are the span, at the same time and in any order, and returns when no call
    /// runs any more.
    ///
    /// ```
    /// # use numa::{Budget, Topology};
    /// # use sched::{Config, Scheduler, Statement};
    /// # use sched::parallel::Loop;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// # let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
    /// # let statement = Statement::new(1, Budget::unlimited());
    /// let primes = AtomicUsize::new(0);
    /// Loop::new(&scheduler, &statement).parallel_for(2..10_000, |range| {
    ///     let found = range.filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count();
    ///     primes.fetch_add(found, Ordering::Relaxed);
    /// })?;
    /// assert_eq!(primes.into_inner(), 1229);
    /// # Ok::<(), sched::TaskError>(())
    /// ```
    ///
    /// # Errors
    /// [`TaskError::Panicked`] when a call panicked (the statement has then failed), [`TaskError::Cancelled`] when the
    /// statement stopped before all was done.
    pub fn parallel_for(&self, span: impl Span, body: impl Fn(Range<usize>) + Sync) -> Result<(), TaskError> {
        let fixed = self.grain.fixed(span.element_bytes());
        self.visit_all(fixed, span.pieces(self.workers), &Calls(body))
    }

    /// Calls `body` for stretches of `items`, each with the index of its first element. They are disjoint, so calls
    /// write to them without a lock.
    ///
    /// ```
    /// # use numa::{Budget, Topology};
    /// # use sched::{Config, Scheduler, Statement};
    /// # use sched::parallel::Loop;
    /// # let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
    /// # let statement = Statement::new(1, Budget::unlimited());
    /// let (a, b) = (vec![1.0; 5000], vec![2.0; 5000]);
    /// let mut sums = vec![0.0; 5000];
    /// Loop::new(&scheduler, &statement).parallel_for_mut(&mut sums, |start, sums| {
    ///     let range = start..start + sums.len();
    ///     for (sum, (a, b)) in sums.iter_mut().zip(a[range.clone()].iter().zip(&b[range])) {
    ///         *sum = a + b;
    ///     }
    /// })?;
    /// assert!(sums.iter().all(|sum| *sum == 3.0));
    /// # Ok::<(), sched::TaskError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Loop::parallel_for`].
    pub fn parallel_for_mut<'b, S: SpanMut<'b>>(
        &self,
        items: S,
        body: impl Fn(usize, &mut [S::Item]) + Sync,
    ) -> Result<(), TaskError> {
        let pieces = items.pieces_mut(self.workers);
        let pieces = pieces.into_iter().map(|(node, start, items)| (node, Items { start, items })).collect();
        let calls = Calls(|piece: Items<'b, S::Item>| body(piece.start, piece.items));
        self.visit_all(self.grain.fixed(size_of::<S::Item>()), pieces, &calls)
    }

    /// Reduces a span to one result. Each worker begins with `identity()`, `fold`s one stretch after the other into
    /// what it has, in any order, and the workers' results are `join`ed in any order. So `join` must be associative and
    /// commutative and `identity()` its neutral element.
    ///
    /// ```
    /// # use numa::{Budget, Topology};
    /// # use sched::{Config, Scheduler, Statement};
    /// # use sched::parallel::Loop;
    /// # let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
    /// # let statement = Statement::new(1, Budget::unlimited());
    /// let values: Vec<i32> = (0..50_000).map(|i| (i * 7919) % 50_021).collect();
    /// let largest = Loop::new(&scheduler, &statement).parallel_reduce(
    ///     0..values.len(),
    ///     || i32::MIN,
    ///     |largest, range| values[range].iter().copied().fold(largest, i32::max),
    ///     i32::max,
    /// )?;
    /// assert_eq!(Some(largest), values.iter().copied().max());
    /// # Ok::<(), sched::TaskError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Loop::parallel_for`]; a panic in `identity` or `join` counts as one in the body.
    pub fn parallel_reduce<R: Send>(
        &self,
        span: impl Span,
        identity: impl Fn() -> R + Sync,
        fold: impl Fn(R, Range<usize>) -> R + Sync,
        join: impl Fn(R, R) -> R + Sync,
    ) -> Result<R, TaskError> {
        let reduction = Reduction { identity, fold, spare: Mutex::new(Vec::new()) };
        let fixed = self.grain.fixed(span.element_bytes());
        self.visit_all(fixed, span.pieces(self.workers), &reduction)?;
        let Reduction { identity, spare, .. } = reduction;
        match join_all(self, spare.into_inner(), &join)? {
            Some(result) => Ok(result),
            None => crate::panics::caught(identity).map_err(|text| {
                self.statement.fail(text.clone());
                TaskError::Panicked(text)
            }),
        }
    }

    fn visit_all<P: LoopPiece>(
        &self,
        fixed_grain: Option<usize>,
        pieces: Vec<(Option<numa::NodeId>, P)>,
        visit: &impl Visit<P>,
    ) -> Result<(), TaskError> {
        run(self, fixed_grain, &Pile::by_hint(pieces, self.hint, self.workers), visit)
    }
}

impl fmt::Debug for Loop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("statement", &self.statement).field("grain", &self.grain).finish_non_exhaustive()
    }
}

/// A loop without a result.
struct Calls<F>(F);

impl<P: LoopPiece, F: Fn(P) + Sync> Visit<P> for Calls<F> {
    type State = ();

    fn begin(&self) {}

    fn visit(&self, _state: &mut (), piece: P) {
        (self.0)(piece);
    }
}
