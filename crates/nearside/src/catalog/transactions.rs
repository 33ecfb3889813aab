//! Which transactions are open, and who waits for whom.
//!
//! Who meets a row, key or table that a transaction has locked waits until that one has ended ([`Transactions::wait`]),
//! with nothing in hand but what it has locked itself. A circle of transactions that wait for each other is found by
//! the one whose waiting closes it, and that one gives way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// How long a statement sleeps at most before it looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(20);

/// What a transaction sees, and what it is protected from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see what was committed before the first; a row that another has changed since is not written.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

impl Level {
    /// As SQL writes it, in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::ReadCommitted => "read committed",
            Level::RepeatableRead => "repeatable read",
            Level::Serializable => "serializable",
        }
    }

    /// What a text says, if it says a level.
    pub(crate) fn of(text: &str) -> Option<Level> {
        match text.trim().to_lowercase().as_str() {
            "read committed" | "read uncommitted" => Some(Level::ReadCommitted),
            "repeatable read" => Some(Level::RepeatableRead),
            "serializable" => Some(Level::Serializable),
            _ => None,
        }
    }
}

/// What an open transaction does.
#[derive(Debug, Clone)]
pub(crate) enum Activity {
    /// Nothing, since then.
    Idle(Instant),
    /// It runs a statement.
    Running(String),
}

/// An open transaction, as others see it.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    /// Counted from 1 in each database.
    pub id: u64,
    /// When it began.
    pub began: DateTime<Utc>,
    /// For its age.
    pub began_at: Instant,
    state: Mutex<Shown>,
    written_rows: AtomicU64,
}

#[derive(Debug, Clone)]
struct Shown {
    level: Level,
    is_read_only: bool,
    has_failed: bool,
    activity: Activity,
}

/// An open transaction at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TransactionReport {
    pub id: u64,
    pub began: DateTime<Utc>,
    pub age: Duration,
    pub level: Level,
    pub is_read_only: bool,
    pub has_failed: bool,
    pub activity: Activity,
    pub written_rows: u64,
    /// The transaction that it waits for.
    pub waits_for: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    begun: u64,
    open: BTreeMap<u64, Arc<OpenTransaction>>,
    /// Of each transaction that waits, for which.
    waits: HashMap<u64, u64>,
}

impl OpenTransaction {
    /// What it is by now.
    pub(crate) fn set_modes(&self, level: Level, is_read_only: bool) {
        let mut state = self.state.lock();
        (state.level, state.is_read_only) = (level, is_read_only);
    }

    /// A statement of it has failed, or what failed was undone.
    pub(crate) fn set_failed(&self, has_failed: bool) {
        self.state.lock().has_failed = has_failed;
    }

    /// Whether a statement of it has failed, so that it only ends.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.lock().has_failed
    }

    /// What it does from now on.
    pub(crate) fn set_activity(&self, activity: Activity) {
        self.state.lock().activity = activity;
    }

    /// How many rows it has added and taken away.
    pub(crate) fn set_written_rows(&self, rows: u64) {
        self.written_rows.store(rows, Ordering::Relaxed);
    }

    /// Since when it does nothing, if it does.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        match self.state.lock().activity {
            Activity::Idle(since) => Some(since),
            Activity::Running(_) => None,
        }
    }
}

impl Transactions {
    /// One begins.
    pub(crate) fn begin(&self, level: Level, is_read_only: bool) -> Arc<OpenTransaction> {
        let mut state = self.state.lock();
        state.begun += 1;
        let shown = Shown { level, is_read_only, has_failed: false, activity: Activity::Idle(Instant::now()) };
        let open = Arc::new(OpenTransaction {
            id: state.begun,
            began: Utc::now(),
            began_at: Instant::now(),
            state: Mutex::new(shown),
            written_rows: AtomicU64::new(0),
        });
        state.open.insert(open.id, Arc::clone(&open));
        open
    }

    /// One has ended, and has locked nothing any more.
    pub(crate) fn end(&self, id: u64) {
        self.state.lock().open.remove(&id);
        self.ended.notify_all();
    }

    /// Waits until a transaction has ended, on behalf of another or of nobody, as long as `go_on` says so.
    ///
    /// # Errors
    /// Those of `go_on`; [`Error::Deadlock`] where that one waits for this one.
    pub(crate) fn wait(&self, waiter: Option<u64>, holder: u64, go_on: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(waiter) = waiter {
            if let Some(circle) = state.circle(waiter, holder) {
                return Err(Error::Deadlock(circle));
            }
            state.waits.insert(waiter, holder);
        }
        let mut going_on = Ok(());
        while going_on.is_ok() && state.open.contains_key(&holder) {
            self.ended.wait_for(&mut state, WAIT);
            going_on = parking_lot::MutexGuard::unlocked(&mut state, &go_on);
        }
        if let Some(waiter) = waiter {
            state.waits.remove(&waiter);
        }
        going_on
    }

    /// Those that are open, in the order in which they began.
    pub(crate) fn report(&self) -> Vec<TransactionReport> {
        let state = self.state.lock();
        let report = |open: &Arc<OpenTransaction>| {
            let shown = open.state.lock().clone();
            TransactionReport {
                id: open.id,
                began: open.began,
                age: open.began_at.elapsed(),
                level: shown.level,
                is_read_only: shown.is_read_only,
                has_failed: shown.has_failed,
                activity: shown.activity,
                written_rows: open.written_rows.load(Ordering::Relaxed),
                waits_for: state.waits.get(&open.id).copied(),
            }
        };
        state.open.values().map(report).collect()
    }
}

impl State {
    /// Who would wait for whom in a circle, in words.
    fn circle(&self, waiter: u64, holder: u64) -> Option<String> {
        let mut circle = format!("transaction {waiter} waits for {holder}");
        let mut next = holder;
        while let Some(waits_for) = self.waits.get(&next) {
            circle.push_str(&format!(", {next} for {waits_for}"));
            next = *waits_for;
            if next == waiter {
                return Some(circle);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_closes_a_circle_gives_way() {
        let all = Transactions::default();
        let ids: Vec<u64> = (0..3).map(|_| all.begin(Level::ReadCommitted, false).id).collect();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| all.wait(Some(ids[0]), ids[1], || Ok(())));
            while all.report()[0].waits_for.is_none() {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| all.wait(Some(ids[1]), ids[2], || Ok(())));
            while all.report()[1].waits_for.is_none() {
                std::thread::yield_now();
            }
            let error = all.wait(Some(ids[2]), ids[0], || Ok(())).unwrap_err();
            assert_eq!(
                error.to_string(),
                "deadlock: transaction 3 waits for 1, 1 for 2, 2 for 3; run the transaction again"
            );
            // One that is in no circle waits, and one that is stopped ends.
            assert!(matches!(all.wait(None, ids[0], || Err(Error::Cancelled)), Err(Error::Cancelled)));
            all.end(ids[2]);
            second.join().unwrap().unwrap();
            all.end(ids[1]);
            first.join().unwrap().unwrap();
        });
        assert_eq!(all.report().len(), 1);
        // Of one that has ended nobody waits.
        all.wait(Some(ids[0]), ids[2], || Ok(())).unwrap();
    }

    #[test]
    fn levels_have_names() {
        for level in [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable] {
            assert_eq!(Level::of(&level.name().to_uppercase()), Some(level));
        }
        assert_eq!((Level::of("read uncommitted"), Level::of("snapshot")), (Some(Level::ReadCommitted), None));
    }
}
