//! The end of a statement of a transaction: what it has written ([`super::locking`]) and what it wants besides
//! ([`super::wanted`]) is locked, and what it has written kept; or nothing of it is left, and it is run again.

use std::sync::Arc;

use super::locking::{Changed, Turns, Unlocked, has_definition_of, lock_all, release, written_rows};
use super::view::own_ddl_version;
use super::wanted::lock_wanted;
use crate::catalog::rights::RightsChange;
use crate::catalog::roles::RolesChange;
use crate::catalog::transactions::Level;
use crate::catalog::{CatalogState, TableMeta};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Transaction, TransactionState};

/// What became of a statement.
#[derive(Debug)]
pub(crate) enum Locked {
    /// What it has written is the transaction's.
    Done,
    /// Nothing of it is left: it is to be run again, over what others have committed meanwhile, with the write turn of
    /// the table that they have changed in hand, so that they wait.
    Again(Option<(u64, Arc<TableMeta>)>),
}

/// A statement of a transaction has been carried out: locks what it has written, and keeps it. `with_turn`: the table
/// whose write turn the caller has.
///
/// # Errors
/// Another transaction is in the way ([`RunningStatement::blocker`] says which), or has changed what this one, which
/// has one snapshot, would change; no memory. Nothing of the statement is left then.
pub(crate) fn end_statement(
    transaction: &Transaction,
    state: &mut TransactionState,
    running: &Arc<RunningStatement>,
    with_turn: Option<u64>,
) -> Result<Locked> {
    let Some(of) = &running.transaction else { return Ok(Locked::Done) };
    let (Some(before), after) = (state.own.clone(), transaction.home.state()) else { return Ok(Locked::Done) };
    let wants_locks = of.wanted.lock().is_some();
    if Arc::ptr_eq(&before, &after) && !wants_locks {
        return Ok(Locked::Done);
    }
    if !wants_locks {
        of.may_write()?;
    }
    state.step += 1;
    let changed = Changed::between(&before, &after);
    let mut content = state.content.clone();
    for (schema, is_made) in changed.schemas {
        // One that was dropped and made again is there, as before.
        match state.snapshot.as_ref().is_some_and(|snapshot| snapshot.has_schema(&schema) == is_made) {
            true => content.schemas.remove(&schema),
            false => content.schemas.insert(schema, is_made),
        };
    }
    if before.roles() != after.roles() {
        let first = content.roles.take().map_or_else(|| Arc::clone(before.roles()), |known| known.before);
        let change = RolesChange { before: first, after: Arc::clone(after.roles()) };
        content.roles = (change.before != change.after).then_some(change);
    }
    if before.rights() != after.rights() {
        let first = content.rights.take().map_or_else(|| Arc::clone(before.rights()), |known| known.before);
        let change = RightsChange { before: first, after: Arc::clone(after.rights()) };
        content.rights = (change.before != change.after).then_some(change);
    }
    let mut changed_by_others = None;
    let mut turns = Turns { with_turn, is_one_table: false, changed: &mut changed_by_others };
    let states = (before.as_ref(), after.as_ref());
    let locked = lock_all(&changed.names, states, &mut content, transaction, state, (running, &mut turns));
    let locked =
        locked.and_then(|unwritten| lock_wanted(&after, transaction, state, (running, &mut turns)).map(|()| unwritten));
    match locked {
        Ok(unwritten) => {
            let mut own = CatalogState::clone(&after);
            unwritten.into_iter().try_for_each(|table| own.set_rows(table))?;
            own.ddl_version = match (content.has_definitions(), &state.snapshot) {
                (false, Some(snapshot)) => snapshot.ddl_version,
                _ => own_ddl_version(),
            };
            let own = Arc::new(own);
            transaction.home.begin(Arc::clone(&own), running.catalog.version());
            state.own = Some(own);
            state.content = content;
            transaction.open.set_written_rows(written_rows(&state.content));
            Ok(Locked::Done)
        }
        Err(unlocked) => {
            let step = state.step - 1;
            release(transaction.open.id, step, state, (running, with_turn));
            state.step = step;
            match unlocked {
                Unlocked::Failed(error) => Err(error),
                Unlocked::Again => Ok(Locked::Again(None)),
                Unlocked::Changed if state.level == Level::ReadCommitted => Ok(Locked::Again(changed_by_others)),
                Unlocked::Changed if are_places_new(state, changed_by_others.as_ref(), (running, with_turn))? => {
                    Ok(Locked::Again(None))
                }
                Unlocked::Changed => Err(Error::Serialization(
                    "another transaction has changed a row or table since this one began".into(),
                )),
            }
        }
    }
}

/// Whether a table that was changed since a transaction's one snapshot has the same rows still, in other places: the
/// snapshot has it as it is now, then.
fn are_places_new(
    state: &mut TransactionState,
    changed: Option<&(u64, Arc<TableMeta>)>,
    (running, with_turn): (&Arc<RunningStatement>, Option<u64>),
) -> Result<bool> {
    let (Some((table, meta)), Some(snapshot)) = (changed, state.snapshot.clone()) else { return Ok(false) };
    let _turn = (with_turn != Some(*table)).then(|| meta.write_turns.next(|| running.check())).transpose()?;
    let now = running.inner.catalog.state();
    let (Some(now), Some(known)) = (now.by_id(*table), snapshot.by_id(*table)) else { return Ok(false) };
    if meta.last_write() > state.writes_before || Arc::ptr_eq(now, known) || !has_definition_of(known, now) {
        return Ok(false);
    }
    let mut moved = CatalogState::clone(&snapshot);
    moved.set_rows(Arc::clone(now))?;
    state.snapshot = Some(snapshot.over(Arc::new(moved)));
    state.own = None;
    Ok(true)
}
