//! Striped arrays: numbers in memory that is dealt to nodes, and loops over them that know where it is.
//!
//! Invariants: an array's length is fixed; its memory is charged to a budget as long as it lives; where it lies is read
//! from the kernel when a loop first runs over it, never assumed.
//!
//! # Limits
//! Elements are plain numbers ([`numa::Word`]). What the kernel moves by itself after the first loop is not noticed.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.3.1 (Allocator, Array).

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use numa::{Allocator, Budget, MemoryError, NodeId, PageMap, Region, Word};
use parking_lot::Mutex;

use super::Loop;
use super::hint::Bound;
use super::span::{PiecesMut, Span, SpanMut};
use super::stripes::{PAGE_BYTES, StripingPartitioner};
use super::workers::Workers;
use crate::TaskError;

/// `n` stretches are told apart whatever an array's length; beyond, it must have one for each [`CELL_BYTES`].
const STRETCHES: usize = 4096;
/// The pieces in which memory is summed up that changes its node every few pages.
const CELL_BYTES: usize = 256 << 10;

/// Where an array lies.
type Pieces = Vec<(Option<NodeId>, Range<usize>)>;

/// Why an array could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// There was not enough memory, or budget.
    Memory(MemoryError),
    /// Its elements could not be made.
    Task(TaskError),
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayError::Memory(error) => error.fmt(f),
            ArrayError::Task(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArrayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ArrayError::Memory(error) => Some(error),
            ArrayError::Task(error) => Some(error),
        }
    }
}

impl From<MemoryError> for ArrayError {
    fn from(error: MemoryError) -> ArrayError {
        ArrayError::Memory(error)
    }
}

impl From<TaskError> for ArrayError {
    fn from(error: TaskError) -> ArrayError {
        ArrayError::Task(error)
    }
}

/// An array of fixed length whose memory is dealt to nodes in stripes. It derefs to a slice, so the striping is seen
/// only by who asks for it.
///
/// ```
/// use numa::{Budget, Topology};
/// use sched::parallel::{Loop, StripedArray, StripingPartitioner};
/// use sched::{Config, Scheduler, Statement};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = Scheduler::new(Topology::discover()?.into(), Config::default());
/// let statement = Statement::new(1, Budget::new("example", 64 << 20));
/// let how = Loop::new(&scheduler, &statement);
///
/// // Stripes of 1 MiB on all nodes in turn, each first touched by a worker next to it.
/// let partitioner = StripingPartitioner::new(scheduler.topology().usable_memory_nodes().to_vec());
/// let array = StripedArray::from_fn(&how, 1_000_000, &partitioner, |i| i as u64)?;
///
/// // Every task reads memory of its own node.
/// let sum = how.parallel_reduce(&array, || 0, |sum, range| sum + array[range].iter().sum::<u64>(), |a, b| a + b)?;
/// assert_eq!(sum, 499_999_500_000);
/// # Ok(())
/// # }
/// ```
pub struct StripedArray<T> {
    region: Region,
    len: usize,
    /// Where it lies, as far as the kernel was asked.
    pieces: Mutex<Option<Arc<Pieces>>>,
    element: std::marker::PhantomData<T>,
}

impl<T: Word> StripedArray<T> {
    /// An array of `len` zeros, charged to `budget`. Pages get their place now, their memory when they are touched.
    ///
    /// # Errors
    /// [`MemoryError`] says which budget is used up, which node is full, or what the kernel said.
    fn zeroed(
        len: usize,
        partitioner: &StripingPartitioner,
        budget: Arc<Budget>,
    ) -> Result<StripedArray<T>, MemoryError> {
        let allocator = Allocator::new(partitioner.policy(size_of::<T>()), budget);
        let bytes =
            len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| {
                let reason = format!("{len} elements of {} bytes are more than memory can hold", size_of::<T>());
                MemoryError::System { requested_bytes: u64::MAX, reason }
            })?;
        let region = allocator.region(bytes)?;
        Ok(StripedArray { region, len, pieces: Mutex::new(None), element: std::marker::PhantomData })
    }

    /// An array of `len` elements, element `i` being `value(i)`, charged to the statement of the loop. They are made in
    /// parallel, each next to where it lies: so first touch gives the same placement where the kernel refuses policies.
    ///
    /// # Errors
    /// As [`StripedArray::zeroed`]; and what may stop a loop.
    pub fn from_fn(
        how: &Loop<'_>,
        len: usize,
        partitioner: &StripingPartitioner,
        value: impl Fn(usize) -> T + Sync,
    ) -> Result<StripedArray<T>, ArrayError> {
        let mut array = StripedArray::zeroed(len, partitioner, Arc::clone(how.statement.budget()))?;
        let stripes = if how.workers.have_nodes() { array.stripes() } else { vec![(None, 0..len)] };
        // Not by the page map: nothing has a page yet.
        how.hint(&Bound).parallel_for_mut(Cut { slice: &mut array, pieces: &stripes }, |start, items| {
            for (index, item) in (start..).zip(items) {
                *item = value(index);
            }
        })?;
        Ok(array)
    }

    /// Where its elements shall lie.
    fn stripes(&self) -> Pieces {
        let cuts = self.region.policy().cuts(self.region.len() as u64, PAGE_BYTES);
        let element = |byte: u64| (byte / size_of::<T>() as u64) as usize;
        let stripes = joined(cuts.into_iter().map(|(b, node)| (Some(node), element(b.start)..element(b.end))));
        if stripes.is_empty() { vec![(None, 0..self.len)] } else { stripes }
    }

    /// Where its elements lie; where they shall lie as long as some have no memory yet.
    fn pieces(&self) -> Arc<Pieces> {
        if let Some(pieces) = self.pieces.lock().as_ref() {
            return Arc::clone(pieces);
        }
        let map = PageMap::of(&self.region);
        if map.unknown_bytes() > 0 && !self.region.policy().nodes().is_empty() {
            return Arc::new(self.stripes());
        }
        let base = self.region.address();
        let runs: Vec<(Range<usize>, NodeId)> =
            map.ranges().iter().map(|range| (range.start - base..range.end - base, range.node)).collect();
        let bytes = stretches(&runs, self.region.len());
        let element = |byte: usize| byte / size_of::<T>();
        let pieces = bytes.into_iter().map(|(node, bytes)| (node, element(bytes.start)..element(bytes.end)));
        let pieces = Arc::new(joined(pieces));
        *self.pieces.lock() = Some(Arc::clone(&pieces));
        pieces
    }
}

impl<T: Word> Deref for StripedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.region.words()[..self.len]
    }
}

impl<T: Word> DerefMut for StripedArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.region.words_mut()[..self.len]
    }
}

impl<T: Word> fmt::Debug for StripedArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripedArray").field("len", &self.len).field("policy", &self.region.policy()).finish()
    }
}

impl<T: Word> Span for StripedArray<T> {
    fn pieces(&self, workers: &dyn Workers) -> Pieces {
        match workers.have_nodes() && self.len > 0 {
            true => StripedArray::pieces(self).to_vec(),
            false => vec![(None, 0..self.len)],
        }
    }

    fn element_bytes(&self) -> usize {
        size_of::<T>()
    }
}

impl<'a, T: Word> SpanMut<'a> for &'a mut StripedArray<T> {
    type Item = T;

    fn pieces_mut(self, workers: &dyn Workers) -> PiecesMut<'a, T> {
        let pieces = Span::pieces(self, workers);
        Cut { slice: self, pieces: &pieces }.pieces_mut(workers)
    }
}

/// A slice whose stretches are known.
struct Cut<'a, 'b, T> {
    slice: &'a mut [T],
    /// Side by side from 0 to its length.
    pieces: &'b Pieces,
}

impl<'a, T: Send> SpanMut<'a> for Cut<'a, '_, T> {
    type Item = T;

    fn pieces_mut(self, _workers: &dyn Workers) -> PiecesMut<'a, T> {
        let mut rest = self.slice;
        let mut cut = Vec::with_capacity(self.pieces.len());
        for (node, range) in self.pieces {
            let (piece, after) = rest.split_at_mut(range.len());
            cut.push((*node, range.start, piece));
            rest = after;
        }
        assert!(rest.is_empty(), "an array's stretches cover it");
        cut
    }
}

/// Cuts `len` bytes at the runs that are known, ascending and disjoint; what is between them lies nowhere. Where that
/// gives too many stretches, cells of [`CELL_BYTES`] count as being where most of their bytes are.
fn stretches(runs: &[(Range<usize>, NodeId)], len: usize) -> Pieces {
    let mut pieces = Pieces::new();
    let mut next = 0;
    if runs.len() <= STRETCHES + len / CELL_BYTES {
        for (run, node) in runs {
            pieces.push((None, next..run.start));
            pieces.push((Some(*node), run.clone()));
            next = run.end;
        }
        pieces.push((None, next..len));
        return joined(pieces.into_iter());
    }
    let mut runs = runs.iter().peekable();
    while next < len {
        let cell = next..next.saturating_add(CELL_BYTES).min(len);
        let mut bytes: Vec<(NodeId, usize)> = Vec::new();
        while let Some((run, node)) = runs.peek().filter(|(run, _)| run.start < cell.end) {
            let within = run.end.min(cell.end) - run.start.max(cell.start);
            match bytes.iter_mut().find(|(known, _)| known == node) {
                Some((_, sum)) => *sum += within,
                None => bytes.push((*node, within)),
            }
            if run.end > cell.end {
                break;
            }
            runs.next();
        }
        next = cell.end;
        pieces.push((bytes.into_iter().max_by_key(|(_, sum)| *sum).map(|(node, _)| node), cell));
    }
    joined(pieces.into_iter())
}

/// Stretches side by side on one node, as one.
fn joined(pieces: impl Iterator<Item = (Option<NodeId>, Range<usize>)>) -> Pieces {
    let mut joined = Pieces::new();
    for (node, range) in pieces.filter(|(_, range)| !range.is_empty()) {
        match joined.last_mut() {
            Some((last, before)) if *last == node && before.end == range.start => before.end = range.end,
            _ => joined.push((node, range)),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
