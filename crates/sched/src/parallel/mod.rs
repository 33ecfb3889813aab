//! Loops and reductions that run next to the memory they read: NBB's building blocks on this crate's scheduler.
//!
//! A [`Loop`] says how to run: on which workers, for which statement, with which [`Grain`] and [`PolicyHint`]. It runs a body
//! over a [`Span`]: a range of numbers, or a [`StripedArray`] whose pages a [`StripingPartitioner`] dealt to the nodes. The
//! body gets one stretch of indices per call.
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
//! let sum = how.parallel_reduce(0..squares.len(), || 0, |sum, range| sum + squares[range].iter().sum::<u64>(), |a, b| a + b)?;
//! assert_eq!(sum, squares.iter().sum::<u64>());
//!
//! // An ordered reduction joins neighbours only, the left one first: what passes a filter, in order.
//! let even = how.parallel_reduce_ordered(
//!     0..squares.len(),
//!     Vec::new,
//!     |mut found, range| {
//!         found.extend(range.filter(|i| squares[*i] % 2 == 0));
//!         found
//!     },
//!     |mut left, mut right| {
//!         left.append(&mut right);
//!         left
//!     },
//! )?;
//! assert_eq!(even, (0..100_000).step_by(2).collect::<Vec<_>>());
//! # Ok(())
//! # }
//! ```
//!
//! A body that can fail stops the loop with its error:
//!
//! ```
//! # use numa::{Budget, Topology};
//! # use sched::{Config, Scheduler, Statement};
//! use std::num::ParseIntError;
//! use sched::parallel::{Loop, LoopError};
//!
//! # let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
//! # let statement = Statement::new(1, Budget::unlimited());
//! let words = ["7", "8", "nine", "10"];
//! let sum: Result<i32, LoopError<ParseIntError>> = Loop::new(&scheduler, &statement).try_parallel_reduce(
//!     0..words.len(),
//!     || 0,
//!     |sum, range| words[range].iter().try_fold(sum, |sum, word| Ok(sum + word.parse::<i32>()?)),
//!     |a, b| a + b,
//! );
//! match sum {
//!     Err(LoopError::Body(error)) => assert_eq!(error.to_string(), "invalid digit found in string"),
//!     other => panic!("{other:?}"),
//! }
//! ```
//!
//! Loops may be nested, and run inside tasks: a worker that waits for its loop works on it. A loop stops with its statement
//! (cancelled, past its deadline, failed); a panic in a body fails the statement and comes back as an error, as with
//! [`Scheduler::parallel_for`](crate::Scheduler::parallel_for), on which everything here is built.
//!
//! Invariants: a body is called for every index once, unless the loop stops early; it may borrow, since no call outlives
//! the loop; a loop gives way to more urgent tasks about every half millisecond.
//!
//! # Limits
//! Spans have one dimension. `docs/design/parallel.md` tells how it works and what it costs.
//!
//! Source: Seidel 2011, NUMA Building Blocks, chapter 3; adaptive grains and ordered reductions are what its chapter 6
//! leaves as future work.

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

use std::convert::Infallible;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use parking_lot::Mutex;

pub use array::{ArrayError, ArraySpan, StripedArray};
pub use grain::Grain;
pub use hint::{Bound, OnSlots, Os, PolicyHint, Target};
pub use span::{PiecesMut, Span, SpanMut};
pub use stripes::{Partitioned, StripingPartitioner};
pub use workers::Workers;

use crate::{Statement, TaskError};
use engine::{Ended, Visit, run};
use piles::{Items, LoopPiece, Pile};
use reduce::{Commutative, Ordered, Parts, join_all};

/// Why a loop whose body can fail did not visit everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopError<E> {
    /// A call of the body returned this. The statement goes on, if its owner lets it.
    Body(E),
    /// The statement stopped or a call panicked.
    Task(TaskError),
}

impl<E: fmt::Display> fmt::Display for LoopError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopError::Body(error) => error.fmt(f),
            LoopError::Task(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LoopError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoopError::Body(error) => Some(error),
            LoopError::Task(error) => Some(error),
        }
    }
}

/// How to run loops: on whose workers, for which statement, with which grain and hint. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Loop<'a> {
    workers: &'a dyn Workers,
    statement: &'a Arc<Statement>,
    grain: Grain,
    hint: &'a dyn PolicyHint,
}

impl<'a> Loop<'a> {
    /// Loops of `statement` on these workers (a [`Scheduler`](crate::Scheduler), or [`Inline`](crate::Inline) to follow a
    /// program in a debugger), with an adaptive grain, next to their memory where it is known.
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
        infallible(self.try_parallel_for(span, |range| {
            body(range);
            Ok(())
        }))
    }

    /// As [`Loop::parallel_for`], with a body that can fail: the first error stops the loop.
    ///
    /// # Errors
    /// [`LoopError::Body`] with the error of the lowest range among the calls that failed before the loop had stopped;
    /// [`LoopError::Task`] as with [`Loop::parallel_for`].
    pub fn try_parallel_for<E: Send>(
        &self,
        span: impl Span,
        body: impl Fn(Range<usize>) -> Result<(), E> + Sync,
    ) -> Result<(), LoopError<E>> {
        let fixed = self.grain.fixed(span.element_bytes());
        self.visit_all(fixed, span.pieces(self.workers), body)
    }

    /// Calls `body` for stretches of `items`, each with the index of its first element. They are disjoint, so calls write
    /// to them without a lock.
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
        infallible(self.try_parallel_for_mut(items, |start, items| {
            body(start, items);
            Ok(())
        }))
    }

    /// As [`Loop::parallel_for_mut`], with a body that can fail: the first error stops the loop.
    ///
    /// # Errors
    /// As [`Loop::try_parallel_for`].
    fn try_parallel_for_mut<'b, S: SpanMut<'b>, E: Send>(
        &self,
        items: S,
        body: impl Fn(usize, &mut [S::Item]) -> Result<(), E> + Sync,
    ) -> Result<(), LoopError<E>> {
        let pieces = items.pieces_mut(self.workers);
        let pieces = pieces.into_iter().map(|(node, start, items)| (node, Items { start, items })).collect();
        self.visit_all(self.grain.fixed(size_of::<S::Item>()), pieces, |piece| body(piece.start, piece.items))
    }

    /// Reduces a span to one result. Each worker begins with `identity()`, `fold`s one stretch after the other into what it
    /// has, in any order, and the workers' results are `join`ed in any order. So `join` must be associative and commutative
    /// and `identity()` its neutral element.
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
        infallible(self.try_parallel_reduce(span, identity, |result, range| Ok(fold(result, range)), join))
    }

    /// As [`Loop::parallel_reduce`], with a fold that can fail: the first error stops the loop.
    ///
    /// # Errors
    /// As [`Loop::try_parallel_for`].
    pub fn try_parallel_reduce<R: Send, E: Send>(
        &self,
        span: impl Span,
        identity: impl Fn() -> R + Sync,
        fold: impl Fn(R, Range<usize>) -> Result<R, E> + Sync,
        join: impl Fn(R, R) -> R + Sync,
    ) -> Result<R, LoopError<E>> {
        let error = FirstError::default();
        let reduction = Commutative { identity, fold, spare: Mutex::new(Vec::new()), error: &error };
        self.run_span(span, &reduction, &error)?;
        let Commutative { identity, spare, .. } = reduction;
        let joined = join_all(self, spare.into_inner(), &join).map_err(LoopError::Task)?;
        self.or_identity(joined, identity)
    }

    /// As [`Loop::parallel_reduce`], for joins whose operands must not change places (appending, composing, multiplying
    /// matrices): the result is that of one fold from the first index to the last, given that `join` is associative and
    /// `identity()` neutral.
    ///
    /// ```
    /// # use numa::{Budget, Topology};
    /// # use sched::{Config, Scheduler, Statement};
    /// # use sched::parallel::Loop;
    /// # let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
    /// # let statement = Statement::new(1, Budget::unlimited());
    /// let text = Loop::new(&scheduler, &statement).parallel_reduce_ordered(
    ///     0..26,
    ///     String::new,
    ///     |text, range| text + &range.map(|i| char::from(b'a' + i as u8)).collect::<String>(),
    ///     |left, right| left + &right,
    /// )?;
    /// assert_eq!(text, "abcdefghijklmnopqrstuvwxyz");
    /// # Ok::<(), sched::TaskError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Loop::parallel_reduce`].
    pub fn parallel_reduce_ordered<R: Send>(
        &self,
        span: impl Span,
        identity: impl Fn() -> R + Sync,
        fold: impl Fn(R, Range<usize>) -> R + Sync,
        join: impl Fn(R, R) -> R + Sync,
    ) -> Result<R, TaskError> {
        infallible(self.try_parallel_reduce_ordered(span, identity, |result, range| Ok(fold(result, range)), join))
    }

    /// As [`Loop::parallel_reduce_ordered`], with a fold that can fail: the first error stops the loop.
    ///
    /// # Errors
    /// As [`Loop::try_parallel_for`].
    pub fn try_parallel_reduce_ordered<R: Send, E: Send>(
        &self,
        span: impl Span,
        identity: impl Fn() -> R + Sync,
        fold: impl Fn(R, Range<usize>) -> Result<R, E> + Sync,
        join: impl Fn(R, R) -> R + Sync,
    ) -> Result<R, LoopError<E>> {
        let error = FirstError::default();
        let reduction = Ordered { identity, fold, join, parts: Mutex::new(Parts::new()), error: &error };
        self.run_span(span, &reduction, &error)?;
        let Ordered { identity, join, parts, .. } = reduction;
        let results = parts.into_inner().into_values().map(|part| part.value).collect();
        let joined = join_all(self, results, &join).map_err(LoopError::Task)?;
        self.or_identity(joined, identity)
    }

    fn visit_all<P: LoopPiece, E: Send>(
        &self,
        fixed_grain: Option<usize>,
        pieces: Vec<(Option<numa::NodeId>, P)>,
        body: impl Fn(P) -> Result<(), E> + Sync,
    ) -> Result<(), LoopError<E>> {
        let error = FirstError::default();
        let calls = Calls { body, error: &error };
        let piles = Pile::by_hint(pieces, self.hint, self.workers);
        error.outcome(run(self, fixed_grain, &piles, &calls))
    }

    fn run_span<E>(
        &self,
        span: impl Span,
        visit: &impl Visit<Range<usize>>,
        error: &FirstError<E>,
    ) -> Result<(), LoopError<E>> {
        let piles = Pile::by_hint(span.pieces(self.workers), self.hint, self.workers);
        error.outcome(run(self, self.grain.fixed(span.element_bytes()), &piles, visit))
    }

    fn or_identity<R, E>(&self, joined: Option<R>, identity: impl Fn() -> R) -> Result<R, LoopError<E>> {
        match joined {
            Some(result) => Ok(result),
            None => crate::panics::caught(identity).map_err(|text| {
                self.statement.fail(text.clone());
                LoopError::Task(TaskError::Panicked(text))
            }),
        }
    }
}

impl fmt::Debug for Loop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("statement", &self.statement).field("grain", &self.grain).finish_non_exhaustive()
    }
}

fn infallible<R>(result: Result<R, LoopError<Infallible>>) -> Result<R, TaskError> {
    result.map_err(|error| match error {
        LoopError::Body(never) => match never {},
        LoopError::Task(error) => error,
    })
}

/// The error of the lowest range among the calls that failed.
struct FirstError<E>(Mutex<Option<(usize, E)>>);

impl<E> Default for FirstError<E> {
    fn default() -> FirstError<E> {
        FirstError(Mutex::new(None))
    }
}

impl<E> FirstError<E> {
    /// Keeps the error of a range that begins at `start`, and says that the loop shall stop.
    fn note(&self, start: usize, error: E) -> ControlFlow<()> {
        let mut first = self.0.lock();
        let later = match first.as_ref() {
            Some((known, _)) if *known <= start => Some((start, error)),
            _ => first.replace((start, error)),
        };
        drop(first);
        // Dropping an error is foreign code: not under the lock.
        drop(later);
        ControlFlow::Break(())
    }

    fn outcome(&self, ended: Result<Ended, TaskError>) -> Result<(), LoopError<E>> {
        match (ended, self.0.lock().take()) {
            (Err(error @ TaskError::Panicked(_)), _) | (Err(error), None) => Err(LoopError::Task(error)),
            (_, Some((_, error))) => Err(LoopError::Body(error)),
            (Ok(ended), None) => {
                debug_assert_eq!(ended, Ended::All, "only an error stops a loop");
                Ok(())
            }
        }
    }
}

/// A loop without a result.
struct Calls<'a, E, F> {
    body: F,
    error: &'a FirstError<E>,
}

impl<P: LoopPiece, E: Send, F: Fn(P) -> Result<(), E> + Sync> Visit<P> for Calls<'_, E, F> {
    type State = ();

    fn begin(&self) {}

    fn visit(&self, _state: &mut (), piece: P) -> ControlFlow<()> {
        let start = piece.start();
        match (self.body)(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => self.error.note(start, error),
        }
    }
}
