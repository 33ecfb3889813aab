//! Piles: the elements of a loop that the same workers shall visit, of which these take one portion after the other.
//!
//! Invariant: an element is in a pile or was taken by one caller; taking is under the pile's lock, which no foreign
//! code runs under.
//!
//! # Limits
//! A lock per portion of some 40 us. Fixed grains far below a microsecond would not change that: a portion holds many.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use numa::NodeId;
use parking_lot::Mutex;

use super::hint::PolicyHint;
use super::workers::Workers;
use crate::Affinity;

/// Elements side by side that a body may get in one call.
pub(super) trait LoopPiece: Sized + Send {
    fn elements(&self) -> usize;
    /// The first `len` elements, and the rest; `len` is no more than there are.
    fn split(self, len: usize) -> (Self, Self);
}

impl LoopPiece for Range<usize> {
    fn elements(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    fn split(self, len: usize) -> (Self, Self) {
        (self.start..self.start + len, self.start + len..self.end)
    }
}

/// A stretch of a slice that is written to.
pub(super) struct Items<'a, T> {
    pub(super) start: usize,
    pub(super) items: &'a mut [T],
}

impl<T: Send> LoopPiece for Items<'_, T> {
    fn elements(&self) -> usize {
        self.items.len()
    }

    fn split(self, len: usize) -> (Self, Self) {
        let (head, tail) = self.items.split_at_mut(len);
        (Items { start: self.start, items: head }, Items { start: self.start + len, items: tail })
    }
}

/// The elements that the same workers shall visit.
pub(super) struct Pile<P> {
    /// The affinities of those who may be at it at the same time; never empty.
    pub(super) runners: Vec<Affinity>,
    /// The next one last.
    pieces: Mutex<Vec<P>>,
    left: AtomicUsize,
    /// How often somebody came and found nothing.
    starved: AtomicUsize,
}

impl<P: LoopPiece> Pile<P> {
    pub(super) fn new(runners: Vec<Affinity>, mut pieces: Vec<P>) -> Pile<P> {
        pieces.retain(|piece| piece.elements() > 0);
        pieces.reverse();
        let left = AtomicUsize::new(pieces.iter().map(P::elements).sum());
        Pile { runners, pieces: Mutex::new(pieces), left, starved: AtomicUsize::new(0) }
    }

    /// Sorts pieces into piles by who shall visit them.
    pub(super) fn by_hint(
        pieces: Vec<(Option<NodeId>, P)>,
        hint: &dyn PolicyHint,
        workers: &dyn Workers,
    ) -> Vec<Pile<P>> {
        let mut runners_of: Vec<(Option<NodeId>, usize)> = Vec::new();
        let mut piles: Vec<(Vec<Affinity>, Vec<P>)> = Vec::new();
        for (node, piece) in pieces {
            let known = runners_of.iter().find(|(known, _)| *known == node).map(|(_, pile)| *pile);
            let pile = known.unwrap_or_else(|| {
                let mut runners = hint.runners(node, workers);
                if runners.is_empty() {
                    runners.push(Affinity::Anywhere);
                }
                let pile = piles.iter().position(|(of, _)| *of == runners).unwrap_or_else(|| {
                    piles.push((runners, Vec::new()));
                    piles.len() - 1
                });
                runners_of.push((node, pile));
                pile
            });
            piles[pile].1.push(piece);
        }
        piles.into_iter().map(|(runners, pieces)| Pile::new(runners, pieces)).collect()
    }

    /// Takes as many elements as `wanted` says of those left, or fewer where a stretch of them ends.
    pub(super) fn take(&self, wanted: impl FnOnce(usize) -> usize) -> Option<P> {
        let mut pieces = self.pieces.lock();
        let Some(piece) = pieces.pop() else {
            self.starved.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Written under the lock only.
        let left = self.left.load(Ordering::Relaxed);
        let len = wanted(left).clamp(1, piece.elements());
        self.left.store(left - len, Ordering::Relaxed);
        if len == piece.elements() {
            return Some(piece);
        }
        let (taken, rest) = piece.split(len);
        pieces.push(rest);
        Some(taken)
    }

    /// Elements that nobody has taken yet.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether somebody came and found nothing.
    pub(super) fn somebody_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed) > 0
    }
}
