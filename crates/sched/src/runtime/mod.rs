//! The runtime: threads, locks and clocks around the decisions of [`crate::policy`]. It holds no decision of its own.
//!
//! - [`group`]: a thread group's queues behind their locks, and a summary that others read without them.
//! - [`worker`]: the record of a worker. [`work`]: what its thread does. [`staff`]: how slots get workers, and lose
//!   them to others. [`meter`] and [`counting`]: what it counts meanwhile.
//! - [`blocking`]: sections in which a worker does without its slot.
//! - [`parallel`]: loops. [`completion`]: waiting for one task.
//! - [`watchdog`]: the thread that looks after the others. [`snapshot`]: what was counted, as plain data.
//! - [`Runtime`]: what all of them and the handles share.
//!
//! Invariants: a task is in one queue or run or dropped, and whoever drops it says so at its statement's end or in the
//! statistics; a worker runs tasks only while it holds a slot, so never more of them than there are slots; no foreign
//! code (a task, its drop, a watcher) runs under a lock of ours; once the last handle is gone whatever is or gets
//! queued is dropped, so that a running task that waits for it comes back.
//!
//! # Limits
//! A worker never leaves its thread group: slots of one group are held by threads of that group.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1.

pub(crate) mod blocking;
pub(crate) mod completion;
mod counting;
pub(crate) mod group;
mod meter;
pub(crate) mod parallel;
mod snapshot;
mod staff;
pub(crate) mod watchdog;
mod work;
mod worker;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use group::{Group, QueueEntry, Work};
use numa::{CpuId, Topology};
use parking_lot::{Mutex, RwLock};
use watchdog::Dog;
use worker::Worker;

use crate::affinity::{Affinity, Hint, SlotId};
use crate::config::Config;
use crate::counting::CounterSource;
use crate::policy::{GroupId, Layout, Load, Nearness, QueueKind, QueueTarget, Request, Wake, may_work, route};
use crate::settings::{Affinities, Settings};
use crate::sleep::Sleep;
use crate::statement::{Statement, Watcher};

/// Numbers schedulers, so that a worker knows its own from another; 0 is none.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Workers beyond one per slot when nobody says: for those that wait in blocking sections.
const WORKERS_PER_SLOT: usize = 4;
const WORKERS_MORE: usize = 64;

/// The worker that a thread is.
#[derive(Clone)]
pub(crate) struct Here {
    pub(crate) shared: Arc<Runtime>,
    pub(crate) worker: Arc<Worker>,
}

thread_local! {
    /// The scheduler and slot that this thread works for at this moment.
    static WORKS_FOR: Cell<Option<(u64, SlotId)>> = const { Cell::new(None) };
    /// The worker that this thread is, with a slot or without.
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    /// What the task that this thread runs is, as far as pinning goes.
    static RUNNING: Cell<Nearness> = const { Cell::new(Nearness { near: false, child_of_near: false }) };
}

/// Whether this thread is a worker of any scheduler, and at work.
pub(crate) fn on_worker() -> bool {
    WORKS_FOR.get().is_some()
}

/// The worker that this thread is.
pub(crate) fn here() -> Option<Here> {
    HERE.with_borrow(Clone::clone)
}

/// What the handles and the workers of one scheduler share.
pub(crate) struct Runtime {
    pub(crate) id: u64,
    me: Weak<Runtime>,
    pub(crate) layout: Layout,
    pub(crate) groups: Vec<Group>,
    pub(crate) sleep: Arc<Sleep>,
    settings: AtomicU64,
    /// Every worker there ever was; those of ended threads are used again.
    pub(crate) workers: RwLock<Vec<Arc<Worker>>>,
    workers_max: usize,
    /// The threads that run, by their workers' numbers.
    pub(crate) threads: Mutex<BTreeMap<usize, JoinHandle<()>>>,
    /// Tasks dropped by threads that are no workers.
    pub(crate) dropped: AtomicU64,
    /// Every cpu that a worker may use: what unbound workers are left to.
    usable_cpus: Vec<CpuId>,
    started: Instant,
    ending: AtomicBool,
    /// Worker threads that have not ended.
    live: AtomicUsize,
    /// Draws numbers for rotations.
    turns: AtomicU64,
    /// The statements that have submitted something.
    pub(crate) statements: Mutex<Vec<Weak<Statement>>>,
    /// How many of them are alive.
    pub(crate) active: Arc<AtomicUsize>,
    pub(crate) dog: Dog,
    /// Where workers get hardware counters from.
    pub(crate) counters: CounterSource,
}

impl Runtime {
    pub(crate) fn new(layout: Layout, topology: &Topology, config: &Config) -> Arc<Runtime> {
        let sizes: Vec<usize> = layout.groups().iter().map(|group| group.slots.len()).collect();
        let slots = layout.slots().len();
        let workers_max = config.workers_max.unwrap_or(WORKERS_PER_SLOT * slots + WORKERS_MORE).max(slots);
        Arc::new_cyclic(|me| Runtime {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            me: Weak::clone(me),
            groups: sizes.iter().map(|slots| Group::new(*slots)).collect(),
            sleep: Arc::new(Sleep::new(&sizes)),
            settings: AtomicU64::new(config.initial_settings().to_word()),
            workers: RwLock::new(Vec::new()),
            workers_max,
            threads: Mutex::new(BTreeMap::new()),
            dropped: AtomicU64::new(0),
            usable_cpus: topology.usable_cpus().to_vec(),
            started: Instant::now(),
            ending: AtomicBool::new(false),
            live: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            statements: Mutex::new(Vec::new()),
            active: Arc::new(AtomicUsize::new(0)),
            dog: Dog::new(sizes.len(), config.watchdog),
            counters: config.counters.clone(),
            layout,
        })
    }

    /// The slot of the calling thread, if it is a worker of this scheduler and at work.
    pub(crate) fn own_slot(&self) -> Option<SlotId> {
        WORKS_FOR.get().filter(|(id, _)| *id == self.id).map(|(_, slot)| slot)
    }

    /// Nanoseconds since the scheduler was started, never 0.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::from_word(self.settings.load(Ordering::Relaxed)).unwrap_or_default()
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        self.settings.store(settings.to_word(), Ordering::Relaxed);
    }

    /// What holds for a statement: its own settings, or else the scheduler's.
    pub(crate) fn settings_of(&self, statement: &Statement) -> Settings {
        statement.settings().unwrap_or_else(|| self.settings())
    }

    /// A number that no other call gets.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Tasks queued or running in a group.
    pub(crate) fn load(&self, group: GroupId) -> usize {
        self.groups[group.index()].queued() + self.sleep.working_in(group.index())
    }

    /// Who works in a group.
    pub(crate) fn work_load(&self, group: GroupId) -> Load {
        Load { slots: self.layout.group(group).slots.len(), working: self.sleep.working_in(group.index()) }
    }

    /// Where a task goes when the calling thread submits it now.
    pub(crate) fn route(&self, settings: Settings, affinity: Affinity, hint: Hint) -> QueueTarget {
        self.route_with(settings, (affinity, hint), self.own_slot(), &|group| self.load(group))
    }

    /// Where a task goes if `caller` (`None`: no worker, or one that is to play no part) submits it under these loads.
    pub(crate) fn route_with(
        &self,
        settings: Settings,
        (affinity, hint): (Affinity, Hint),
        caller: Option<SlotId>,
        loads: &dyn Fn(GroupId) -> usize,
    ) -> QueueTarget {
        route(&self.layout, &Request { affinity, hint, caller, settings, loads })
    }

    /// An entry as the calling thread submits it.
    pub(crate) fn entry(
        &self,
        statement: &Arc<Statement>,
        settings: Settings,
        affinity: Affinity,
        hint: Hint,
        work: Work,
    ) -> QueueEntry {
        let near = affinity != Affinity::Anywhere && settings.affinities != Affinities::Ignored;
        let running = Nearness { near, child_of_near: RUNNING.get().near };
        QueueEntry {
            statement: Arc::clone(statement),
            work,
            hint,
            running,
            binding: settings.binding,
            steal: settings.steal,
        }
    }

    /// Queues entries at one place and wakes as many workers.
    pub(crate) fn queue(&self, target: QueueTarget, entries: impl IntoIterator<Item = QueueEntry>) {
        let group = &self.groups[self.layout.group_of(target).index()];
        let count = match target {
            QueueTarget::Group(_, kind) => group.push_shared(kind, entries),
            QueueTarget::Slot(slot) => {
                let place = self.layout.slot(slot).place;
                entries.into_iter().map(|entry| group.push_private(place, entry)).count()
            }
        };
        if !self.sleep.task_queued() {
            return;
        }
        for _ in 0..count {
            if !self.wake_for(target) {
                break;
            }
        }
    }

    /// Wakes someone who can take what is queued at `target`: a free worker, or else all that wait for their own
    /// `parallel_for` (each may find it too little urgent, so all must look). Returns whether a further one may be
    /// woken.
    pub(crate) fn wake_for(&self, target: QueueTarget) -> bool {
        // Whoever looks finds this, and wakes another for what it leaves.
        if matches!(target, QueueTarget::Group(group, _) if self.sleep.anyone_looks(group.index())) {
            return false;
        }
        let woken = self.wake_free_for(target);
        if !woken {
            for group in self.layout.takers(target) {
                self.sleep.wake_waiting(group.index());
            }
        }
        woken
    }

    /// Wakes the free worker that the policy prefers for what is queued at `target`, or the one that alone may take it,
    /// or gives a lent slot a worker.
    pub(crate) fn wake_free_for(&self, target: QueueTarget) -> bool {
        match self.layout.wake(target, |group| self.wake_in(group)) {
            Some(Wake::Slot(slot)) => {
                if self.sleep.take_lent_slot(slot) {
                    self.staff(slot);
                } else {
                    self.sleep.wake_slot(slot);
                }
                true
            }
            Some(Wake::Group(_)) => true,
            None => false,
        }
    }

    /// Has one more worker of a group work, if it has one that rests and may.
    pub(crate) fn wake_in(&self, group: GroupId) -> bool {
        if !may_work(self.work_load(group)) {
            return false;
        }
        self.sleep.wake_one_free(group.index()) || self.staff_one(group)
    }

    /// Gives a lent slot of a group a worker. False: none is lent.
    pub(crate) fn staff_one(&self, group: GroupId) -> bool {
        let lent = self.sleep.take_lent(group.index());
        if let Some(slot) = lent {
            self.staff(slot);
        }
        lent.is_some()
    }

    /// Whether something is queued that the worker of `slot` may take.
    pub(crate) fn has_work_for(&self, slot: SlotId) -> bool {
        let own = self.layout.slot(slot);
        self.groups[own.group.index()].queued_private(own.place) > 0
            || self
                .layout
                .search(own.group)
                .iter()
                .any(|step| self.groups[step.group.index()].queued_shared(step.reach) > 0)
    }

    /// Has this scheduler hear when `statement` stops, and list it.
    pub(crate) fn watch(&self, statement: &Arc<Statement>) {
        statement.watch_once(self.id, || {
            statement.become_active(&self.active);
            let mut statements = self.statements.lock();
            if statements.len() == statements.capacity() {
                statements.retain(|known| known.strong_count() > 0);
            }
            statements.push(Arc::downgrade(statement));
            let me: Weak<Runtime> = Weak::clone(&self.me);
            me
        });
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Tells all workers to end after what they are doing.
    pub(crate) fn end(&self) {
        {
            // Under this lock no thread is being started.
            let _threads = self.threads.lock();
            self.ending.store(true, Ordering::Release);
        }
        self.dog.end();
        self.sleep.wake_all();
        for group in &self.groups {
            group.handover.notify_spare();
            group.handover.notify_returners();
        }
    }

    /// A worker thread has ended with its scheduler. The last one drains the queues once more: a running task may have
    /// put something back.
    fn thread_ended(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.drain();
        }
    }

    /// Drops everything that is queued, and stops its statements: the scheduler ends, and a task that still runs may be
    /// waiting for one of these. Not under a lock: dropping a task runs foreign code.
    pub(crate) fn drain(&self) {
        for group in &self.groups {
            for entry in group.remove_where(|_| true) {
                // Entries of loops are left over: a loop's caller has a handle, and the last handle is gone.
                if matches!(entry.work, Work::Task(_)) {
                    entry.statement.shut_down();
                }
                entry.discard(&self.dropped);
            }
        }
    }

    /// Entries in one queue kind of a group, for whoever samples.
    pub(crate) fn queued_by_kind(&self, group: usize) -> [usize; QueueKind::COUNT] {
        QueueKind::ALL.map(|kind| self.groups[group].queued_in(kind))
    }
}

impl Watcher for Runtime {
    /// Asks every group to drop what the statement has queued. A worker does it between two tasks, not the caller:
    /// dropping a task runs foreign code.
    fn statement_changed(&self, statement: &Statement) {
        if statement.has_stopped() {
            self.groups.iter().filter(|group| group.queued() > 0).for_each(Group::request_purge);
        }
    }
}
