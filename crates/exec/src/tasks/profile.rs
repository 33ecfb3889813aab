//! [`Profile`]: what each operator of a plan did while it ran, for EXPLAIN ANALYZE.
//!
//! Operators are found by their number ([`OperatorId`]), which whoever walks over the running plan carries along
//! ([`OperatorPlace`]). A thread works for one operator at a time; the clock of a thread is handed from one to the next
//! as chunks go through a pipeline ([`Working`]), so times add up to what the statement's threads were busy, and
//! waiting counts for nobody. Without a profile nothing of this is there but one look at a thread-local per loop.
//!
//! # Limits
//! An operator that is part of another (a scan below a filter is one loop) has no numbers of its own. Bytes are those
//! of the codes of the columns that a scan may read, whether or not every one was.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::plan::{ListedOperator, OperatorId, PerOperator, Plan};

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
    /// Granules of a column that its tasks read for other scans too.
    pub granules_shared: u64,
    /// Granules whose rows were found by tasks of other scans.
    pub granules_taken: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    seen: AtomicBool,
    rows: AtomicU64,
    busy_ns: AtomicU64,
    tasks: AtomicU64,
    bytes_local: AtomicU64,
    bytes_remote: AtomicU64,
    granules_shared: AtomicU64,
    granules_taken: AtomicU64,
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

    /// The rows of a granule were found in a pass, which also found those of `given` others, or else was another's.
    pub(crate) fn add_shared(&self, given: Option<usize>) {
        match given {
            None => self.granules_taken.fetch_add(1, Relaxed),
            Some(others) => self.granules_shared.fetch_add(u64::from(others > 0), Relaxed),
        };
    }

    /// From here on it has numbers.
    pub(crate) fn see(&self) {
        self.seen.store(true, Relaxed);
    }
}

/// What every operator of one plan did; given to [`execute_profiled`](crate::execute_profiled) with the plan or a copy
/// of it.
#[derive(Debug)]
pub struct Profile {
    operators: Arc<PerOperator<Counted>>,
}

/// An operator that is counted.
#[derive(Debug)]
struct Counted {
    counters: Arc<Counters>,
    inputs: Vec<OperatorId>,
}

impl Profile {
    /// For a plan that is about to run, once.
    pub fn new(plan: &Plan) -> Profile {
        let operators = plan.operators();
        let counted = |of: &ListedOperator<'_>| Counted { counters: Arc::default(), inputs: of.inputs.clone() };
        Profile { operators: Arc::new(PerOperator::new(&operators, counted)) }
    }

    /// What each operator did so far; `None` for one that ran as part of another, or not at all.
    pub fn operators(&self) -> PerOperator<Option<OperatorProfile>> {
        self.operators.map(|Counted { counters: c, .. }| {
            c.seen.load(Relaxed).then(|| OperatorProfile {
                rows: c.rows.load(Relaxed),
                busy: Duration::from_nanos(c.busy_ns.load(Relaxed)),
                tasks: c.tasks.load(Relaxed),
                bytes_local: c.bytes_local.load(Relaxed),
                bytes_remote: c.bytes_remote.load(Relaxed),
                granules_shared: c.granules_shared.load(Relaxed),
                granules_taken: c.granules_taken.load(Relaxed),
            })
        })
    }

    /// Where the plan's walk begins.
    pub(crate) fn top(&self) -> OperatorPlace {
        let operators = Arc::clone(&self.operators);
        OperatorPlace(Some(Standing { operators, id: OperatorId::TOP, runs_in: OperatorId::TOP, above: None }))
    }
}

/// Which operator of the plan that runs somebody walks over, where operators are counted; nothing where they are not.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorPlace(Option<Standing>);

#[derive(Debug, Clone)]
struct Standing {
    operators: Arc<PerOperator<Counted>>,
    id: OperatorId,
    /// The operator that does its work: itself, or the one above that it is a part of.
    runs_in: OperatorId,
    /// The operator that takes the rows; none on top.
    above: Option<OperatorId>,
}

impl OperatorPlace {
    /// The operator's input, by its place in [`Plan::inputs`].
    pub(crate) fn input(&self, n: usize) -> OperatorPlace {
        OperatorPlace(self.0.as_ref().map(|at| {
            let id = at.operators[at.id].inputs[n];
            Standing { operators: Arc::clone(&at.operators), id, runs_in: id, above: Some(at.runs_in) }
        }))
    }

    /// The operator's only input, where that runs as part of it.
    pub(crate) fn part(&self) -> OperatorPlace {
        OperatorPlace(self.0.as_ref().map(|at| Standing { id: at.operators[at.id].inputs[0], ..at.clone() }))
    }

    /// The counters of the operator, and of the one that takes its rows.
    pub(crate) fn counters(&self) -> Option<(Arc<Counters>, Option<Arc<Counters>>)> {
        let at = self.0.as_ref()?;
        let of = |id: OperatorId| Arc::clone(&at.operators[id].counters);
        Some((of(at.id), at.above.map(of)))
    }
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
