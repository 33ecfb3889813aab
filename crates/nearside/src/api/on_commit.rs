//! `ON COMMIT DELETE ROWS` and `DROP` of temporary tables.
//!
//! A session remembers such tables by their numbers. What they do is part of the transaction that is committed, its
//! last step; a statement by itself is followed by a transaction that does it. A table that was rolled back is not
//! there when the next transaction ends, and is forgotten.

use std::sync::Arc;

use datafusion_sql::parser::Statement;
use parking_lot::Mutex;
use sqlparser::ast::{self, Ident, ObjectName, OnCommit};

use crate::catalog::{CatalogState, Entry, Name, TableEntry};
use crate::error::Result;
use crate::run::outcome::{Done, Outcome};
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, quoted};
use crate::statements::dropping::{self, Dropped};
use crate::statements::upkeep;

/// The tables that do something, and whether they go.
#[derive(Debug, Default)]
pub(super) struct OnCommits(Mutex<Vec<(u64, bool)>>);

impl OnCommits {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// A table was made that does something.
    pub(super) fn remember(&self, name: &Name, said: Option<&OnCommit>, running: &RunningStatement) {
        let goes = match said {
            Some(OnCommit::Drop) => true,
            Some(OnCommit::DeleteRows) => false,
            Some(OnCommit::PreserveRows) | None => return,
        };
        if let Some(Entry::Table(table)) = running.home.state().get(name) {
            self.0.lock().push((table.id, goes));
        }
    }

    /// Those that there are, and that go or not.
    fn of(&self, goes: bool, running: &RunningStatement) -> Vec<Arc<TableEntry>> {
        let all = self.0.lock();
        let those = all.iter().filter(|(_, go)| *go == goes);
        those.filter_map(|(table, _)| running.catalog.by_id(*table).cloned()).collect()
    }

    /// Forgets those that are not in a state of the database.
    pub(super) fn forget_gone(&self, now: &CatalogState) {
        self.0.lock().retain(|(table, _)| now.by_id(*table).is_some());
    }

    /// Empties those that are to be empty: a step of a transaction.
    ///
    /// # Errors
    /// One that is not refers to one.
    pub(super) fn empty(&self, running: &Arc<RunningStatement>) -> Result<Outcome> {
        let tables = self.of(false, running);
        if tables.iter().any(|table| table.live_rows() > 0) {
            let names: Vec<String> = tables.iter().map(|table| shown(&table.name)).collect();
            if let AnyStatement::Sql(statement) = AnyStatement::one(&format!("TRUNCATE {}", names.join(", ")))?
                && let Statement::Statement(statement) = *statement
                && let ast::Statement::Truncate(truncate) = *statement
            {
                upkeep::truncate(&truncate, running)?;
            }
        }
        Ok(Outcome::Done(Done::new("COMMIT")))
    }

    /// Drops those that are to go, with views over them: a step of a transaction.
    ///
    /// # Errors
    /// None that dropping does not have.
    pub(super) fn drop(&self, running: &Arc<RunningStatement>) -> Result<Outcome> {
        let tables = self.of(true, running);
        if !tables.is_empty() {
            let quoted = |part: &String| Ident::with_quote('"', part);
            let name =
                |table: &Arc<TableEntry>| ObjectName::from(vec![quoted(&table.name.schema), quoted(&table.name.table)]);
            let names: Vec<ObjectName> = tables.iter().map(name).collect();
            dropping::drop_all(Dropped::Tables, &names, (true, true), running)?;
        }
        Ok(Outcome::Done(Done::new("COMMIT")))
    }
}

fn shown(name: &Name) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}
