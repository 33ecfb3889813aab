//! Every decision of the scheduler, as functions of plain data.
//!
//! - [`Layout`]: which slots and thread groups a machine gets, in what order a worker searches them, who can take what,
//!   whom a new task wakes.
//! - [`route()`]: which queue a task goes to.
//! - [`PackageQueues`]: which sub-domains share the queue of their package.
//! - [`GroupQueues`]: what a thread group holds and which task goes next; [`bulk`] how much a thief takes.
//! - [`may_work`], [`binds`]: whether a worker may run, and whether it is pinned while it does.
//! - [`watchdog`]: what to do about groups that have fallen behind. [`concurrency`]: how many tasks an operation may
//!   issue.
//!
//! Invariants (checked by the property tests beside this file): no task is lost or doubled; a hard task is never taken
//! outside its node or package and a slot's task by nobody but that slot; within what a worker may take from one group
//! the highest priority goes first, and submission order within one priority; whatever is queued can be reached by
//! some worker; never more workers of a group work than it has cpus. State is per group; other groups are seen as
//! summaries, and checked again where something is taken. Nothing here has a thread, clock, lock, system call or random
//! source, so a simulator can call it in virtual time.
//!
//! # Limits
//! Loads count tasks, not their weight.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1; stealing modes: Greinsmark 2020.

pub mod concurrency;
mod decide;
mod layout;
mod packages;
mod queues;
mod route;
mod split;
#[cfg(test)]
mod tests;
pub mod watchdog;

pub use decide::{Load, Nearness, binds, bulk, may_work};
pub use layout::{GroupPlace, Layout, SearchStep, SlotPlace, Wake};
pub use packages::PackageQueues;
pub use queues::{GroupQueues, Queue, QueueItem};
pub use route::{Request, route};
pub use split::Split;

use crate::affinity::SlotId;

/// A thread group, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shared queues of a thread group, by who may take from them.
///
/// The paper's group has two, stealable and hard. Stealing by neighbours only adds the second, so that the mode is a
/// property of a task and can differ between statements; hard affinity to a package adds the third, which only the
/// sub-domains of that package share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKind {
    /// Every group may steal.
    Stealable,
    /// Groups of neighbouring nodes may steal.
    Neighbour,
    /// Groups of the same package.
    PackageHard,
    /// Groups of the same node.
    NodeHard,
}

impl QueueKind {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// All kinds, in the order of their indices.
    pub const ALL: [QueueKind; QueueKind::COUNT] =
        [QueueKind::Stealable, QueueKind::Neighbour, QueueKind::PackageHard, QueueKind::NodeHard];

    /// Its place in [`QueueKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A set of queue kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach(u8);

impl Reach {
    /// Every kind.
    pub const ALL: Reach = Reach(0b1111);

    /// The set with `kind` added.
    #[must_use]
    pub fn with(self, kind: QueueKind) -> Reach {
        Reach(self.0 | 1 << kind.index())
    }

    /// Whether `kind` is in the set.
    pub fn includes(self, kind: QueueKind) -> bool {
        self.0 & 1 << kind.index() != 0
    }

    pub(crate) fn without(self, kind: QueueKind) -> Reach {
        Reach(self.0 & !(1 << kind.index()))
    }

    pub(crate) fn and(self, other: Reach) -> Reach {
        Reach(self.0 & other.0)
    }

    /// Its kind, if there is one only.
    pub(crate) fn only(self) -> Option<QueueKind> {
        if self.0.is_power_of_two() { QueueKind::ALL.get(self.0.trailing_zeros() as usize).copied() } else { None }
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueTarget {
    /// The private queue of a slot.
    Slot(SlotId),
    /// A shared queue of a thread group.
    Group(GroupId, QueueKind),
}
