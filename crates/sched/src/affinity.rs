//! What a task says about itself: where it wants to run and how urgent it is; and how a scheduler is set up.
//!
//! Invariant: everything here is plain `Copy` data, so that [`crate::policy`] can decide over it without a lock.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (affinities, hard affinity flag, statement time).

use std::fmt;

use numa::{NodeId, PackageId};

/// A slot: the right to run on one usable cpu. Slots are numbered from 0, those of one thread group side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

impl SlotId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A part of the machine that a task may be near to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// One NUMA node.
    Node(NodeId),
    /// A package: its sub-domains share what is placed here.
    Package(PackageId),
}

/// Where a task wants to run.
///
/// A place without a worker (a memory-only node, or one left out by [`Config::threads`]) stands for the nearest node
/// that has one; a place that the machine does not have means [`Affinity::Anywhere`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// The private queue of one slot; nobody else ever takes it. A number beyond the last slot wraps around.
    Slot(SlotId),
    /// Next to its data. `hard` tasks never run elsewhere (Bound); others may be stolen (Target).
    Near {
        /// The node or package.
        place: Place,
        /// Never to be run elsewhere.
        hard: bool,
    },
    /// The caller's own thread group, or the least loaded one when the caller is no worker (OS).
    Anywhere,
}

impl Affinity {
    /// Near `node`, and may be stolen.
    pub fn near(node: NodeId) -> Affinity {
        Affinity::Near { place: Place::Node(node), hard: false }
    }

    /// On `node` only.
    pub fn on(node: NodeId) -> Affinity {
        Affinity::Near { place: Place::Node(node), hard: true }
    }
}

/// How urgent a task is. Smaller sorts first: the user's priority, then the older statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// What the user asked for; lower goes first.
    pub user: u8,
    /// When the statement was issued; older goes first.
    pub statement_time: u64,
}

impl Priority {
    /// What a statement has when nobody asked for anything: half way, so that others can go before and after it.
    pub const USER_DEFAULT: u8 = 128;

    /// An order-keeping summary in one word: the user's priority above 56 bits of statement time. Times beyond 2^56
    /// count as equal, so this may only be used as a hint.
    pub(crate) fn rank(self) -> u64 {
        const TIME_MAX: u64 = (1 << 56) - 1;
        (u64::from(self.user) << 56) | self.statement_time.min(TIME_MAX)
    }
}

/// Whom an idle worker may steal from. Groups of its own node it always helps, and hard tasks nobody ever steals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stealing {
    /// No node helps another one.
    Off,
    /// The other nodes of its package; where it has none, the nearest nodes.
    #[default]
    Neighbour,
    /// Every node, the nearest first.
    Any,
}

/// When worker threads are pinned to the usable cpus of their node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// Never: the operating system places them.
    None,
    /// From their start to their end.
    #[default]
    Always,
}

/// How a scheduler is set up. The default uses every usable cpu, neighbour stealing and pinned workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Worker threads, spread evenly over the nodes; `None` is one per usable cpu. 0 counts as 1; more than
    /// [`Config::THREADS_MAX`] counts as that. More threads than cpus share cpus.
    pub threads: Option<usize>,
    /// Whom an idle worker may steal from.
    pub stealing: Stealing,
    /// When workers are pinned.
    pub binding: Binding,
}

impl Config {
    /// The most threads that a scheduler starts.
    pub const THREADS_MAX: usize = 4096;
}
