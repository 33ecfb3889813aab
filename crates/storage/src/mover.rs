//! Moving the memory of a component to other nodes, and copying it where it cannot move.
//!
//! What is large moves in place: its pages go to other nodes, addresses and contents stay, so that everybody who shares
//! the memory reads on. What cannot move (small regions of the heap or of a pool) and what is to have a copy on every
//! node is copied.
//!
//! Invariant: before a region moves, where it was is noted, so that everything can be put back.
//!
//! # Limits
//! Putting back is best effort, as the nodes may have filled up meanwhile.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (moving and partitioning columns).

use std::sync::{Arc, Mutex, PoisonError};

use numa::{Allocator, MoveError, MoveReport, NodeId, Policy, Region, RegionPlacement};

use crate::copies::Copies;
use crate::dictionary::Values;
use crate::error::{Interruption, StoreError};
use crate::placement::{Exchange, copied};
use crate::plain::PlainData;

/// What placing did, in bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceReport {
    /// Moved to other nodes in place.
    pub moved_bytes: u64,
    /// Lay where they should.
    pub already_bytes: u64,
    /// Copied: what cannot move, and copies for further nodes.
    pub copied_bytes: u64,
    /// Could not be placed: the kernel refused, or arrow owns the memory.
    pub stuck_bytes: u64,
}

impl PlaceReport {
    /// Adds what else was done.
    pub fn add(&mut self, other: &PlaceReport) {
        self.moved_bytes += other.moved_bytes;
        self.already_bytes += other.already_bytes;
        self.copied_bytes += other.copied_bytes;
        self.stuck_bytes += other.stuck_bytes;
    }

    pub(crate) fn add_moved(&mut self, moved: MoveReport) {
        self.moved_bytes += moved.moved_bytes;
        self.already_bytes += moved.already_bytes;
        self.stuck_bytes += moved.stuck_bytes;
    }
}

/// A component, as far as placing sees it: some regions, each of which may be exchanged for a copy.
pub(crate) trait Movable: Sized {
    /// The same bytes with each region as `exchange` gives it.
    fn exchanged(&self, exchange: &mut Exchange<'_, StoreError>) -> Result<Self, StoreError>;

    /// The regions that it consists of.
    fn regions(&self) -> Vec<&Region>;
}

impl Movable for Arc<Region> {
    fn exchanged(&self, exchange: &mut Exchange<'_, StoreError>) -> Result<Self, StoreError> {
        exchange(self)
    }

    fn regions(&self) -> Vec<&Region> {
        vec![self]
    }
}

impl Movable for Values {
    fn exchanged(&self, exchange: &mut Exchange<'_, StoreError>) -> Result<Self, StoreError> {
        Values::exchanged(self, exchange)
    }

    fn regions(&self) -> Vec<&Region> {
        Values::regions(self)
    }
}

/// The data with its regions exchanged; the very same where none is another.
pub(crate) fn unless_same<T>(
    data: &Arc<T>,
    exchange: &mut Exchange<'_, StoreError>,
    exchanged: impl FnOnce(&T, &mut Exchange<'_, StoreError>) -> Result<T, StoreError>,
) -> Result<Arc<T>, StoreError> {
    let mut new = false;
    let other = exchanged(data, &mut |region| {
        let exchanged = exchange(region)?;
        new |= !Arc::ptr_eq(&exchanged, region);
        Ok(exchanged)
    })?;
    Ok(if new { Arc::new(other) } else { Arc::clone(data) })
}

impl Movable for Arc<PlainData> {
    fn exchanged(&self, exchange: &mut Exchange<'_, StoreError>) -> Result<Self, StoreError> {
        unless_same(self, exchange, PlainData::exchanged)
    }

    fn regions(&self) -> Vec<&Region> {
        PlainData::regions(self)
    }
}

/// Where a unit shall lie.
pub(crate) struct MoveTarget<'a> {
    /// Of a single copy.
    pub(crate) policy: Policy,
    /// The nodes of its copies, where there shall be several.
    pub(crate) replicas: Option<&'a [NodeId]>,
    pub(crate) allocator: &'a Allocator,
}

/// A component that was just made, with a copy on each of these nodes.
pub(crate) fn replicated<T: Movable + Clone>(
    current: &Copies<T>,
    nodes: &[NodeId],
    allocator: &Allocator,
) -> Result<Copies<T>, StoreError> {
    let mover = Mover::new(&|| false);
    let target = MoveTarget { policy: Policy::Node(nodes[0]), replicas: Some(nodes), allocator };
    let copies = mover.copies(current, &target, &mut PlaceReport::default())?;
    Ok(copies.unwrap_or_else(|| current.clone()))
}

/// Moves regions, and can take it back.
pub(crate) struct Mover<'a> {
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// Where regions were before they moved, in the order of the moves.
    undo: Mutex<Vec<(Arc<Region>, RegionPlacement)>>,
}

impl<'a> Mover<'a> {
    /// Asks `stop` every few mebibytes.
    pub(crate) fn new(stop: &'a (dyn Fn() -> bool + Sync)) -> Mover<'a> {
        Mover { stop, undo: Mutex::default() }
    }

    /// The region by a policy: itself where its pages can move, else a copy.
    fn region(
        &self,
        region: &Arc<Region>,
        policy: &Policy,
        allocator: &Allocator,
        report: &mut PlaceReport,
    ) -> Result<Arc<Region>, StoreError> {
        let stop: &dyn Fn() -> bool = &|| (self.stop)();
        if region.is_movable() {
            self.note(region);
            report.add_moved(region.place(policy, stop).map_err(move_error)?);
            return Ok(Arc::clone(region));
        }
        if *policy == Policy::Local || region.policy() == *policy {
            report.already_bytes += region.len() as u64;
            return Ok(Arc::clone(region));
        }
        self.copy(region, &allocator.with_policy(policy.clone()), report)
    }

    fn copy(
        &self,
        region: &Arc<Region>,
        allocator: &Allocator,
        report: &mut PlaceReport,
    ) -> Result<Arc<Region>, StoreError> {
        let copy = copied(region, allocator, &|| (self.stop)())?.ok_or(Interruption::Cancelled)?;
        report.copied_bytes += copy.len() as u64;
        Ok(Arc::new(copy))
    }

    pub(crate) fn note(&self, region: &Arc<Region>) {
        let before = (Arc::clone(region), region.snapshot());
        self.undo.lock().unwrap_or_else(PoisonError::into_inner).push(before);
    }

    /// Puts every region back to where it was first seen.
    pub(crate) fn restore(&self) {
        let undo = std::mem::take(&mut *self.undo.lock().unwrap_or_else(PoisonError::into_inner));
        for (region, before) in undo.into_iter().rev() {
            region.restore(&before);
        }
    }

    /// Places a component and all its copies; `None` where readers of the old one see the new placement.
    pub(crate) fn copies<T: Movable>(
        &self,
        current: &Copies<T>,
        target: &MoveTarget<'_>,
        report: &mut PlaceReport,
    ) -> Result<Option<Copies<T>>, StoreError> {
        if current.first().regions().is_empty() {
            return Ok(None);
        }
        if (self.stop)() {
            return Err(Interruption::Cancelled.into());
        }
        let Some(nodes) = target.replicas else {
            let kept = match &target.policy {
                Policy::Node(node) => current.on(*node),
                _ => current.first(),
            };
            let mut new = current.is_replicated();
            let placed = self.component(kept, &target.policy, target.allocator, &mut new, report)?;
            return Ok(new.then(|| Copies::one(placed)));
        };
        self.replicated(current, nodes, target.allocator, report)
    }

    /// A copy on every node: those that are there stay, a single one elsewhere moves to the first node.
    fn replicated<T: Movable>(
        &self,
        current: &Copies<T>,
        nodes: &[NodeId],
        allocator: &Allocator,
        report: &mut PlaceReport,
    ) -> Result<Option<Copies<T>>, StoreError> {
        let mut there: Vec<(NodeId, &T)> = current.placed().collect();
        if there.is_empty() {
            let first = current.first();
            let alone = first.regions().first().and_then(|region| match region.policy() {
                Policy::Node(node) => Some(node),
                _ => None,
            });
            there.push((alone.filter(|node| nodes.contains(node)).unwrap_or(nodes[0]), first));
        }
        let on = |node: NodeId| there.iter().find(|(n, _)| *n == node).map(|(_, copy)| *copy);
        let source = nodes.iter().find_map(|&node| on(node)).unwrap_or(current.first());
        let mut copies: Vec<(NodeId, T)> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            if copies.iter().any(|(known, _)| *known == node) {
                continue;
            }
            let policy = Policy::Node(node);
            let copy = match on(node) {
                Some(there) => self.component(there, &policy, allocator, &mut false, report)?,
                None => {
                    let near = allocator.with_policy(policy);
                    source.exchanged(&mut |region| self.copy(region, &near, report))?
                }
            };
            copies.push((node, copy));
        }
        Ok(Some(Copies::on_nodes(copies)))
    }

    /// One copy of a component by a policy; `new` becomes true where it is not the same memory.
    fn component<T: Movable>(
        &self,
        component: &T,
        policy: &Policy,
        allocator: &Allocator,
        new: &mut bool,
        report: &mut PlaceReport,
    ) -> Result<T, StoreError> {
        component.exchanged(&mut |region| {
            let placed = self.region(region, policy, allocator, report)?;
            *new |= !Arc::ptr_eq(&placed, region);
            Ok(placed)
        })
    }
}

/// What a region that could not be moved means for its column.
pub(crate) fn move_error(error: MoveError) -> StoreError {
    match error {
        MoveError::Stopped => Interruption::Cancelled.into(),
        MoveError::Memory(error) => error.into(),
    }
}
