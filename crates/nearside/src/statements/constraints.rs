//! `ALTER TABLE .. ADD | DROP | RENAME | VALIDATE CONSTRAINT`: keys and conditions of a table that is there.

use std::sync::Arc;

use sqlparser::ast::{CheckConstraint, Expr, IndexColumn, TableConstraint};

use crate::catalog::index::{IndexEntry, Origin, indexed};
use crate::catalog::placement::column_index;
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{WrittenCheck, normalised};
use crate::statements::alter_column::not_null;
use crate::statements::keys::{check_keys, key_indexes};
use crate::statements::rules;

/// Adds a constraint to a table that nobody else sees.
///
/// # Errors
/// Rows that break it, a name that is taken, columns that there are not.
pub(crate) fn add(
    table: &mut TableEntry,
    constraint: &TableConstraint,
    not_valid: bool,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    match constraint {
        TableConstraint::Check(CheckConstraint { name, expr, enforced: _ }) => {
            let written = WrittenCheck {
                name: name.clone().map(normalised),
                column: None,
                condition: Expr::clone(expr),
                is_valid: !not_valid,
            };
            let before: Vec<String> = rules::constraint_names(table).map(str::to_string).collect();
            rules::add_check(table, &written, running)?;
            let added = table.rules.checks.iter().find(|check| !before.contains(&check.name)).cloned();
            match added.filter(|_| !not_valid) {
                Some(check) => rules::is_kept_by_all(table, &check, running),
                None => Ok(()),
            }
        }
        TableConstraint::PrimaryKey(key) => {
            add_key(table, key.name.as_ref(), Origin::PrimaryKey, &key.columns, running)
        }
        TableConstraint::Unique(key) => add_key(table, key.name.as_ref(), Origin::Unique, &key.columns, running),
        other => Err(Error::Unsupported(format!("ALTER TABLE .. ADD {other} is not supported"))),
    }
}

fn add_key(
    table: &mut TableEntry,
    name: Option<&sqlparser::ast::Ident>,
    origin: Origin,
    columns: &[IndexColumn],
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let columns = columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(name) => Ok(normalised(name.clone())),
        other => Err(Error::Unsupported(format!("a key over {other} is not supported: it is over columns"))),
    });
    let columns = columns.collect::<Result<Vec<String>>>()?;
    for column in &columns {
        column_index(&table.base.schema, column)?;
    }
    if origin == Origin::PrimaryKey && table.indexes.iter().any(|index| index.origin == Origin::PrimaryKey) {
        return Err(Error::plan(
            SqlState::InvalidTableDefinition,
            format!("table '{}' has a primary key already; a table has one", table.name.shown()),
        ));
    }
    let name = match name {
        Some(name) => {
            let name = normalised(name.clone());
            rules::is_free(table, &name)?;
            let full = Name { schema: table.name.schema.clone(), table: name.clone() };
            if running.catalog.index(&full).is_some() {
                return Err(Error::Exists { kind: "index", name: full.shown() });
            }
            name
        }
        None => String::new(),
    };
    if origin == Origin::PrimaryKey {
        columns.iter().try_for_each(|column| not_null(table, column, running))?;
    }
    let indexes = key_indexes(vec![(origin, columns)], &table.base.schema)?;
    let named = indexes.into_iter().map(|index| IndexEntry { name: name.clone(), ..index });
    table.indexes = Arc::new(table.indexes.iter().cloned().chain(named).collect());
    let with_key = indexed(table.clone(), running)?;
    check_keys(&with_key, None, running)?;
    *table = with_key.into_table();
    Ok(())
}

/// Takes a constraint away.
///
/// # Errors
/// There is none of that name.
pub(crate) fn drop_one(table: &mut TableEntry, name: &str, if_exists: bool) -> Result<()> {
    if let Some(place) = table.rules.checks.iter().position(|check| check.name == name) {
        Arc::make_mut(&mut table.rules).checks.remove(place);
        return Ok(());
    }
    if let Some(place) = table.indexes.iter().position(|index| index.is_key() && index.name == name) {
        Arc::make_mut(&mut table.indexes).remove(place);
        return Ok(());
    }
    match if_exists {
        true => Ok(()),
        false => Err(missing(table, name)),
    }
}

/// Gives a constraint another name.
///
/// # Errors
/// There is none of that name; the other name is taken.
pub(crate) fn rename(table: &mut TableEntry, from: &str, to: &str, running: &RunningStatement) -> Result<()> {
    if from != to {
        rules::is_free(table, to)?;
    }
    if let Some(place) = table.rules.checks.iter().position(|check| check.name == from) {
        let all = Arc::make_mut(&mut table.rules);
        let mut check = all.checks.remove(place);
        check.name = to.into();
        all.add(check);
        return Ok(());
    }
    if let Some(place) = table.indexes.iter().position(|index| index.is_key() && index.name == from) {
        let full = Name { schema: table.name.schema.clone(), table: to.into() };
        if from != to && running.catalog.index(&full).is_some() {
            return Err(Error::Exists { kind: "index", name: full.shown() });
        }
        Arc::make_mut(&mut table.indexes)[place].name = to.into();
        return Ok(());
    }
    Err(missing(table, from))
}

/// Looks whether all rows keep a condition that was added without that.
///
/// # Errors
/// A row does not; there is none of that name.
pub(crate) fn validate(table: &mut TableEntry, name: &str, running: &Arc<RunningStatement>) -> Result<()> {
    let Some(place) = table.rules.checks.iter().position(|check| check.name == name) else {
        return match table.indexes.iter().any(|index| index.is_key() && index.name == name) {
            true => Err(Error::plan(
                SqlState::WrongObjectType,
                format!("constraint '{name}' is a key, which all rows keep anyway"),
            )),
            false => Err(missing(table, name)),
        };
    };
    let check = table.rules.checks[place].clone();
    if !check.is_valid {
        rules::is_kept_by_all(table, &check, running)?;
        Arc::make_mut(&mut table.rules).checks[place].is_valid = true;
    }
    Ok(())
}

fn missing(table: &TableEntry, name: &str) -> Error {
    let nearest = nearest(name, rules::constraint_names(table));
    let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean '{nearest}'?"));
    Error::plan(SqlState::UndefinedObject, format!("table '{}' has no constraint '{name}'{hint}", table.name.shown()))
}
