//! Regions: the memory that bulk data lives in, with a placement policy and a budget.
//!
//! Invariants: a region starts zeroed, at a multiple of 64 bytes; its bytes are counted in its budget as long as it
//! lives; a mapped region of two or more mebibytes starts at a multiple of 2 MiB and asks for huge pages. On a machine
//! of one node no policy call is ever made. A refused policy call leaves the region unplaced and is told once
//! ([`refusals`](crate::refusals())).
//!
//! # Limits
//! Requests of a few pages come from the heap, which places by first touch whatever the policy. Striped and weighted
//! placements, moving, and pools per node are not built yet (`docs/design/numa.md`).

use std::io;
use std::sync::Arc;

use crate::budget::{Budget, Reservation};
use crate::error::MemoryError;
use crate::id_set::IdSet;
use crate::ids::NodeId;
use crate::machine::{Bound, Grant, Machine};
use crate::refusals::refused;
use crate::sys::memory::{HUGE_PAGE_BYTES, Memory, Word};
use crate::sys::{Mode, page_bytes};

/// Below this, a request is not worth a mapping of its own where placement makes no difference.
const UNPLACED_HEAP_BYTES: usize = 64 << 10;
/// The same where it does, in pages.
const PLACED_HEAP_PAGES: usize = 4;
/// Interleaving uses huge pages only when every node gets this many, or the spread would be too coarse.
const HUGE_PAGES_PER_NODE_MIN: usize = 8;
/// What users lose when policy calls are refused.
const UNPLACED: &str = "memory is not placed on the nodes asked for";

/// Where the pages of a region come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The node of the cpu that touches a page first.
    Local,
    /// This node.
    Node(NodeId),
    /// These nodes, page by page in turn.
    Interleaved(Vec<NodeId>),
}

/// Makes regions by one policy, counted in one budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Allocator {
    policy: Policy,
    budget: Option<Arc<Budget>>,
    machine: Arc<Machine>,
}

impl Allocator {
    /// An allocator by this policy whose regions count in this budget.
    pub fn new(policy: Policy, budget: Arc<Budget>) -> Allocator {
        Allocator { policy, budget: Some(budget), machine: Machine::this() }
    }

    /// An allocator without placement and budget, for tests and what is not worth counting.
    pub fn unplaced() -> Allocator {
        Allocator { policy: Policy::Local, budget: None, machine: Machine::this() }
    }

    /// The same budget with another policy.
    pub fn with_policy(&self, policy: Policy) -> Allocator {
        Allocator { policy, ..self.clone() }
    }

    /// A zeroed region of `len_bytes` bytes.
    ///
    /// # Errors
    /// [`MemoryError`] says which budget is used up, which node is full, or what the kernel said; nothing is kept then.
    pub fn region(&self, len_bytes: usize) -> Result<Region, MemoryError> {
        let placed = self.machine.has_choice() && self.policy != Policy::Local;
        let heap_bytes = if placed { PLACED_HEAP_PAGES * page_bytes() } else { UNPLACED_HEAP_BYTES };
        let on_heap = len_bytes < heap_bytes;
        let unit = if on_heap { crate::sys::memory::ALIGN_BYTES } else { page_bytes() };
        let held = len_bytes.checked_next_multiple_of(unit).unwrap_or(usize::MAX) as u64;
        let reservation = self.budget.as_ref().map(|b| b.reserve(held)).transpose()?;
        let system = |error: io::Error| MemoryError::System { requested_bytes: held, reason: error.to_string() };
        if on_heap {
            let memory = Memory::heap(len_bytes).map_err(system)?;
            return Ok(Region { memory, reservation, policy: self.policy.clone(), bound: None });
        }
        let plan = self.plan(held)?;
        let memory = Memory::map(len_bytes, self.wants_huge_pages(len_bytes)).map_err(system)?;
        let bound = self.place(&memory, plan).map_err(system)?;
        Ok(Region { memory, reservation, policy: self.policy.clone(), bound })
    }

    /// The policy of its regions.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The budget that its regions count in.
    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn on_machine(policy: Policy, budget: Option<Arc<Budget>>, machine: Arc<Machine>) -> Allocator {
        Allocator { policy, budget, machine }
    }

    fn wants_huge_pages(&self, len_bytes: usize) -> bool {
        let nodes = match &self.policy {
            Policy::Interleaved(nodes) if self.machine.has_choice() && nodes.len() > 1 => nodes.len(),
            _ => 0,
        };
        len_bytes >= HUGE_PAGE_BYTES * (nodes * HUGE_PAGES_PER_NODE_MIN).max(1)
    }

    /// Checks free memory and decides which policy call to make, if any.
    fn plan(&self, bytes: u64) -> Result<Option<(Mode, IdSet)>, MemoryError> {
        let machine = &self.machine;
        if !machine.has_choice() {
            return machine.ask_anywhere(bytes, self.policy != Policy::Local).map(|()| None);
        }
        let wanted: &[NodeId] = match &self.policy {
            Policy::Local => return machine.ask_anywhere(bytes, false).map(|()| None),
            Policy::Node(node) => std::slice::from_ref(node),
            Policy::Interleaved(nodes) => nodes,
        };
        let mut online: Vec<NodeId> = wanted.iter().copied().filter(|n| machine.has(*n)).collect();
        online.sort_unstable();
        online.dedup();
        if online.len() < wanted.len() && wanted.iter().any(|n| !machine.has(*n)) {
            refused("mbind", &io::Error::other("a node that was asked for is not online"), UNPLACED);
        }
        if online.is_empty() {
            return machine.ask_anywhere(bytes, false).map(|()| None);
        }
        let share = bytes.div_ceil(online.len() as u64);
        let mut grant = Grant::Strict;
        for node in &online {
            if machine.ask_node(*node, share)? == Grant::Lenient {
                grant = Grant::Lenient;
            }
        }
        let mode = match (online.len(), grant) {
            (1, Grant::Strict) => Mode::Bind,
            (1, Grant::Lenient) => Mode::Preferred,
            _ => Mode::Interleave,
        };
        Ok(Some((mode, online.into_iter().map(|n| n.0).collect())))
    }

    /// Makes the policy call. A refusal leaves the memory unplaced; only a kernel without memory is an error.
    fn place(&self, memory: &Memory, plan: Option<(Mode, IdSet)>) -> io::Result<Option<Bound>> {
        let Some((mode, nodes)) = plan else { return Ok(None) };
        match memory.bind(mode, &nodes) {
            Ok(()) => {
                let strict = nodes.iter().next().filter(|_| mode == Mode::Bind);
                Ok(strict.map(|node| self.machine.bound(NodeId(node), memory.held_bytes() as u64)))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => Err(error),
            Err(error) => {
                refused("mbind", &error, UNPLACED);
                Ok(None)
            }
        }
    }
}

/// Owned memory of a fixed place; see the module's invariants. It goes back, with its share of the budget, on drop.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    reservation: Option<Reservation>,
    policy: Policy,
    bound: Option<Bound>,
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

    /// The policy it was made by. Where its pages really are is for the page map to say.
    pub fn policy(&self) -> &Policy {
        &self.policy
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
        if let Some(bound) = &mut self.bound {
            bound.shrink_to(held);
        }
    }
}

#[cfg(test)]
mod tests;
