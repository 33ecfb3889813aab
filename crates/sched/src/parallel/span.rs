//! Spans: what loops run over, and where it lies.
//!
//! Invariant: the pieces of a span are ascending, disjoint and cover it; each lies on one node, or on none in
//! particular.

use std::ops::Range;

use numa::NodeId;

use super::workers::Workers;

/// Index ranges that a loop can run over: `Range<usize>` (which lies nowhere) or a
/// [`StripedArray`](super::StripedArray).
pub trait Span {
    /// Its stretches and the node that each lies on. `workers` tells whether it matters at all.
    fn pieces(&self, workers: &dyn Workers) -> Vec<(Option<NodeId>, Range<usize>)>;

    /// What an element takes, for [`Grain::Bytes`](super::Grain::Bytes).
    fn element_bytes(&self) -> usize {
        1
    }
}

impl Span for Range<usize> {
    fn pieces(&self, _workers: &dyn Workers) -> Vec<(Option<NodeId>, Range<usize>)> {
        vec![(None, self.clone())]
    }
}

impl<S: Span + ?Sized> Span for &S {
    fn pieces(&self, workers: &dyn Workers) -> Vec<(Option<NodeId>, Range<usize>)> {
        (**self).pieces(workers)
    }

    fn element_bytes(&self) -> usize {
        (**self).element_bytes()
    }
}

/// Stretches of memory to write to: the node that each lies on, the index of its first element, and its elements.
pub type PiecesMut<'a, T> = Vec<(Option<NodeId>, usize, &'a mut [T])>;

/// Memory that a loop can write to: slices, vectors, and [striped arrays](super::StripedArray).
pub trait SpanMut<'a> {
    /// An element.
    type Item: Send + 'a;

    /// Its stretches, ascending.
    fn pieces_mut(self, workers: &dyn Workers) -> PiecesMut<'a, Self::Item>;
}

impl<'a, T: Send> SpanMut<'a> for &'a mut [T] {
    type Item = T;

    fn pieces_mut(self, _workers: &dyn Workers) -> PiecesMut<'a, T> {
        vec![(None, 0, self)]
    }
}

impl<'a, T: Send> SpanMut<'a> for &'a mut Vec<T> {
    type Item = T;

    fn pieces_mut(self, workers: &dyn Workers) -> PiecesMut<'a, T> {
        self.as_mut_slice().pieces_mut(workers)
    }
}
