//! VACUUM and ANALYZE, and TRUNCATE of several tables.

use std::sync::Arc;

use sqlparser::ast::{CascadeOption, ObjectName, Truncate, TruncateIdentityOption};

use crate::catalog::placement::column_index;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::catalog::{Entry, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::Upkeep;
use crate::statements::merging;
use crate::statements::write;
use crate::statements::writer::as_small_writer;
use crate::statements::{relations, sequences};

/// VACUUM merges and compacts; ANALYZE has nothing to do, since what is known of columns is always so.
///
/// # Errors
/// Names that are no table's or column's; VACUUM in a transaction, or that has failed.
pub(crate) fn keep_up(upkeep: &Upkeep, running: &Arc<RunningStatement>) -> Result<Done> {
    let tag = if upkeep.vacuums { "VACUUM" } else { "ANALYZE" };
    if upkeep.vacuums && running.transaction.as_ref().is_some_and(|of| !of.is_implicit) {
        return Err(Error::transaction(
            SqlState::ActiveSqlTransaction,
            "VACUUM is for what everybody sees: run it outside of a transaction",
        ));
    }
    let mut tables = Vec::new();
    for (name, columns) in &upkeep.tables {
        let table = stored(name, tag, running)?;
        columns.iter().try_for_each(|column| column_index(&table.base.schema, column).map(|_| ()))?;
        tables.push(table);
    }
    if upkeep.vacuums {
        if upkeep.tables.is_empty() {
            tables = running.catalog.tables().cloned().collect();
        }
        tables.iter().try_for_each(|table| merging::vacuum(table, running))?;
    }
    Ok(Done::new(tag))
}

/// Whether a TRUNCATE is about more than the rows of one table.
pub(crate) fn is_of_several(truncate: &Truncate) -> bool {
    truncate.table_names.len() > 1 || restarts(truncate) || cascades(truncate)
}

/// `RESTART IDENTITY`.
fn restarts(truncate: &Truncate) -> bool {
    matches!(truncate.identity, Some(TruncateIdentityOption::Restart))
}

/// `CASCADE`.
fn cascades(truncate: &Truncate) -> bool {
    matches!(truncate.cascade, Some(CascadeOption::Cascade))
}

/// TRUNCATE of several tables, as one statement of a transaction: all or none.
///
/// # Errors
/// Names that are no table's, tables that others have locked.
pub(crate) fn truncate(truncate: &Truncate, running: &Arc<RunningStatement>) -> Result<Done> {
    let named = truncate.table_names.iter().map(|target| stored(&target.name, "TRUNCATE", running));
    let mut tables = named.collect::<Result<Vec<_>>>()?;
    if let Some(view) = tables.iter().find(|table| table.materialized.is_some()) {
        let text = format!("'{}' is a materialized view, and TRUNCATE is for tables", view.name.shown());
        return Err(Error::plan(SqlState::WrongObjectType, text));
    }
    if running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    let mut place = 0;
    while let Some(table) = tables.get(place).cloned() {
        place += 1;
        for (child, key) in relations::referring(&running.catalog, table.id) {
            let is_named = tables.iter().any(|known| known.id == child.id);
            match is_named || cascades(truncate) {
                true if is_named => {}
                true => tables.push(Arc::clone(child)),
                false => return Err(relations::not_emptied(&table, child, key)),
            }
        }
    }
    let may = running.may();
    tables.iter().try_for_each(|table| may.need(&Thing::named(&table.name), Privileges::TRUNCATE))?;
    tables.sort_by_key(|table| table.id);
    tables.dedup_by_key(|table| table.id);
    let mut rows = 0;
    for table in tables {
        let done = as_small_writer(&table.name, running, write::truncate)?;
        rows += done.rows.unwrap_or(0);
        if restarts(truncate) {
            running.home.commit(|state| sequences::restart(state, table.id))?;
        }
    }
    Ok(Done::rows("TRUNCATE", rows))
}

fn stored(name: &ObjectName, statement: &str, running: &RunningStatement) -> Result<Arc<TableEntry>> {
    let name = running.named(name)?;
    match running.catalog.get(&name) {
        Some(Entry::Table(table)) => Ok(Arc::clone(table)),
        Some(other) => Err(Error::plan(
            SqlState::WrongObjectType,
            format!("'{}' is {}, and {statement} is for tables", name.shown(), other.described()),
        )),
        None => Err(running.catalog.not_found("table", &name)),
    }
}
