//! `ALTER TABLE .. ADD | ALTER | DROP | RENAME | VALIDATE CONSTRAINT`, and what SET CONSTRAINTS names: keys and
//! conditions of a table that is there.

use std::sync::Arc;

use sqlparser::ast::{CheckConstraint, Expr, Ident, IndexColumn, ObjectName, TableConstraint};

use crate::catalog::comments::Part;
use crate::catalog::index::{IndexEntry, Origin, indexed};
use crate::catalog::placement::column_index;
use crate::catalog::rules::{Deferral, ForeignKey};
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{WrittenCheck, WrittenForeignKey, deferral, normalised, object_reference};
use crate::statements::alter_column::not_null;
use crate::statements::keys::{check_keys, key_indexes};
use crate::statements::{referential, relations, rules};

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
        TableConstraint::ForeignKey(key) => {
            if not_valid {
                return Err(Error::Unsupported(
                    "NOT VALID of a foreign key is not supported; leave it out, the rows that are there are looked at"
                        .into(),
                ));
            }
            add_foreign_key(table, &WrittenForeignKey::of(key, None, None), running)
        }
        TableConstraint::PrimaryKey(key) => {
            let written = (key.name.as_ref(), deferral(key.characteristics.as_ref()));
            add_key(table, written, Origin::PrimaryKey, columns_of(&key.columns)?, running)
        }
        TableConstraint::Unique(key) => {
            let written = (key.name.as_ref(), deferral(key.characteristics.as_ref()));
            add_key(table, written, Origin::Unique, columns_of(&key.columns)?, running)
        }
        other => Err(Error::Unsupported(format!("ALTER TABLE .. ADD {other} is not supported"))),
    }
}

/// Adds a foreign key to a table that nobody else sees, whose rows keep it.
///
/// # Errors
/// Rows that do not; what [`relations::foreign_key`] refuses.
pub(crate) fn add_foreign_key(
    table: &mut TableEntry,
    written: &WrittenForeignKey,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let key = relations::foreign_key(table, written, running)?;
    if Arc::ptr_eq(&running.home, &running.inner.catalog) {
        return Err(running.wants_transaction());
    }
    // The table that is referred to stays as it is until this is committed.
    if let Some(of) = running.transaction.as_ref().filter(|_| key.to != table.id) {
        of.wants_unchanged(key.to);
    }
    Arc::make_mut(&mut table.rules).refer(key.clone());
    referential::is_kept_by_all(table, &key, running)
}

/// Adds the keys of a column that was just added.
///
/// # Errors
/// As [`add`].
pub(crate) fn add_keys(
    table: &mut TableEntry,
    column: &str,
    keys: &[(Origin, Option<Ident>, Deferral)],
    running: &Arc<RunningStatement>,
) -> Result<()> {
    keys.iter().try_for_each(|(origin, name, deferral)| {
        add_key(table, (name.as_ref(), *deferral), *origin, vec![column.to_string()], running)
    })
}

fn columns_of(columns: &[IndexColumn]) -> Result<Vec<String>> {
    let columns = columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(name) => Ok(normalised(name.clone())),
        other => Err(Error::Unsupported(format!("a key over {other} is not supported: it is over columns"))),
    });
    columns.collect()
}

fn add_key(
    table: &mut TableEntry,
    (name, deferral): (Option<&Ident>, Deferral),
    origin: Origin,
    columns: Vec<String>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
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
            is_free_for_index(table, &full, running)?;
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
    if let Some(added) = Arc::make_mut(&mut table.indexes).last_mut() {
        *added = added.clone().deferrable(deferral);
    }
    Ok(())
}

/// Fails where an index has a name: one of this table that its statement has dropped has it no more.
fn is_free_for_index(table: &TableEntry, name: &Name, running: &RunningStatement) -> Result<()> {
    let has_own = table.indexes.iter().any(|index| index.name == name.table);
    let other = running.catalog.index(name).is_some_and(|(of, _)| of.id != table.id);
    match has_own || other {
        true => Err(Error::Exists { kind: "index", name: name.shown() }),
        false => Ok(()),
    }
}

/// Takes a constraint away.
///
/// # Errors
/// There is none of that name.
pub(crate) fn drop_one(table: &mut TableEntry, name: &str, if_exists: bool, running: &RunningStatement) -> Result<()> {
    if let Some(place) = table.rules.foreign_keys.iter().position(|key| key.name == name) {
        Arc::make_mut(&mut table.rules).foreign_keys.remove(place);
        return Ok(());
    }
    if let Some(place) = table.rules.checks.iter().position(|check| check.name == name) {
        Arc::make_mut(&mut table.rules).checks.remove(place);
        return Ok(());
    }
    if let Some(place) = table.indexes.iter().position(|index| index.is_key() && index.name == name) {
        let columns = table.indexes[place].columns.clone();
        if let Some((child, key)) = relations::referring_to(&running.catalog, table.id, &columns) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "constraint '{name}' is what foreign key '{}' of table '{}' refers to; drop that first",
                    key.name,
                    child.name.shown()
                ),
            ));
        }
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
    Arc::make_mut(&mut table.comments).rename(Part::Constraint, from, to);
    if let Some(place) = table.rules.checks.iter().position(|check| check.name == from) {
        let all = Arc::make_mut(&mut table.rules);
        let mut check = all.checks.remove(place);
        check.name = to.into();
        all.add(check);
        return Ok(());
    }
    if let Some(place) = table.rules.foreign_keys.iter().position(|key| key.name == from) {
        let all = Arc::make_mut(&mut table.rules);
        let mut key = all.foreign_keys.remove(place);
        key.name = to.into();
        all.refer(key);
        return Ok(());
    }
    if let Some(place) = table.indexes.iter().position(|index| index.is_key() && index.name == from) {
        let full = Name { schema: table.name.schema.clone(), table: to.into() };
        if from != to {
            is_free_for_index(table, &full, running)?;
        }
        Arc::make_mut(&mut table.indexes)[place].name = to.into();
        Arc::make_mut(&mut table.comments).rename(Part::Index, from, to);
        return Ok(());
    }
    Err(missing(table, from))
}

/// Has a foreign key looked at by each statement, or at COMMIT.
///
/// # Errors
/// There is none of that name, or it is another constraint.
pub(crate) fn defer(table: &mut TableEntry, name: &str, deferral: Deferral) -> Result<()> {
    if let Some(place) = table.rules.foreign_keys.iter().position(|key| key.name == name) {
        Arc::make_mut(&mut table.rules).foreign_keys[place].deferral = deferral;
        return Ok(());
    }
    match rules::constraint_names(table).any(|known| known == name) {
        true => Err(Error::plan(
            SqlState::WrongObjectType,
            format!("constraint '{name}' of table '{}' is no foreign key: ALTER is for these", table.name.shown()),
        )),
        false => Err(missing(table, name)),
    }
}

/// The keys of these names, foreign keys and others, that SET CONSTRAINTS is about, each by the number of its table and
/// its name. Those of all tables of a schema which have the name; without a schema the first one that has any.
///
/// # Errors
/// There is no constraint of a name, or one that is to be deferred is not DEFERRABLE.
pub(crate) fn deferrable(
    names: &[ObjectName],
    is_deferred: bool,
    running: &RunningStatement,
) -> Result<Vec<(u64, String)>> {
    let state = &running.catalog;
    let path = running.path();
    let mut all = Vec::new();
    for name in names {
        let reference = object_reference(name)?;
        let schemas: Vec<String> = match reference.schema() {
            Some(_) => vec![running.resolve(&reference)?.schema],
            None => path.existing(state).map(String::from).collect(),
        };
        let wanted = reference.table();
        let has = |table: &&Arc<TableEntry>| rules::constraint_names(table).any(|known| known == wanted);
        let within = |schema: &String| {
            state.tables().filter(|table| table.name.schema == *schema).filter(has).collect::<Vec<_>>()
        };
        let Some(tables) = schemas.iter().map(within).find(|tables| !tables.is_empty()) else {
            return Err(Error::plan(SqlState::UndefinedObject, format!("there is no constraint '{wanted}'")));
        };
        for table in tables {
            let is_it = |key: &&ForeignKey| key.name == wanted && key.deferral != Deferral::Never;
            let is_deferrable = table.rules.foreign_keys.iter().any(|key| is_it(&key))
                || table.deferrable_keys().any(|key| key.name == wanted);
            match is_deferrable {
                true => all.push((table.id, wanted.to_string())),
                // What is never deferred is IMMEDIATE anyway.
                false if !is_deferred => {}
                false => {
                    return Err(Error::plan(
                        SqlState::WrongObjectType,
                        format!("constraint '{wanted}' of table '{}' is not DEFERRABLE", table.name.shown()),
                    ));
                }
            }
        }
    }
    Ok(all)
}

/// Looks whether all rows keep a condition that was added without that.
///
/// # Errors
/// A row does not; there is none of that name.
pub(crate) fn validate(table: &mut TableEntry, name: &str, running: &Arc<RunningStatement>) -> Result<()> {
    let Some(place) = table.rules.checks.iter().position(|check| check.name == name) else {
        let is_other = rules::constraint_names(table).any(|known| known == name);
        return match is_other {
            true => Err(Error::plan(
                SqlState::WrongObjectType,
                format!("constraint '{name}' is no CHECK: all rows keep it anyway"),
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
