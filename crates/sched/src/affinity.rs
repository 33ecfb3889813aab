//! What a task says about itself: where it wants to run and how urgent it is.
//!
//! Invariant: what a task says is plain `Copy` data, so that [`crate::policy`] can decide over it without a lock.
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
/// A place without a worker (a memory-only node, or one left out by [`Config::threads`](crate::Config::threads)) stands
/// for the nearest node that has one; a place that the machine does not have means [`Affinity::Anywhere`].
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
    /// count as equal, so this may only be used as a hint. Never `u64::MAX`.
    pub(crate) fn rank(self) -> u64 {
        const TIME_MAX: u64 = (1 << 56) - 2;
        (u64::from(self.user) << 56) | self.statement_time.min(TIME_MAX)
    }
}

/// What a task is estimated to cost. Zeros mean unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Bytes of memory that it reads and writes.
    pub bytes: u64,
    /// Cpu time in nanoseconds, with its memory local and nobody else about.
    pub cpu_ns: u64,
}

impl Hint {
    /// Bytes per microsecond of cpu time; `None` when either is unknown.
    pub fn bytes_per_us(self) -> Option<u64> {
        (self.bytes > 0 && self.cpu_ns > 0).then(|| self.bytes.saturating_mul(1000) / self.cpu_ns)
    }
}

/// Where each call of a loop wants to run.
pub type AffinityOf<'a> = dyn Fn(usize) -> Affinity + Sync + 'a;
/// What is called for each number of a loop.
pub type CallBody<'a> = dyn Fn(usize) + Sync + 'a;
