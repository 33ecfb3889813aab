//! What a transaction looks at late: keys that are DEFERRED, and what is left to do before COMMIT.

use std::cell::Cell;
use std::sync::Arc;

use crate::api::session::Session;
use crate::api::transactions::{IdleAgain, usable};
use crate::catalog::transactions::Activity;
use crate::error::Result;
use crate::run::outcome::{Done, Outcome};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Transaction, TransactionState};
use crate::sql::SetConstraints;
use crate::statements::{constraints, referential};

impl Session {
    /// Looks at what has waited for it and need not any more, at the transaction's end all of it.
    fn keep_deferred(
        &self,
        transaction: &Transaction,
        state: &mut TransactionState,
        label: &str,
        is_end: bool,
    ) -> Result<()> {
        if state.deferred.is_empty() {
            return Ok(());
        }
        for step in referential::of_one_kind(state.deferred.due(is_end))? {
            let work = |running: &Arc<RunningStatement>, _| referential::carry_out(&step, running).map(Outcome::Done);
            // What only looks changes nothing.
            self.locked(transaction, state, label, &work)?;
        }
        Ok(())
    }

    /// What a transaction does last.
    pub(super) fn before_commit(
        &self,
        transaction: &Transaction,
        state: &mut TransactionState,
        label: &str,
    ) -> Result<()> {
        self.keep_deferred(transaction, state, label, true)?;
        if !self.shared.on_commit.is_empty() {
            self.locked(transaction, state, label, &|running, _| self.shared.on_commit.empty(running))?;
            self.locked(transaction, state, label, &|running, _| self.shared.on_commit.drop(running))?;
        }
        Ok(())
    }

    /// SET CONSTRAINTS. Without a transaction it has nothing to say, as in PostgreSQL.
    pub(super) fn set_constraints(&self, of: &SetConstraints) -> Result<Outcome> {
        const LABEL: &str = "SET CONSTRAINTS";
        let named = Cell::new(None);
        let look = |running: &Arc<RunningStatement>, _: u64| {
            named.set(
                of.names.as_ref().map(|names| constraints::deferrable(names, of.is_deferred, running)).transpose()?,
            );
            Ok(Outcome::Done(Done::new(LABEL)))
        };
        let Some(transaction) = self.shared.transaction.open() else { return self.by_itself(LABEL, &look) };
        let mut state = transaction.state.lock();
        usable(&state)?;
        // A panic is a failure too.
        state.has_failed = true;
        let _idle = IdleAgain(&transaction);
        transaction.open.set_activity(Activity::Running(LABEL.into()));
        let done = self.locked(&transaction, &mut state, LABEL, &look).and_then(|(outcome, _)| {
            state.deferred.set(named.take(), of.is_deferred);
            self.keep_deferred(&transaction, &mut state, LABEL, false)?;
            Ok(outcome)
        });
        state.has_failed = done.is_err();
        transaction.open.set_failed(done.is_err());
        done
    }
}
