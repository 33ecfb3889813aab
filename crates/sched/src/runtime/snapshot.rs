//! Reads what the parts of a scheduler have counted and hold into the plain data of [`crate::stats`].
//!
//! # Limits
//! Counters are read one by one, so a snapshot taken while workers run is not of one instant.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use numa::NodeId;
use numa::counters::Counts;

use super::Runtime;
use super::group::Work;
use super::worker::Worker;
use crate::policy::{GroupId, QueueKind};
use crate::statement::Statement;
use crate::stats::{
    GroupStats, NodeStats, QueuedTask, SchedulerStats, StatementStats, WorkerId, WorkerState, WorkerStats,
};

impl Runtime {
    /// What workers, groups and nodes have done.
    pub(crate) fn stats(&self) -> SchedulerStats {
        let now_ns = self.now_ns();
        let workers: Vec<WorkerStats> =
            self.workers.read().iter().map(|worker| worker_stats(self, worker, now_ns)).collect();
        let groups: Vec<GroupStats> =
            (0..self.groups.len() as u32).map(|group| group_stats(self, GroupId(group), &workers)).collect();
        let mut nodes: Vec<NodeId> = groups.iter().map(|group| group.node).collect();
        nodes.dedup();
        SchedulerStats {
            dropped: self.dropped.load(Ordering::Relaxed) + workers.iter().map(|worker| worker.dropped).sum::<u64>(),
            nodes: nodes.into_iter().map(|node| node_stats(node, &groups, &workers)).collect(),
            workers,
            groups,
            statements: self.active.load(Ordering::Relaxed),
            watchdog_wakes: self.dog.woke.load(Ordering::Relaxed),
            stuck: self.dog.stuck.load(Ordering::Relaxed),
        }
    }

    /// What is queued, the most urgent of each queue first; at most `most` entries.
    pub(crate) fn queued_tasks(&self, most: usize) -> Vec<QueuedTask> {
        let mut tasks = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let id = GroupId(index as u32);
            let place = self.layout.group(id);
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
    pub(crate) fn statement_stats(&self) -> Vec<StatementStats> {
        let alive: Vec<Arc<Statement>> = self.statements.lock().iter().filter_map(Weak::upgrade).collect();
        // Looked up by address: the groups' queues are locked meanwhile.
        let mut queued: HashMap<*const Statement, usize> = alive.iter().map(|of| (Arc::as_ptr(of), 0)).collect();
        for group in &self.groups {
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
}

fn worker_stats(shared: &Runtime, worker: &Worker, now_ns: u64) -> WorkerStats {
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

fn group_stats(shared: &Runtime, id: GroupId, workers: &[WorkerStats]) -> GroupStats {
    let place = shared.layout.group(id);
    let group = &shared.groups[id.index()];
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
