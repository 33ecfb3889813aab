//! Regions: the memory that bulk data lives in, with a placement policy and a budget.
//!
//! Invariants: a region starts at a multiple of 64 bytes, zeroed unless it was asked for as scratch; its bytes are
//! counted in its budget as long as it lives; a mapped region of two or more mebibytes starts at a multiple of 2 MiB and
//! asks for huge pages, unless its allocator says otherwise. On a machine of one node no policy call is ever made. A
//! refused policy call leaves the region unplaced and is told once ([`refusals`](crate::refusals())).
//!
//! # Limits
//! Requests of a few pages without a node come from the heap, which places by first touch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::Reservation;
use crate::machine::Bound;
use crate::policy::Policy;
use crate::sys::memory::{Memory, Word};
use crate::sys::page_bytes;

mod allocator;
mod place;
mod segments;

pub use allocator::Allocator;
pub use place::RegionPlacement;

/// Owned memory of a fixed place; see the module's invariants. It goes back, with its share of the budget, on drop.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    reservation: Option<Reservation>,
    placed: Mutex<Placed>,
    places: place::Places,
    placements: AtomicU64,
}

/// What was asked of the kernel for a region.
#[derive(Debug)]
struct Placed {
    policy: Policy,
    /// The length that the policy's cuts follow: the region's when the policy was set.
    laid_out_bytes: u64,
    /// Bytes that only one node may supply, per node.
    bounds: Vec<Bound>,
}

impl Region {
    /// Its length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.memory.len_bytes()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of its first byte, for the page map.
    pub fn address(&self) -> usize {
        self.memory.address()
    }

    /// Bytes that it takes from the system: whole pages where it is mapped.
    pub fn held_bytes(&self) -> usize {
        self.memory.held_bytes()
    }

    /// The policy it follows: what it was made by (or fell back to), or the last that it was placed by since; that of its
    /// largest part where parts of it were placed apart ([`policies`](Region::policies) names all). Where its pages really
    /// are is for the page map to say.
    pub fn policy(&self) -> Policy {
        self.placed().policy.clone()
    }

    /// How often its placement was changed: whoever keeps a page map of it reads it anew when this grew.
    pub fn placements(&self) -> u64 {
        self.placements.load(Ordering::Acquire)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// Its bytes as whole words of the machine's byte order; bytes behind the last whole word are left out.
    pub fn words<T: Word>(&self) -> &[T] {
        self.memory.words()
    }

    /// Its bytes as whole words, to write.
    pub fn words_mut<T: Word>(&mut self) -> &mut [T] {
        self.memory.words_mut()
    }

    /// Cuts it to its first `len_bytes` bytes; whole pages behind them, and their share of the budget, go back at once.
    /// A longer length than it has changes nothing. The address may change where it is not mapped.
    pub fn shrink(&mut self, len_bytes: usize) {
        self.memory.shrink(len_bytes);
        let held = self.memory.held_bytes() as u64;
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(reservation.bytes().saturating_sub(held));
        }
        self.placed.get_mut().unwrap_or_else(PoisonError::into_inner).shrink_to(held);
    }

    fn new(memory: Memory, reservation: Option<Reservation>, policy: Policy, bounds: Vec<Bound>) -> Region {
        let laid_out_bytes = memory.held_bytes() as u64;
        let placed = Mutex::new(Placed { policy, laid_out_bytes, bounds });
        Region { memory, reservation, placed, places: place::Places::default(), placements: AtomicU64::new(0) }
    }

    fn placed(&self) -> MutexGuard<'_, Placed> {
        // Replaced as a whole or not at all, so a panic elsewhere while it was held does not matter.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Placed {
    /// Gives up the promises for what lies behind the first `held` bytes.
    fn shrink_to(&mut self, held: u64) {
        if self.bounds.is_empty() {
            return;
        }
        let cuts = self.policy.cuts(self.laid_out_bytes, page_bytes() as u64);
        for bound in &mut self.bounds {
            let on_it = cuts.iter().filter(|(_, node)| *node == bound.node());
            bound.shrink_to(on_it.map(|(bytes, _)| bytes.end.min(held).saturating_sub(bytes.start)).sum());
        }
    }
}

#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod real_moves;
#[cfg(test)]
mod real_nodes;
#[cfg(test)]
mod tests;
