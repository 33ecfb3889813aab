//! Sections in which a worker blocks: its slot is lent meanwhile, private queue included.
//!
//! Invariants: between its two ends the thread holds no slot, so it does not count as working and is no worker to
//! whoever asks; after it, it holds one again, unless the scheduler ends; both also when the section panics.
//!
//! # Limits
//! A worker that finds its slot taken waits until another one of its group is between two tasks. A unit that blocks
//! lets other tasks of its slot run meanwhile, so it must not do so while its partitions are half changed.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (inactive threads).

use std::sync::atomic::Ordering;

use super::{Here, here};
use crate::affinity::SlotId;
use crate::stats::WorkerState;

/// Runs `section`, which may block (wait for a lock, a channel, a file). A worker hands its slot over for that time, so
/// that another one can use the cpu; a thread that is no worker just runs it.
///
/// ```
/// use numa::{Budget, Topology};
/// use sched::{Affinity, Config, Scheduler, Statement};
///
/// // One slot: the second task can only run while the first one blocks.
/// let scheduler = Scheduler::new(Topology::synthetic(1, 1, 1, 1).into(), Config::default());
/// let statement = Statement::new(1, Budget::unlimited());
/// let (send, receive) = std::sync::mpsc::channel();
/// let first = scheduler.submit(&statement, Affinity::Anywhere, move || sched::blocking(|| receive.recv().unwrap()));
/// scheduler.spawn(&statement, Affinity::Anywhere, move || send.send(7).unwrap());
/// assert_eq!(first.wait(), Ok(7));
/// ```
pub fn blocking<R>(section: impl FnOnce() -> R) -> R {
    let _blocked = here().and_then(BlockingSection::begin);
    section()
}

/// A worker without its slot.
struct BlockingSection {
    here: Here,
    slot: SlotId,
    /// What takes the slot back, if nobody else has taken it.
    lending: Option<u32>,
}

impl BlockingSection {
    /// `None` for a worker that has no slot to lend: it is in a section already.
    fn begin(here: Here) -> Option<BlockingSection> {
        let slot = here.worker.slot()?;
        let Here { shared, worker } = &here;
        shared.set_state(worker, WorkerState::Inactive);
        shared.takes_slot(worker, None);
        let lending = shared.sleep.lend(slot);
        // Looked at after the lending was announced: what comes later sees it and takes the slot.
        let wanted = shared.groups[worker.group.index()].handover.anyone_returns() || shared.has_work_for(slot);
        let given = wanted && shared.can_staff(worker.group);
        if given && shared.sleep.reclaim(slot, lending) {
            shared.staff(slot);
        }
        Some(BlockingSection { slot, lending: (!given).then_some(lending), here })
    }
}

impl Drop for BlockingSection {
    fn drop(&mut self) {
        let Here { shared, worker } = &self.here;
        let kept = self.lending.is_some_and(|lending| shared.sleep.reclaim(self.slot, lending));
        let slot = if kept {
            Some(self.slot)
        } else {
            let wanted = worker.sticky.load(Ordering::Relaxed).then_some(self.slot);
            shared.return_to_slot(worker, wanted)
        };
        shared.takes_slot(worker, slot);
        shared.set_state(worker, WorkerState::Working);
    }
}
