//! Merges of a table's delta: when one is due, who does it, what the last one came to.
//!
//! What a delta has becomes segments beside the statements that go on writing it. A merge is *queued* for the workers
//! once the delta is large, or nobody has written it for a while; a statement that finds the delta twice as large, or
//! memory short, does it itself, or waits for who does. So a delta is never much larger than twice the limit, whatever
//! the workers have to do before.
//!
//! # Invariants
//! One merge of a table at a time, and one compaction of its segments beside it. One that failed is not tried again
//! before [`REST_AFTER_FAILURE`] is over: what it lacked, memory as a rule, it would lack again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use sched::Statement;

/// A delta of more rows or statements, dead ones included, is merged.
const DELTA_ROWS_MAX: usize = 32 * 1024;
/// So is one of more bytes. One of more than a quarter of those that the database has left is merged by who writes it:
/// merging takes memory too, which others' statements should not find taken by nobody.
const DELTA_BYTES_MAX: u64 = 32 << 20;
/// How long a table is left alone after a merge that failed.
pub(crate) const REST_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What is to be done about a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeltaSize {
    /// Nothing, but when its table is idle.
    Small,
    /// It is to be merged: reading it takes time for its rows, and memory for them once more.
    Large,
    /// Who writes it waits until it is, or merges it.
    Huge,
}

impl DeltaSize {
    /// Of a delta of some rows, statements and bytes, where the database has `free` bytes left.
    pub(crate) fn of(rows: usize, statements: usize, bytes: u64, free: Option<u64>) -> DeltaSize {
        let is_beyond = |times: usize| {
            let bytes_max = times as u64 * DELTA_BYTES_MAX;
            rows > times * DELTA_ROWS_MAX || statements > times * DELTA_ROWS_MAX || bytes > bytes_max
        };
        let is_short = free.is_some_and(|free| bytes > free / 4);
        match (is_beyond(1), is_beyond(2) || is_short) {
            (_, true) => DeltaSize::Huge,
            (true, _) => DeltaSize::Large,
            _ => DeltaSize::Small,
        }
    }
}

/// What a merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merged {
    /// There was nothing to merge.
    Nothing,
    /// So many rows became segments.
    Rows(u64),
    /// The table was changed otherwise meanwhile: nothing was done.
    GivenUp,
    /// Nothing was done, for this reason.
    Failed(String),
}

/// A table's merges, for the views.
#[derive(Debug, Clone, Default)]
pub(crate) struct MergeReport {
    /// Whether one is queued or under way.
    pub(crate) is_merging: bool,
    /// Whether segments are being compacted.
    pub(crate) is_compacting: bool,
    /// How many have made segments.
    pub(crate) done: u64,
    /// Rows that the last of those wrote.
    pub(crate) last_rows: Option<u64>,
    /// How long it took.
    pub(crate) last_time: Option<Duration>,
    /// Why the last one failed, if it did.
    pub(crate) failure: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    state: Mutex<State>,
    ended: Condvar,
    /// Whether who writes has to wait.
    is_huge: AtomicBool,
    /// When the table was last written, by the clock of who watches.
    last_write_ms: AtomicU64,
    is_watched: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    compaction: Option<Arc<Statement>>,
    compacts_not_before: Option<Instant>,
    not_before: Option<Instant>,
    report: MergeReport,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Rests,
    Queued(Arc<Statement>),
    /// On behalf of the workers' statement, or of one that writes.
    Running(Option<Arc<Statement>>),
}

/// The right to merge a table's delta.
#[derive(Debug)]
pub(crate) struct MergeTurn {
    merges: Arc<Merges>,
    began: Instant,
    is_ended: bool,
}

/// The right to compact a table's segments.
#[derive(Debug)]
pub(crate) struct CompactionTurn(Arc<Merges>);

impl Merges {
    /// Whether `statement` shall have the workers merge, which nobody does yet.
    pub(crate) fn queue(&self, statement: &Arc<Statement>, now: Instant) -> bool {
        let mut state = self.state.lock();
        let goes = matches!(state.phase, Phase::Rests) && state.not_before.is_none_or(|at| at <= now);
        if goes {
            state.phase = Phase::Queued(Arc::clone(statement));
        }
        goes
    }

    /// Whether [`queue`](Self::queue) would have one.
    pub(crate) fn can_queue(&self, now: Instant) -> bool {
        let state = self.state.lock();
        matches!(state.phase, Phase::Rests) && state.not_before.is_none_or(|at| at <= now)
    }

    /// Whether who writes has to wait for a merge.
    pub(crate) fn is_huge(&self) -> bool {
        self.is_huge.load(Ordering::Acquire)
    }

    /// The size of the delta as it is now.
    pub(crate) fn set_size(&self, size: DeltaSize) {
        let is_huge = size == DeltaSize::Huge;
        if is_huge != self.is_huge() {
            self.is_huge.store(is_huge, Ordering::Release);
        }
    }

    /// Waits until a merge has ended, or for some time.
    pub(crate) fn wait(&self, time: Duration) {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Rests) {
            self.ended.wait_for(&mut state, time);
        }
    }

    /// The table was written; whether somebody watches it already.
    pub(crate) fn wrote(&self, now_ms: u64) -> bool {
        self.last_write_ms.store(now_ms, Ordering::SeqCst);
        self.is_watched.load(Ordering::SeqCst) || self.is_watched.swap(true, Ordering::SeqCst)
    }

    /// Nobody watches it any more.
    pub(crate) fn unwatch(&self) {
        self.is_watched.store(false, Ordering::SeqCst);
    }

    /// When it was last written.
    pub(crate) fn last_write_ms(&self) -> u64 {
        self.last_write_ms.load(Ordering::SeqCst)
    }

    /// Has what is under way end early.
    pub(crate) fn stop(&self) {
        let state = self.state.lock();
        if let Phase::Queued(statement) | Phase::Running(Some(statement)) = &state.phase {
            statement.cancel();
        }
        if let Some(statement) = &state.compaction {
            statement.cancel();
        }
    }

    /// What was merged so far.
    pub(crate) fn report(&self) -> MergeReport {
        let state = self.state.lock();
        MergeReport {
            is_merging: !matches!(state.phase, Phase::Rests),
            is_compacting: state.compaction.is_some(),
            ..state.report.clone()
        }
    }
}

impl MergeTurn {
    /// For the workers; `None` where somebody else was faster.
    pub(crate) fn of_workers(merges: &Arc<Merges>) -> Option<MergeTurn> {
        let mut state = merges.state.lock();
        let Phase::Queued(statement) = &state.phase else { return None };
        state.phase = Phase::Running(Some(Arc::clone(statement)));
        Some(MergeTurn::new(merges))
    }

    /// For a statement that writes: `Ok(None)` where somebody merges already, an error where the table has to be left
    /// alone.
    pub(crate) fn of_writer(merges: &Arc<Merges>, now: Instant) -> Result<Option<MergeTurn>, ()> {
        let mut state = merges.state.lock();
        if matches!(state.phase, Phase::Running(_)) {
            return Ok(None);
        }
        if state.not_before.is_some_and(|at| at > now) {
            return Err(());
        }
        state.phase = Phase::Running(None);
        Ok(Some(MergeTurn::new(merges)))
    }

    fn new(merges: &Arc<Merges>) -> MergeTurn {
        MergeTurn { merges: Arc::clone(merges), began: Instant::now(), is_ended: false }
    }

    /// Gives it back.
    pub(crate) fn end(mut self, merged: &Merged) {
        self.give_back(merged);
    }

    fn give_back(&mut self, merged: &Merged) {
        self.is_ended = true;
        let mut state = self.merges.state.lock();
        state.phase = Phase::Rests;
        match merged {
            Merged::Rows(rows) => {
                state.not_before = None;
                state.report.done += 1;
                state.report.last_rows = Some(*rows);
                state.report.last_time = Some(self.began.elapsed());
                state.report.failure = None;
            }
            Merged::Failed(why) => {
                state.not_before = Some(Instant::now() + REST_AFTER_FAILURE);
                state.report.failure = Some(why.clone());
            }
            Merged::Nothing | Merged::GivenUp => {}
        }
        self.merges.ended.notify_all();
    }
}

impl Drop for MergeTurn {
    fn drop(&mut self) {
        if !self.is_ended {
            self.give_back(&Merged::Failed("the merge was interrupted".into()));
        }
    }
}

impl CompactionTurn {
    /// On behalf of a statement; `None` where somebody compacts already, or that has failed just now.
    pub(crate) fn begin(merges: &Arc<Merges>, statement: &Arc<Statement>, now: Instant) -> Option<CompactionTurn> {
        let mut state = merges.state.lock();
        if state.compaction.is_some() || state.compacts_not_before.is_some_and(|at| at > now) {
            return None;
        }
        state.compaction = Some(Arc::clone(statement));
        Some(CompactionTurn(Arc::clone(merges)))
    }

    /// It has failed: the table is left alone for a while.
    pub(crate) fn rest(self, now: Instant) {
        self.0.state.lock().compacts_not_before = Some(now + REST_AFTER_FAILURE);
    }
}

impl Drop for CompactionTurn {
    fn drop(&mut self) {
        self.0.state.lock().compaction = None;
    }
}

#[cfg(test)]
mod tests {
    use numa::Budget;

    use super::*;

    fn merges() -> Arc<Merges> {
        Arc::default()
    }

    #[test]
    fn sizes_go_by_rows_statements_and_bytes() {
        use DeltaSize::{Huge, Large, Small};
        let (rows, bytes) = (DELTA_ROWS_MAX, DELTA_BYTES_MAX);
        assert_eq!(DeltaSize::of(rows, rows, bytes, None), Small);
        assert_eq!(DeltaSize::of(rows + 1, 1, 0, None), Large);
        assert_eq!(DeltaSize::of(0, rows + 1, 0, None), Large);
        assert_eq!(DeltaSize::of(0, 1, bytes + 1, Some(u64::MAX)), Large);
        assert_eq!(DeltaSize::of(2 * rows, 2 * rows, 2 * bytes, None), Large);
        assert_eq!(DeltaSize::of(2 * rows + 1, 0, 0, None), Huge);
        assert_eq!(DeltaSize::of(1, 2 * rows + 1, 0, None), Huge);
        // A quarter of what is left.
        assert_eq!(DeltaSize::of(1, 1, 100, Some(400)), Small);
        assert_eq!(DeltaSize::of(1, 1, 101, Some(400)), Huge);
    }

    #[test]
    fn one_merges_at_a_time_and_a_failure_is_not_repeated_at_once() {
        let (merges, now) = (merges(), Instant::now());
        let statement = Statement::new(1, Budget::unlimited());
        assert!(MergeTurn::of_workers(&merges).is_none(), "nothing is queued");
        assert!(merges.queue(&statement, now) && !merges.queue(&statement, now));
        assert!(merges.report().is_merging);
        // A statement that writes is faster than the workers.
        let turn = MergeTurn::of_writer(&merges, now).unwrap().unwrap();
        assert!(MergeTurn::of_workers(&merges).is_none());
        assert!(matches!(MergeTurn::of_writer(&merges, now), Ok(None)));
        turn.end(&Merged::Rows(7));
        let report = merges.report();
        assert_eq!((report.is_merging, report.done, report.last_rows), (false, 1, Some(7)));
        // One that is dropped, by a panic say, has failed.
        assert!(merges.queue(&statement, Instant::now()));
        drop(MergeTurn::of_workers(&merges).unwrap());
        assert!(!merges.queue(&statement, Instant::now()));
        assert!(MergeTurn::of_writer(&merges, Instant::now()).is_err());
        assert!(merges.report().failure.is_some());
        let later = Instant::now() + REST_AFTER_FAILURE;
        assert!(merges.queue(&statement, later));
        merges.stop();
        assert!(statement.is_cancelled());
        MergeTurn::of_workers(&merges).unwrap().end(&Merged::GivenUp);
        merges.wait(Duration::from_secs(60));
        let compaction = CompactionTurn::begin(&merges, &statement, Instant::now()).unwrap();
        assert!(CompactionTurn::begin(&merges, &statement, Instant::now()).is_none() && merges.report().is_compacting);
        drop(compaction);
        assert!(!merges.report().is_compacting);
        // What has failed rests.
        let now = Instant::now();
        CompactionTurn::begin(&merges, &statement, now).unwrap().rest(now);
        assert!(CompactionTurn::begin(&merges, &statement, now).is_none());
        assert!(CompactionTurn::begin(&merges, &statement, now + REST_AFTER_FAILURE).is_some());
    }
}
