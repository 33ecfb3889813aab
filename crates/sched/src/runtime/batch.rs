//! Many tasks as one: what [`crate::Scheduler::spawn_batch`] queues.
//!
//! The tasks lie in a list with a cursor. Queues hold an entry per worker that could help, not one per task; whoever takes
//! an entry runs tasks until the list is empty or something more urgent waits.
//!
//! Invariants: a task is claimed once (the cursor's addition is atomic); while tasks are left that nobody has claimed, an
//! entry is queued, or somebody works on one who will queue it again.
//!
//! # Limits
//! Queue lengths and loads count entries, not tasks, as those of loops do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Shared;
use super::group::{Entry, Work};
use super::staff::Worker;
use crate::affinity::{Affinity, Hint};
use crate::panics;
use crate::policy::{QueueTarget, Running};
use crate::scope::Ran;
use crate::settings::{Binding, StealAmount};
use crate::statement::Statement;

type Task = Box<dyn FnOnce() + Send>;

/// Tasks of one statement and affinity.
pub(crate) struct Batch {
    tasks: Vec<Mutex<Option<Task>>>,
    cursor: AtomicUsize,
    /// Entries that are in a queue.
    queued: AtomicUsize,
}

impl Batch {
    fn new(tasks: impl Iterator<Item = Task>) -> Batch {
        Batch {
            tasks: tasks.map(|task| Mutex::new(Some(task))).collect(),
            cursor: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
        }
    }

    /// The next task that nobody has claimed.
    pub(crate) fn claim(&self) -> Option<Task> {
        if self.left() == 0 {
            return None;
        }
        let place = self.cursor.fetch_add(1, Ordering::Relaxed);
        self.tasks.get(place).and_then(|task| task.lock().take())
    }

    /// Tasks that nobody has claimed.
    pub(crate) fn left(&self) -> usize {
        self.tasks.len().saturating_sub(self.cursor.load(Ordering::Relaxed))
    }

    /// Notes that an entry was taken. Returns whether it was the last one while there is more than its taker begins with.
    fn entry_taken(&self) -> bool {
        self.queued.fetch_sub(1, Ordering::Relaxed) == 1 && self.left() > 1
    }
}

/// How the entries of a batch are pinned and stolen.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) running: Running,
    pub(crate) binding: Binding,
    pub(crate) steal: StealAmount,
}

impl Shared {
    /// Queues many tasks of one affinity.
    pub(crate) fn submit_batch(
        &self,
        statement: &Arc<Statement>,
        affinity: Affinity,
        tasks: impl Iterator<Item = Task>,
    ) {
        self.watch(statement);
        let settings = self.settings_of(statement);
        let target = self.route(statement, settings, affinity, Hint::default());
        if matches!(target, QueueTarget::Slot(_)) && !matches!(affinity, Affinity::Slot(_)) {
            // The policy deals them out one by one.
            return tasks.for_each(|task| self.submit(statement, affinity, Hint::default(), task));
        }
        let batch = Arc::new(Batch::new(tasks));
        let first = self.entry(statement, settings, affinity, Hint::default(), Work::Batch(Arc::clone(&batch)));
        if statement.has_stopped() {
            first.discard(&self.dropped);
            return;
        }
        let helpers = match target {
            QueueTarget::Slot(_) => 1,
            QueueTarget::Group(group, _) => self.layout.group(group).slots.len(),
        };
        let manner = Manner { running: first.running, binding: first.binding, steal: first.steal };
        self.queue_batch(&batch, statement, manner, target, helpers.min(batch.left()));
    }

    fn queue_batch(
        &self,
        batch: &Arc<Batch>,
        statement: &Arc<Statement>,
        Manner { running, binding, steal }: Manner,
        target: QueueTarget,
        entries: usize,
    ) {
        batch.queued.fetch_add(entries, Ordering::Relaxed);
        let entry = |_| Entry {
            statement: Arc::clone(statement),
            work: Work::Batch(Arc::clone(batch)),
            hint: Hint::default(),
            running,
            binding,
            steal,
        };
        self.queue(target, (0..entries).map(entry));
    }

    /// Runs tasks of a batch until none is left or something more urgent waits.
    pub(crate) fn run_batch(
        &self,
        worker: &Worker,
        batch: &Arc<Batch>,
        statement: &Arc<Statement>,
        manner: Manner,
        target: QueueTarget,
    ) {
        if batch.entry_taken() {
            self.queue_batch(batch, statement, manner, target, 1);
        }
        let foreign = self.layout.group_of(target);
        let (group, rank) = (&self.groups[worker.group.index()], statement.priority().rank());
        let mut ran = Ran::default();
        while !statement.is_cancelled()
            && let Some(task) = batch.claim()
        {
            if let Err(text) = panics::caught(task) {
                statement.fail(text);
            }
            ran.tasks += 1;
            worker.meter.step();
            let yields = |place| group.has_before(rank, place);
            if worker.slot().is_none_or(|slot| yields(self.layout.slot(slot).place)) {
                break;
            }
        }
        if foreign != worker.group {
            ran.stolen.push((foreign, ran.tasks));
        }
        statement.tally().tasks_run(ran.tasks);
        worker.meter.count(&ran);
        // Also when the statement has stopped: whoever takes the entry drops what is left.
        if batch.left() > 0 {
            self.queue_batch(batch, statement, manner, target, 1);
        }
    }
}
