//! The record of a worker: its thread group, the slot that it holds, where it waits for one, and what it has done.
//!
//! Invariant: a record outlives its thread, and another thread of the group may take it over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::meter::Meter;
use crate::affinity::SlotId;
use crate::handover::Stand;
use crate::policy::GroupId;

/// The slot of a worker that has none.
const NO_SLOT: u32 = u32::MAX;

/// A worker: a thread, where it waits, and what it has done.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its place among the workers of its scheduler.
    pub(crate) number: usize,
    pub(crate) group: GroupId,
    pub(crate) stand: Arc<Stand>,
    pub(crate) meter: Meter,
    slot: AtomicU32,
    /// Whether a thread is this worker at the moment.
    pub(super) alive: AtomicBool,
    /// The slot that it held last.
    last_slot: AtomicU32,
    /// It runs what belongs to its slot alone, so after blocking it must come back to that one.
    pub(crate) sticky: AtomicBool,
}

impl Worker {
    pub(super) fn new(number: usize, group: GroupId, slot: SlotId, groups: usize) -> Worker {
        Worker {
            number,
            group,
            stand: Arc::new(Stand::new()),
            meter: Meter::new(groups),
            slot: AtomicU32::new(NO_SLOT),
            alive: AtomicBool::new(true),
            last_slot: AtomicU32::new(slot.0),
            sticky: AtomicBool::new(false),
        }
    }

    /// The slot that it holds. Exact for the worker itself, a glance for others.
    pub(crate) fn slot(&self) -> Option<SlotId> {
        Some(self.slot.load(Ordering::Relaxed)).filter(|slot| *slot != NO_SLOT).map(SlotId)
    }

    /// The slot that it holds or held last.
    pub(crate) fn last_slot(&self) -> SlotId {
        SlotId(self.last_slot.load(Ordering::Relaxed))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    pub(super) fn set_slot(&self, slot: Option<SlotId>) {
        self.slot.store(slot.map_or(NO_SLOT, |slot| slot.0), Ordering::Relaxed);
        if let Some(slot) = slot {
            self.last_slot.store(slot.0, Ordering::Relaxed);
        }
    }
}
