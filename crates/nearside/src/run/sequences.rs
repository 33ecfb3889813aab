//! Values of sequences for the statements of a session.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::journal::{Journal, Position};
use crate::catalog::path::{SearchPath, is_temporary};
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::catalog::roles::FIRST;
use crate::catalog::sequences::SequenceEntry;
use crate::catalog::{Catalog, CatalogState, Name};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::functions::sequences::Sequences;
use crate::sql::{quoted, reference_of_text};

/// What a session was last given of each sequence.
#[derive(Debug, Default)]
pub(crate) struct SessionValues(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    by_sequence: HashMap<u64, i64>,
    last: Option<u64>,
}

impl SessionValues {
    /// Forgets all of it, as DISCARD SEQUENCES has it.
    pub(crate) fn forget(&self) {
        *self.0.lock() = Given::default();
    }

    fn give(&self, sequence: u64, value: i64) {
        let mut given = self.0.lock();
        given.by_sequence.insert(sequence, value);
        given.last = Some(sequence);
    }
}

/// Sequences for a statement: those of the catalog that it commits to.
#[derive(Debug)]
pub(crate) struct OfStatement {
    /// Where it commits: its transaction's own catalog, or the database's.
    pub home: Arc<Catalog>,
    /// The database's.
    pub database: Arc<Catalog>,
    /// Of its session.
    pub given: Arc<SessionValues>,
    /// Whether its transaction reads only.
    pub is_read_only: bool,
    /// Where names without a schema are looked up.
    pub path: SearchPath,
    /// The number of the role that has to be allowed what is done.
    pub user: u32,
    /// Whether it is for defaults: those of identities give numbers to whoever may insert.
    pub of_defaults: bool,
}

impl OfStatement {
    fn find(&self, text: &str) -> Result<(Name, Arc<SequenceEntry>)> {
        let state = self.state();
        let name = self.path.resolve(&reference_of_text(text)?, &state)?;
        let sequence = Arc::clone(state.sequence(&name)?);
        Ok((name, sequence))
    }

    /// Fails where the role may do none of some things with a sequence.
    fn may(&self, name: &Name, any_of: Privileges) -> Result<()> {
        if self.user == FIRST {
            return Ok(());
        }
        let state = self.state();
        let numbers_rows = || {
            let owner = state.sequence(name).ok()?.owner.clone()?;
            Some(state.by_id(owner.table)?.rules.identities.contains_key(&owner.column))
        };
        if self.of_defaults && numbers_rows() == Some(true) {
            return Ok(());
        }
        let may = state.may(self.user);
        let thing = Thing::named(name);
        match may.do_everything() || may.with(&thing).meets(any_of) {
            true => Ok(()),
            false => Err(may.denied(&thing)),
        }
    }

    /// What exists. A plan that was kept outlives the transaction that it was made in, and has the same names then.
    fn state(&self) -> Arc<CatalogState> {
        let own = self.home.state();
        let has_ended = own.schemas().next().is_none();
        if has_ended { self.database.state() } else { own }
    }

    /// The same for texts that outlive what the session has set.
    fn lasting(&self) -> OfStatement {
        OfStatement {
            home: Arc::clone(&self.home),
            database: Arc::clone(&self.database),
            given: Arc::clone(&self.given),
            is_read_only: self.is_read_only,
            path: self.path.lasting(),
            user: self.user,
            of_defaults: false,
        }
    }

    fn writes(&self, function: &str) -> Result<()> {
        match self.is_read_only {
            true => Err(Error::transaction(
                SqlState::ReadOnlySqlTransaction,
                format!("{function}() changes a sequence, and the transaction is read only"),
            )),
            false => Ok(()),
        }
    }

    /// The log, where it knows the sequence: one that the transaction has just made is told of when it commits.
    fn journal_of(&self, name: &Name, sequence: &SequenceEntry) -> Option<&Arc<dyn Journal>> {
        if is_temporary(&name.schema) {
            return None;
        }
        let is_known =
            |state: &CatalogState| state.sequences().any(|(_, known)| Arc::ptr_eq(&known.values, &sequence.values));
        self.database.journal().filter(|_| Arc::ptr_eq(&self.home, &self.database) || is_known(&self.database.state()))
    }
}

impl Sequences for OfStatement {
    fn next(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        self.writes("nextval")?;
        let (name, sequence) = self.find(name)?;
        self.may(&name, Privileges::USAGE.and(Privileges::UPDATE))?;
        let journal = self.journal_of(&name, &sequence);
        let values = sequence.values.next((&name.shown(), &sequence), count as u64, journal)?;
        if let Some(last) = values.last() {
            self.given.give(sequence.id, *last);
        }
        Ok(values)
    }

    fn current(&self, name: &str) -> Result<i64> {
        let (name, sequence) = self.find(name)?;
        self.may(&name, Privileges::USAGE.and(Privileges::SELECT))?;
        let given = self.given.0.lock();
        given.by_sequence.get(&sequence.id).copied().ok_or_else(|| {
            Error::execution(
                SqlState::ObjectNotInPrerequisiteState,
                format!("this session has no value of sequence '{}' yet; nextval() gives one", name.shown()),
            )
        })
    }

    fn last(&self) -> Result<i64> {
        let state = self.state();
        let given = self.given.0.lock();
        let known = given.last.and_then(|id| state.sequences().find(|(_, sequence)| sequence.id == id));
        if let Some((name, _)) = known {
            self.may(name, Privileges::USAGE.and(Privileges::SELECT))?;
        }
        let last = known.map(|(_, sequence)| sequence.id);
        last.and_then(|last| given.by_sequence.get(&last).copied()).ok_or_else(|| {
            Error::execution(
                SqlState::ObjectNotInPrerequisiteState,
                "this session has no value of a sequence yet; nextval() gives one",
            )
        })
    }

    fn set(&self, name: &str, value: i64, is_called: bool) -> Result<()> {
        self.writes("setval")?;
        let (name, sequence) = self.find(name)?;
        self.may(&name, Privileges::UPDATE)?;
        let to = Position { last: value, is_called };
        sequence.values.set((&name.shown(), &sequence), to, self.journal_of(&name, &sequence))?;
        if is_called {
            self.given.0.lock().by_sequence.insert(sequence.id, value);
        }
        Ok(())
    }

    fn of_defaults(&self) -> Arc<dyn Sequences> {
        Arc::new(OfStatement { of_defaults: true, ..self.lasting() })
    }

    fn of_views(&self) -> Arc<dyn Sequences> {
        Arc::new(self.lasting())
    }

    fn of_column(&self, table: &str, column: &str) -> Result<Option<String>> {
        let state = self.state();
        let table = state.table(&self.path.resolve(&reference_of_text(table)?, &state)?)?;
        // As PostgreSQL has it, a column's name is taken as it stands.
        if table.base.schema.index_of(column).is_err() {
            let names = table.base.schema.fields().iter().map(|field| field.name().as_str());
            let nearest = nearest(column, names);
            return Err(Error::NotFound { kind: "column", name: column.into(), nearest });
        }
        let owned = state.owned_by(table.id, Some(column));
        Ok(owned.first().map(|(name, _)| format!("{}.{}", as_needed(&name.schema), as_needed(&name.table))))
    }
}

/// A name as it has to be written: in quotes where it is not as names without them are read.
pub(crate) fn as_needed(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() {
        true => name.to_string(),
        false => quoted(name),
    }
}
