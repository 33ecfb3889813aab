//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION; and how each statement of a session runs, in a transaction or
//! by itself.
//!
//! A statement that meets what a transaction has locked waits for it, and runs again over what is there then: by itself
//! it never fails for that. In a transaction it may: see docs/sql.md, Transactions.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlparser::ast::{self, TransactionMode};

use crate::api::control::settled;
use crate::api::modes::Modes;
use crate::api::session::{Session, SessionState};
use crate::catalog::snapshot::Snapshot;
use crate::catalog::transactions::{Activity, Level};
use crate::catalog::{TableMeta, writes_until_now};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::changes::RowChange;
use crate::run::config;
use crate::run::deferred::Deferred;
use crate::run::lookout::Lookout;
use crate::run::outcome::{Done, Outcome};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Content, Ended, Savepoint, Transaction, TransactionState};
use crate::sql::normalised;
use crate::statements::referential;
use crate::statements::transaction::by_keys::{ByKeys, with_pending};
use crate::statements::transaction::commit::{commit, roll_back};
use crate::statements::transaction::ending::{Locked, end_statement};
use crate::statements::transaction::locking::release;
use crate::statements::transaction::until_nothing_is_in_the_way;
use crate::statements::transaction::view::begin_statement;
use crate::statements::transaction::wanted::locked_rows;

/// How often a serializable statement by itself begins again where others were faster.
const TRIES: usize = 1000;

/// What a session does in a statement: with what is known of it, and the number of its settings.
pub(super) type Work<'a> = dyn Fn(&Arc<RunningStatement>, u64) -> Result<Outcome> + 'a;

/// The same as a statement of a transaction that writes or reads a row by its key; `None` where it is not, or nothing
/// was done.
pub(super) type WorkByKeys<'a> = dyn Fn(&Arc<RunningStatement>, u64, &mut ByKeys<'_>) -> Result<Option<Outcome>> + 'a;

/// What a statement gives, which fails where there are more rows than it may give.
fn limited(outcome: Outcome, running: &RunningStatement) -> Outcome {
    match (outcome, running.rows_left()) {
        (Outcome::Rows(rows), Some(left)) => Outcome::Rows(rows.limited(left)),
        (other, _) => other,
    }
}

impl Session {
    /// Runs a statement: as part of the session's transaction, or by itself.
    pub(super) fn carry_out(&self, label: &str, by_keys: Option<&WorkByKeys<'_>>, work: &Work<'_>) -> Result<Outcome> {
        self.carried_out(label, by_keys, work).map_err(|error| self.as_may_be_told(error))
    }

    fn carried_out(&self, label: &str, by_keys: Option<&WorkByKeys<'_>>, work: &Work<'_>) -> Result<Outcome> {
        self.may_work()?;
        let work = &|running: &Arc<RunningStatement>, settings: u64| {
            running.take_turn()?;
            work(running, settings).map(|outcome| limited(outcome, running))
        };
        let keyed = by_keys.map(|by_keys| {
            move |running: &Arc<RunningStatement>, settings: u64, of: &mut ByKeys<'_>| {
                running.take_turn()?;
                by_keys(running, settings, of)
            }
        });
        let by_keys = keyed.as_ref().map(|keyed| keyed as &WorkByKeys<'_>);
        let open = self.shared.transaction.0.lock().clone();
        match open {
            Some(transaction) => self.within(&transaction, label, (by_keys, work)),
            None => {
                let outcome = self.by_itself(label, work)?;
                if !self.shared.on_commit.is_empty() {
                    self.as_a_transaction(self.default_modes(), "COMMIT", &|_, _| {
                        Ok(Outcome::Done(Done::new("COMMIT")))
                    })?;
                    self.shared.on_commit.forget_gone(&self.inner.catalog.state());
                }
                Ok(outcome)
            }
        }
    }

    pub(super) fn started(&self, label: &str) -> (RunningStatement, u64) {
        let (planner, settings) = self.planner();
        let SessionState { number, given, .. } = self.shared.as_ref();
        let running = RunningStatement::start(&self.inner, planner).run_by(*number, given);
        if !label.is_empty() {
            running.statement.set_label(label.to_string());
        }
        // Names mean something else to who has temporary tables: no plan is kept for others, nor taken of them.
        let own = running.path().has_temporary(&running.catalog);
        let settings =
            if own { settings ^ (1 << 63 | (self.shared.number.unsigned_abs() as u64) << 32) } else { settings };
        (running, settings)
    }

    /// Whether a statement outside of a transaction needs none of its own.
    pub(super) fn runs_by_itself(&self) -> bool {
        let modes = self.default_modes();
        modes.level != Level::Serializable && !modes.is_read_only
    }

    pub(super) fn by_itself(&self, label: &str, work: &Work<'_>) -> Result<Outcome> {
        let modes = self.default_modes();
        if !self.runs_by_itself() {
            return self.as_a_transaction(modes, label, work);
        }
        let settings = Cell::new(0);
        let start = || {
            let (running, of) = self.started(label);
            settings.set(of);
            running
        };
        let wants_transaction = Cell::new(false);
        let outcome = until_nothing_is_in_the_way(start, |running| {
            self.track(running);
            let outcome = work(running, settings.get());
            wants_transaction.set(running.is_transaction_wanted());
            settled(outcome?, running)
        });
        match wants_transaction.get() {
            true => self.as_a_transaction(modes, label, work),
            false => outcome,
        }
    }

    /// A statement by itself as a transaction of one statement, again where others were faster.
    fn as_a_transaction(&self, modes: Modes, label: &str, work: &Work<'_>) -> Result<Outcome> {
        let mut tries = 0;
        loop {
            let transaction = self.begun(modes, true);
            let outcome = self.within(&transaction, label, (None, work));
            let mut state = transaction.state.lock();
            if outcome.is_err() {
                roll_back(&transaction, &mut state, &self.inner);
            }
            let outcome = match outcome {
                Ok(outcome) => {
                    let running = Arc::new(self.started(label).0);
                    self.track(&running);
                    commit(&transaction, &mut state, &running).and_then(|()| settled(outcome, &running))
                }
                failed => failed,
            };
            match outcome {
                Err(Error::Serialization(_) | Error::Deadlock(_)) if tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// Runs a statement of a transaction.
    fn within(
        &self,
        transaction: &Transaction,
        label: &str,
        (by_keys, work): (Option<&WorkByKeys<'_>>, &Work<'_>),
    ) -> Result<Outcome> {
        let mut state = transaction.state.lock();
        usable(&state)?;
        // A panic is a failure too.
        state.has_failed = true;
        let _idle = IdleAgain(transaction);
        transaction.open.set_activity(Activity::Running(label.to_string()));
        let done = by_keys.map(|by_keys| self.locked_by_keys(transaction, &mut state, label, by_keys)).transpose();
        let outcome = match done.map(Option::flatten) {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => {
                let done = self.locked(transaction, &mut state, label, work);
                done.and_then(|(outcome, changes)| {
                    self.keep_references(transaction, &mut state, label, changes)?;
                    if state.is_implicit {
                        self.before_commit(transaction, &mut state, label)?;
                    }
                    Ok(outcome)
                })
            }
            Err(error) => Err(error),
        };
        state.has_failed = outcome.is_err();
        transaction.open.set_failed(outcome.is_err());
        if outcome.as_ref().is_ok_and(Outcome::has_written) {
            // Queries that it has asked itself, and what came of them, are behind it.
            state.forgiven = state.begun;
        }
        outcome
    }

    /// Runs a statement of a transaction that writes or reads a row by its key; `None` where it has to go the usual
    /// way.
    fn locked_by_keys(
        &self,
        transaction: &Transaction,
        state: &mut TransactionState,
        label: &str,
        by_keys: &WorkByKeys<'_>,
    ) -> Result<Option<Outcome>> {
        let mut before: Option<Arc<RunningStatement>> = None;
        loop {
            let (mut running, settings) = self.started(label);
            if let Some(before) = before.take() {
                running = running.begun_again(&before);
            }
            if !state.is_implicit {
                running = running.at(transaction.open.began);
            }
            let running = Arc::new(running);
            self.track(&running);
            running.check()?;
            before = Some(Arc::clone(&running));
            let step = state.step;
            if state.snapshot.is_none() {
                state.writes_before = writes_until_now();
                state.snapshot = Some(self.inner.catalog.snapshot());
            }
            // What a name stands for is what it stood for in the snapshot.
            let is_known = |snapshot: &Snapshot| snapshot.ddl_version == running.catalog.ddl_version;
            if state.level != Level::ReadCommitted && !state.snapshot.as_ref().is_some_and(is_known) {
                return Ok(None);
            }
            let Some(mut of) = ByKeys::of(transaction, state) else { return Ok(None) };
            let outcome = by_keys(&running, settings, &mut of);
            let written = of.written();
            if let Ok(Some(outcome)) = outcome {
                transaction.open.set_written_rows(written);
                return Ok(Some(outcome));
            }
            let Err(error) = outcome else { return Ok(None) };
            release(transaction.open.id, step, state, (&running, None));
            let Some(holder) = running.blocker() else { return Err(error) };
            self.inner.transactions.wait(Some(transaction.open.id), holder, || running.check())?;
        }
    }

    /// Runs a statement of a transaction until what it has written is locked.
    pub(super) fn locked(
        &self,
        transaction: &Transaction,
        state: &mut TransactionState,
        label: &str,
        work: &Work<'_>,
    ) -> Result<(Outcome, Vec<RowChange>)> {
        // A table that others changed while the statement ran: again, they wait.
        let mut changing: Option<(u64, Arc<TableMeta>)> = None;
        let mut before: Option<Arc<RunningStatement>> = None;
        if !state.content.pending.is_empty() {
            let running = Arc::new(self.started(label).0);
            self.track(&running);
            let of_all = state.snapshot.as_ref().filter(|_| state.level != Level::ReadCommitted);
            state.content = with_pending(transaction.open.id, &state.content, of_all, &running)?;
            state.own = None;
        }
        loop {
            let (mut running, settings) = self.started(label);
            if let Some(before) = before.take() {
                running = running.begun_again(&before);
            }
            let met = changing.take();
            // While it waits for its turn it may be cancelled.
            let known = Arc::new(running);
            self.track(&known);
            let running = known.over(known.catalog.clone());
            let turn = match &met {
                Some((_, meta)) => Some(meta.write_turns.next(|| running.check())?),
                None => None,
            };
            let with_turn = met.as_ref().map(|(table, _)| *table);
            let running = Arc::new(begin_statement(transaction, state, running)?);
            self.track(&running);
            running.check()?;
            before = Some(Arc::clone(&running));
            let outcome = work(&running, settings)
                .and_then(|outcome| Ok((end_statement(transaction, state, &running, with_turn)?, outcome)));
            drop(turn);
            match (outcome, running.blocker()) {
                (Ok((Locked::Done, outcome)), _) => {
                    let changes = running.transaction.as_ref().map(|of| of.changes.take()).unwrap_or_default();
                    let rows = locked_rows(&running).map(|rows| limited(rows, &running));
                    return Ok((rows.unwrap_or(outcome), changes));
                }
                (Ok((Locked::Again(table), _)), _) => changing = table,
                (Err(_), Some(holder)) => {
                    let open = &self.inner.transactions;
                    open.wait(Some(transaction.open.id), holder, || running.check())?;
                }
                (Err(error), None) => return Err(error),
            }
        }
    }

    /// Does what follows for foreign keys from the rows that came and went, and from what that changes in turn.
    fn keep_references(
        &self,
        transaction: &Transaction,
        state: &mut TransactionState,
        label: &str,
        changes: Vec<RowChange>,
    ) -> Result<()> {
        let mut changes = referential::together(changes)?;
        while !changes.is_empty() {
            // What the transaction has written is seen by its next statement.
            let steps = Cell::new(Vec::new());
            let told = RefCell::new(Some(changes));
            self.locked(transaction, state, label, &|running, _| {
                if let Some(told) = told.borrow_mut().take() {
                    steps.set(referential::steps(told, &running.catalog)?);
                }
                Ok(Outcome::Done(Done::new("FOREIGN KEY")))
            })?;
            let mut further = Vec::new();
            for step in steps.take() {
                if state.deferred.waits(&step) {
                    state.deferred.keep(step, &self.inner.budget)?;
                    continue;
                }
                let work =
                    |running: &Arc<RunningStatement>, _| referential::carry_out(&step, running).map(Outcome::Done);
                further.extend(self.locked(transaction, state, label, &work)?.1);
            }
            changes = referential::together(further)?;
        }
        Ok(())
    }

    fn default_modes(&self) -> Modes {
        let planner = self.planner().0;
        let settings = config::nearside(planner.config_options());
        // SET has refused what is no level.
        let level = Level::of(&settings.default_transaction_isolation).unwrap_or(Level::ReadCommitted);
        Modes { level, is_read_only: settings.default_transaction_read_only }
    }

    fn begun(&self, modes: Modes, is_implicit: bool) -> Arc<Transaction> {
        let state = TransactionState {
            level: modes.level,
            is_read_only: modes.is_read_only,
            has_failed: false,
            begun: 0,
            stream_failed: Arc::default(),
            forgiven: 0,
            is_implicit,
            ended: None,
            snapshot: None,
            writes_before: 0,
            own: None,
            reads: Arc::default(),
            step: 0,
            content: Content::default(),
            deferred: Deferred::default(),
            savepoints: Vec::new(),
            locked: std::collections::BTreeMap::new(),
            settings: self.settings(),
        };
        let open = self.inner.transactions.begin(modes.level, modes.is_read_only);
        Arc::new(Transaction {
            open,
            savepoints: AtomicU64::new(0),
            home: Arc::new(self.inner.catalog.private()),
            state: Mutex::new(state),
            inner: Arc::downgrade(&self.inner),
            forget: |transaction| forget(transaction, Ended::Session),
        })
    }

    /// Begins the session's transaction, if it has none; whether it has begun one.
    fn begin(&self, modes: Modes) -> Result<bool> {
        let mut open = self.shared.transaction.0.lock();
        if open.is_some() {
            return Ok(false);
        }
        let transaction = self.begun(modes, false);
        let planner = self.planner().0;
        let limit = config::nearside(planner.config_options()).idle_in_transaction_session_timeout_ms;
        if limit > 0 {
            watch(&transaction, Duration::from_millis(limit), &self.inner.lookout)?;
        }
        *open = Some(transaction);
        Ok(true)
    }

    /// Runs a statement about transactions.
    pub(super) fn control(&self, statement: &ast::Statement) -> Result<Outcome> {
        let done = |tag: &str| Ok(Outcome::Done(Done::new(tag)));
        match statement {
            ast::Statement::StartTransaction { modes, modifier, statements, exception, .. } => {
                if modifier.is_some() || !statements.is_empty() || exception.is_some() {
                    return Err(Error::Unsupported(
                        "this form of BEGIN is not supported; write BEGIN or START TRANSACTION with modes".into(),
                    ));
                }
                let begins = self.default_modes().with(modes)?;
                if !self.begin(begins)? && !modes.is_empty() {
                    return Err(Error::transaction(
                        SqlState::ActiveSqlTransaction,
                        "there is a transaction already; COMMIT or ROLLBACK it first",
                    ));
                }
                done("BEGIN")
            }
            ast::Statement::Commit { chain, modifier, .. } => {
                if modifier.is_some() {
                    return Err(Error::Unsupported("COMMIT has no such modifier".into()));
                }
                self.end(*chain, true)
            }
            ast::Statement::Rollback { chain, savepoint: None } => self.end(*chain, false),
            ast::Statement::Rollback { savepoint: Some(name), .. } => {
                self.roll_back_to(&normalised(name.clone()))?;
                done("ROLLBACK")
            }
            ast::Statement::Savepoint { name } => {
                self.savepoint(normalised(name.clone()))?;
                done("SAVEPOINT")
            }
            ast::Statement::ReleaseSavepoint { name } => {
                self.release(&normalised(name.clone()))?;
                done("RELEASE")
            }
            ast::Statement::Set(ast::Set::SetTransaction { modes, snapshot, session }) => {
                if snapshot.is_some() {
                    return Err(Error::Unsupported("SET TRANSACTION SNAPSHOT is not supported".into()));
                }
                match session {
                    true => self.set_default_modes(modes)?,
                    false => self.set_modes(modes)?,
                }
                done("SET")
            }
            other => Err(Error::Internal(format!("'{other}' is not about transactions"))),
        }
    }

    fn open(&self, what: &str) -> Result<Arc<Transaction>> {
        let open = self.shared.transaction.0.lock().clone();
        open.ok_or_else(|| {
            Error::transaction(SqlState::NoActiveSqlTransaction, format!("{what} is for transactions; BEGIN one first"))
        })
    }

    /// COMMIT and ROLLBACK. Without a transaction there is nothing to do, as in PostgreSQL.
    fn end(&self, chain: bool, commits: bool) -> Result<Outcome> {
        let ended = self.shared.transaction.0.lock().take();
        let Some(transaction) = ended else {
            if chain {
                return Err(Error::transaction(
                    SqlState::NoActiveSqlTransaction,
                    "AND CHAIN is for transactions; BEGIN one first",
                ));
            }
            return Ok(Outcome::Done(Done::new(if commits { "COMMIT" } else { "ROLLBACK" })));
        };
        let mut state = transaction.state.lock();
        let why = state.ended;
        let modes = Modes { level: state.level, is_read_only: state.is_read_only };
        let running = Arc::new(self.started(if commits { "COMMIT" } else { "ROLLBACK" }).0);
        let is_usable = usable(&state).is_ok();
        let committed = match commits && is_usable {
            true => {
                self.track(&running);
                transaction.open.set_activity(Activity::Running("COMMIT".into()));
                match self.before_commit(&transaction, &mut state, "COMMIT") {
                    Ok(()) => commit(&transaction, &mut state, &running),
                    Err(error) => {
                        roll_back(&transaction, &mut state, &self.inner);
                        Err(error)
                    }
                }
            }
            false => {
                roll_back(&transaction, &mut state, &self.inner);
                Ok(())
            }
        };
        let is_committed = commits && is_usable && committed.is_ok();
        match is_committed {
            true => self.end_local_settings(),
            false => self.put_settings(state.settings.clone()),
        }
        drop(state);
        if is_committed {
            self.hold_cursors();
        }
        self.end_cursors();
        committed?;
        self.shared.on_commit.forget_gone(&self.inner.catalog.state());
        if chain {
            self.begin(modes)?;
        }
        match why {
            // PostgreSQL's clients are told at once; here the session hears of it now.
            Some(why) if commits => {
                Err(Error::transaction(why.code(), format!("the transaction was rolled back before: {}", why.why())))
            }
            _ => settled(Outcome::Done(Done::new(if commits && is_usable { "COMMIT" } else { "ROLLBACK" })), &running),
        }
    }

    fn savepoint(&self, name: String) -> Result<()> {
        let transaction = self.open("SAVEPOINT")?;
        let mut state = transaction.state.lock();
        usable(&state)?;
        transaction.open.set_activity(Activity::Idle(Instant::now()));
        let savepoint = Savepoint {
            name,
            number: transaction.savepoints.fetch_add(1, Ordering::Relaxed) + 1,
            step: state.step,
            content: state.content.clone(),
            deferred: state.deferred.clone(),
            settings: self.settings(),
            is_read_only: state.is_read_only,
        };
        state.savepoints.push(savepoint);
        Ok(())
    }

    fn roll_back_to(&self, name: &str) -> Result<()> {
        let transaction = self.open("ROLLBACK TO SAVEPOINT")?;
        let mut state = transaction.state.lock();
        over(&state)?;
        transaction.open.set_activity(Activity::Idle(Instant::now()));
        let place = place_of(&state, name);
        let place = failing(&transaction, &mut state, place)?;
        state.savepoints.truncate(place + 1);
        let savepoint = state.savepoints[place].clone();
        let running = self.started("ROLLBACK").0;
        release(transaction.open.id, savepoint.step, &state, (&running, None));
        state.content = savepoint.content;
        state.deferred = savepoint.deferred;
        read_only_again(&transaction, &mut state, savepoint.is_read_only);
        state.own = None;
        state.has_failed = false;
        state.forgiven = state.begun;
        transaction.open.set_failed(false);
        self.put_settings(savepoint.settings);
        drop(state);
        self.end_cursors_since(&transaction, savepoint.number);
        Ok(())
    }

    fn release(&self, name: &str) -> Result<()> {
        let transaction = self.open("RELEASE SAVEPOINT")?;
        let mut state = transaction.state.lock();
        usable(&state)?;
        let place = place_of(&state, name);
        let place = failing(&transaction, &mut state, place)?;
        // As in PostgreSQL, what was said behind a savepoint ends with it, whichever way it ends.
        let is_read_only = state.savepoints[place].is_read_only;
        read_only_again(&transaction, &mut state, is_read_only);
        state.savepoints.truncate(place);
        Ok(())
    }

    fn set_modes(&self, modes: &[TransactionMode]) -> Result<()> {
        let transaction = self.open("SET TRANSACTION")?;
        let mut state = transaction.state.lock();
        usable(&state)?;
        let before = Modes { level: state.level, is_read_only: state.is_read_only };
        let changed = before.with(modes).and_then(|changed| {
            if state.snapshot.is_some()
                && (changed.level != before.level || before.is_read_only && !changed.is_read_only)
            {
                return Err(Error::transaction(
                    SqlState::ActiveSqlTransaction,
                    "SET TRANSACTION comes before the first query of a transaction",
                ));
            }
            if !state.savepoints.is_empty() {
                before.may_become_within(changed)?;
            }
            Ok(changed)
        });
        let changed = failing(&transaction, &mut state, changed)?;
        (state.level, state.is_read_only) = (changed.level, changed.is_read_only);
        transaction.open.set_modes(changed.level, changed.is_read_only);
        Ok(())
    }

    fn set_default_modes(&self, modes: &[TransactionMode]) -> Result<()> {
        let changed = self.default_modes().with(modes)?;
        self.change_settings(false, |options| {
            options.set("nearside.default_transaction_isolation", changed.level.name())?;
            Ok(options.set("nearside.default_transaction_read_only", &changed.is_read_only.to_string())?)
        })
    }

    /// Whether a transaction is open, for prompts: `Some(false)` where one is that has failed.
    pub fn transaction(&self) -> Option<bool> {
        let open = self.shared.transaction.0.lock().clone()?;
        // Whoever runs a statement of it has it in hand.
        Some(open.state.try_lock().is_none_or(|state| usable(&state).is_ok()))
    }
}

/// Says at its end that a transaction does nothing any more.
pub(super) struct IdleAgain<'a>(pub(super) &'a Transaction);

impl Drop for IdleAgain<'_> {
    fn drop(&mut self) {
        self.0.open.set_activity(Activity::Idle(Instant::now()));
    }
}

/// Fails where a transaction is over although its session has not ended it.
fn over(state: &TransactionState) -> Result<()> {
    match state.ended {
        Some(why) => Err(Error::transaction(
            why.code(),
            format!("the transaction is over: {}; ROLLBACK and BEGIN anew", why.why()),
        )),
        None => Ok(()),
    }
}

/// Fails where a transaction does not go on.
pub(super) fn usable(state: &TransactionState) -> Result<()> {
    over(state)?;
    match state.has_failed || state.stream_failed.load(Ordering::Acquire) > state.forgiven {
        true => Err(Error::transaction(
            SqlState::InFailedSqlTransaction,
            "a statement of the transaction has failed, and others are not run until ROLLBACK, or ROLLBACK TO a \
             savepoint",
        )),
        false => Ok(()),
    }
}

/// What comes of a statement about a transaction, which fails with it.
fn failing<T>(transaction: &Transaction, state: &mut TransactionState, result: Result<T>) -> Result<T> {
    if result.is_err() {
        state.has_failed = true;
        transaction.open.set_failed(true);
    }
    result
}

/// A transaction may write, or not, as at a savepoint that ends.
fn read_only_again(transaction: &Transaction, state: &mut TransactionState, is_read_only: bool) {
    state.is_read_only = is_read_only;
    transaction.open.set_modes(state.level, is_read_only);
}

fn place_of(state: &TransactionState, name: &str) -> Result<usize> {
    let place = state.savepoints.iter().rposition(|savepoint| savepoint.name == name);
    place.ok_or_else(|| {
        let names = state.savepoints.iter().map(|savepoint| savepoint.name.as_str());
        let nearest = crate::error::names::nearest(name, names);
        Error::NotFound { kind: "savepoint", name: name.into(), nearest }
    })
}

/// Rolls back a transaction that nobody has ended, and nobody runs a statement of.
fn forget(transaction: &Transaction, why: Ended) {
    if let Some(mut state) = transaction.state.try_lock() {
        end_because(transaction, &mut state, why);
    }
}

/// The same where its session does nothing for too long.
fn forget_idle(transaction: &Transaction, limit: Duration) {
    let Some(mut state) = transaction.state.try_lock() else { return };
    if transaction.open.idle_since().is_some_and(|since| since.elapsed() >= limit) {
        end_because(transaction, &mut state, Ended::Idle);
    }
}

fn end_because(transaction: &Transaction, state: &mut TransactionState, why: Ended) {
    if let Some(inner) = transaction.inner.upgrade().filter(|_| state.ended.is_none()) {
        state.ended = Some(why);
        roll_back(transaction, state, &inner);
    }
}

/// Has a transaction rolled back once its session does nothing for some time.
fn watch(transaction: &Arc<Transaction>, limit: Duration, lookout: &Arc<Lookout>) -> Result<()> {
    let weak: Weak<Transaction> = Arc::downgrade(transaction);
    let look = move || {
        let transaction = weak.upgrade()?;
        let is_over = || transaction.state.try_lock().is_some_and(|state| state.ended.is_some());
        if is_over() {
            return None;
        }
        let left = match transaction.open.idle_since() {
            Some(since) => limit.saturating_sub(since.elapsed()),
            None => limit,
        };
        if left.is_zero() {
            // Whoever runs a statement by now is looked at again.
            forget_idle(&transaction, limit);
        }
        Some(left)
    };
    lookout
        .add(look)
        .map_err(|e| Error::execution(SqlState::ConfigurationLimitExceeded, format!("no thread could be had: {e}")))
}

#[cfg(test)]
mod tests {
    use storage::TableVersion;

    use super::*;
    use crate::catalog::TableEntry;

    fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never is");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_statement_that_waits_to_run_again_is_cancelled() {
        let database = crate::Database::builder().threads(2).memory_bytes(1 << 28).build().unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (1, 1); BEGIN").unwrap();
        let catalog = &session.inner.catalog;
        let name = crate::catalog::Name { schema: "public".into(), table: "t".into() };
        let table = Arc::clone(catalog.snapshot().table(&name).unwrap());
        let turns = &table.meta.write_turns;
        let go_on = || Ok::<(), std::convert::Infallible>(());
        let Ok(first) = turns.share(go_on);
        let ended = std::sync::atomic::AtomicUsize::new(0);
        let beside = |until_ended: usize| {
            let Ok(_turn) = turns.share(go_on);
            until(|| ended.load(Ordering::Acquire) >= until_ended);
        };
        std::thread::scope(|scope| {
            let updating = scope.spawn(|| session.execute("UPDATE t SET n = n + 1 WHERE a = 1 OR n > 5").map(drop));
            until(|| turns.waiting() == (1, 0));
            // It has run. Others change the table, and who waits to share its turn is next to it.
            let base = Arc::new(TableVersion::clone(&table.base));
            let changed = Arc::new(TableEntry { base, ..TableEntry::clone(&table) });
            catalog.commit(|state| state.set_rows(Arc::clone(&changed))).unwrap();
            scope.spawn(|| beside(1));
            until(|| turns.waiting() == (1, 1));
            drop(first);
            // It has found that out, and waits to give back what it has locked.
            until(|| turns.waiting() == (1, 0));
            scope.spawn(|| beside(2));
            until(|| turns.waiting() == (1, 1));
            ended.store(1, Ordering::Release);
            // And now to run again.
            until(|| turns.waiting() == (1, 0));
            session.cancel_handle().cancel();
            let begun = Instant::now();
            while !updating.is_finished() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            let has_ended = updating.is_finished();
            ended.store(2, Ordering::Release);
            assert!(has_ended, "it waits still");
            assert!(matches!(updating.join().unwrap(), Err(Error::Cancelled)));
        });
        session.execute("ROLLBACK").unwrap();
    }
}
