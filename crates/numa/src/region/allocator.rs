//! Allocators: who makes regions, by which policy and out of which budget.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Region;
use crate::budget::Budget;
use crate::error::MemoryError;
use crate::id_set::IdSet;
use crate::ids::NodeId;
use crate::machine::{Bound, Grant, Machine};
use crate::policy::Policy;
use crate::refusals::refused;
use crate::sys::memory::{HUGE_PAGE_BYTES, Memory};
use crate::sys::{Mode, page_bytes};

/// Below this, a request is not worth a mapping of its own where placement makes no difference.
const UNPLACED_HEAP_BYTES: usize = 64 << 10;
/// The same where it does, in pages.
const PLACED_HEAP_PAGES: usize = 4;
/// Interleaving uses huge pages only when every node gets this many, or the spread would be too coarse.
pub(super) const HUGE_PAGES_PER_NODE_MIN: usize = 8;
/// What users lose when policy calls are refused.
const UNPLACED: &str = "memory is not placed on the nodes asked for";

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
            return Ok(Region::new(memory, reservation, self.policy.clone(), Vec::new()));
        }
        let plan = self.plan(held)?;
        let memory = Memory::map(len_bytes, self.wants_huge_pages(len_bytes)).map_err(system)?;
        let bounds = self.place(&memory, &plan).map_err(system)?;
        Ok(Region::new(memory, reservation, plan.policy, bounds))
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

    /// Checks free memory and decides which policy calls to make, if any, for a mapping of this many bytes.
    fn plan(&self, bytes: u64) -> Result<Plan, MemoryError> {
        let machine = &self.machine;
        let unplaced = |policy| Plan { policy, calls: Vec::new() };
        if !machine.has_choice() {
            machine.ask_anywhere(bytes, self.policy != Policy::Local)?;
            return Ok(unplaced(self.policy.clone()));
        }
        if self.policy.nodes().iter().any(|n| !machine.has(*n)) {
            refused("mbind", &io::Error::other("a node that was asked for is not online"), UNPLACED);
        }
        let policy = self.policy.only(|node| machine.has(node));
        let shares = policy.shares(bytes, page_bytes() as u64);
        if shares.is_empty() {
            machine.ask_anywhere(bytes, false)?;
            return Ok(unplaced(policy));
        }
        let mut grants = Vec::with_capacity(shares.len());
        for (node, share) in shares {
            grants.push((node, machine.ask_node(node, share)?));
        }
        let strict = |node: NodeId| grants.iter().any(|(n, grant)| *n == node && *grant == Grant::Strict);
        let mut calls: Vec<Call> = Vec::new();
        for (bytes, node) in policy.cuts(bytes, page_bytes() as u64) {
            let mode = if strict(node) { Mode::Bind } else { Mode::Preferred };
            calls.push(Call {
                bytes: bytes.start as usize..bytes.end as usize,
                mode,
                nodes: IdSet::from_iter([node.0]),
            });
        }
        if calls.is_empty() {
            let nodes = policy.nodes().into_iter().map(|n| n.0).collect();
            calls.push(Call { bytes: 0..bytes as usize, mode: Mode::Interleave, nodes });
        }
        Ok(Plan { policy, calls })
    }

    /// Makes the policy calls: bytes that are bound to one node. A refusal leaves the memory unplaced; only a kernel
    /// without memory is an error.
    fn place(&self, memory: &Memory, plan: &Plan) -> io::Result<Vec<Bound>> {
        let mut bounds: Vec<Bound> = Vec::new();
        for Call { bytes, mode, nodes } in &plan.calls {
            match memory.bind(bytes.clone(), *mode, nodes) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Err(error),
                Err(error) => {
                    refused("mbind", &error, UNPLACED);
                    return Ok(bounds);
                }
            }
            let Some(node) = nodes.iter().next().filter(|_| *mode == Mode::Bind).map(NodeId) else { continue };
            let count = (bytes.end - bytes.start) as u64;
            match bounds.iter_mut().find(|b| b.node() == node) {
                Some(bound) => bound.grow(count),
                None => bounds.push(self.machine.bound(node, count)),
            }
        }
        Ok(bounds)
    }
}

/// What to ask of the kernel for one mapping.
struct Plan {
    /// What the region will say that it follows.
    policy: Policy,
    calls: Vec<Call>,
}

/// One policy call: bytes of the mapping, and where they shall lie.
struct Call {
    bytes: Range<usize>,
    mode: Mode,
    nodes: IdSet,
}
