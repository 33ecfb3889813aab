//! [`Profile`]: what each operator of a plan did while it ran, for EXPLAIN ANALYZE.
//!
//! Operators are those of [`Plan::operators`], in that order. A thread works for one operator at a time; the clock of a
//! thread is handed from one to the next as chunks go through a pipeline ([`Working`]), so times add up to what the
//! statement's threads were busy, and waiting counts for nobody. Without a profile nothing of this is there but one
//! look at a thread-local per loop.
//!
//! # Limits
//! An operator that is part of another (a scan below a filter is one loop) has no numbers of its own. Bytes are those
//! of the codes of the columns that a scan may read, whether or not every one was.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::plan::Plan;

/// What an operator did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorProfile {
    /// Rows that came out of it.
    pub rows: u64,
    /// Time that threads spent in it.
    pub busy: Duration,
    /// Pieces of work that it was cut into.
    pub tasks: u64,
    /// Bytes that its tasks were to read from the node they ran on, or from where there is one node.
    pub bytes_local: u64,
    /// Bytes that its tasks were to read from another node.
    pub bytes_remote: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    seen: AtomicBool,
    rows: AtomicU64,
    busy_ns: AtomicU64,
    tasks: AtomicU64,
    bytes_local: AtomicU64,
    bytes_remote: AtomicU64,
}

impl Counters {
    pub(crate) fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Relaxed);
    }

    pub(crate) fn add_task(&self) {
        self.tasks.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64, local: bool) {
        let counter = if local { &self.bytes_local } else { &self.bytes_remote };
        counter.fetch_add(bytes, Relaxed);
    }

    /// From here on it has numbers.
    pub(crate) fn see(&self) {
        self.seen.store(true, Relaxed);
    }
}

/// What every operator of one plan did; given to [`execute_profiled`](crate::execute_profiled).
#[derive(Debug, Default)]
pub struct Profile {
    counters: Vec<Arc<Counters>>,
}

impl Profile {
    /// For a plan that is about to run, once.
    pub fn new(plan: &Plan) -> Profile {
        Profile { counters: plan.operators().iter().map(|_| Arc::default()).collect() }
    }

    /// What the operators of [`Plan::operators`] did so far; `None` for one that ran as part of another, or not at all.
    pub fn operators(&self) -> Vec<Option<OperatorProfile>> {
        let read = |c: &Arc<Counters>| {
            c.seen.load(Relaxed).then(|| OperatorProfile {
                rows: c.rows.load(Relaxed),
                busy: Duration::from_nanos(c.busy_ns.load(Relaxed)),
                tasks: c.tasks.load(Relaxed),
                bytes_local: c.bytes_local.load(Relaxed),
                bytes_remote: c.bytes_remote.load(Relaxed),
            })
        };
        self.counters.iter().map(read).collect()
    }
}

/// Which counters belong to which operator of a plan that lies still in memory.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// By the operator's address: its counters, and those of the operator above.
    counters: HashMap<usize, (Arc<Counters>, Option<Arc<Counters>>)>,
}

impl Numbering {
    /// `plan` is the profile's.
    pub(crate) fn new(profile: &Profile, plan: &Plan) -> Numbering {
        let mut counters = HashMap::new();
        let mut above: Vec<Arc<Counters>> = Vec::new();
        for ((depth, operator), own) in plan.operators().into_iter().zip(&profile.counters) {
            above.truncate(depth);
            counters.entry(address(operator)).or_insert_with(|| (own.clone(), above.last().cloned()));
            above.push(own.clone());
        }
        Numbering { counters }
    }

    /// The counters of an operator, and of the one above it.
    pub(crate) fn of(&self, plan: &Plan) -> Option<(Arc<Counters>, Option<Arc<Counters>>)> {
        self.counters.get(&address(plan)).cloned()
    }
}

fn address(plan: &Plan) -> usize {
    // A shared plan is known by what it shares: its places have one number each, and the first one's counters count.
    std::ptr::from_ref(plan) as usize
}

thread_local! {
    /// The operator that this thread works for, and since when.
    static CLOCK: RefCell<Option<(Arc<Counters>, Instant)>> = const { RefCell::new(None) };
}

/// While it lives, this thread works for an operator, or for none.
pub(crate) struct Working {
    before: Option<Arc<Counters>>,
}

impl Working {
    /// Works for `operator` from now on.
    pub(crate) fn on(operator: Option<Arc<Counters>>) -> Working {
        Working { before: switch(operator) }
    }

    /// The operator that this thread works for.
    pub(crate) fn now() -> Option<Arc<Counters>> {
        CLOCK.with_borrow(|clock| clock.as_ref().map(|(counters, _)| counters.clone()))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        switch(self.before.take());
    }
}

fn switch(to: Option<Arc<Counters>>) -> Option<Arc<Counters>> {
    CLOCK.with_borrow_mut(|clock| {
        let now = Instant::now();
        let before = std::mem::replace(clock, to.map(|counters| (counters, now)));
        before.map(|(counters, since)| {
            counters.busy_ns.fetch_add(now.duration_since(since).as_nanos() as u64, Relaxed);
            counters
        })
    })
}
