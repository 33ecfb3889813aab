//! Foreign keys between tables: which there are, how one is defined, and what they forbid to be dropped or changed.

use std::sync::Arc;

use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::lengths::Length;
use crate::catalog::path::is_temporary;
use crate::catalog::placement::column_index;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::catalog::rules::ForeignKey;
use crate::catalog::{CatalogState, TableEntry};
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{WrittenForeignKey, object_reference};
use crate::statements::rules;

/// The foreign keys of other tables, and its own, that refer to a table.
pub(crate) fn referring(state: &CatalogState, table: u64) -> impl Iterator<Item = (&Arc<TableEntry>, &ForeignKey)> {
    let all = state.tables().flat_map(|child| child.rules.foreign_keys.iter().map(move |key| (child, key)));
    all.filter(move |(_, key)| key.to == table)
}

/// Whether more is to be done once a statement has written a table: it has foreign keys, or keys that are DEFERRABLE,
/// or others refer to it.
pub(crate) fn is_related(state: &CatalogState, table: &TableEntry) -> bool {
    !table.rules.foreign_keys.is_empty()
        || table.deferrable_keys().next().is_some()
        || referring(state, table.id).next().is_some()
}

/// Has a statement that writes a table which [is related](is_related) run as one of a transaction.
///
/// # Errors
/// It does not yet.
pub(crate) fn within_a_transaction(table: &TableEntry, running: &RunningStatement) -> Result<()> {
    // An import's tables are its own.
    let is_shared = Arc::ptr_eq(&running.home, &running.inner.catalog);
    match running.transaction.is_none() && is_shared && is_related(&running.catalog, table) {
        true => Err(running.wants_transaction()),
        false => Ok(()),
    }
}

/// Refuses who writes rows by another way than statements.
///
/// # Errors
/// The table [is related](is_related).
pub(crate) fn not_beside_statements(table: &TableEntry, running: &RunningStatement) -> Result<()> {
    match is_related(&running.catalog, table) {
        true => Err(Error::Unsupported(format!(
            "table '{}' has a foreign key or a DEFERRABLE one, or another's refers to it: its rows are written by \
             statements alone",
            table.name.shown()
        ))),
        false => Ok(()),
    }
}

/// The first foreign key of another table that refers to a table.
fn first_referring<'a>(state: &'a CatalogState, table: &TableEntry) -> Option<(&'a Arc<TableEntry>, &'a ForeignKey)> {
    let own = table.id;
    referring(state, own).find(move |(child, _)| child.id != own)
}

/// A foreign key of another table that refers to these columns, in whatever order.
pub(crate) fn referring_to<'a>(
    state: &'a CatalogState,
    table: u64,
    columns: &[String],
) -> Option<(&'a Arc<TableEntry>, &'a ForeignKey)> {
    referring(state, table).find(|(_, key)| {
        key.to_columns.len() == columns.len() && key.to_columns.iter().all(|column| columns.contains(column))
    })
}

/// Refuses to change a column that a foreign key is about, of the table or of another one.
///
/// # Errors
/// One is.
pub(crate) fn is_of_none(state: &CatalogState, table: &TableEntry, column: &str, verb: &str) -> Result<()> {
    let is = |columns: &[String]| columns.iter().any(|of| of == column);
    let own = table.rules.foreign_keys.iter().find(|key| is(&key.columns)).map(|key| (&table.name, key));
    let other = referring(state, table.id).find(|(_, key)| is(&key.to_columns)).map(|(child, key)| (&child.name, key));
    match own.or(other) {
        Some((of, key)) => Err(Error::plan(
            SqlState::DependentObjectsStillExist,
            format!(
                "column '{column}' cannot be {verb}: foreign key '{}' of table '{}' is about it; drop that first{}",
                key.name,
                of.shown(),
                if verb == "dropped" { ", or write CASCADE" } else { "" }
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses to drop or rename a column that another table's foreign key refers to.
///
/// # Errors
/// One does.
pub(crate) fn is_not_referred_to(state: &CatalogState, table: &TableEntry, column: &str, verb: &str) -> Result<()> {
    let is_other = |(child, key): &(&Arc<TableEntry>, &ForeignKey)| {
        child.id != table.id && key.to_columns.iter().any(|of| of == column)
    };
    match referring(state, table.id).find(is_other) {
        Some(_) => is_of_none(state, table, column, verb),
        None => Ok(()),
    }
}

/// Refuses to drop a schema into which a foreign key from outside refers.
///
/// # Errors
/// One does.
pub(crate) fn none_refers_into(state: &CatalogState, schema: &str) -> Result<()> {
    for child in state.tables().filter(|child| child.name.schema != schema) {
        let into = |key: &&ForeignKey| state.by_id(key.to).is_some_and(|parent| parent.name.schema == schema);
        if let Some(key) = child.rules.foreign_keys.iter().find(into) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "foreign key '{}' of table '{}' refers to a table of schema '{schema}'; drop that first",
                    key.name,
                    child.name.shown()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses to drop a schema with a type that columns of other schemas' tables have.
///
/// # Errors
/// There is one.
pub(crate) fn no_type_is_used_from_outside(state: &CatalogState, schema: &str) -> Result<()> {
    for table in state.tables().filter(|table| table.name.schema != schema) {
        let of_schema = |(_, length): &(&String, &Length)| length.enum_type().is_some_and(|of| of.schema == schema);
        if let Some((column, length)) = table.lengths.iter().find(of_schema) {
            let of = length.enum_type().map_or_else(String::new, |of| of.shown());
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!("column '{column}' of table '{}' is of type {of}; drop it first", table.name.shown()),
            ));
        }
    }
    Ok(())
}

/// The number of the enum that a column is of.
fn enum_of(table: &TableEntry, column: &str) -> Option<u64> {
    table.lengths.get(column).and_then(Length::enum_type).map(|of| of.id)
}

/// The error of TRUNCATE of a table that another one refers to.
pub(crate) fn not_emptied(table: &TableEntry, child: &TableEntry, key: &ForeignKey) -> Error {
    Error::plan(
        SqlState::FeatureNotSupported,
        format!(
            "table '{}' cannot be emptied by itself: foreign key '{}' of table '{}' refers to it; name both tables, or \
             write CASCADE",
            table.name.shown(),
            key.name,
            child.name.shown()
        ),
    )
}

/// Refuses to drop or replace a table that another's foreign key refers to.
///
/// # Errors
/// One does.
pub(crate) fn is_referred_to_by_none(state: &CatalogState, table: &TableEntry) -> Result<()> {
    match first_referring(state, table) {
        Some((child, key)) => Err(Error::plan(
            SqlState::DependentObjectsStillExist,
            format!(
                "table '{}' is referred to by foreign key '{}' of table '{}'; drop that first, or use CASCADE",
                table.name.shown(),
                key.name,
                child.name.shown()
            ),
        )),
        None => Ok(()),
    }
}

/// A foreign key as a table would have it.
///
/// # Errors
/// Tables and columns that there are not, columns of other types, columns that are no key of the other table, a name
/// that is taken.
pub(crate) fn foreign_key(
    table: &TableEntry,
    written: &WrittenForeignKey,
    running: &RunningStatement,
) -> Result<ForeignKey> {
    let state = &running.catalog;
    let reference = object_reference(&written.to)?;
    let name = running.resolve(&reference)?;
    // A table that is being made is not there to be found.
    let is_own = reference.schema().is_none() && reference.table() == table.name.table;
    let parent = match *table.name == name || is_own {
        true => table,
        false => state.table(&name)?.as_ref(),
    };
    if is_temporary(&table.name.schema) != is_temporary(&parent.name.schema) {
        return Err(Error::plan(
            SqlState::InvalidTableDefinition,
            "a foreign key is between temporary tables, or between tables that are not",
        ));
    }
    for column in &written.columns {
        column_index(&table.base.schema, column)?;
    }
    let to_columns = match written.to_columns.is_empty() {
        false => written.to_columns.clone(),
        true => match parent.indexes.iter().find(|index| index.origin == Origin::PrimaryKey) {
            Some(index) => index.columns.clone(),
            None => {
                return Err(Error::plan(
                    SqlState::UndefinedObject,
                    format!("table '{}' has no primary key to refer to; name the columns", parent.name.shown()),
                ));
            }
        },
    };
    if to_columns.len() != written.columns.len() {
        return Err(Error::plan(
            SqlState::InvalidForeignKey,
            format!(
                "a foreign key has as many columns as it refers to: ({}) and ({})",
                written.columns.join(", "),
                to_columns.join(", ")
            ),
        ));
    }
    if parent.id != table.id {
        let columns = to_columns.iter().cloned().collect();
        running.may().need_columns(&Thing::named(&parent.name), Privileges::REFERENCES, &columns)?;
    }
    for (column, to) in written.columns.iter().zip(&to_columns) {
        let from = table.base.schema.field(column_index(&table.base.schema, column)?).data_type();
        let into = parent.base.schema.field(column_index(&parent.base.schema, to)?).data_type();
        // Of numbers that are none of the other type a cast would make others.
        let enums = (enum_of(table, column), enum_of(parent, to));
        if enums.0 != enums.1 {
            return Err(Error::plan(
                SqlState::DatatypeMismatch,
                format!(
                    "column '{column}' cannot refer to '{to}' of table '{}': both have to be of one enum, or of none",
                    parent.name.shown()
                ),
            ));
        }
        let is_alike = from == into || from.is_integer() && into.is_integer() || from.is_string() && into.is_string();
        if !is_alike {
            return Err(Error::plan(
                SqlState::DatatypeMismatch,
                format!(
                    "column '{column}' is {}, and cannot refer to '{to}' of table '{}', which is {}",
                    sql_type(from),
                    parent.name.shown(),
                    sql_type(into)
                ),
            ));
        }
    }
    let is_key = |index: &IndexEntry| {
        index.unique && index.columns.len() == to_columns.len() && to_columns.iter().all(|column| index.is_over(column))
    };
    let is_late = |index: &IndexEntry| {
        let is_it = to_columns.iter().all(|column| index.is_over(column));
        index.is_deferrable() && is_it && index.columns.len() == to_columns.len()
    };
    if !parent.indexes.iter().any(is_key) && parent.indexes.iter().any(is_late) {
        return Err(Error::plan(
            SqlState::ObjectNotInPrerequisiteState,
            format!(
                "({}) is a key of table '{}' that is DEFERRABLE: a foreign key refers to one that is not",
                to_columns.join(", "),
                parent.name.shown()
            ),
        ));
    }
    let has_twice = to_columns.iter().enumerate().any(|(place, column)| to_columns[..place].contains(column));
    if has_twice || !parent.indexes.iter().any(is_key) {
        return Err(Error::plan(
            SqlState::InvalidForeignKey,
            format!(
                "({}) is no key of table '{}': a foreign key refers to the columns of a primary key, a UNIQUE \
                 constraint or a unique index",
                to_columns.join(", "),
                parent.name.shown()
            ),
        ));
    }
    let name = match &written.name {
        Some(name) => {
            rules::is_free(table, name)?;
            name.clone()
        }
        None => {
            let usual = usual_name(&table.name.table, &written.columns);
            let numbered = (1_u64..).map(|n| format!("{usual}{n}"));
            let mut names = std::iter::once(usual.clone()).chain(numbered);
            names.find(|name| rules::is_free(table, name).is_ok()).unwrap_or(usual)
        }
    };
    Ok(ForeignKey {
        name,
        columns: written.columns.clone(),
        to: parent.id,
        to_columns,
        on_delete: written.on_delete,
        on_update: written.on_update,
        is_full: written.is_full,
        deferral: written.deferral,
    })
}

/// A name for keys that nobody gave one.
fn usual_name(table: &str, columns: &[String]) -> String {
    format!("{table}_{}_fkey", columns.join("_"))
}
