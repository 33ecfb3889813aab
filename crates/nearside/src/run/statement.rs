//! One running statement: its time, what exists for it, its budget, and how it is cancelled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};
use datafusion_common::TableReference;
use datafusion_common::alias::AliasGenerator;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::TableSource;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_optimizer::OptimizerConfig;
use exec::{SchedParallel, Traffic};
use parking_lot::Mutex;
use sqlparser::ast::ObjectName;
use storage::{Interruption, StoreError};

use crate::catalog::path::SearchPath;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{May, Thing};
use crate::catalog::roles::FIRST;
use crate::catalog::{Catalog, Name, Snapshot, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::sequences::Sequences;
use crate::plan::context::PlanContext;
use crate::plan::planner::Planner;
use crate::plan::planning::PlanningStatement;
use crate::plan::stop::{Stop, go_on};
use crate::plan::system::OfSession;
use crate::run::config;
use crate::run::inner::Inner;
use crate::run::role_limits::{RoleLimits, RoleTurn, RowsLeft, tighter};
use crate::run::scheduling;
use crate::run::sequences::{OfStatement, SessionValues};
use crate::run::slow::Slow;
use crate::run::transaction::InTransaction;
use crate::sql::object_reference;

/// Rows by made names.
#[derive(Default)]
struct ReturnedRows(HashMap<String, Arc<dyn TableSource>>);

impl std::fmt::Debug for ReturnedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// One statement from its start until its last row is taken.
#[derive(Debug)]
pub(crate) struct RunningStatement {
    /// What the scheduler knows of it.
    pub statement: Arc<sched::Statement>,
    /// The database.
    pub inner: Arc<Inner>,
    /// Functions and settings.
    pub planner: Arc<Planner>,
    /// What exists; replaced once by a writing statement when it is its turn to write its table.
    pub catalog: Snapshot,
    /// Where it commits: the database's catalog, that of its transaction, or a scratch one while IMPORT DATABASE works.
    pub home: Arc<Catalog>,
    /// The transaction over several statements that it is part of.
    pub transaction: Option<Arc<InTransaction>>,
    /// The transaction that it has met, 0 for none: see [`RunningStatement::blocked_by`].
    blocked: Arc<AtomicU64>,
    /// Whether it has to run as a transaction: see [`RunningStatement::wants_transaction`].
    wants_transaction: Arc<AtomicBool>,
    /// Whether a function of it may wait: see [`RunningStatement::waits`].
    waits: Arc<AtomicBool>,
    /// Which of the process's sessions runs it; 0 for none.
    session: i32,
    /// The number of the role that runs it.
    pub user: u32,
    /// That it is one of those that its role may run at once, where these are limited.
    turn: Option<Arc<OnceLock<RoleTurn>>>,
    limits: RoleLimits,
    /// Values of sequences that its session was given.
    given: Arc<SessionValues>,
    /// Rows that parts of it have returned, by the names under which the rest reads them.
    returned: Arc<Mutex<ReturnedRows>>,
    /// What its tasks touch.
    pub traffic: Arc<Traffic>,
    started: DateTime<Utc>,
    /// What `now()` is: when it began, or the transaction that it is part of.
    moment: DateTime<Utc>,
    deadline: Option<Instant>,
    /// Of a prepared statement that was named, what it was prepared from.
    prepared: OnceLock<String>,
    /// What is told of it if it takes long.
    slow: Option<Arc<Slow>>,
}

impl RunningStatement {
    /// Starts a statement: it sees what exists now, and nothing that commits later.
    pub(crate) fn start(inner: &Arc<Inner>, planner: Arc<Planner>) -> RunningStatement {
        let settings = config::nearside(planner.config_options());
        let memory_bytes = tighter(settings.statement_memory_bytes, settings.max_memory_bytes);
        let limit = (memory_bytes > 0).then_some(memory_bytes);
        let budget = inner.budget.child("statement", limit);
        let statement = sched::Statement::new(inner.clock.next(), budget);
        let timeout_ms = tighter(settings.statement_timeout_ms, settings.max_statement_ms);
        let deadline = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        if let Some(deadline) = deadline {
            statement.set_deadline(deadline);
        }
        // SET has refused what is no setting.
        statement.set_settings(scheduling::settings(&settings, inner.threshold.known().unwrap_or(0)).ok());
        statement.set_counted(scheduling::counted(&settings.hardware_counters).unwrap_or(true));
        // As fine as PostgreSQL's clocks, which is what its clients read.
        let started = Utc::now().trunc_subsecs(6);
        let user = planner.who().user;
        let limits = RoleLimits { rows: settings.max_rows, statements: settings.max_statements };
        drop(settings);
        RunningStatement {
            statement,
            inner: Arc::clone(inner),
            planner,
            catalog: inner.catalog.snapshot(),
            home: Arc::clone(&inner.catalog),
            transaction: None,
            blocked: Arc::default(),
            wants_transaction: Arc::default(),
            waits: Arc::default(),
            session: 0,
            user,
            turn: (limits.statements > 0).then(Arc::default),
            limits,
            given: Arc::default(),
            returned: Arc::default(),
            traffic: Arc::new(Traffic::within(Arc::clone(&inner.traffic))),
            started,
            moment: started,
            deadline,
            prepared: OnceLock::new(),
            slow: None,
        }
    }

    /// The same statement, run by a session, which was given these values of sequences.
    pub(crate) fn run_by(self, session: i32, given: &Arc<SessionValues>) -> RunningStatement {
        let min_ms = self.inner.log_min_duration_ms.load(Ordering::Relaxed);
        let role = || self.catalog.roles().by_id(self.user).map_or_else(String::new, |(name, _)| name.to_string());
        let slow = Slow::begun(min_ms, session, role);
        RunningStatement { session, given: Arc::clone(given), slow, ..self }
    }

    /// Takes one of the turns that its role has, where these are limited.
    ///
    /// # Errors
    /// The role runs as many statements as it may.
    pub(crate) fn take_turn(&self) -> Result<()> {
        if let Some(own) = &self.turn
            && own.get().is_none()
        {
            let most = self.limits.statements;
            let turn = self.inner.of_roles.begin(self.planner.who().session, most);
            let turn = turn.ok_or_else(|| {
                Error::execution(
                    SqlState::ConfigurationLimitExceeded,
                    format!(
                        "the role runs {most} statements, which is how many it may run at once \
                         (nearside.max_statements); wait until one has ended, or close its cursor"
                    ),
                )
            })?;
            let _ = own.set(turn);
        }
        Ok(())
    }

    /// How many rows it may give, where that is limited.
    pub(crate) fn rows_left(&self) -> Option<RowsLeft> {
        RowsLeft::of(self.limits.rows)
    }

    /// The same statement with other settings.
    pub(crate) fn with_planner(&self, planner: Planner) -> RunningStatement {
        RunningStatement { planner: Arc::new(planner), ..self.over(self.catalog.clone()) }
    }

    /// Who gives it values of sequences.
    pub(crate) fn sequences(&self) -> Arc<dyn Sequences> {
        Arc::new(OfStatement {
            path: self.path(),
            home: Arc::clone(&self.home),
            database: Arc::clone(&self.inner.catalog),
            given: Arc::clone(&self.given),
            is_read_only: self.of_session().is_read_only,
            user: self.user,
            of_defaults: false,
        })
    }

    /// Where names are looked up that have no schema.
    pub(crate) fn path(&self) -> SearchPath {
        SearchPath::new(self.session, &config::nearside(self.planner.config_options()).search_path)
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// See [`SearchPath::resolve`].
    pub(crate) fn resolve(&self, reference: &TableReference) -> Result<Name> {
        self.path().resolve(reference, &self.catalog)
    }

    /// What a name in a syntax tree stands for.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); too many parts; a schema that the role must not use.
    pub(crate) fn named(&self, name: &ObjectName) -> Result<Name> {
        let reference = object_reference(name)?;
        let name = self.resolve(&reference)?;
        if self.user != FIRST && reference.schema().is_some() && self.catalog.has_schema(&name.schema) {
            self.may().need(&Thing::Schema(name.schema.clone()), Privileges::USAGE)?;
        }
        Ok(name)
    }

    /// The name that something gets which is made; that of a temporary one where `is_temporary`.
    ///
    /// # Errors
    /// See [`SearchPath::of_new`] and [`SearchPath::of_temporary`].
    pub(crate) fn new_name(&self, reference: &TableReference, is_temporary: bool) -> Result<Name> {
        match is_temporary {
            true => self.path().of_temporary(reference),
            false => self.path().of_new(reference, &self.catalog),
        }
    }

    /// What it tells of its session: modes are those of the transaction, or of the next one.
    pub(crate) fn of_session(&self) -> OfSession {
        let settings = config::nearside(self.planner.config_options());
        let of = self.transaction.as_ref();
        let roles = self.catalog.roles();
        let role = |id: u32| roles.by_id(id).map_or_else(String::new, |(name, _)| name.to_string());
        OfSession {
            number: self.session,
            user: role(self.user),
            session_user: role(self.planner.who().session),
            user_id: self.user,
            role: if self.planner.who().session == self.user { "none".into() } else { role(self.user) },
            is_superuser: roles.is_superuser(self.user),
            path: self.path().existing(&self.catalog).map(str::to_string).collect(),
            level: of.map_or(settings.default_transaction_isolation.clone(), |of| of.level.name().to_string()),
            is_read_only: of.map_or(settings.default_transaction_read_only, |of| of.is_read_only),
            started: self.started,
        }
    }

    /// The same statement over what exists now.
    pub(crate) fn refreshed(&self) -> RunningStatement {
        self.over(self.home.snapshot().telling_as(&self.catalog))
    }

    /// The same statement over another state.
    pub(crate) fn over(&self, catalog: Snapshot) -> RunningStatement {
        RunningStatement {
            statement: Arc::clone(&self.statement),
            inner: Arc::clone(&self.inner),
            planner: Arc::clone(&self.planner),
            catalog,
            home: Arc::clone(&self.home),
            transaction: self.transaction.clone(),
            blocked: Arc::clone(&self.blocked),
            wants_transaction: Arc::clone(&self.wants_transaction),
            waits: Arc::clone(&self.waits),
            session: self.session,
            user: self.user,
            turn: self.turn.clone(),
            limits: self.limits,
            given: Arc::clone(&self.given),
            returned: Arc::clone(&self.returned),
            traffic: Arc::clone(&self.traffic),
            started: self.started,
            moment: self.moment,
            deadline: self.deadline,
            prepared: self.prepared.clone(),
            slow: self.slow.clone(),
        }
    }

    /// The same statement in an empty catalog of its own.
    pub(crate) fn scratch(&self) -> RunningStatement {
        let home = Arc::new(self.home.scratch());
        RunningStatement { home: Arc::clone(&home), transaction: None, ..self.over(home.snapshot()) }
    }

    /// The same statement as part of a transaction, which sees what `catalog` has and commits to the transaction's own.
    pub(crate) fn within(
        self,
        transaction: Arc<InTransaction>,
        home: Arc<Catalog>,
        catalog: Snapshot,
    ) -> RunningStatement {
        RunningStatement { transaction: Some(transaction), home, catalog, ..self }
    }

    /// The same statement, at the moment at which its transaction began.
    pub(crate) fn at(self, began: DateTime<Utc>) -> RunningStatement {
        RunningStatement { moment: began.trunc_subsecs(6), ..self }
    }

    /// The same statement, begun again: it has as much time as it had.
    pub(crate) fn begun_again(self, before: &RunningStatement) -> RunningStatement {
        if let Some(deadline) = before.deadline {
            self.statement.set_deadline(deadline);
        }
        RunningStatement { deadline: before.deadline, ..self }
    }

    /// The number of the transaction that it is part of.
    pub(crate) fn own_transaction(&self) -> Option<u64> {
        self.transaction.as_ref().map(|of| of.id)
    }

    /// It has met what another transaction has locked, and has done nothing: whoever runs it waits for that one and
    /// runs it again. What is said where nobody does.
    pub(crate) fn blocked_by(&self, holder: u64) -> Error {
        self.blocked.store(holder, Ordering::Release);
        Error::Serialization(format!("a row, key or table is locked by transaction {holder}"))
    }

    /// The transaction that it has met.
    pub(crate) fn blocker(&self) -> Option<u64> {
        match self.blocked.load(Ordering::Acquire) {
            0 => None,
            holder => Some(holder),
        }
    }

    /// It is part of no transaction, and has to be, since it locks something: it has done nothing, and whoever runs it
    /// runs it again as a transaction of its own. What is said where nobody does.
    pub(crate) fn wants_transaction(&self) -> Error {
        self.wants_transaction.store(true, Ordering::Release);
        Error::transaction(
            SqlState::NoActiveSqlTransaction,
            "rows are locked by statements of a session alone, or of a transaction",
        )
    }

    /// Whether it has to run as a transaction.
    pub(crate) fn is_transaction_wanted(&self) -> bool {
        self.wants_transaction.load(Ordering::Acquire)
    }

    /// Whether it has been planned with a function that may wait. Then nothing of it is computed by whoever asks for
    /// its rows, who has others to serve.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// What expressions are planned with: the time of the statement and the session's settings.
    pub(crate) fn props(&self) -> ExecutionProps {
        let mut props = ExecutionProps::new();
        props.query_execution_start_time = Some(self.moment);
        props.config_options = Some(Arc::clone(self.planner.config_options()));
        props
    }

    /// What the SQL planner asks on its behalf.
    pub(crate) fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            planner: &self.planner,
            catalog: self.catalog.clone(),
            system: (self.inner.system_tables)(&self.inner),
            session: self.of_session(),
            sequences: Some(self.sequences()),
            planning: Vec::new(),
            stop: self.stop(),
            waits: Arc::clone(&self.waits),
            described: Default::default(),
            answers: Default::default(),
            describes: false,
            path: self.path(),
            given: Mutex::new(self.returned.lock().0.clone()),
            user: Some(self.user),
            target: None,
            written: None,
        }
    }

    /// The same for what the system plans by itself as a part of it, which nobody has to be allowed.
    pub(crate) fn own_context(&self) -> PlanContext<'_> {
        PlanContext { user: None, ..self.plan_context() }
    }

    /// What its role may do.
    pub(crate) fn may(&self) -> May<'_> {
        self.catalog.may(self.user)
    }

    /// Keeps rows that a part of it has returned, which the rest reads under this name.
    pub(crate) fn keep_returned(&self, name: String, rows: Arc<dyn TableSource>) {
        self.returned.lock().0.insert(name, rows);
    }

    /// It runs what was prepared from this text, and was named by another one.
    pub(crate) fn set_prepared(&self, text: String) {
        let _ = self.prepared.set(text);
    }

    /// What runs; empty where nobody has said so.
    pub(crate) fn text(&self) -> &str {
        self.prepared.get().map_or_else(|| self.statement.label(), String::as_str)
    }

    /// When it began.
    pub(crate) fn started(&self) -> DateTime<Utc> {
        self.started
    }

    /// What is told of it if it takes long; `None` where nobody wants to know.
    pub(crate) fn slow(&self) -> Option<&Arc<Slow>> {
        self.slow.as_ref()
    }

    /// A way to cancel it from any thread.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller { statement: Arc::clone(&self.statement) }
    }

    /// An error when it was cancelled or is out of time.
    pub(crate) fn check(&self) -> Result<()> {
        go_on(&self.statement, self.deadline)
    }
}

impl Workers for RunningStatement {
    type Parallel = SchedParallel;

    fn parallel(&self) -> SchedParallel {
        SchedParallel::new(Arc::clone(&self.inner.scheduler), Arc::clone(&self.statement))
    }

    fn finished<T>(&self, result: Result<T, StoreError>, step: impl FnOnce() -> String) -> Result<T> {
        of_step(result, step, || self.check())
    }
}

/// What a step of storage came to, on behalf of a statement that `check` asks whether it goes on: see
/// [`Workers::finished`].
pub(crate) fn of_step<T>(
    result: Result<T, StoreError>,
    step: impl FnOnce() -> String,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    match result {
        Ok(done) => check().map(|()| done),
        Err(StoreError::Interrupted(Interruption::Panicked(text))) => {
            Err(Error::Internal(format!("{} failed: {text}", step())))
        }
        Err(StoreError::Interrupted(Interruption::Cancelled)) => Err(check().err().unwrap_or(Error::Cancelled)),
        Err(other) => Err(other.into()),
    }
}

/// The optimiser asks the statement for the time that `now()` stands for.
impl OptimizerConfig for RunningStatement {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        Some(self.moment)
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.planner.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.planner.config_options())
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.planner.as_ref())
    }
}

impl PlanningStatement for RunningStatement {
    fn planner(&self) -> &Planner {
        &self.planner
    }

    fn stop(&self) -> Stop {
        Stop::new(&self.statement, self.deadline)
    }
}

/// Cancels one statement.
#[derive(Debug, Clone)]
pub(crate) struct Canceller {
    statement: Arc<sched::Statement>,
}

impl Canceller {
    /// Cancels it; more than once is as good as once.
    pub(crate) fn cancel(&self) {
        self.statement.cancel();
    }
}

#[cfg(test)]
mod tests {
    use numa::Budget;

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
        let workers = running.parallel();
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
        let workers = cancelled.parallel();
        let built = storage::Parallel::for_each(&workers, 8, &|_| None, &|_| ()).map_err(StoreError::from);
        assert!(matches!(cancelled.finished(built, String::new), Err(Error::Cancelled)));
        assert!(matches!(cancelled.finished(Ok(()), String::new), Err(Error::Cancelled)));
    }
}
