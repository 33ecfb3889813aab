//! Places regions anew: sets the policy of their pages and moves those that are there, while other threads read them.
//!
//! Invariants: a region is placed by one thread at a time; what is recorded of its policy changes only once all pages
//! were asked to move; when a placement is given up, policy and pages go back before the error is returned. The kernel
//! gets one policy call for each run of a policy (at most 256 in a region), never one for each page.
//!
//! # Limits
//! Pages that are placed here prefer their node instead of being bound to it: those that are touched later spill over
//! when it is full. Blocks of the heap and of pools do not move.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (moving a placement) and 4.3.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::plan::{UNPLACED, online};
use super::sections::{Section, main_policy, put};
use super::{LaidOut, PolicyState, Region};
use crate::error::MemoryError;
use crate::id_set::IdSet;
use crate::ids::NodeId;
use crate::machine::Machine;
use crate::moving::{MoveError, MoveReport, MoveTarget, check_room, move_back, move_to};
use crate::page_map::PageMap;
use crate::policy::Policy;
use crate::refusals::refused;
use crate::sys::mapping::HUGE_PAGE_BYTES;
use crate::sys::migrate::{advise_huge_pages, set_policy};
use crate::sys::{Mode, page_bytes};
use crate::usage::{Counts, UsageKind};

/// A policy call: which bytes, and the nodes; none for the node of the cpu that touches a page.
type Call = (Range<usize>, Option<(Mode, IdSet)>);

/// Where a region lay at a moment: its policy and its pages. See [`Region::restore`].
#[derive(Clone, Debug)]
pub struct RegionPlacement {
    sections: Vec<Section>,
    map: PageMap,
}

impl PageMap {
    /// Reads where a region lies. Where the kernel refuses to tell, its policy's node is assumed.
    pub fn of(region: &Region) -> PageMap {
        PageMap::read_or((region.address(), region.len()), || region.runs())
    }
}

impl Region {
    /// Whether its pages can move: whether it is a mapping of its own. Otherwise it is a few pages of the heap or of a
    /// pool, which lie among others, and is copied instead.
    pub fn is_movable(&self) -> bool {
        self.memory.is_mapping()
    }

    /// Moves its pages to where `policy` wants them, and lets pages that are touched later follow it too. Others may
    /// read meanwhile. A few mebibytes move at a time; `stop` is asked before each such step, and `true` ends it.
    ///
    /// Nodes that are not online are left out, as when a region is made. What cannot move (see
    /// [`is_movable`](Region::is_movable)) is told as stuck.
    ///
    /// # Errors
    /// `Stopped`, or `Memory` with the node that is full; policy and pages are then as they were.
    pub fn place(&self, policy: &Policy, stop: &dyn Fn() -> bool) -> Result<MoveReport, MoveError> {
        self.place_range(0..self.len(), policy, stop)
    }

    /// As [`place`](Region::place), for the whole pages that lie within these bytes of it. The last page counts as
    /// whole.
    ///
    /// # Errors
    /// As `place`.
    pub fn place_range(
        &self,
        bytes: Range<usize>,
        policy: &Policy,
        stop: &dyn Fn() -> bool,
    ) -> Result<MoveReport, MoveError> {
        self.place_on(Machine::this(), bytes, policy, stop)
    }

    /// The policies it follows, by bytes of it, ascending: several where parts of it were placed apart.
    pub fn policies(&self) -> Vec<(Range<usize>, Policy)> {
        self.sections().into_iter().map(|section| (section.bytes, section.policy)).collect()
    }

    /// How many bytes of it shall lie on each node, by its policies; bytes that may lie anywhere are left out.
    pub fn shares(&self) -> BTreeMap<NodeId, u64> {
        self.placed().shares(self.held_bytes())
    }

    /// The runs of addresses that shall lie on one node, ascending; bytes that alternate or may lie anywhere are left
    /// out.
    pub(crate) fn runs(&self) -> Vec<(Range<usize>, NodeId)> {
        let runs = self.sections().into_iter().flat_map(|section| section.runs());
        runs.map(|(bytes, node)| (self.addresses(&bytes), node)).collect()
    }

    /// The node that its policies name for a byte of it; `None` where they name none, or several in turn.
    pub fn node_by_policy(&self, byte: usize) -> Option<NodeId> {
        let section = self.sections().into_iter().find(|section| section.bytes.contains(&byte))?;
        section.runs().into_iter().find(|(run, _)| run.contains(&byte)).map(|(_, node)| node)
    }

    /// Where it lies now, to be restored later.
    pub fn snapshot(&self) -> RegionPlacement {
        let _moving = self.lock_moving();
        RegionPlacement { sections: self.sections(), map: self.map_of(&(0..self.held_bytes())) }
    }

    /// Takes policy and pages back to where they were, as far as the nodes have room. It cannot be stopped.
    pub fn restore(&self, to: &RegionPlacement) -> MoveReport {
        self.restore_on(Machine::this(), to)
    }

    pub(super) fn place_on(
        &self,
        machine: &Machine,
        bytes: Range<usize>,
        policy: &Policy,
        stop: &dyn Fn() -> bool,
    ) -> Result<MoveReport, MoveError> {
        let bytes = self.whole_pages(bytes);
        if bytes.is_empty() {
            return Ok(MoveReport::default());
        }
        if !self.is_movable() {
            return Ok(MoveReport { stuck_bytes: bytes.len() as u64, ..MoveReport::default() });
        }
        let _moving = self.lock_moving();
        if !machine.has_choice() {
            self.record(Section::whole(bytes.clone(), policy.clone()));
            return Ok(MoveReport { already_bytes: bytes.len() as u64, ..MoveReport::default() });
        }
        let new = Section::whole(bytes.clone(), online(machine, policy));
        if policy.is_placed() && !new.policy.is_placed() {
            return Ok(MoveReport { stuck_bytes: bytes.len() as u64, ..MoveReport::default() });
        }
        if stop() {
            return Err(MoveError::Stopped);
        }
        let before = self.map_of(&bytes);
        let target = self.target_of(&new);
        let addresses = self.addresses(&bytes);
        self.hold_pages_apart(&bytes);
        let result = self.move_pages(machine, &new, &addresses, target.as_ref(), &before, stop);
        match result {
            Ok(_) => self.record(new),
            Err(_) => {
                self.sections_within(&bytes).iter().for_each(|old| self.follow(old, true).unwrap_or_default());
                // Pages may have come and gone: maps read meanwhile are stale.
                self.placements.fetch_add(1, Ordering::Release);
            }
        }
        self.let_pages_join(&self.sections_within(&bytes));
        result
    }

    /// Sets the policy and moves the pages; on an error the pages are back, the policy is not yet.
    fn move_pages(
        &self,
        machine: &Machine,
        new: &Section,
        addresses: &Range<usize>,
        target: Option<&MoveTarget<'_>>,
        before: &PageMap,
        stop: &dyn Fn() -> bool,
    ) -> Result<MoveReport, MoveError> {
        if let Some(target) = target {
            check_room(addresses, target, before, machine)?;
        }
        let system = |error: io::Error| MemoryError::System {
            requested_bytes: addresses.len() as u64,
            reason: format!("its policy could not be set: {error}"),
        };
        self.follow(new, false).map_err(system)?;
        let present = || before.bytes_per_node().values().sum();
        match target {
            None => Ok(MoveReport { already_bytes: present(), ..MoveReport::default() }),
            // Who does not tell where pages are does not move them either.
            Some(_) if !before.is_measured() => {
                Ok(MoveReport { stuck_bytes: addresses.len() as u64, ..MoveReport::default() })
            }
            Some(target) => move_to(addresses, target, before, machine, stop),
        }
    }

    fn restore_on(&self, machine: &Machine, to: &RegionPlacement) -> MoveReport {
        if !self.is_movable() {
            return MoveReport::default();
        }
        let _moving = self.lock_moving();
        let held = self.held_bytes();
        let sections = to.sections.iter().filter_map(|section| section.cut(&(0..held)));
        let mut moved = MoveReport::default();
        if machine.has_choice() {
            self.hold_pages_apart(&(0..held));
            for section in sections.clone() {
                self.follow(&section, false).unwrap_or_default();
            }
            if to.map.is_measured() {
                moved = move_back(&self.addresses(&(0..held)), &to.map, machine);
            }
            self.let_pages_join(&sections.clone().collect::<Vec<_>>());
        }
        sections.for_each(|section| self.record(section));
        moved
    }

    /// Keeps the kernel from joining base pages to huge ones for a while. It chooses the node when it begins to, and
    /// would take pages along that have moved since.
    fn hold_pages_apart(&self, bytes: &Range<usize>) {
        if self.has_huge_pages() {
            advise_huge_pages(self.addresses(bytes), false);
        }
    }

    /// Lets it do so again where these sections, which it follows from now on, want that.
    fn let_pages_join(&self, sections: &[Section]) {
        for section in sections.iter().filter(|_| self.has_huge_pages()) {
            advise_huge_pages(self.addresses(&section.bytes), section.wants_huge_pages());
        }
    }

    fn has_huge_pages(&self) -> bool {
        self.address().is_multiple_of(HUGE_PAGE_BYTES) && self.held_bytes() >= HUGE_PAGE_BYTES
    }

    /// Tells the kernel where pages of this section that are not there yet shall come from. `strictly` binds those runs
    /// whose bytes are still counted as bound. A refusal leaves them as they are; only a kernel out of memory is an
    /// error.
    fn follow(&self, section: &Section, strictly: bool) -> io::Result<()> {
        let bound: Vec<NodeId> = match &self.placed().laid_out {
            Some(laid_out) => laid_out.bounds.iter().map(|bound| bound.node()).collect(),
            None => Vec::new(),
        };
        let mut calls: Vec<Call> = Vec::new();
        for (bytes, node) in section.runs() {
            let mode = if strictly && bound.contains(&node) { Mode::Bind } else { Mode::Preferred };
            calls.push((bytes, Some((mode, IdSet::from_iter([node.0])))));
        }
        if calls.is_empty() {
            let nodes = section.policy.nodes();
            let all = (Mode::Interleave, nodes.iter().map(|n| n.0).collect());
            calls.push((section.bytes.clone(), (!nodes.is_empty()).then_some(all)));
        }
        for (bytes, call) in calls {
            let call = call.as_ref().map(|(mode, nodes)| (*mode, nodes));
            match set_policy(self.addresses(&bytes), call) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Err(error),
                Err(error) => {
                    refused("mbind", &error, UNPLACED);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Where the pages of a section shall lie; `None` for anywhere.
    fn target_of(&self, section: &Section) -> Option<MoveTarget<'static>> {
        let runs: Vec<_> = section.runs().into_iter().map(|(bytes, node)| (self.addresses(&bytes), node)).collect();
        let nodes = section.policy.nodes();
        match runs.is_empty() {
            false => Some(MoveTarget::Runs(runs)),
            true if nodes.is_empty() => None,
            true => Some(MoveTarget::Turns { nodes, huge: section.wants_huge_pages() }),
        }
    }

    /// Notes that these bytes follow another policy from now on.
    fn record(&self, new: Section) {
        let held = self.held_bytes();
        let mut placed = self.placed();
        let count = |placed: &PolicyState, change: fn(&Counts, Option<NodeId>, UsageKind, u64)| {
            placed.count(&self.memory, self.reservation.as_ref(), self.only_node, change);
        };
        count(&placed, Counts::take);
        let mut sections = placed.sections(held);
        let mut gone: BTreeMap<NodeId, u64> = BTreeMap::new();
        sections.iter().filter_map(|old| old.cut(&new.bytes)).for_each(|old| old.count(&mut gone));
        put(&mut sections, new);
        // What is placed anew prefers its node and binds nothing, so nothing is promised for it any more.
        let mut bounds = placed.laid_out.take().map(|laid_out| laid_out.bounds).unwrap_or_default();
        for bound in &mut bounds {
            bound.shrink_by(gone.get(&bound.node()).copied().unwrap_or(0));
        }
        let bytes = sections.iter().map(Section::laid_out_bytes).max().unwrap_or(0) as u64;
        let policy = main_policy(&sections);
        if sections.len() == 1 {
            *placed = PolicyState::new(policy, bytes, bounds);
        } else {
            *placed = PolicyState { policy, laid_out: Some(Box::new(LaidOut { bytes, bounds, sections })) };
        }
        count(&placed, Counts::add);
        drop(placed);
        self.placements.fetch_add(1, Ordering::Release);
    }

    /// Notes that all of it follows another policy.
    #[cfg(test)]
    pub(crate) fn set_policy(&self, policy: Policy) {
        self.record(Section::whole(0..self.held_bytes(), policy));
    }

    /// The sections of the whole region.
    fn sections(&self) -> Vec<Section> {
        self.placed().sections(self.held_bytes())
    }

    fn sections_within(&self, bytes: &Range<usize>) -> Vec<Section> {
        self.sections().iter().filter_map(|section| section.cut(bytes)).collect()
    }

    fn map_of(&self, bytes: &Range<usize>) -> PageMap {
        PageMap::read(&[(self.address() + bytes.start, bytes.len())])
    }

    fn addresses(&self, bytes: &Range<usize>) -> Range<usize> {
        self.address() + bytes.start..self.address() + bytes.end
    }

    fn lock_moving(&self) -> MutexGuard<'_, ()> {
        // It guards no data, so a panic elsewhere while it was held does not matter.
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whole_pages(&self, bytes: Range<usize>) -> Range<usize> {
        let page = page_bytes();
        let start = bytes.start.min(self.held_bytes()).next_multiple_of(page);
        let end = if bytes.end >= self.len() { self.held_bytes() } else { bytes.end / page * page };
        start..end.max(start)
    }
}
