//! CREATE, ALTER and DROP TYPE, of enums.
//!
//! Columns of an enum have it in their rules, with its labels: a statement that changes an enum changes the tables that
//! have such columns too, all or none.

use std::sync::Arc;

use sqlparser::ast::ObjectName;

use crate::catalog::index::indexed;
use crate::catalog::lengths::Length;
use crate::catalog::user_types::{EnumType, LABEL_BYTES, TypeEntry, no_type};
use crate::catalog::{CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{Beside, TypeStatement, object_reference};
use crate::statements::writer::as_owner;
use crate::statements::{alter_column, dropping, rules};

/// Carries out a statement about types.
///
/// # Errors
/// Names and labels that are taken or that there are not, columns of a type that goes.
pub(crate) fn run(statement: &TypeStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        TypeStatement::Create { name, labels } => create(name, labels, running),
        TypeStatement::AddValue { name, label, if_not_exists, place } => {
            check_label(label)?;
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            if of.place(label).is_some() {
                return match if_not_exists {
                    true => Ok(Done::new("ALTER TYPE")),
                    false => Err(taken(&of, label)),
                };
            }
            let place = match place {
                None => of.labels.len(),
                Some((beside, other)) => found(&of, other)? + usize::from(*beside == Beside::After),
            };
            let mut changed = EnumType::clone(&of);
            changed.labels.insert(place, label.clone());
            change(&name, changed, None, running)
        }
        TypeStatement::RenameValue { name, from, to } => {
            check_label(to)?;
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            let place = found(&of, from)?;
            if of.place(to).is_some() {
                return Err(taken(&of, to));
            }
            let mut changed = EnumType::clone(&of);
            changed.labels[place].clone_from(to);
            change(&name, changed, Some((from, to)), running)
        }
        TypeStatement::Rename { name, to } => {
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            change(&name, EnumType { name: to.clone(), ..EnumType::clone(&of) }, None, running)
        }
        TypeStatement::Drop { names, if_exists, cascade } => drop_all(names, (*if_exists, *cascade), running),
    }
}

fn create(name: &ObjectName, labels: &[String], running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.new_name(&object_reference(name)?, false)?;
    for (place, label) in labels.iter().enumerate() {
        check_label(label)?;
        if labels[..place].contains(label) {
            return Err(Error::plan(
                SqlState::DuplicateObject,
                format!("enum '{}': the label '{label}' stands twice", name.shown()),
            ));
        }
    }
    let of = EnumType {
        id: running.home.next_id(),
        schema: name.schema.clone(),
        name: name.table.clone(),
        labels: labels.to_vec(),
    };
    let entry = Arc::new(TypeEntry { of: Arc::new(of), comments: Arc::default() });
    running.home.commit(|state| {
        is_free(state, &name)?;
        state.put_type(name.clone(), entry)
    })?;
    Ok(Done::new("CREATE TYPE"))
}

fn is_free(state: &CatalogState, name: &Name) -> Result<()> {
    match state.get(name) {
        Some(taken) => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
        None => Ok(()),
    }
}

fn check_label(label: &str) -> Result<()> {
    match label.len() > LABEL_BYTES {
        true => Err(Error::plan(
            SqlState::InvalidName,
            format!("the label '{label}' is too long; labels have at most {LABEL_BYTES} bytes"),
        )),
        false => Ok(()),
    }
}

fn taken(of: &EnumType, label: &str) -> Error {
    Error::plan(SqlState::DuplicateObject, format!("enum {} has the label '{label}' already", of.shown()))
}

fn found(of: &EnumType, label: &str) -> Result<usize> {
    let none = || Error::plan(SqlState::InvalidParameterValue, format!("enum {} has no label '{label}'", of.shown()));
    of.place(label).ok_or_else(none)
}

/// Makes an enum another, in the catalog and in the tables that have columns of it, whose values `renamed` says.
fn change(
    name: &Name,
    changed: EnumType,
    renamed: Option<(&str, &str)>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let to = Name { schema: name.schema.clone(), table: changed.name.clone() };
    let of = Arc::new(changed);
    let columns = running.catalog.columns_of_enum(of.id);
    if !columns.is_empty() && running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    for (table, columns) in columns {
        as_owner(&table, running, |entry, running| {
            let mut changed = with_enum(entry, &columns, &of, running)?;
            if let Some(renamed) = renamed {
                changed = alter_column::with_labels(entry, &changed, &columns, renamed, running)?;
            }
            let changed = indexed(changed, running)?;
            let _ahead = running.home.ahead(&changed.table().base)?;
            running.home.commit(|state| state.put_table(table.clone(), changed))
        })?;
    }
    running.home.commit(|state| {
        let comments = Arc::clone(&state.user_type(name)?.comments);
        if to != *name {
            is_free(state, &to)?;
        }
        state.remove(name);
        state.put_type(to.clone(), Arc::new(TypeEntry { of: Arc::clone(&of), comments }))
    })?;
    Ok(Done::new("ALTER TYPE"))
}

/// A table whose columns have another state of their enum.
fn with_enum(
    table: &TableEntry,
    columns: &[String],
    of: &Arc<EnumType>,
    running: &Arc<RunningStatement>,
) -> Result<TableEntry> {
    let mut changed = table.clone();
    for column in columns {
        Arc::make_mut(&mut changed.lengths).insert(column.clone(), Length::of_enum(Arc::clone(of)));
    }
    for column in columns {
        changed.rules = Arc::new(rules::retyped(&changed, column, running)?);
    }
    Ok(changed)
}

fn drop_all(
    names: &[ObjectName],
    (if_exists, cascade): (bool, bool),
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let mut going: Vec<(Name, Arc<EnumType>)> = Vec::new();
    for name in names {
        let name = running.named(name)?;
        match running.catalog.get(&name) {
            Some(Entry::Type(found)) => going.push((name, Arc::clone(&found.of))),
            None if if_exists => {}
            _ => return Err(no_type(&name.shown())),
        }
    }
    for (_, of) in &going {
        let columns = running.catalog.columns_of_enum(of.id);
        if let (Some((table, columns)), false) = (columns.first(), cascade) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "column '{}' of table '{}' is of type {}; drop it first, or use CASCADE",
                    columns[0],
                    table.shown(),
                    of.shown()
                ),
            ));
        }
        if !columns.is_empty() && running.transaction.is_none() {
            return Err(running.wants_transaction());
        }
        for (table, columns) in columns {
            dropping::drop_columns(&table, &columns, running)?;
        }
    }
    running.home.commit(|state| {
        going.iter().for_each(|(name, _)| drop(state.remove(name)));
        Ok(())
    })?;
    Ok(Done::new("DROP TYPE"))
}
