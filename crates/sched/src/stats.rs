//! What workers have done, counted as they go.
//!
//! Invariant: a worker's counters are written by that worker only, on cache lines of its own; reading them disturbs
//! nobody. The clock is read when a worker changes its state, not per task.
//!
//! # Limits
//! Counters are read one by one, so a snapshot taken while workers run is not of one instant. Tasks of a
//! `parallel_for` are counted when a worker leaves it; those of a statement when a worker turns to another one or finds
//! nothing more to do. Bytes are as exact as what tasks report with [`crate::report_bytes`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use numa::counters::Counts;
use numa::{CpuId, NodeId};

use crate::affinity::{Hint, Priority, SlotId};
use crate::counting::Events;
use crate::policy::{GroupId, QueueKind};
use crate::runtime::Shared;
use crate::runtime::group::Work;
use crate::runtime::staff::Worker;
use crate::scope::Ran;
use crate::settings::Settings;
use crate::statement::{Statement, Stopped};

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
    pub stopped: Option<Stopped>,
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
    /// How many tasks of a batch are left (entries of one batch tell the same), 1 for a single task; `None` stands for
    /// indices of a `parallel_for`.
    pub tasks: Option<usize>,
    /// What it is estimated to cost.
    pub hint: Hint,
}

impl SchedulerStats {
    pub(crate) fn of(shared: &Shared) -> SchedulerStats {
        let now_ns = shared.now_ns();
        let workers: Vec<WorkerStats> =
            shared.workers.read().iter().map(|worker| worker_stats(shared, worker, now_ns)).collect();
        let groups: Vec<GroupStats> =
            (0..shared.groups.len() as u32).map(|group| group_stats(shared, GroupId(group), &workers)).collect();
        let mut nodes: Vec<NodeId> = groups.iter().map(|group| group.node).collect();
        nodes.dedup();
        SchedulerStats {
            dropped: shared.dropped.load(Ordering::Relaxed) + workers.iter().map(|worker| worker.dropped).sum::<u64>(),
            nodes: nodes.into_iter().map(|node| node_stats(node, &groups, &workers)).collect(),
            workers,
            groups,
            statements: shared.active.load(Ordering::Relaxed),
            watchdog_wakes: shared.dog.woke.load(Ordering::Relaxed),
            stuck: shared.dog.stuck.load(Ordering::Relaxed),
        }
    }
}

fn worker_stats(shared: &Shared, worker: &Worker, now_ns: u64) -> WorkerStats {
    let meter = &worker.meter;
    let in_state = meter.in_state(now_ns);
    let from = meter.stolen_from.iter().enumerate().map(|(group, count)| (group, count.load(Ordering::Relaxed)));
    WorkerStats {
        id: WorkerId(worker.number as u32),
        group: worker.group,
        node: shared.layout.group(worker.group).node,
        slot: worker.slot(),
        cpu: shared.layout.slot(worker.last_slot()).cpu,
        pinned: meter.is_pinned(),
        alive: worker.is_alive(),
        tasks_run: meter.tasks.load(Ordering::Relaxed),
        stolen: meter.stolen.load(Ordering::Relaxed),
        stolen_from: from.filter(|(_, n)| *n > 0).map(|(group, n)| (GroupId(group as u32), n)).collect(),
        moved: meter.moved.load(Ordering::Relaxed),
        dropped: meter.dropped.load(Ordering::Relaxed),
        state: meter.state(),
        busy: in_state[WorkerState::Working as usize],
        in_state,
        bytes_local: meter.bytes_local.load(Ordering::Relaxed),
        bytes_remote: meter.bytes_remote.load(Ordering::Relaxed),
        counts: meter.events.read(),
    }
}

fn group_stats(shared: &Shared, id: GroupId, workers: &[WorkerStats]) -> GroupStats {
    let (place, group) = (shared.layout.group(id), &shared.groups[id.index()]);
    let own = || workers.iter().filter(|worker| worker.group == id);
    let from_here = |worker: &WorkerStats| -> u64 {
        worker.stolen_from.iter().filter(|(group, _)| *group == id).map(|(_, count)| *count).sum()
    };
    let sampled = &shared.dog.sampled[id.index()];
    let samples = sampled.samples.load(Ordering::Relaxed);
    let mean = |sum: &AtomicU64| if samples == 0 { 0.0 } else { sum.load(Ordering::Relaxed) as f64 / samples as f64 };
    GroupStats {
        id,
        node: place.node,
        slots: place.slots.clone(),
        cpus: place.cpus.clone(),
        working: shared.sleep.working_in(id.index()),
        lent: shared.sleep.lent_in(id.index()),
        spare: group.handover.spare(),
        queued_stealable: group.queued_in(QueueKind::Stealable) + group.queued_in(QueueKind::Neighbour),
        queued_hard: group.queued_in(QueueKind::PackageHard) + group.queued_in(QueueKind::NodeHard),
        queued_private: (0..place.slots.len()).map(|place| group.queued_private(place)).sum(),
        tasks_run: own().map(|worker| worker.tasks_run).sum(),
        stolen: own().map(|worker| worker.stolen).sum(),
        stolen_by_others: workers.iter().map(from_here).sum(),
        samples,
        mean_working: mean(&sampled.working),
        mean_queued: mean(&sampled.queued),
        unsaturated: sampled.unsaturated.load(Ordering::Relaxed),
        bytes_local: own().map(|worker| worker.bytes_local).sum(),
        bytes_remote: own().map(|worker| worker.bytes_remote).sum(),
    }
}

fn node_stats(node: NodeId, groups: &[GroupStats], workers: &[WorkerStats]) -> NodeStats {
    let own: Vec<&GroupStats> = groups.iter().filter(|group| group.node == node).collect();
    let of_node: Vec<&WorkerStats> = workers.iter().filter(|worker| worker.node == node).collect();
    let is_own = |group: &GroupId| own.iter().any(|of| of.id == *group);
    let foreign = |worker: &&WorkerStats| -> u64 {
        worker.stolen_from.iter().filter(|(group, _)| !is_own(group)).map(|(_, count)| *count).sum()
    };
    NodeStats {
        node,
        groups: own.iter().map(|group| group.id).collect(),
        tasks_run: of_node.iter().map(|worker| worker.tasks_run).sum(),
        stolen: of_node.iter().map(foreign).sum(),
        queued: own.iter().map(|group| group.queued_stealable + group.queued_hard + group.queued_private).sum(),
        busy: of_node.iter().map(|worker| worker.busy).sum(),
        bytes_local: of_node.iter().map(|worker| worker.bytes_local).sum(),
        bytes_remote: of_node.iter().map(|worker| worker.bytes_remote).sum(),
        counts: of_node.iter().fold(Counts::default(), |mut sum, worker| {
            sum.add(&worker.counts);
            sum
        }),
    }
}

/// What is queued, the most urgent of each queue first; at most `most` entries.
pub(crate) fn queued_tasks(shared: &Shared, most: usize) -> Vec<QueuedTask> {
    let mut tasks = Vec::new();
    for (index, group) in shared.groups.iter().enumerate() {
        let id = GroupId(index as u32);
        let place = shared.layout.group(id);
        group.for_each(|queue, entry| {
            if tasks.len() < most {
                tasks.push(QueuedTask {
                    group: id,
                    node: place.node,
                    queue: queue.ok(),
                    slot: queue.err().map(|slot| place.slots[slot]),
                    priority: entry.statement.priority(),
                    label: entry.statement.label().to_owned(),
                    tasks: match &entry.work {
                        Work::Task(_) => Some(1),
                        Work::Help { .. } => None,
                    },
                    hint: entry.hint,
                });
            }
        });
    }
    tasks
}

/// The statements that are alive, the oldest first.
pub(crate) fn statements(shared: &Shared) -> Vec<StatementStats> {
    let alive: Vec<Arc<Statement>> = shared.statements.lock().iter().filter_map(Weak::upgrade).collect();
    // Looked up by address: the groups' queues are locked meanwhile.
    let mut queued: HashMap<*const Statement, usize> = alive.iter().map(|of| (Arc::as_ptr(of), 0)).collect();
    for group in &shared.groups {
        group.for_each(|_, entry| {
            if let Some(queued) = queued.get_mut(&Arc::as_ptr(&entry.statement)) {
                *queued += 1;
            }
        });
    }
    let queued: Vec<usize> = alive.iter().map(|of| queued[&Arc::as_ptr(of)]).collect();
    let one = |(statement, queued): (Arc<Statement>, usize)| {
        let [tasks_run, dropped, bytes_local, bytes_remote] = statement.tally().read();
        StatementStats {
            label: statement.label().to_owned(),
            priority: statement.priority(),
            age: statement.began().elapsed(),
            stopped: statement.stopped(),
            settings: statement.settings(),
            queued,
            tasks_run,
            dropped,
            memory_bytes: statement.budget().used_bytes(),
            memory_peak_bytes: statement.budget().peak_bytes(),
            bytes_local,
            bytes_remote,
            counts: statement.counts(),
        }
    };
    let mut listed: Vec<StatementStats> = alive.into_iter().zip(queued).map(one).collect();
    listed.sort_by_key(|statement| statement.priority.statement_time);
    listed
}

/// The counters of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Meter {
    tasks: AtomicU64,
    stolen: AtomicU64,
    stolen_from: Vec<AtomicU64>,
    moved: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Tasks and loop indices begun; what the watchdog looks at.
    steps: AtomicU64,
    state: AtomicU8,
    pinned: AtomicBool,
    /// The system does not let this thread be pinned: asking again would only cost time.
    refused: AtomicBool,
    in_state_ns: [AtomicU64; 4],
    /// When it entered its state, in nanoseconds since the scheduler's start; 0 before it began.
    since_ns: AtomicU64,
    bytes_local: AtomicU64,
    bytes_remote: AtomicU64,
    events: Events,
}

/// Adds to a counter that has one writer: a load and a store do.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Meter {
    pub(crate) fn new(groups: usize) -> Meter {
        Meter {
            tasks: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            stolen_from: (0..groups).map(|_| AtomicU64::new(0)).collect(),
            moved: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            state: AtomicU8::new(WorkerState::Free as u8),
            pinned: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            in_state_ns: [const { AtomicU64::new(0) }; 4],
            since_ns: AtomicU64::new(0),
            bytes_local: AtomicU64::new(0),
            bytes_remote: AtomicU64::new(0),
            events: Events::default(),
        }
    }

    /// Counts one task, stolen from a group or not.
    pub(crate) fn count_task(&self, from: Option<GroupId>) {
        add(&self.tasks, 1);
        if let Some(group) = from {
            add(&self.stolen, 1);
            add(&self.stolen_from[group.index()], 1);
        }
    }

    /// Counts indices of a loop.
    pub(crate) fn count(&self, ran: &Ran) {
        add(&self.tasks, ran.tasks);
        for (group, tasks) in &ran.stolen {
            add(&self.stolen, *tasks);
            add(&self.stolen_from[group.index()], *tasks);
        }
    }

    /// Counts tasks that were moved here in bulk. They count as stolen from their group.
    pub(crate) fn count_moved(&self, from: GroupId, tasks: u64) {
        add(&self.moved, tasks);
        add(&self.stolen_from[from.index()], tasks);
    }

    pub(crate) fn step(&self) {
        add(&self.steps, 1);
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pinned(&self, pinned: bool) {
        self.pinned.store(pinned, Ordering::Relaxed);
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Relaxed)
    }

    pub(crate) fn set_refused(&self, refused: bool) {
        self.refused.store(refused, Ordering::Relaxed);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_bytes(&self, local: bool, bytes: u64) {
        add(if local { &self.bytes_local } else { &self.bytes_remote }, bytes);
    }

    pub(crate) fn count_events(&self, counts: &Counts) {
        self.events.add(counts);
    }

    /// Notes a change of state; asks for the time only where there is one.
    pub(crate) fn set_state(&self, state: WorkerState, now_ns: impl FnOnce() -> u64) {
        let before = self.state.load(Ordering::Relaxed);
        if before == state as u8 && self.since_ns.load(Ordering::Relaxed) != 0 {
            return;
        }
        let now = now_ns();
        let since = self.since_ns.load(Ordering::Relaxed);
        if since != 0 {
            add(&self.in_state_ns[usize::from(before)], now.saturating_sub(since));
        }
        self.since_ns.store(now, Ordering::Relaxed);
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> WorkerState {
        WorkerState::ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }

    fn in_state(&self, now_ns: u64) -> [Duration; 4] {
        let mut ns = [0, 1, 2, 3].map(|state| self.in_state_ns[state].load(Ordering::Relaxed));
        let since = self.since_ns.load(Ordering::Relaxed);
        if since != 0 {
            ns[self.state() as usize] += now_ns.saturating_sub(since);
        }
        ns.map(Duration::from_nanos)
    }
}
