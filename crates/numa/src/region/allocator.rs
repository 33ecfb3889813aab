//! Allocators: who makes regions, by which policy and out of which budget.
//!
//! # Limits
//! Free memory is checked when a mapping is made, not when its pages are touched; see `machine`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::{self, Plan, UNPLACED};
use super::{Recycle, Region};
use crate::budget::{Budget, Reservation};
use crate::error::MemoryError;
use crate::id_set::IdSet;
use crate::ids::NodeId;
use crate::machine::{Bound, Grant, Machine};
use crate::policy::Policy;
use crate::pool::{POOL_BYTES_MAX, Pool, SLAB_BYTES};
use crate::recycle::{MappingKind, RECYCLED_BYTES_MIN, scratch_bytes};
use crate::refusals::refused;
use crate::sys::mapping::{ALIGN_BYTES, HUGE_PAGE_BYTES, Mapping, Pages};
use crate::sys::memory::Memory;
use crate::sys::{Mode, page_bytes};

/// Below this, a request is not worth a mapping of its own where placement makes no difference.
const UNPLACED_HEAP_BYTES: usize = 64 << 10;
/// Interleaving uses huge pages only when every node gets this many, or the spread would be too coarse.
pub(super) const HUGE_PAGES_PER_NODE_MIN: usize = 8;

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
        Allocator::build(policy, Some(budget), Arc::clone(Machine::this()))
    }

    /// An allocator without placement and budget, for tests and what is not worth counting.
    pub fn unplaced() -> Allocator {
        Allocator::build(Policy::Local, None, Arc::clone(Machine::this()))
    }

    /// The same budget with another policy.
    pub fn with_policy(&self, policy: Policy) -> Allocator {
        Allocator { policy, ..self.clone() }
    }

    /// A zeroed region of `len_bytes` bytes. Its [`Region::policy`] says where a request of a few pages
    /// lies on one node of several. From 2 MiB on the kernel is asked for huge pages, which never lie across two runs
    /// of a policy; for interleaved regions from eight of them per node on.
    ///
    /// # Errors
    /// [`MemoryError`] says which budget is used up, which node is full, or what the kernel said; nothing is kept then.
    pub fn region(&self, len_bytes: usize) -> Result<Region, MemoryError> {
        if !self.is_placed() && len_bytes < UNPLACED_HEAP_BYTES || len_bytes == 0 {
            return self.on_heap(len_bytes);
        }
        if self.is_placed() && len_bytes <= POOL_BYTES_MAX {
            return self.in_pool(len_bytes);
        }
        self.mapped(len_bytes, len_bytes)
    }

    /// A region of `len_bytes` bytes whose contents are unspecified: zeros, or what an earlier scratch region of this
    /// process held. For buffers that live shortly and are written before they are read: their memory is kept per node
    /// when they are dropped, up to a sixteenth of what is free there, and used again without asking the kernel.
    ///
    /// Requests below 64 KiB and policies over several nodes are those of [`Allocator::region`]. Others are rounded up
    /// by at most an eighth, which the budget counts. With [`Policy::Local`] what the calling thread's node freed is
    /// used.
    ///
    /// # Errors
    /// As [`Allocator::region`].
    pub fn scratch(&self, len_bytes: usize) -> Result<Region, MemoryError> {
        let node = match &self.policy {
            _ if !self.machine.has_choice() => self.machine.only_node(),
            Policy::Local => crate::process::current_cpu().and_then(|cpu| self.machine.node_of_cpu(cpu)),
            Policy::Node(node) => Some(*node),
            _ => None,
        };
        let bytes = scratch_bytes(len_bytes).filter(|_| len_bytes >= RECYCLED_BYTES_MIN);
        let (Some(node), Some(bytes)) = (node, bytes) else { return self.region(len_bytes) };
        let kind = MappingKind { placed: self.is_placed(), huge: self.pages(bytes) == Pages::Huge };
        let recycle = |node| Some(Box::new(Recycle { machine: Arc::clone(&self.machine), node, kind }));
        let Some(memory) = self.machine.take_recycled(node, bytes, kind) else {
            let mut region = self.mapped(len_bytes, bytes)?;
            // A full node may have been replaced by another, or by none.
            let node = match region.policy() {
                Policy::Node(node) if self.machine.has_choice() => Some(node),
                _ => Some(node).filter(|_| !kind.placed),
            };
            region.recycle = node.and_then(recycle);
            return Ok(region);
        };
        let reservation = match self.reserve(memory.held_bytes() as u64) {
            Ok(reservation) => reservation,
            Err(error) => {
                self.machine.recycle(node, memory, kind);
                return Err(error);
            }
        };
        let memory = memory.with_len(len_bytes);
        let mut region = Region::new(memory, reservation, self.policy.clone(), Vec::new(), self.machine.only_node());
        region.recycle = recycle(node);
        Ok(region)
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
        Allocator::build(policy, budget, machine)
    }

    pub(super) fn reserve(&self, bytes: u64) -> Result<Option<Reservation>, MemoryError> {
        self.budget.as_ref().map(|budget| budget.reserve(bytes)).transpose()
    }

    /// Checks free memory for a mapping of which `of` bytes are to be had now, whose cuts follow `laid_out_bytes`, and
    /// decides which policy calls to make.
    pub(super) fn plan(&self, laid_out_bytes: u64, of: std::ops::Range<u64>) -> Result<Plan, MemoryError> {
        plan::plan(&self.machine, &self.policy, laid_out_bytes, of)
    }

    /// What size of pages a mapping of this many bytes asks for.
    pub(super) fn pages(&self, len_bytes: usize) -> Pages {
        let nodes = match &self.policy {
            Policy::Interleaved(_) if self.machine.has_choice() => self.policy.nodes().len(),
            _ => 1,
        };
        let wanted = if nodes > 1 { HUGE_PAGE_BYTES * nodes * HUGE_PAGES_PER_NODE_MIN } else { HUGE_PAGE_BYTES };
        match len_bytes >= wanted {
            true => Pages::Huge,
            // Where the system gives huge pages unasked, they would be interleaved as wholes.
            false if nodes > 1 => Pages::Small,
            false => Pages::Default,
        }
    }

    fn build(policy: Policy, budget: Option<Arc<Budget>>, machine: Arc<Machine>) -> Allocator {
        Allocator { policy, budget, machine }
    }

    /// Whether there is anything to place.
    fn is_placed(&self) -> bool {
        self.machine.has_choice() && self.policy != Policy::Local
    }

    fn on_heap(&self, len_bytes: usize) -> Result<Region, MemoryError> {
        let held = len_bytes.next_multiple_of(ALIGN_BYTES) as u64;
        let reservation = self.reserve(held)?;
        let memory = Memory::heap(len_bytes).map_err(|error| MemoryError::system(held, error))?;
        Ok(Region::new(memory, reservation, self.policy.clone(), Vec::new(), self.machine.only_node()))
    }

    /// A few pages: whole on one of the policy's nodes, which is that of the first byte for stripes, else one in turn.
    fn in_pool(&self, len_bytes: usize) -> Result<Region, MemoryError> {
        let machine = &self.machine;
        let Some(node) = plan::one_of(&plan::online(machine, &self.policy), next_turn) else {
            return self.on_heap(len_bytes);
        };
        let held = Pool::block_bytes(len_bytes) as u64;
        let reservation = self.reserve(held)?;
        let Some(pool) = machine.pool(node) else { unreachable!("only online nodes are left, and they have pools") };
        let memory = pool.take(len_bytes, || slab(machine, node))?;
        Ok(Region::new(memory, reservation, Policy::Node(node), Vec::new(), machine.only_node()))
    }

    /// A mapping of its own of at least `mapped_bytes` bytes, of which `len_bytes` are the region's.
    fn mapped(&self, len_bytes: usize, mapped_bytes: usize) -> Result<Region, MemoryError> {
        let pages = self.pages(mapped_bytes);
        let held = mapped_bytes.checked_next_multiple_of(page_bytes()).unwrap_or(usize::MAX);
        let reservation = self.reserve(held as u64)?;
        let plan = self.plan(held as u64, 0..held as u64)?;
        let memory = Memory::map(held, pages).map_err(|error| MemoryError::system(held as u64, error))?;
        let bounds: Vec<Bound> = plan.carry_out(&self.machine, |bytes, mode, nodes| memory.bind(bytes, mode, nodes))?;
        let memory = memory.with_len(len_bytes);
        Ok(Region::new(memory, reservation, plan.policy, bounds, self.machine.only_node()))
    }
}

/// A number that grows by one with every call on a thread: threads need not agree on whose turn it is.
fn next_turn() -> usize {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Threads start at different nodes.
        static TURN: std::cell::Cell<usize> = std::cell::Cell::new(FIRST.fetch_add(1, Ordering::Relaxed));
    }
    TURN.with(|turn| turn.replace(turn.get().wrapping_add(1)))
}

/// The mapping of a slab, bound to a node.
fn slab(machine: &Arc<Machine>, node: NodeId) -> Result<Mapping, MemoryError> {
    let mode = match machine.ask_node(node, SLAB_BYTES as u64)? {
        Grant::Strict => Mode::Bind,
        Grant::Lenient => Mode::Preferred,
    };
    let mapping =
        Mapping::new(SLAB_BYTES, Pages::Default).map_err(|error| MemoryError::system(SLAB_BYTES as u64, error))?;
    match mapping.bind(0..SLAB_BYTES, mode, &IdSet::from_iter([node.0])) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
            return Err(MemoryError::system(SLAB_BYTES as u64, error));
        }
        Err(error) => refused("mbind", &error, UNPLACED),
    }
    Ok(mapping)
}
