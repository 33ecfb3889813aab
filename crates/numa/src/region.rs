//! Regions: the memory that bulk data lives in, with a placement policy and a budget.
//!
//! Invariants: a region starts at a multiple of 64 bytes, zeroed unless it was asked for as scratch; its bytes are
//! counted in its budget as long as it lives; a mapped region of two or more mebibytes starts at a multiple of 2 MiB
//! and asks for huge pages, unless its allocator says otherwise. On a machine of one node no policy call is ever made.
//! A refused policy call leaves the region unplaced and is told once ([`refusals`](crate::refusals())).
//!
//! # Limits
//! Requests of a few pages are blocks of a node's pool, whole on one of the policy's nodes; without a node they come
//! from the heap, which places by first touch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Reservation;
use crate::error::MemoryError;
use crate::ids::NodeId;
use crate::machine::{Bound, Machine};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::recycle::MappingKind;
use crate::sys::memory::{Memory, Word};
use crate::usage::{Counts, UsageKind};

use sections::Section;

mod allocator;
mod atomic;
mod place;
mod plan;
mod sections;

pub use allocator::Allocator;
pub use atomic::AtomicRegion;
pub use place::RegionPlacement;

/// Owned memory of a fixed place; see the module's invariants. It goes back, with its share of the budget, on drop.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    reservation: Option<Reservation>,
    placed: Mutex<PolicyState>,
    placements: AtomicU64,
    /// The node of a machine that has just one: all bytes are there.
    only_node: Option<NodeId>,
    recycle: Option<Box<Recycle>>,
    /// Held while its pages move.
    moving: Mutex<()>,
}

/// What was asked of the kernel for a region.
#[derive(Debug)]
struct PolicyState {
    policy: Policy,
    /// What only regions with policy calls have; in a box, so that the others stay small and quick to hand on.
    laid_out: Option<Box<LaidOut>>,
}

/// How a policy was laid over a mapping.
#[derive(Debug)]
struct LaidOut {
    /// The length that the policy's cuts follow: the region's when the policy was set.
    bytes: u64,
    /// Bytes that only one node may supply, per node.
    bounds: Vec<Bound>,
    /// Which bytes follow which policy, where parts were placed apart: ascending, without gaps; else empty.
    sections: Vec<Section>,
}

/// Where the mapping of a scratch region is kept when it is dropped.
#[derive(Debug)]
struct Recycle {
    machine: Arc<Machine>,
    node: NodeId,
    kind: MappingKind,
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

    /// The policy it follows: what it was made by (or fell back to), or the last that it was placed by since; that of
    /// its largest part where parts of it were placed apart ([`policies`](Region::policies) names all). Where its pages
    /// really are is for the page map to say.
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
        if len_bytes >= self.len() {
            return;
        }
        self.count(Counts::take);
        match self.smaller_block(len_bytes) {
            Some(smaller) => self.memory = smaller,
            None => self.memory.shrink(len_bytes),
        }
        let held = self.memory.held_bytes() as u64;
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(reservation.bytes().saturating_sub(held));
        }
        self.placed.get_mut().unwrap_or_else(PoisonError::into_inner).shrink_to(held);
        self.count(Counts::add);
    }

    #[inline]
    fn new(
        memory: Memory,
        reservation: Option<Reservation>,
        policy: Policy,
        bounds: Vec<Bound>,
        only_node: Option<NodeId>,
    ) -> Region {
        let placed = Mutex::new(PolicyState::new(policy, memory.held_bytes() as u64, bounds));
        let placements = AtomicU64::new(0);
        let mut region =
            Region { memory, reservation, placed, placements, moving: Mutex::new(()), only_node, recycle: None };
        region.count(Counts::add);
        region
    }

    /// The first `len_bytes` bytes in a smaller block of the same pool, where it is a block and half of it would do.
    fn smaller_block(&self, len_bytes: usize) -> Option<Memory> {
        let pool = self.memory.block().filter(|_| len_bytes > 0).and_then(Pool::of)?;
        if Pool::block_bytes(len_bytes) > self.held_bytes() / 2 {
            return None;
        }
        // Not worth a new slab: then it stays as large as it is.
        let no_slab = || Err(MemoryError::MachineFull { requested_bytes: len_bytes as u64, available_bytes: 0 });
        let mut smaller = pool.take(len_bytes, no_slab).ok()?;
        smaller.bytes_mut().copy_from_slice(&self.bytes()[..len_bytes]);
        Some(smaller)
    }

    /// Adds its bytes to its owner's counters, or takes them off. Nobody else can see it, so nothing is locked.
    #[inline]
    fn count(&mut self, change: impl Fn(&Counts, Option<NodeId>, UsageKind, u64)) {
        let Region { memory, reservation, placed, only_node, .. } = self;
        placed.get_mut().unwrap_or_else(PoisonError::into_inner).count(
            memory,
            reservation.as_ref(),
            *only_node,
            change,
        );
    }

    fn placed(&self) -> MutexGuard<'_, PolicyState> {
        // Replaced as a whole or not at all, so a panic elsewhere while it was held does not matter.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.count(Counts::take);
        // What was moved meanwhile may lie anywhere.
        if let Some(recycle) = self.recycle.take().filter(|_| self.placements() == 0) {
            let Recycle { machine, node, kind } = *recycle;
            machine.recycle(node, std::mem::replace(&mut self.memory, Memory::empty()), kind);
        }
    }
}

impl PolicyState {
    #[inline]
    fn new(policy: Policy, laid_out_bytes: u64, bounds: Vec<Bound>) -> PolicyState {
        let runs = matches!(policy, Policy::Striped { .. } | Policy::Weighted(_));
        let laid_out = (runs || !bounds.is_empty())
            .then(|| Box::new(LaidOut { bytes: laid_out_bytes, bounds, sections: Vec::new() }));
        PolicyState { policy, laid_out }
    }

    /// Adds a region's bytes to its owner's counters, or takes them off.
    #[inline]
    fn count(
        &self,
        memory: &Memory,
        reservation: Option<&Reservation>,
        only_node: Option<NodeId>,
        change: impl Fn(&Counts, Option<NodeId>, UsageKind, u64),
    ) {
        let counts = Reservation::counts(reservation);
        let kind = if memory.is_block() { UsageKind::Pool } else { UsageKind::Region };
        let held = memory.held_bytes() as u64;
        match (&self.policy, only_node) {
            _ if held == 0 => {}
            (_, Some(node)) => change(counts, Some(node), kind, held),
            (Policy::Local, None) if self.is_whole() => change(counts, None, kind, held),
            (Policy::Node(node), None) if self.is_whole() => change(counts, Some(*node), kind, held),
            _ => {
                let shares = self.shares(held as usize);
                let left = held - shares.values().sum::<u64>();
                for (node, bytes) in shares.into_iter().map(|(node, bytes)| (Some(node), bytes)).chain([(None, left)]) {
                    change(counts, node, kind, bytes);
                }
            }
        }
    }

    /// Whether all of it follows one policy.
    fn is_whole(&self) -> bool {
        self.laid_out.as_ref().is_none_or(|laid_out| laid_out.sections.is_empty())
    }

    /// Which of its first `held` bytes follow which policy.
    fn sections(&self, held: usize) -> Vec<Section> {
        match &self.laid_out {
            Some(laid_out) if !laid_out.sections.is_empty() => {
                laid_out.sections.iter().filter_map(|section| section.cut(&(0..held))).collect()
            }
            laid_out => {
                let over = laid_out.as_ref().map_or(held, |laid_out| laid_out.bytes as usize);
                Section::whole(0..over, self.policy.clone()).cut(&(0..held)).into_iter().collect()
            }
        }
    }

    /// How many of its first `held` bytes shall lie on each node.
    fn shares(&self, held: usize) -> BTreeMap<NodeId, u64> {
        let mut shares = BTreeMap::new();
        self.sections(held).iter().for_each(|section| section.count(&mut shares));
        shares
    }

    /// Gives up the promises for what lies behind the first `held` bytes.
    fn shrink_to(&mut self, held: u64) {
        let shares = if self.laid_out.is_some() { self.shares(held as usize) } else { BTreeMap::new() };
        let Some(laid_out) = &mut self.laid_out else { return };
        for bound in &mut laid_out.bounds {
            bound.shrink_to(shares.get(&bound.node()).copied().unwrap_or(0));
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
