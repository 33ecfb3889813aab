//! Regions: the memory that bulk data lives in, with a placement policy and a budget.
//!
//! Invariants: a region starts at a multiple of 64 bytes, zeroed unless it was asked for as scratch; its bytes are
//! counted in its budget as long as it lives; a mapped region of two or more mebibytes starts at a multiple of 2 MiB and
//! asks for huge pages, unless its allocator says otherwise. On a machine of one node no policy call is ever made. A
//! refused policy call leaves the region unplaced and is told once ([`refusals`](crate::refusals())).
//!
//! # Limits
//! Requests of a few pages are blocks of a node's pool, whole on one of the policy's nodes; without a node they come from
//! the heap, which places by first touch.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Reservation;
use crate::error::MemoryError;
use crate::ids::NodeId;
use crate::machine::{Bound, Machine};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::recycle::Kind;
use crate::sys::memory::{Memory, Word};
use crate::sys::page_bytes;
use crate::usage::{Counts, UsageKind};

mod allocator;
mod plan;
mod reserved;

pub use allocator::{Allocator, Fallback, HugePages};
pub use reserved::Reserved;

/// Owned memory of a fixed place; see the module's invariants. It goes back, with its share of the budget, on drop.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    reservation: Option<Reservation>,
    placed: Mutex<Placed>,
    placements: AtomicU64,
    /// The node of a machine that has just one: all bytes are there.
    only_node: Option<NodeId>,
    recycle: Option<Recycle>,
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

/// Where the mapping of a scratch region is kept when it is dropped.
#[derive(Debug)]
struct Recycle {
    machine: Arc<Machine>,
    node: NodeId,
    kind: Kind,
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

    /// The policy it follows: what it was made by (or fell back to), or the last that it was placed by since. Where its
    /// pages really are is for the page map to say.
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

    /// Notes that its pages follow another policy from now on; the caller moved them.
    #[allow(dead_code)]
    pub(crate) fn set_policy(&self, policy: Policy) {
        let laid_out_bytes = self.held_bytes() as u64;
        let mut placed = self.placed();
        self.count_of(&placed, Counts::take);
        // What is placed anew is there already, so nothing is promised any more.
        *placed = Placed { policy, laid_out_bytes, bounds: Vec::new() };
        self.count_of(&placed, Counts::add);
        drop(placed);
        self.placements.fetch_add(1, Ordering::Release);
    }

    fn new(
        memory: Memory,
        reservation: Option<Reservation>,
        policy: Policy,
        bounds: Vec<Bound>,
        only_node: Option<NodeId>,
    ) -> Region {
        let laid_out_bytes = memory.held_bytes() as u64;
        let placed = Mutex::new(Placed { policy, laid_out_bytes, bounds });
        let placements = AtomicU64::new(0);
        let region = Region { memory, reservation, placed, placements, only_node, recycle: None };
        region.count(Counts::add);
        region
    }

    /// The first `len_bytes` bytes in a smaller block of the same pool, where it is a block and half of it would do.
    fn smaller_block(&self, len_bytes: usize) -> Option<Memory> {
        let pool = self.memory.pool().filter(|_| len_bytes > 0)?;
        if Pool::block_bytes(len_bytes) > self.held_bytes() / 2 {
            return None;
        }
        // Not worth a new slab: then it stays as large as it is.
        let no_slab = || Err(MemoryError::MachineFull { requested_bytes: len_bytes as u64, available_bytes: 0 });
        let mut smaller = pool.take(len_bytes, no_slab).ok()?;
        smaller.bytes_mut().copy_from_slice(&self.bytes()[..len_bytes]);
        Some(smaller)
    }

    /// Adds its bytes to its owner's counters, or takes them off.
    fn count(&self, change: impl Fn(&Counts, Option<NodeId>, UsageKind, u64)) {
        self.count_of(&self.placed(), change);
    }

    fn count_of(&self, placed: &Placed, change: impl Fn(&Counts, Option<NodeId>, UsageKind, u64)) {
        let counts = Counts::of(self.reservation.as_ref());
        let kind = if self.memory.is_block() { UsageKind::Pool } else { UsageKind::Region };
        let held = self.held_bytes() as u64;
        match (&placed.policy, self.only_node) {
            (_, Some(node)) => change(counts, Some(node), kind, held),
            (Policy::Local, None) => change(counts, None, kind, held),
            (Policy::Node(node), None) => change(counts, Some(*node), kind, held),
            (policy, None) => {
                for (node, bytes) in shares_of(policy, placed.laid_out_bytes, 0..held) {
                    change(counts, Some(node), kind, bytes);
                }
            }
        }
    }

    fn placed(&self) -> MutexGuard<'_, Placed> {
        // Replaced as a whole or not at all, so a panic elsewhere while it was held does not matter.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.count(Counts::take);
        // What was moved meanwhile may lie anywhere.
        if let Some(Recycle { machine, node, kind }) = self.recycle.take().filter(|_| self.placements() == 0) {
            machine.recycle(node, std::mem::replace(&mut self.memory, Memory::empty()), kind);
        }
    }
}

impl Placed {
    /// Gives up the promises for what lies behind the first `held` bytes.
    fn shrink_to(&mut self, held: u64) {
        if self.bounds.is_empty() {
            return;
        }
        let shares = shares_of(&self.policy, self.laid_out_bytes, 0..held);
        for bound in &mut self.bounds {
            bound.shrink_to(shares.get(&bound.node()).copied().unwrap_or(0));
        }
    }
}

/// How many of the bytes `of` lie on each node by a policy whose cuts follow `laid_out_bytes`; none for `Local`.
fn shares_of(policy: &Policy, laid_out_bytes: u64, of: Range<u64>) -> BTreeMap<NodeId, u64> {
    let page = page_bytes() as u64;
    let cuts = policy.cuts(laid_out_bytes, page);
    if cuts.is_empty() {
        return policy.shares(of.end.saturating_sub(of.start), page);
    }
    let mut shares = BTreeMap::new();
    for (bytes, node) in cuts {
        let both = bytes.start.max(of.start)..bytes.end.min(of.end);
        if !both.is_empty() {
            *shares.entry(node).or_insert(0) += both.end - both.start;
        }
    }
    shares
}

#[cfg(test)]
mod real_nodes;
#[cfg(test)]
mod tests;
