//! What one worker has done, counted as it goes.
//!
//! Invariant: a worker's counters are written by that worker only, on cache lines of its own; reading them disturbs
//! nobody. The clock is read when a worker changes its state, not per task.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use numa::counters::Counts;

use crate::counting::Events;
use crate::policy::GroupId;
use crate::scope::RunCount;
use crate::stats::WorkerState;

/// The counters of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Meter {
    pub(super) tasks: AtomicU64,
    pub(super) stolen: AtomicU64,
    pub(super) stolen_from: Vec<AtomicU64>,
    pub(super) moved: AtomicU64,
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
    pub(super) bytes_local: AtomicU64,
    pub(super) bytes_remote: AtomicU64,
    pub(super) events: Events,
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
    pub(crate) fn count(&self, ran: &RunCount) {
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

    /// How long it has been in each state.
    pub(super) fn in_state(&self, now_ns: u64) -> [Duration; 4] {
        let mut ns = [0, 1, 2, 3].map(|state| self.in_state_ns[state].load(Ordering::Relaxed));
        let since = self.since_ns.load(Ordering::Relaxed);
        if since != 0 {
            ns[self.state() as usize] += now_ns.saturating_sub(since);
        }
        ns.map(Duration::from_nanos)
    }
}
