//! What a scheduler has done and is doing, as plain data: workers, thread groups, nodes, statements, queues.
//!
//! # Limits
//! Tasks of a `parallel_for` are counted when a worker leaves it; those of a statement when a worker turns to another
//! one or finds nothing more to do. Bytes are as exact as what tasks report with [`crate::report_bytes`].

use std::time::Duration;

use numa::counters::Counts;
use numa::{CpuId, NodeId};

use crate::affinity::{Hint, Priority, SlotId};
use crate::policy::{GroupId, QueueKind};
use crate::settings::Settings;
use crate::statement::StopReason;

/// What a worker is doing, in the words of VLDB 2015, section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// Runs a task.
    Working,
    /// Blocks in the middle of a task: in a marked section, or until others have finished their part of its
    /// `parallel_for`.
    Inactive,
    /// Looks for a task, or sleeps and will look again by itself.
    Free,
    /// Asleep until it is woken.
    Parked,
}

impl WorkerState {
    /// All states, in the order of [`WorkerStats::in_state`].
    pub const ALL: [WorkerState; 4] =
        [WorkerState::Working, WorkerState::Inactive, WorkerState::Free, WorkerState::Parked];

    /// The state's name in lower case, as views show it.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Working => "working",
            WorkerState::Inactive => "inactive",
            WorkerState::Free => "free",
            WorkerState::Parked => "parked",
        }
    }
}

/// Numbers a worker thread of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// One worker.
#[derive(Clone, Debug)]
pub struct WorkerStats {
    /// Its number.
    pub id: WorkerId,
    /// Its thread group.
    pub group: GroupId,
    /// The node of its thread group.
    pub node: NodeId,
    /// The slot that it holds; `None` while it blocks or is spare.
    pub slot: Option<SlotId>,
    /// The cpu that its slot stands for, or that of the slot that it held last.
    pub cpu: CpuId,
    /// Whether it is pinned to the cpus of its group at the moment.
    pub pinned: bool,
    /// Whether a thread is this worker now. The figures of one that ended are kept for the next.
    pub alive: bool,
    /// Tasks it has run; each index of a `parallel_for` is one.
    pub tasks_run: u64,
    /// How many of them came from another thread group.
    pub stolen: u64,
    /// The same, by the group they came from.
    pub stolen_from: Vec<(GroupId, u64)>,
    /// Tasks that it moved to its own group when it stole in bulk.
    pub moved: u64,
    /// Tasks of stopped statements that it has dropped instead of running them.
    pub dropped: u64,
    /// What it is doing.
    pub state: WorkerState,
    /// How long it has been working.
    pub busy: Duration,
    /// How long it has been in each state, in the order of [`WorkerState::ALL`].
    pub in_state: [Duration; 4],
    /// Bytes on its own node that its tasks reported to have touched.
    pub bytes_local: u64,
    /// Bytes on other nodes.
    pub bytes_remote: u64,
    /// What hardware counters counted while its tasks ran.
    pub counts: Counts,
}

/// One thread group.
#[derive(Clone, Debug)]
pub struct GroupStats {
    /// Its number.
    pub id: GroupId,
    /// Its node.
    pub node: NodeId,
    /// Its slots.
    pub slots: Vec<SlotId>,
    /// The cpus that its workers may be pinned to.
    pub cpus: Vec<CpuId>,
    /// Slots whose worker runs or looks for a task.
    pub working: usize,
    /// Slots that nobody uses because their worker blocks.
    pub lent: usize,
    /// Workers without a slot that stand by.
    pub spare: usize,
    /// Entries in its queues that others may steal from (a `parallel_for` has a few entries, not one per index).
    pub queued_stealable: usize,
    /// Entries in its hard queues.
    pub queued_hard: usize,
    /// Entries in the private queues of its slots.
    pub queued_private: usize,
    /// Tasks that its workers have run.
    pub tasks_run: u64,
    /// How many of them came from another thread group.
    pub stolen: u64,
    /// Tasks that others stole from it.
    pub stolen_by_others: u64,
    /// Looks of the watchdog.
    pub samples: u64,
    /// Mean number of working slots, over the samples.
    pub mean_working: f64,
    /// Mean number of entries in its shared queues, over the samples.
    pub mean_queued: f64,
    /// Samples in which tasks waited although a cpu was idle.
    pub unsaturated: u64,
    /// Bytes on its node that tasks of its workers reported to have touched.
    pub bytes_local: u64,
    /// Bytes on other nodes.
    pub bytes_remote: u64,
}

/// All thread groups of one node together.
#[derive(Clone, Debug)]
pub struct NodeStats {
    /// The node.
    pub node: NodeId,
    /// Its thread groups.
    pub groups: Vec<GroupId>,
    /// Tasks that its workers have run.
    pub tasks_run: u64,
    /// How many of them came from another node.
    pub stolen: u64,
    /// Entries in all its queues.
    pub queued: usize,
    /// How long its workers have been working.
    pub busy: Duration,
    /// Bytes on the node that its tasks reported to have touched.
    pub bytes_local: u64,
    /// Bytes on other nodes.
    pub bytes_remote: u64,
    /// What hardware counters counted while its tasks ran.
    pub counts: Counts,
}

/// What the scheduler has done and is doing.
#[derive(Clone, Debug)]
pub struct SchedulerStats {
    /// Every worker, by number; those that started first hold the slots of the same numbers, as long as none blocks.
    pub workers: Vec<WorkerStats>,
    /// Every thread group.
    pub groups: Vec<GroupStats>,
    /// Every node that has a thread group.
    pub nodes: Vec<NodeStats>,
    /// Tasks of stopped statements that were dropped, by workers and by others.
    pub dropped: u64,
    /// Statements that have submitted something and are alive.
    pub statements: usize,
    /// Wake-ups that the watchdog ordered.
    pub watchdog_wakes: u64,
    /// Workers that the watchdog reported as stuck.
    pub stuck: u64,
}

/// A statement that has submitted something and is alive.
#[derive(Clone, Debug)]
pub struct StatementStats {
    /// What it is called; empty when nobody said.
    pub label: String,
    /// How urgent it is.
    pub priority: Priority,
    /// How long ago it was made.
    pub age: Duration,
    /// Why it stopped; `None` while it runs.
    pub stopped: Option<StopReason>,
    /// The settings that hold for it alone.
    pub settings: Option<Settings>,
    /// Entries that it has in queues.
    pub queued: usize,
    /// Tasks that were run.
    pub tasks_run: u64,
    /// Tasks that were dropped because it had stopped.
    pub dropped: u64,
    /// Bytes that it holds.
    pub memory_bytes: u64,
    /// The most bytes that it held.
    pub memory_peak_bytes: u64,
    /// Bytes that its tasks reported to have touched on the node they ran on.
    pub bytes_local: u64,
    /// Bytes on other nodes.
    pub bytes_remote: u64,
    /// What hardware counters counted while its tasks ran.
    pub counts: Counts,
}

/// An entry of a queue.
#[derive(Clone, Debug)]
pub struct QueuedTask {
    /// Its group.
    pub group: GroupId,
    /// The node of the group.
    pub node: NodeId,
    /// Its queue; `None` is the private one of `slot`.
    pub queue: Option<QueueKind>,
    /// The slot that alone may run it.
    pub slot: Option<SlotId>,
    /// How urgent it is.
    pub priority: Priority,
    /// Its statement's label.
    pub label: String,
    /// 1 for a task; `None` stands for indices of a `parallel_for`.
    pub tasks: Option<usize>,
    /// What it is estimated to cost.
    pub hint: Hint,
}
