//! [`Session`]: statements in, rows or a word of thanks out.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use chrono::{DateTime, Utc};
use datafusion_common::ScalarValue;
use datafusion_expr::{DdlStatement, LogicalPlan, Statement as PlanStatement, WriteOp};
use datafusion_sql::parser::{ExplainStatement, ResetStatement, Statement};
use parking_lot::{Mutex, RwLock};
use sqlparser::ast;

use crate::api::control::{Control, OfSession, control};
use crate::api::cursors::Cursors;
use crate::api::on_commit::OnCommits;
use crate::api::parsed::Parsed;
use crate::api::prepared::{QuerySource, Template};
use crate::api::shaped::Shapes;
use crate::api::starts::start_of;
use crate::catalog::path::temporary_of;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::planner::Planner;
use crate::rewrite::chars::delivered;
use crate::run::admission;
use crate::run::cache::{Key, is_cacheable};
use crate::run::config;
use crate::run::inner::{Inner, Runs, SessionReport};
use crate::run::outcome::{Done, Outcome};
use crate::run::planned::PlannedQuery;
use crate::run::prepare::constants;
use crate::run::profile;
use crate::run::query;
use crate::run::role_limits::RoleTurn;
use crate::run::sequences::SessionValues;
use crate::run::statement::{Canceller, RunningStatement};
use crate::run::stream::ResultStream;
use crate::run::system;
use crate::run::transaction::SettingsAt;
use crate::sql::{
    AnyStatement, GivenUp, ScriptPiece, Written, columns_of, domains as domains_of, fresh_name, is_complete, lengths,
    only, plan_statement, set_config, split, statements, take_check_option, take_local, take_placement, take_rules,
    without_password,
};
use crate::stack::deep;
use crate::statements::allowed;
use crate::statements::comments;
use crate::statements::copy;
use crate::statements::ddl;
use crate::statements::domains;
use crate::statements::dropping::{self, Dropped};
use crate::statements::explain;
use crate::statements::index;
use crate::statements::lock_table::lock_table;
use crate::statements::locked_select;
use crate::statements::rights;
use crate::statements::sequences;
use crate::statements::summarize;
use crate::statements::transaction::by_keys::ByKeys;
use crate::statements::upkeep;
use crate::statements::user_types;
use crate::statements::write::Definition;
use crate::statements::{dml, lasting, like, made_functions, materialized_views, merge, views, write, writing_with};

/// A conversation with a database. Clones share settings and prepared statements; use one session per client.
///
/// Statements may be run from any thread, several at a time, inside and outside async runtimes: a synchronous call
/// parks its own thread and never enters a runtime.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) inner: Arc<Inner>,
    pub(super) shared: Arc<SessionState>,
    /// What this one and its clones run, where that is cancelled apart from the rest.
    part: Option<Arc<Running>>,
}

/// Statements that run, and some that have ended.
type Running = Mutex<Vec<Weak<RunningStatement>>>;

/// The number of the next session.
static SESSIONS: AtomicI32 = AtomicI32::new(1);

#[derive(Debug)]
pub(super) struct SessionState {
    /// Which of the process's sessions it is.
    pub(super) number: i32,
    /// When it began.
    began: DateTime<Utc>,
    /// The number of the role that has logged in.
    pub(super) user: u32,
    /// Functions and settings as it began with them.
    pub(super) defaults: Arc<Planner>,
    /// Values of sequences that it was given.
    pub(super) given: Arc<SessionValues>,
    /// Functions and settings.
    pub(super) settings: RwLock<SettingsAt>,
    /// PREPARE statements by name.
    pub(super) prepared: Mutex<HashMap<String, Arc<Template>>>,
    running: Arc<Running>,
    shapes: Shapes,
    pub(super) parsed: Parsed,
    /// The transaction that it has begun.
    pub(super) transaction: OfSession,
    /// Queries whose rows are taken some at a time.
    pub(super) cursors: Cursors,
    /// Temporary tables that do something at COMMIT.
    pub(super) on_commit: OnCommits,
    /// That it is one of those that its role may have.
    _turn: Option<RoleTurn>,
    /// What goes with it.
    _temporary: TemporaryTables,
}

/// The temporary tables of a session, which end with it.
#[derive(Debug)]
struct TemporaryTables {
    inner: Arc<Inner>,
    schema: String,
}

impl Drop for TemporaryTables {
    fn drop(&mut self) {
        let catalog = &self.inner.catalog;
        if catalog.state().has_schema(&self.schema) {
            // Nobody else names them, and nothing of them lasts, so there is nothing that could fail.
            let _ = catalog.commit(|state| state.drop_schema(&self.schema, true));
        }
    }
}

impl Runs for SessionState {
    fn cancel(&self, statement_time: u64) -> bool {
        let running: Vec<_> = self.running.lock().iter().filter_map(Weak::upgrade).collect();
        let meant = running.iter().find(|of| of.statement.priority().statement_time == statement_time);
        if let Some(meant) = meant {
            meant.canceller().cancel();
        }
        meant.is_some()
    }

    fn report(&self) -> SessionReport {
        let running: Vec<_> = self.running.lock().iter().filter_map(Weak::upgrade).collect();
        let shown = |of: &Arc<RunningStatement>| (of.statement.label().to_string(), of.started());
        // Who changes settings just now is not waited for.
        let planner = self.settings.try_read().map(|settings| Arc::clone(&settings.now.0));
        SessionReport {
            number: self.number,
            user: self.user,
            application_name: planner
                .map_or_else(String::new, |of| config::nearside(of.config_options()).application_name.clone()),
            began: self.began,
            statement: running.iter().rev().map(shown).find(|(text, _)| !text.is_empty()),
            transaction: self.transaction.open().map(|of| (of.open.began, of.open.has_failed())),
        }
    }
}

impl Session {
    pub(crate) fn new(inner: Arc<Inner>, user: u32) -> Session {
        Session::of_role(inner, user, None)
    }

    /// One of a role, which is one of those that it may have at once where these are limited.
    pub(super) fn of_role(inner: Arc<Inner>, user: u32, turn: Option<RoleTurn>) -> Session {
        let (planner, settings) = start_of(user, &inner);
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let shared = SessionState {
            number,
            began: Utc::now(),
            user,
            given: Arc::default(),
            defaults: Arc::clone(&planner),
            settings: RwLock::new(SettingsAt { now: (planner, settings), after_commit: None }),
            prepared: Mutex::new(HashMap::new()),
            running: Arc::default(),
            shapes: Shapes::default(),
            parsed: Parsed::default(),
            transaction: OfSession::default(),
            cursors: Cursors::default(),
            on_commit: OnCommits::default(),
            _turn: turn,
            _temporary: TemporaryTables { inner: Arc::clone(&inner), schema: temporary_of(number) },
        };
        let shared = Arc::new(shared);
        let as_one: Weak<SessionState> = Arc::downgrade(&shared);
        inner.sessions.add(as_one);
        Session { inner, shared, part: None }
    }

    /// Runs every statement of the text, in order; rows of all but the last are thrown away.
    ///
    /// # Errors
    /// The first statement that fails; those before it have taken effect, those after it have not run.
    pub fn execute(&self, sql: &str) -> Result<Outcome> {
        let mut outcome = Outcome::Done(Done::new("nothing to do"));
        for written in statements(sql)? {
            if let Outcome::Rows(rows) = outcome {
                for batch in rows {
                    batch?;
                }
            }
            let text = written.piece.sql.clone();
            outcome = self.run_text(&text, Some(written))?;
        }
        Ok(outcome)
    }

    /// Runs one statement and gives its rows; a statement without rows gives one row with the `count` of rows it wrote.
    ///
    /// # Errors
    /// Wrong SQL, unknown names, more than one statement; failures of execution come with the rows.
    pub fn query(&self, sql: &str) -> Result<ResultStream> {
        match self.run(sql)? {
            Outcome::Rows(rows) => Ok(rows),
            Outcome::Done(done) => write::count_result(done.rows.unwrap_or(0)),
        }
    }

    /// A statement that does nothing yet.
    pub(crate) fn running(&self) -> Arc<RunningStatement> {
        let SessionState { number, given, .. } = self.shared.as_ref();
        Arc::new(RunningStatement::start(&self.inner, self.planner().0).run_by(*number, given))
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn run(&self, sql: &str) -> Result<Outcome> {
        self.run_text(sql, None)
    }

    /// Runs the statement of a text; `written` where its tokens are known.
    fn run_text(&self, sql: &str, written: Option<Written>) -> Result<Outcome> {
        self.inner.statements.count(|| self.run_counted(sql, written))
    }

    fn run_counted(&self, sql: &str, written: Option<Written>) -> Result<Outcome> {
        not_on_a_worker()?;
        match control(sql)? {
            Some(Control::Transaction(statement)) => {
                return self.control(&statement).map_err(|error| self.as_may_be_told(error));
            }
            Some(Control::Constraints(of)) => {
                return self.set_constraints(&of).map_err(|error| self.as_may_be_told(error));
            }
            None => {}
        }
        // Run again, it is read again.
        let written = Cell::new(written);
        let by_keys = |running: &Arc<RunningStatement>, settings: u64, of: &mut ByKeys<'_>| {
            if !config::nearside(running.planner.config_options()).plan_cache {
                return Ok(None);
            }
            told_of(running, || sql.to_string());
            let text = written.take().map_or_else(|| only(sql), Ok)?;
            let done = self.shared.shapes.run_by_keys(&text, (running, settings), of);
            written.set(Some(text));
            done
        };
        let work = |running: &Arc<RunningStatement>, settings: u64| {
            told_of(running, || sql.to_string());
            self.outcome(sql, written.take(), running, settings)
        };
        self.carry_out(&label(sql), Some(&by_keys), &work)
    }

    /// What comes of a statement.
    fn outcome(
        &self,
        sql: &str,
        written: Option<Written>,
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<Outcome> {
        let key = Key { sql: sql.to_string(), settings, ddl_version: running.catalog.ddl_version };
        let keeps_plans = config::nearside(running.planner.config_options()).plan_cache;
        if keeps_plans && let Some(planned) = self.inner.plans.get(&key) {
            return Ok(Outcome::Rows(planned.start(&[], Arc::clone(running))?));
        }
        let written = written.map_or_else(|| only(sql), Ok)?;
        if keeps_plans && let Some(outcome) = self.shared.shapes.run(&written, running, settings)? {
            return Ok(outcome);
        }
        // Steps that go deep find this stack, which is had once for all of them.
        deep(|| self.dispatch(AnyStatement::of(written)?, running, key))
    }

    /// Prepares a query, INSERT, UPDATE or DELETE, to run it often with other values for `$1`, `$2`, .. A query is
    /// planned once.
    ///
    /// ```
    /// # fn main() -> nearside::Result<()> {
    /// let session = nearside::Database::new()?.session();
    /// session.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 100)")?;
    /// let prepared = session.prepare("SELECT count(*) FROM t WHERE n <= $1")?;
    /// let batches = prepared.query(&[10_i64.into()])?.collect_all()?;
    /// assert_eq!(batches[0].num_rows(), 1);
    ///
    /// let prepared = session.prepare("INSERT INTO t VALUES ($1), ($1 + 1)")?;
    /// let nearside::Outcome::Done(done) = prepared.run(&[101.into()])? else { unreachable!() };
    /// assert_eq!(done.rows, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Wrong SQL, unknown names, a statement of another kind.
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        let template = Cell::new(None);
        self.carry_out("PREPARE", None, &|running, settings| {
            template.set(Some(Template::new(QuerySource::Text(sql.to_string()), running, settings)?.0));
            Ok(Outcome::Done(Done::new("PREPARE")))
        })?;
        let template = template.take().ok_or_else(|| Error::Internal("a statement that was not prepared".into()))?;
        Ok(Prepared { session: self.clone(), template: Arc::new(template) })
    }

    /// Splits a script into its statements.
    ///
    /// # Errors
    /// A string, quoted name or comment that does not end.
    pub fn statements(&self, sql: &str) -> Result<Vec<ScriptPiece>> {
        split(sql)
    }

    /// True when the text needs no further line: a prompt runs it instead of asking for more.
    pub fn is_complete(&self, text: &str) -> bool {
        is_complete(text)
    }

    /// Cancels what this session runs, from any thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle { running: Arc::downgrade(self.part.as_ref().unwrap_or(&self.shared.running)) }
    }

    /// The same session for one of several things that it does at a time: what cancels it leaves the others alone.
    pub fn part(&self) -> Session {
        Session { part: Some(Arc::default()), ..self.clone() }
    }

    pub(super) fn track(&self, running: &Arc<RunningStatement>) {
        for all in [Some(&self.shared.running), self.part.as_ref()].into_iter().flatten() {
            let mut all = all.lock();
            all.retain(|r| r.strong_count() > 0);
            all.push(Arc::downgrade(running));
        }
    }

    fn dispatch(&self, parsed: AnyStatement, running: &Arc<RunningStatement>, key: Key) -> Result<Outcome> {
        allowed::check(&parsed, running)?;
        match parsed {
            AnyStatement::Sql(statement) => self.sql(*statement, running, key),
            AnyStatement::Locking(select) => {
                let plan = locked_select::plan_of(&select, running)?;
                locked_select::run(&select, plan, running)
            }
            AnyStatement::WritingWith(steps, reads, rest) => {
                writing_with::may_run(&steps, &reads, running)?;
                for step in steps {
                    let outcome = self.sql(*step.statement, running, key.clone())?;
                    writing_with::keep(step.rows, outcome, running)?;
                }
                // No plan of another run of this text is to be found, nor this one by it.
                self.sql(*rest, running, Key { sql: fresh_name("rest"), ..key })
            }
            AnyStatement::CopyTo(copy) => copy::copy_to(copy, running).map(Outcome::Done),
            AnyStatement::CopyFrom(copy) => copy::copy_from(copy, running).map(Outcome::Done),
            AnyStatement::AlterPlacement(alter) => {
                crate::statements::placement::alter(&alter, running).map(Outcome::Done)
            }
            AnyStatement::RenameConstraint(of) => ddl::rename_constraint(&of, running).map(Outcome::Done),
            AnyStatement::AlterConstraint(of) => ddl::alter_constraint(&of, running).map(Outcome::Done),
            AnyStatement::Comment(of) => comments::comment(&of, running).map(Outcome::Done),
            AnyStatement::SetConstraints(_) => {
                Err(Error::Internal("SET CONSTRAINTS is one of a session's transaction".into()))
            }
            AnyStatement::AlterSystem(_) if running.transaction.as_ref().is_some_and(|of| !of.is_implicit) => {
                Err(Error::transaction(
                    SqlState::ActiveSqlTransaction,
                    "ALTER SYSTEM changes the database for all at once and cannot be undone: run it outside of a \
                     transaction",
                ))
            }
            AnyStatement::AlterSystem(alter) => {
                system::alter(&alter, &self.inner, &|| running.check().is_err()).map(Outcome::Done)
            }
            AnyStatement::Export(folder) => copy::export(&folder, running).map(Outcome::Done),
            AnyStatement::Import(folder) => copy::import(&folder, running).map(Outcome::Done),
            AnyStatement::Checkpoint => lasting::checkpoint(running).map(Outcome::Done),
            AnyStatement::Sequence(of) => sequences::run(&of, running).map(Outcome::Done),
            AnyStatement::Cursor(of) => {
                // The query's plan is kept under its own text.
                self.cursor(of, |query, sql| self.dispatch(query, running, Key { sql, ..key }))
            }
            AnyStatement::Upkeep(of) => upkeep::keep_up(&of, running).map(Outcome::Done),
            AnyStatement::Role(of) => self.about_roles(&of, running).map(Outcome::Done),
            AnyStatement::Rights(of) => rights::run(&of, running).map(Outcome::Done),
            AnyStatement::Summarize(query) => deep(|| self.sql(summarize::of_query(&query, running)?, running, key)),
            AnyStatement::Type(of) => user_types::run(&of, running).map(Outcome::Done),
            AnyStatement::Domain(of) => domains::run(&of, running).map(Outcome::Done),
            AnyStatement::Function(of) => made_functions::run(&of, running).map(Outcome::Done),
            AnyStatement::Materialized(of) => materialized_views::run(&of, running).map(Outcome::Done),
            AnyStatement::GivenUp(what) => self.give_up(what, running).map(Outcome::Done),
            AnyStatement::Backup(folder) => lasting::backup(&folder, running).map(Outcome::Done),
        }
    }

    fn sql(&self, mut statement: Statement, running: &Arc<RunningStatement>, key: Key) -> Result<Outcome> {
        let placement = take_placement(&mut statement)?;
        let likeness = like::write_out(&mut statement, running)?;
        let mut rules = take_rules(&mut statement)?;
        let check_option = take_check_option(&mut statement)?;
        let is_local = take_local(&mut statement);
        let (is_temporary, on_commit) = take_temporary(&mut statement);
        match &statement {
            Statement::Explain(explain) => return self.explain(explain, running, &key).map(Outcome::Rows),
            Statement::Statement(inner) => match inner.as_ref() {
                ast::Statement::ShowVariable { variable } => {
                    if let Some(shown) = self.shown(variable, running)? {
                        return Ok(Outcome::Rows(shown));
                    }
                }
                ast::Statement::Set(set) => {
                    if let Some(done) = self.set_for_client(set, is_local, running)? {
                        return Ok(done);
                    }
                }
                ast::Statement::Explain { describe_alias, statement: of, .. }
                    if !matches!(describe_alias, ast::DescribeAlias::Explain) =>
                {
                    return explain::describe_query(of, running).map(Outcome::Rows);
                }
                ast::Statement::Query(_) if let Some((sets, query)) = set_config(&statement) => {
                    // The query is another one than the text's, whose plan is kept under that.
                    let key = Key { sql: query.to_string(), ..key };
                    let rows = self.sql(query, running, key)?;
                    sets.iter().try_for_each(|set| self.set_config(set, running))?;
                    return Ok(rows);
                }
                ast::Statement::Truncate(of) if upkeep::is_of_several(of) => {
                    return upkeep::truncate(of, running).map(Outcome::Done);
                }
                ast::Statement::Prepare { .. } => return self.keep(statement, running, &key).map(Outcome::Done),
                ast::Statement::Lock(lock) => return lock_table(lock, running).map(Outcome::Done),
                ast::Statement::Merge(of) => return merge::merge(of, running).map(Outcome::Done),
                ast::Statement::AlterTable(alter) => return ddl::alter_table(alter, running).map(Outcome::Done),
                ast::Statement::CreateSchema { schema_name, if_not_exists, .. }
                    if !matches!(schema_name, ast::SchemaName::Simple(_)) =>
                {
                    return ddl::create_schema_for(schema_name, *if_not_exists, running).map(Outcome::Done);
                }
                ast::Statement::CreateIndex(create) => return index::create(create, running).map(Outcome::Done),
                ast::Statement::Drop { object_type, names, if_exists, cascade, .. }
                    if dropping::is_of_several(*object_type, names, *cascade) =>
                {
                    let kind = Dropped::of(*object_type);
                    return dropping::drop_all(kind, names, (*if_exists, *cascade), running).map(Outcome::Done);
                }
                ast::Statement::Drop { object_type: ast::ObjectType::Index, names, if_exists, table, .. } => {
                    return index::drop_index(names, *if_exists, table.as_ref(), running).map(Outcome::Done);
                }
                _ => {}
            },
            Statement::Reset(ResetStatement::Variable(variable)) => {
                system::is_for_session("RESET", &variable.to_string())?;
            }
            Statement::CreateExternalTable(create) => return ddl::create_external(create, running).map(Outcome::Done),
            _ => {}
        }
        let lengths = lengths(&statement, &running.plan_context())?;
        rules.domains = domains_of(&statement, &running.plan_context())?;
        let plan = dml::plan_of(statement.clone(), running)?;
        match plan {
            LogicalPlan::Dml(dml) if dml.op != WriteOp::Ctas => dml::dml(statement, dml, &[], running),
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(mut create)) => {
                create.temporary = is_temporary;
                let name = running.new_name(&create.name, is_temporary)?;
                let definition = Definition { lengths, columns: columns_of(&statement), rules: &rules, likeness };
                let done = write::create_table(create, placement.as_deref(), definition, running)?;
                // One that was there before stays what it is.
                if running.catalog.get(&name).is_none() {
                    self.shared.on_commit.remember(&name, on_commit.as_ref(), running);
                }
                Ok(Outcome::Done(done))
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(mut create)) => {
                // The planner's text is that of the statement as it was rewritten for it.
                create.definition = Some(statement.to_string());
                views::create_view(create, check_option, running).map(Outcome::Done)
            }
            LogicalPlan::Ddl(other) => ddl::ddl(other, running).map(Outcome::Done),
            LogicalPlan::Statement(statement) => self.setting(statement, is_local, running, &key),
            LogicalPlan::DescribeTable(describe) => explain::describe(&describe).map(Outcome::Rows),
            LogicalPlan::Copy(_) | LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => {
                Err(Error::Unsupported("this form of the statement is not supported; see docs/sql.md".into()))
            }
            plan => {
                let cacheable = config::nearside(running.planner.config_options()).plan_cache && is_cacheable(&plan);
                let planned = Arc::new(PlannedQuery::lowered(
                    query::prepare(delivered(plan, running.planner.config_options())?, running)?,
                    &running.catalog,
                ));
                if cacheable {
                    self.inner.plans.put(key, Arc::clone(&planned));
                }
                Ok(Outcome::Rows(planned.start(&[], Arc::clone(running))?))
            }
        }
    }

    fn setting(
        &self,
        statement: PlanStatement,
        is_local: bool,
        running: &Arc<RunningStatement>,
        key: &Key,
    ) -> Result<Outcome> {
        match statement {
            PlanStatement::SetVariable(set) => self.set(&set.variable, &set.value, is_local, running),
            PlanStatement::ResetVariable(reset) => self.reset(&reset.variable, false),
            PlanStatement::Execute(execute) => {
                let template = self.prepared_as(&execute.name)?;
                let values = constants(execute.parameters, running)?;
                if admission::is_wanted(running) || profile::wanted(running) {
                    running.set_prepared(label(&template.text()));
                }
                template.start(&values, Arc::clone(running), key.settings)
            }
            PlanStatement::Deallocate(deallocate) => match self.shared.prepared.lock().remove(&deallocate.name) {
                Some(_) => Ok(Outcome::Done(Done::new("DEALLOCATE"))),
                None => Err(Error::NotFound { kind: "prepared statement", name: deallocate.name, nearest: None }),
            },
            other => Err(Error::Unsupported(format!("{} is not supported", other.name()))),
        }
    }

    /// The statement that was prepared under a name.
    fn prepared_as(&self, name: &str) -> Result<Arc<Template>> {
        let found = self.shared.prepared.lock().get(name).cloned();
        found.ok_or_else(|| Error::NotFound { kind: "prepared statement", name: name.to_string(), nearest: None })
    }

    /// EXPLAIN: of EXECUTE the plan that a run with these values has.
    fn explain(&self, explain: &ExplainStatement, running: &Arc<RunningStatement>, key: &Key) -> Result<ResultStream> {
        let is_execute = match explain.statement.as_ref() {
            Statement::Statement(of) => matches!(**of, ast::Statement::Execute { .. }),
            _ => false,
        };
        if !is_execute {
            return explain::explain(explain, running);
        }
        match plan_statement(Statement::clone(&explain.statement), &running.plan_context())? {
            LogicalPlan::Statement(PlanStatement::Execute(execute)) => {
                let template = self.prepared_as(&execute.name)?;
                if template.is_write() && explain.options.analyze {
                    return Err(explain::would_write("EXECUTE"));
                }
                let values = constants(execute.parameters, running)?;
                let (plan, values) = template.lowered(&values, running, key.settings)?;
                explain::explain_plan(explain, &plan, values, running)
            }
            _ => Err(Error::Internal("an EXECUTE planned to something else".into())),
        }
    }

    /// Drops the temporary tables.
    fn drop_temporary(&self, running: &RunningStatement) -> Result<()> {
        let schema = temporary_of(self.shared.number);
        match running.catalog.has_schema(&schema) {
            true => running.home.commit(|state| state.drop_schema(&schema, true)),
            false => Ok(()),
        }
    }

    /// What a connection that is handed on gives up; what there is none of is gone already.
    fn give_up(&self, what: GivenUp, running: &RunningStatement) -> Result<Done> {
        let tag = match what {
            GivenUp::All => {
                if running.transaction.as_ref().is_some_and(|of| !of.is_implicit) {
                    return Err(Error::transaction(
                        SqlState::ActiveSqlTransaction,
                        "DISCARD ALL is for sessions without a transaction; COMMIT or ROLLBACK it first",
                    ));
                }
                self.shared.prepared.lock().clear();
                self.shared.given.forget();
                self.close_cursors();
                self.drop_temporary(running)?;
                self.reset_all()?;
                self.reset_authorization()?;
                "DISCARD ALL"
            }
            GivenUp::Plans => "DISCARD PLANS",
            GivenUp::Temp => {
                self.drop_temporary(running)?;
                "DISCARD TEMP"
            }
            GivenUp::Sequences => {
                self.shared.given.forget();
                "DISCARD SEQUENCES"
            }
            GivenUp::Settings => {
                self.reset_all()?;
                "RESET"
            }
            GivenUp::Prepared => {
                self.shared.prepared.lock().clear();
                "DEALLOCATE ALL"
            }
            GivenUp::Channels => "UNLISTEN",
        };
        Ok(Done::new(tag))
    }

    /// `PREPARE name AS query`.
    fn keep(&self, statement: Statement, running: &Arc<RunningStatement>, key: &Key) -> Result<Done> {
        let (template, name) = Template::new(QuerySource::Statement(Box::new(statement)), running, key.settings)?;
        let name = name.ok_or_else(|| Error::Internal("a PREPARE without a name".into()))?;
        let mut all = self.shared.prepared.lock();
        if all.contains_key(&name) {
            return Err(Error::Exists { kind: "prepared statement", name });
        }
        all.insert(name, Arc::new(template));
        Ok(Done::new("PREPARE"))
    }
}

/// Takes TEMPORARY and ON COMMIT off CREATE TABLE, which the planner does not read.
fn take_temporary(statement: &mut Statement) -> (bool, Option<ast::OnCommit>) {
    match statement {
        Statement::Statement(inner) => match inner.as_mut() {
            ast::Statement::CreateTable(create) => (std::mem::take(&mut create.temporary), create.on_commit.take()),
            _ => (false, None),
        },
        _ => (false, None),
    }
}

/// What a statement is, where it is told of if it takes long.
pub(super) fn told_of(running: &RunningStatement, text: impl FnOnce() -> String) {
    if let Some(slow) = running.slow() {
        slow.is(|| without_password(text().trim()).to_string());
    }
}

/// A statement's text as views show it: its beginning.
pub(super) fn label(sql: &str) -> String {
    const CHARS: usize = 200;
    let sql = without_password(sql.trim());
    match sql.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}..", &sql[..end]),
        None => sql.to_string(),
    }
}

/// A statement with places for values. A query's plan is kept while names, columns and settings stay as they are; each
/// run sees the tables as of its own start.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) session: Session,
    pub(super) template: Arc<Template>,
}

impl Prepared {
    /// The types of `$1`, `$2`, .. as far as the statement tells them: those of the columns that they are compared with
    /// or written to.
    pub fn parameter_types(&self) -> &[Option<arrow::datatypes::DataType>] {
        self.template.parameter_types()
    }

    /// Runs the statement with values for its parameters: rows of a query; of INSERT, UPDATE and DELETE how many they
    /// wrote or took away.
    ///
    /// # Errors
    /// Another number of values than parameters, values that do not fit; otherwise as [`Session::run`].
    pub fn run(&self, values: &[ScalarValue]) -> Result<Outcome> {
        not_on_a_worker()?;
        let shown = if self.session.transaction().is_some() { label(&self.template.text()) } else { String::new() };
        let by_keys = |running: &Arc<RunningStatement>, settings: u64, of: &mut ByKeys<'_>| {
            told_of(running, || self.template.text());
            self.template.start_by_keys(values, (running, settings), of)
        };
        let run = || {
            self.session.carry_out(&shown, Some(&by_keys), &|running, settings| {
                told_of(running, || self.template.text());
                if profile::wanted(running) || admission::is_wanted(running) {
                    running.statement.set_label(label(&self.template.text()));
                }
                self.template.start(values, Arc::clone(running), settings)
            })
        };
        self.session.inner.statements.count(run)
    }

    /// As [`Prepared::run`], and gives rows: a statement that writes gives one with the `count` of rows.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn query(&self, values: &[ScalarValue]) -> Result<ResultStream> {
        match self.run(values)? {
            Outcome::Rows(rows) => Ok(rows),
            Outcome::Done(done) => write::count_result(done.rows.unwrap_or(0)),
        }
    }
}

/// A worker that waited for a statement could be the one that the statement needs.
pub(crate) fn not_on_a_worker() -> Result<()> {
    match sched::Scheduler::on_worker() {
        true => Err(Error::Unsupported(
            "statements cannot run inside a producer of batches; take their rows before the load starts".into(),
        )),
        false => Ok(()),
    }
}

/// Cancels what a session runs; it does not keep the session alive.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    running: Weak<Running>,
}

impl CancelHandle {
    /// Cancels every statement of the session, or of that part of it, that runs now. True when there was one.
    pub fn cancel(&self) -> bool {
        let Some(running) = self.running.upgrade() else { return false };
        let running: Vec<Canceller> =
            running.lock().iter().filter_map(|r| r.upgrade()).map(|r| r.canceller()).collect();
        for canceller in &running {
            canceller.cancel();
        }
        !running.is_empty()
    }
}
