//! Small decisions: may this worker run, is it pinned meanwhile, how much does a thief take.
//!
//! Invariant: plain functions of plain data.
//!
//! # Limits
//! Bulk stealing takes of one priority at a time, so that a stolen task never overtakes a more urgent one.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 ("checks that it is allowed to run"); Greinsmark 2020, section
//! 2.5.

use super::{GroupId, Layout, QueueKind};
use crate::settings::{Binding, StealAmount};

/// The most tasks that a thief takes at once.
const BULK_MAX: usize = 32;

/// A group's cpus and who is on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Its slots.
    pub slots: usize,
    /// Slots whose worker runs, or looks for, a task.
    pub working: usize,
}

/// Whether one more worker of a group may begin to work.
pub fn may_work(load: Load) -> bool {
    load.working < load.slots
}

/// What a worker is about to run, as far as pinning goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearness {
    /// The task has an affinity.
    pub near: bool,
    /// The task that submitted it had one.
    pub child_of_near: bool,
}

/// Whether a worker is pinned to the cpus of its group while it runs this.
pub fn binds(binding: Binding, running: Nearness) -> bool {
    match binding {
        Binding::None => false,
        Binding::Preferred => running.near,
        Binding::Opportunistic => running.near || running.child_of_near,
        Binding::Always => true,
    }
}

/// How many tasks of one queue a worker of `thief` takes from `victim`, which has `queued` of that priority. What is
/// beyond the first goes into the queue of that kind in the thief's group; where that would let a task get further
/// than its kind allows, one is taken.
pub fn bulk(
    layout: &Layout,
    amount: StealAmount,
    kind: QueueKind,
    thief: GroupId,
    victim: GroupId,
    queued: usize,
) -> usize {
    let here = layout.group(thief);
    let there = layout.group(victim);
    let same_node = here.node == there.node;
    let same_package = same_node || (here.package.is_some() && here.package == there.package);
    let keeps_its_reach = match kind {
        QueueKind::Stealable => true,
        QueueKind::Neighbour | QueueKind::PackageHard => same_package,
        QueueKind::NodeHard => same_node,
    };
    match amount {
        StealAmount::Bulk if keeps_its_reach && thief != victim => queued.div_ceil(2).clamp(1, BULK_MAX),
        _ => 1,
    }
}
