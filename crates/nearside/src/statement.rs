//! One running statement: its time, what exists for it, its budget, and how it is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use datafusion::common::DataFusionError;
use datafusion::common::alias::AliasGenerator;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::optimizer::OptimizerConfig;
use exec::Traffic;
use numa::{Budget, Reservation};
use parking_lot::Mutex;
use sched::Stopped;
use storage::{Interrupted, StoreError};
use tokio::sync::Notify;

use crate::catalog::{Catalog, CatalogState};
use crate::config;
use crate::context::PlanContext;
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::planning::Stop;
use crate::scheduling;

/// Cancels a statement, and wakes whoever waits for its rows.
#[derive(Debug, Default)]
pub(crate) struct CancelSignal {
    cancelled: AtomicBool,
    notify: Notify,
}

impl CancelSignal {
    fn raise(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Returns when the signal is raised.
    pub(crate) async fn raised(&self) {
        loop {
            let waiting = self.notify.notified();
            if self.cancelled.load(Ordering::Acquire) {
                return;
            }
            waiting.await;
        }
    }
}

/// One statement from its start until its last row is taken.
#[derive(Debug)]
pub(crate) struct Running {
    /// What the scheduler knows of it.
    pub statement: Arc<sched::Statement>,
    /// The database.
    pub inner: Arc<Inner>,
    /// Functions and settings.
    pub state: Arc<SessionState>,
    /// What exists; replaced once by a writing statement when it has its table's writer lock.
    pub catalog: Arc<CatalogState>,
    /// Where it commits: the database's catalog, or a scratch one while IMPORT DATABASE works.
    pub home: Arc<Catalog>,
    /// What its tasks touch.
    pub traffic: Arc<StatementTraffic>,
    signal: Arc<CancelSignal>,
    started: DateTime<Utc>,
    deadline: Option<Instant>,
}

impl Running {
    /// Starts a statement: it sees what exists now, and nothing that commits later.
    pub(crate) fn start(inner: &Arc<Inner>, state: Arc<SessionState>) -> Running {
        let settings = config::nearside(state.config_options());
        let limit = (settings.statement_memory_bytes > 0).then_some(settings.statement_memory_bytes);
        let budget = inner.budget.child("statement", limit);
        let statement = sched::Statement::new(inner.next_statement_time(), budget);
        let deadline = (settings.statement_timeout_ms > 0)
            .then(|| Instant::now() + Duration::from_millis(settings.statement_timeout_ms));
        if let Some(deadline) = deadline {
            statement.set_deadline(deadline);
        }
        // SET has refused what is no setting.
        statement.set_settings(scheduling::settings(&settings, inner.threshold.known().unwrap_or(0)).ok());
        statement.set_counted(scheduling::counted(&settings.hardware_counters).unwrap_or(true));
        Running {
            statement,
            inner: Arc::clone(inner),
            state,
            catalog: inner.catalog.state(),
            home: Arc::clone(&inner.catalog),
            traffic: StatementTraffic::of(inner),
            signal: Arc::default(),
            started: Utc::now(),
            deadline,
        }
    }

    /// The same statement over what exists now.
    pub(crate) fn refreshed(&self) -> Running {
        self.over(self.home.state())
    }

    /// The same statement over another state.
    pub(crate) fn over(&self, catalog: Arc<CatalogState>) -> Running {
        Running {
            statement: Arc::clone(&self.statement),
            inner: Arc::clone(&self.inner),
            state: Arc::clone(&self.state),
            catalog,
            home: Arc::clone(&self.home),
            traffic: Arc::clone(&self.traffic),
            signal: Arc::clone(&self.signal),
            started: self.started,
            deadline: self.deadline,
        }
    }

    /// The same statement in an empty catalog of its own.
    pub(crate) fn scratch(&self) -> Running {
        let home = Arc::new(self.home.scratch());
        Running { home: Arc::clone(&home), ..self.over(home.state()) }
    }

    /// What expressions are planned with: the time of the statement and the session's settings.
    pub(crate) fn props(&self) -> ExecutionProps {
        let mut props = ExecutionProps::new();
        props.query_execution_start_time = Some(self.started);
        props.config_options = Some(Arc::clone(self.state.config_options()));
        props
    }

    /// What the SQL planner asks on its behalf.
    pub(crate) fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            state: &self.state,
            catalog: Arc::clone(&self.catalog),
            inner: &self.inner,
            planning: Vec::new(),
            stop: Stop::of(self),
        }
    }

    /// A way to cancel it from any thread.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller { statement: Arc::clone(&self.statement), signal: Arc::clone(&self.signal) }
    }

    /// An error when it was cancelled or is out of time.
    pub(crate) fn check(&self) -> Result<()> {
        go_on(&self.statement, self.deadline)
    }

    /// What a step of storage on the statement's workers came to; `step` names it. The step's own word goes first: a
    /// panic in it stops the
    /// statement too, and whoever asks only whether that was stopped takes it for somebody's wish.
    pub(crate) fn finished<T>(&self, result: Result<T, StoreError>, step: impl FnOnce() -> String) -> Result<T> {
        match result {
            Ok(done) => self.check().map(|()| done),
            Err(StoreError::Interrupted(Interrupted::Panicked(text))) => {
                Err(Error::Internal(format!("{} failed: {text}", step())))
            }
            Err(StoreError::Interrupted(Interrupted::Cancelled)) => Err(self.check().err().unwrap_or(Error::Cancelled)),
            Err(other) => Err(other.into()),
        }
    }

    /// The instant after which it fails.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How it is told to stop.
    pub(crate) fn signal(&self) -> &Arc<CancelSignal> {
        &self.signal
    }

    /// What DataFusion's operators run with: this statement's budget, no spilling to disk.
    pub(crate) fn task_context(&self) -> Arc<TaskContext> {
        let runtime = RuntimeEnv {
            memory_pool: Arc::new(StatementPool::new(Arc::clone(self.statement.budget()))),
            ..RuntimeEnv::clone(self.state.runtime_env())
        };
        let state = &self.state;
        Arc::new(TaskContext::new(
            None,
            state.session_id().to_string(),
            state.config().clone(),
            state.scalar_functions().clone(),
            state.higher_order_functions().clone(),
            state.aggregate_functions().clone(),
            state.window_functions().clone(),
            Arc::new(runtime),
        ))
    }
}

/// The optimiser asks the statement for the time that `now()` stands for.
impl OptimizerConfig for Running {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        Some(self.started)
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.state.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.state.config_options())
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.state.as_ref())
    }
}

/// What the tasks of one statement touch; added to the database's account when the statement ends.
#[derive(Debug)]
pub(crate) struct StatementTraffic {
    own: Arc<Traffic>,
    all: Arc<Traffic>,
}

impl StatementTraffic {
    fn of(inner: &Inner) -> Arc<StatementTraffic> {
        Arc::new(StatementTraffic { own: Arc::default(), all: Arc::clone(&inner.traffic) })
    }

    /// The statement's account.
    pub(crate) fn own(&self) -> &Arc<Traffic> {
        &self.own
    }
}

impl Drop for StatementTraffic {
    fn drop(&mut self) {
        self.all.absorb(&self.own);
    }
}

/// An error once a statement was stopped, or is past its deadline. The statement itself heeds its deadline too: why
/// it stopped is asked once, so
/// that a deadline that passes meanwhile is not taken for somebody's wish.
pub(crate) fn go_on(statement: &sched::Statement, deadline: Option<Instant>) -> Result<()> {
    match statement.stopped() {
        Some(Stopped::Deadline) => Err(Error::Timeout),
        Some(Stopped::Failed(text)) => Err(Error::Internal(text)),
        _ if deadline.is_some_and(|deadline| Instant::now() >= deadline) => Err(Error::Timeout),
        Some(_) => Err(Error::Cancelled),
        None => Ok(()),
    }
}

/// Cancels one statement.
#[derive(Debug, Clone)]
pub(crate) struct Canceller {
    statement: Arc<sched::Statement>,
    signal: Arc<CancelSignal>,
}

impl Canceller {
    /// Cancels it; more than once is as good as once.
    pub(crate) fn cancel(&self) {
        self.statement.cancel();
        self.signal.raise();
    }
}

/// DataFusion's accounting on our budgets. Growth that may not fail (`grow`) is booked where there is room and
/// remembered as debt otherwise, so that the next growth that may fail does.
#[derive(Debug)]
struct StatementPool {
    budget: Arc<Budget>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    reservation: Option<Reservation>,
    debt: u64,
}

impl StatementPool {
    fn new(budget: Arc<Budget>) -> StatementPool {
        StatementPool { budget, held: Mutex::default() }
    }

    fn add(&self, held: &mut Held, bytes: u64) -> Result<(), numa::MemoryError> {
        let bytes = bytes + held.debt;
        match &mut held.reservation {
            Some(all) => all.grow(bytes)?,
            None => held.reservation = Some(self.budget.reserve(bytes)?),
        }
        held.debt = 0;
        Ok(())
    }
}

impl std::fmt::Display for StatementPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "statement budget, {} bytes in use", self.reserved())
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "nearside statement budget"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut held = self.held.lock();
        if self.add(&mut held, additional as u64).is_err() {
            held.debt += additional as u64;
        }
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut held = self.held.lock();
        let mut bytes = shrink as u64;
        let from_debt = bytes.min(held.debt);
        held.debt -= from_debt;
        bytes -= from_debt;
        if let Some(reservation) = &mut held.reservation {
            let bytes = bytes.min(reservation.bytes());
            reservation.shrink(bytes);
        }
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<(), DataFusionError> {
        let mut held = self.held.lock();
        self.add(&mut held, additional as u64).map_err(|e| Error::from(e).into_datafusion())
    }

    fn reserved(&self) -> usize {
        let held = self.held.lock();
        (held.reservation.as_ref().map_or(0, Reservation::bytes) + held.debt) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_taken_for_a_wish() {
        for _ in 0..500 {
            let statement = sched::Statement::new(1, Budget::unlimited());
            let deadline = Instant::now() + Duration::from_micros(200);
            statement.set_deadline(deadline);
            let error = loop {
                if let Err(error) = go_on(&statement, Some(deadline)) {
                    break error;
                }
            };
            assert!(matches!(error, Error::Timeout), "{error}");
        }
        let statement = sched::Statement::new(1, Budget::unlimited());
        statement.cancel();
        assert!(matches!(go_on(&statement, Some(Instant::now() + Duration::from_secs(60))), Err(Error::Cancelled)));
        assert!(matches!(go_on(&statement, None), Err(Error::Cancelled)));
    }

    #[test]
    fn a_panic_is_never_taken_for_a_wish() {
        let database = crate::Database::builder().threads(2).memory_bytes(1 << 26).build().unwrap();
        let running = database.session().running();
        let workers = crate::placement::stage::parallel(&running);
        let body = |task: usize| assert!(task != 5, "the sixth is broken");
        let built = storage::Parallel::for_each(&workers, 8, &|_| None, &body).map_err(StoreError::from);
        let error = running.finished(built, || "building the indexes of table 't'".into()).unwrap_err();
        assert!(matches!(&error, Error::Internal(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("building the indexes of table 't' failed") && text.contains("the sixth is broken"),
            "{text}"
        );
        // Whoever asks later is told the same.
        let error = running.check().unwrap_err();
        assert!(matches!(&error, Error::Internal(text) if text.contains("the sixth is broken")), "{error}");
        // What another panic of the statement stopped names that one.
        let other = storage::Parallel::for_each(&workers, 8, &|_| None, &|_| ()).map_err(StoreError::from);
        let error = running.finished(other, || "moving table 't'".into()).unwrap_err();
        assert!(matches!(&error, Error::Internal(text) if text.contains("the sixth is broken")), "{error}");
        let cancelled = database.session().running();
        cancelled.canceller().cancel();
        let workers = crate::placement::stage::parallel(&cancelled);
        let built = storage::Parallel::for_each(&workers, 8, &|_| None, &|_| ()).map_err(StoreError::from);
        assert!(matches!(cancelled.finished(built, String::new), Err(Error::Cancelled)));
        assert!(matches!(cancelled.finished(Ok(()), String::new), Err(Error::Cancelled)));
    }
}
