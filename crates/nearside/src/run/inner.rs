//! [`Inner`]: what every session and statement of a database shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use chrono::{DateTime, Utc};
use numa::counters::MemoryCounters;
use numa::{Attributes, Budget, Topology};
use parking_lot::Mutex;
use sched::Scheduler;

use crate::catalog::Catalog;
use crate::catalog::placement::changes::ChangeLog;
use crate::catalog::transactions::Transactions;
use crate::plan::planner::Planner;
use crate::plan::system::SystemTables;
use crate::run::admission_state::Admission;
use crate::run::cache::{PLANS_MAX, PlanCache};
use crate::run::clock::StatementClock;
use crate::run::config;
use crate::run::idle::IdleWatch;
use crate::run::lookout::Lookout;
use crate::run::placer_state::LivePlacer;
use crate::run::planned::PlannedQuery;
use crate::run::reading::Reading;
use crate::run::recording::Recorder;
use crate::run::role_limits::RunningOfRoles;
use crate::run::scheduling::{PackageChoice, Threshold};

/// Statements since the database was started, of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    begun: AtomicU64,
    failed: AtomicU64,
}

impl Statements {
    /// One that is run: counted, and once more where it fails at once.
    pub(crate) fn count<T, E>(&self, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let done = run();
        if done.is_err() {
            self.failed();
        }
        done
    }

    /// One fails, which may be among its rows.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were begun, and how many of those have failed.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.begun.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// Who runs statements that others may cancel.
pub(crate) trait Runs: Send + Sync {
    /// Cancels the statement of a time; false where none of it runs.
    fn cancel(&self, statement_time: u64) -> bool;

    /// What it does.
    fn report(&self) -> SessionReport;
}

/// What a session does, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct SessionReport {
    /// Which of the process's sessions.
    pub number: i32,
    /// The number of the role that has logged in.
    pub user: u32,
    /// What the client calls itself.
    pub application_name: String,
    /// When it began.
    pub began: DateTime<Utc>,
    /// The statement that runs, and since when.
    pub statement: Option<(String, DateTime<Utc>)>,
    /// Since when there is a transaction, and whether it has failed.
    pub transaction: Option<(DateTime<Utc>, bool)>,
}

/// The sessions that there are.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Weak<dyn Runs>>>);

impl Sessions {
    /// One comes; those that have gone are forgotten.
    pub(crate) fn add(&self, session: Weak<dyn Runs>) {
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(session);
    }

    /// Cancels the statement of a time, whoever runs it; false where it is over.
    pub(crate) fn cancel(&self, statement_time: u64) -> bool {
        // Sessions go without the lock held: what goes with one may take others.
        let all: Vec<Arc<dyn Runs>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().any(|session| session.cancel(statement_time))
    }

    /// What they do.
    pub(crate) fn report(&self) -> Vec<SessionReport> {
        let all: Vec<Arc<dyn Runs>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().map(|session| session.report()).collect()
    }
}

/// What sessions of a role begin with: the settings that it was given, and what comes of them, with its number.
pub(crate) type Start = (BTreeMap<String, String>, Arc<Planner>, u64);

/// What every session shares.
pub(crate) struct Inner {
    pub topology: Arc<Topology>,
    pub attributes: Option<Attributes>,
    pub scheduler: Arc<Scheduler>,
    /// From where tasks are memory-intensive, for statements that leave it to the machine.
    pub threshold: Threshold,
    /// Where tasks of scans wait.
    pub package_queues: PackageChoice,
    pub budget: Arc<Budget>,
    pub catalog: Arc<Catalog>,
    pub plans: PlanCache<Arc<PlannedQuery>>,
    /// What tasks of statements that ended touched.
    pub traffic: Arc<exec::Traffic>,
    /// Scans that share passes.
    pub shared_scans: Arc<exec::SharedScans>,
    /// The last changes of placements.
    pub changes: ChangeLog,
    /// What statements read and computed, where that is recorded.
    pub recorder: Recorder,
    /// What passes the memory controllers, from the first look at it on; `None` where that cannot be counted.
    pub memory_counters: OnceLock<Option<MemoryCounters>>,
    /// Makes the system views of this database.
    pub system_tables: fn(&Arc<Inner>) -> Arc<dyn SystemTables>,
    /// Which tables nobody has written for a while.
    pub idle: Arc<IdleWatch>,
    /// What moves data by itself.
    pub placer: Arc<LivePlacer>,
    /// Who begins.
    pub admission: Arc<Admission>,
    /// When statements come.
    pub clock: StatementClock,
    /// Transactions over several statements.
    pub transactions: Arc<Transactions>,
    /// Looks at those that have a limit for being idle.
    pub lookout: Arc<Lookout>,
    /// What reads columns that nobody waits for.
    pub reading: Reading,
    /// How many statements there were.
    pub statements: Statements,
    /// Who runs statements.
    pub sessions: Sessions,
    /// What sessions of roles begin with.
    pub starts: Mutex<HashMap<u32, Start>>,
    /// How many statements roles run.
    pub of_roles: Arc<RunningOfRoles>,
    /// How many sessions roles have that are limited in them.
    pub sessions_of_roles: Arc<RunningOfRoles>,
    /// From how many milliseconds on a statement is told to the log; -1 for none.
    pub log_min_duration_ms: AtomicI64,
    default_planner: OnceLock<Arc<Planner>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("threads", &self.scheduler.threads()).finish_non_exhaustive()
    }
}

impl Inner {
    /// A database that no statement has run in.
    pub(crate) fn new(
        topology: Arc<Topology>,
        attributes: Option<Attributes>,
        scheduler: Arc<Scheduler>,
        budget: Arc<Budget>,
        catalog: Arc<Catalog>,
        system_tables: fn(&Arc<Inner>) -> Arc<dyn SystemTables>,
    ) -> Inner {
        let cpus = topology.usable_cpus().len();
        let clock = StatementClock::default();
        Inner {
            threshold: Threshold::of(&scheduler, attributes.as_ref()),
            package_queues: PackageChoice::of(&topology, attributes.as_ref()),
            shared_scans: Arc::new(exec::SharedScans::within(&budget)),
            admission: Arc::new(Admission::new(Arc::clone(&scheduler), clock.clone())),
            topology,
            attributes,
            scheduler,
            budget,
            catalog,
            plans: PlanCache::new(PLANS_MAX),
            traffic: Arc::new(exec::Traffic::of_all(cpus)),
            changes: ChangeLog::default(),
            recorder: Recorder::default(),
            memory_counters: OnceLock::new(),
            system_tables,
            idle: Arc::default(),
            placer: Arc::default(),
            clock,
            transactions: Arc::default(),
            lookout: Arc::default(),
            reading: Reading::default(),
            statements: Statements::default(),
            sessions: Sessions::default(),
            starts: Mutex::default(),
            of_roles: Arc::default(),
            sessions_of_roles: Arc::default(),
            log_min_duration_ms: AtomicI64::new(-1),
            default_planner: OnceLock::new(),
        }
    }

    /// Functions and settings as every session starts with them.
    pub(crate) fn default_planner(&self) -> Arc<Planner> {
        let defaults = || config::defaults(self.scheduler.threads(), &self.scheduler.settings());
        Arc::clone(self.default_planner.get_or_init(|| Arc::new(Planner::new(defaults()))))
    }
}

/// Merges that are under way are for nobody any more.
impl Drop for Inner {
    fn drop(&mut self) {
        self.idle.end();
        self.placer.end();
        self.reading.end();
        if let Some(journal) = self.catalog.journal() {
            journal.end(&self.catalog.state());
        }
        self.catalog.state().tables().for_each(|table| table.meta.merges.stop());
    }
}
