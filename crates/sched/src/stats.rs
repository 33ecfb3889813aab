//! What workers have done, counted as they go.
//!
//! Invariant: a worker's counters are written by that worker only, on cache lines of its own; reading them disturbs
//! nobody. The clock is read when a worker changes its state, not per task.
//!
//! # Limits
//! Counters are read one by one, so a snapshot taken while workers run is not of one instant. Tasks of a
//! `parallel_for` are counted when a worker leaves it. Bytes local and remote are not counted yet.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use numa::{CpuId, NodeId};

use crate::affinity::SlotId;
use crate::policy::QueueKind;
use crate::runtime::Shared;
use crate::scope::Ran;

/// What a worker is doing, in the words of VLDB 2015, section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// Runs a task.
    Working,
    /// Sleeps in the middle of a task, until others have finished their part of its `parallel_for`.
    Inactive,
    /// Awake and looking for a task, or still starting.
    Free,
    /// Asleep until it is woken.
    Parked,
}

impl WorkerState {
    const ALL: [WorkerState; 4] = [WorkerState::Working, WorkerState::Inactive, WorkerState::Free, WorkerState::Parked];

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

/// One worker.
#[derive(Clone, Debug)]
pub struct WorkerStats {
    /// Its slot.
    pub id: SlotId,
    /// The node of its thread group.
    pub node: NodeId,
    /// The cpu that its slot stands for.
    pub cpu: CpuId,
    /// Whether the operating system let it be pinned to the cpus of its node.
    pub pinned: bool,
    /// Tasks it has run; each index of a `parallel_for` is one.
    pub tasks_run: u64,
    /// How many of them came from another thread group.
    pub stolen: u64,
    /// Tasks of stopped statements that it has dropped instead of running them.
    pub dropped: u64,
    /// What it is doing.
    pub state: WorkerState,
    /// How long it has been working.
    pub busy: Duration,
}

/// One thread group.
#[derive(Clone, Debug)]
pub struct GroupStats {
    /// Its node.
    pub node: NodeId,
    /// Its workers.
    pub slots: Vec<SlotId>,
    /// Entries in its stealable queue (a `parallel_for` has a few entries, not one per index).
    pub queued_stealable: usize,
    /// Entries in its hard queues.
    pub queued_hard: usize,
    /// Entries in the private queues of its slots.
    pub queued_private: usize,
}

/// What the scheduler has done and is doing.
#[derive(Clone, Debug)]
pub struct SchedulerStats {
    /// Every worker, by slot.
    pub workers: Vec<WorkerStats>,
    /// Every thread group.
    pub groups: Vec<GroupStats>,
    /// Tasks of stopped statements that were dropped, by workers and by others.
    pub dropped: u64,
}

impl SchedulerStats {
    pub(crate) fn of(shared: &Shared) -> SchedulerStats {
        let now_ns = shared.now_ns();
        let slots = shared.layout.slots().iter().zip(&shared.meters).enumerate();
        let workers: Vec<WorkerStats> = slots
            .map(|(slot, (place, meter))| WorkerStats {
                id: SlotId(slot as u32),
                node: shared.layout.group(place.group).node,
                cpu: place.cpu,
                pinned: meter.pinned.load(Ordering::Relaxed),
                tasks_run: meter.tasks.load(Ordering::Relaxed),
                stolen: meter.stolen.load(Ordering::Relaxed),
                dropped: meter.dropped.load(Ordering::Relaxed),
                state: meter.state(),
                busy: meter.busy(now_ns),
            })
            .collect();
        let groups = shared.layout.groups().iter().zip(&shared.groups);
        SchedulerStats {
            dropped: shared.dropped.load(Ordering::Relaxed) + workers.iter().map(|worker| worker.dropped).sum::<u64>(),
            workers,
            groups: groups
                .map(|(place, group)| GroupStats {
                    node: place.node,
                    slots: place.slots.clone(),
                    queued_stealable: group.queued_in(QueueKind::Stealable),
                    queued_hard: group.queued_in(QueueKind::PackageHard) + group.queued_in(QueueKind::NodeHard),
                    queued_private: (0..place.slots.len()).map(|place| group.queued_private(place)).sum(),
                })
                .collect(),
        }
    }
}

/// The counters of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Meter {
    tasks: AtomicU64,
    stolen: AtomicU64,
    pub(crate) dropped: AtomicU64,
    state: AtomicU8,
    pinned: AtomicBool,
    busy_ns: AtomicU64,
    /// When it began to work, in nanoseconds since the scheduler's start; 0 while it does not work.
    busy_since_ns: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Meter {
            tasks: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            state: AtomicU8::new(WorkerState::Free as u8),
            pinned: AtomicBool::new(false),
            busy_ns: AtomicU64::new(0),
            busy_since_ns: AtomicU64::new(0),
        }
    }
}

impl Meter {
    pub(crate) fn count(&self, ran: Ran) {
        // One writer, so a load and a store do.
        self.tasks.store(self.tasks.load(Ordering::Relaxed) + ran.tasks, Ordering::Relaxed);
        self.stolen.store(self.stolen.load(Ordering::Relaxed) + ran.stolen, Ordering::Relaxed);
    }

    pub(crate) fn set_pinned(&self, pinned: bool) {
        self.pinned.store(pinned, Ordering::Relaxed);
    }

    /// Notes a change of state; asks for the time only where working begins or ends.
    pub(crate) fn set_state(&self, state: WorkerState, now_ns: impl FnOnce() -> u64) {
        let before = self.state.swap(state as u8, Ordering::Relaxed);
        let working = WorkerState::Working as u8;
        if before != working && state == WorkerState::Working {
            self.busy_since_ns.store(now_ns(), Ordering::Relaxed);
        } else if before == working && state != WorkerState::Working {
            let since = self.busy_since_ns.swap(0, Ordering::Relaxed);
            self.busy_ns.fetch_add(now_ns().saturating_sub(since), Ordering::Relaxed);
        }
    }

    fn state(&self) -> WorkerState {
        WorkerState::ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }

    fn busy(&self, now_ns: u64) -> Duration {
        let done = self.busy_ns.load(Ordering::Relaxed);
        let since = self.busy_since_ns.load(Ordering::Relaxed);
        let running = if since == 0 { 0 } else { now_ns.saturating_sub(since) };
        Duration::from_nanos(done + running)
    }
}
