//! DECLARE, FETCH, MOVE and CLOSE of a session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use crate::api::cursors::{Cursor, Rows};
use crate::api::session::Session;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::{Done, Outcome};
use crate::run::stream::ResultStream;
use crate::run::transaction::Transaction;
use crate::sql::{AnyStatement, CursorStatement, Declared};

/// How many cursors a session may have.
const CURSORS_MAX: usize = 1024;

impl Session {
    /// Runs a statement about cursors. A query is run by `run`, which is given its text, too.
    pub(super) fn cursor(
        &self,
        statement: CursorStatement,
        run: impl FnOnce(AnyStatement, String) -> Result<Outcome>,
    ) -> Result<Outcome> {
        match statement {
            CursorStatement::Declare(declared) => self.declare(*declared, run),
            CursorStatement::Fetch { name, direction, moves } => {
                let cursor = self.found(&name)?;
                let mut cursor = cursor.lock();
                let schema = Arc::clone(&cursor.rows.schema);
                let batches = cursor.fetch(direction)?;
                if moves {
                    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
                    return Ok(Outcome::Done(Done { rows: Some(rows), ..Done::new("MOVE") }));
                }
                Ok(Outcome::Rows(ResultStream::ready(schema, batches)))
            }
            CursorStatement::Close(Some(name)) => {
                self.found(&name)?;
                self.shared.cursors.0.lock().remove(&name);
                Ok(Outcome::Done(Done::new("CLOSE CURSOR")))
            }
            CursorStatement::Close(None) => {
                self.shared.cursors.0.lock().clear();
                Ok(Outcome::Done(Done::new("CLOSE CURSOR ALL")))
            }
        }
    }

    fn declare(
        &self,
        declared: Declared,
        run: impl FnOnce(AnyStatement, String) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let Declared { name, scrolls, holds, query, sql } = declared;
        let open = self.shared.transaction.open();
        if open.is_none() && !holds {
            return Err(Error::transaction(
                SqlState::NoActiveSqlTransaction,
                "a cursor ends with its transaction: BEGIN one before DECLARE, or declare it WITH HOLD",
            ));
        }
        self.end_cursors();
        let savepoints = open.as_ref().map_or(0, |open| open.savepoints.load(Ordering::Relaxed));
        let mut cursors = self.shared.cursors.0.lock();
        if cursors.contains_key(&name) {
            return Err(Error::transaction(SqlState::DuplicateCursor, format!("cursor '{name}' already exists")));
        }
        if cursors.len() >= CURSORS_MAX {
            return Err(Error::transaction(
                SqlState::ProgramLimitExceeded,
                format!("a session has {CURSORS_MAX} cursors at most; CLOSE some"),
            ));
        }
        if matches!(&query, AnyStatement::Locking(_)) {
            return Err(Error::Unsupported(
                "FOR UPDATE or FOR SHARE of a cursor is not supported; lock the rows by a SELECT of their own".into(),
            ));
        }
        let is_query = matches!(&query, AnyStatement::Sql(statement) if is_query(statement));
        let rows = match is_query {
            true => run(query, sql)?,
            false => return Err(Error::syntax("a cursor is declared FOR a query")),
        };
        let Outcome::Rows(stream) = rows else { return Err(Error::Internal("a query without rows".into())) };
        let rows = Rows::of(stream);
        let of = open.as_ref().map(Arc::downgrade);
        cursors.insert(name, Arc::new(Mutex::new(Cursor { rows, scrolls, holds, of, savepoints })));
        Ok(Outcome::Done(Done::new("DECLARE CURSOR")))
    }

    fn found(&self, name: &str) -> Result<Arc<Mutex<Cursor>>> {
        self.end_cursors();
        let found = self.shared.cursors.0.lock().get(name).cloned();
        found.ok_or_else(|| {
            Error::transaction(SqlState::InvalidCursorName, format!("cursor '{name}' does not exist; DECLARE it first"))
        })
    }

    /// Ends the cursors of transactions that are over.
    pub(super) fn end_cursors(&self) {
        let open = self.shared.transaction.open();
        let is_open = |of: &Weak<Transaction>| open.as_ref().is_some_and(|open| of.as_ptr() == Arc::as_ptr(open));
        self.shared.cursors.0.lock().retain(|_, cursor| match cursor.try_lock() {
            Some(cursor) => cursor.of.as_ref().is_none_or(is_open),
            // Somebody takes rows of it.
            None => true,
        });
    }

    /// Lets cursors WITH HOLD outlive their transaction, which has committed.
    pub(super) fn hold_cursors(&self) {
        for cursor in self.shared.cursors.0.lock().values() {
            let mut cursor = cursor.lock();
            if cursor.holds {
                cursor.of = None;
            }
        }
    }

    /// Ends the cursors that a transaction has declared since a savepoint.
    pub(super) fn end_cursors_since(&self, transaction: &Arc<Transaction>, savepoint: u64) {
        self.shared.cursors.0.lock().retain(|_, cursor| {
            let cursor = cursor.lock();
            let is_of = cursor.of.as_ref().is_some_and(|of| of.as_ptr() == Arc::as_ptr(transaction));
            !is_of || cursor.savepoints < savepoint
        });
    }

    /// Ends all cursors.
    pub(super) fn close_cursors(&self) {
        self.shared.cursors.0.lock().clear();
    }

    /// The columns of what FETCH of a cursor gives; `None` where there is no such cursor.
    pub fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        let cursor = self.found(name).ok()?;
        let schema = Arc::clone(&cursor.lock().rows.schema);
        Some(schema)
    }

    /// The same of a statement, if it is FETCH.
    pub fn fetched_columns(&self, sql: &str) -> Option<SchemaRef> {
        match AnyStatement::one(sql).ok()? {
            AnyStatement::Cursor(CursorStatement::Fetch { name, moves: false, .. }) => self.cursor_columns(&name),
            _ => None,
        }
    }
}

fn is_query(statement: &datafusion_sql::parser::Statement) -> bool {
    matches!(statement, datafusion_sql::parser::Statement::Statement(inner)
        if matches!(inner.as_ref(), sqlparser::ast::Statement::Query(_)))
}
