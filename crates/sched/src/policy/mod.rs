//! Every decision of the scheduler, as functions of plain data.
//!
//! - [`Layout`]: which slots and thread groups a machine gets, in what order a worker searches them, who can take what.
//! - [`Layout::route`]: which queue a task goes to. [`Layout::wake`]: whom a new task wakes.
//! - [`GroupQueues`]: what a thread group holds and which task goes next.
//!
//! Invariants (checked by the property tests beside this file): no task is lost or doubled; a hard task is never taken
//! outside its node or package and a slot's task by nobody but that slot; within what a worker may take from one group
//! the highest priority goes first, and submission order within one priority; whatever is queued can be reached by
//! some worker. Nothing here has a thread, clock, lock, system call or random source, so a simulator can call it in
//! virtual time.
//!
//! # Limits
//! One thread group per node. Splitting a node along shared caches needs only [`Layout::new`] to make more groups: the
//! search, routing and waking below already treat several groups of a node as helping each other.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1; stealing modes: Greinsmark 2020.

mod layout;
mod queues;
#[cfg(test)]
mod tests;

pub use layout::{GroupPlace, Layout, SlotPlace, Step, Wake};
pub use queues::{GroupQueues, Queue, Taken};

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
/// The paper's group has two, stealable and hard; hard affinity to a package adds the third, which only the
/// sub-domains of that package share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKind {
    /// Whoever the stealing mode allows.
    Stealable,
    /// Groups of the same package.
    PackageHard,
    /// Groups of the same node.
    NodeHard,
}

impl QueueKind {
    /// All kinds, in the order of their indices.
    pub const ALL: [QueueKind; 3] = [QueueKind::Stealable, QueueKind::PackageHard, QueueKind::NodeHard];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// A set of queue kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach(u8);

impl Reach {
    /// Every kind.
    pub const ALL: Reach = Reach(0b111);

    /// The set with `kind` added.
    #[must_use]
    pub fn with(self, kind: QueueKind) -> Reach {
        Reach(self.0 | 1 << kind.index())
    }

    /// Whether `kind` is in the set.
    pub fn includes(self, kind: QueueKind) -> bool {
        self.0 & 1 << kind.index() != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The private queue of a slot.
    Slot(SlotId),
    /// A shared queue of a thread group.
    Group(GroupId, QueueKind),
}
