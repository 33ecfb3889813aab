//! `COMMENT ON`: what is said of what has a name, for people and tools to read.
//!
//! # Limits
//! Of columns of views nothing is kept; that is refused by name.

use std::sync::Arc;

use crate::catalog::comments::{Comments, Part};
use crate::catalog::index::indexed;
use crate::catalog::placement::column_index;
use crate::catalog::rights::Thing;
use crate::catalog::{CATALOG, CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{CommentOn, Commented, object_reference};
use crate::statements::writer::as_owner;
use crate::statements::{made_functions, roles, rules};

/// Says it.
///
/// # Errors
/// There is no such thing, or it is another one.
pub(crate) fn comment(of: &CommentOn, running: &Arc<RunningStatement>) -> Result<Done> {
    let text = of.text.as_deref();
    match &of.what {
        Commented::Relation { kind, name } => {
            let name = running.named(name)?;
            is_a(kind, &name, &running.catalog)?;
            say(&name, None, text, running)?;
        }
        Commented::Column { table, column } => {
            let name = running.named(table)?;
            match running.catalog.get(&name) {
                Some(Entry::Table(table)) => drop(column_index(&table.base.schema, column)?),
                Some(Entry::Sequence(_) | Entry::Type(_) | Entry::Function(_) | Entry::Domain(_)) | None => {
                    running.catalog.table(&name)?;
                }
                Some(other @ (Entry::View(_) | Entry::External(_))) => {
                    return Err(Error::Unsupported(format!(
                        "COMMENT ON COLUMN of {} is not supported; say it of '{}' as a whole",
                        other.described(),
                        name.shown()
                    )));
                }
            }
            say(&name, Some((Part::Column, column)), text, running)?;
        }
        Commented::Constraint { table, name: constraint } => {
            let name = running.named(table)?;
            let table = running.catalog.table(&name)?;
            if !rules::constraint_names(table).any(|known| known == constraint) {
                return Err(Error::plan(
                    SqlState::UndefinedObject,
                    format!("table '{}' has no constraint '{constraint}'", name.shown()),
                ));
            }
            say(&name, Some((Part::Constraint, constraint)), text, running)?;
        }
        Commented::Schema(schema) => {
            if !running.catalog.has_schema(schema) {
                let nearest = nearest(schema, running.catalog.schemas());
                return Err(Error::NotFound { kind: "schema", name: schema.clone(), nearest });
            }
            say_of_thing(&Thing::Schema(schema.clone()), text, running)?;
        }
        Commented::Database(name) if name != CATALOG => {
            return Err(Error::NotFound { kind: "database", name: name.clone(), nearest: Some(CATALOG.into()) });
        }
        Commented::Database(_) => say_of_thing(&Thing::Database, text, running)?,
        Commented::Role(role) => {
            let id = roles::id(role, running)?;
            running.home.commit(|state| {
                state.roles_mut().comment(id, text);
                Ok(())
            })?;
        }
        Commented::Function(name, types) => {
            say(&made_functions::found(name, types.as_deref(), running)?, None, text, running)?;
        }
        Commented::Index(index) => {
            let index = running.path().resolve_index(&object_reference(index)?, &running.catalog)?;
            let Some((table, _)) = running.catalog.index(&index) else { return Err(running.catalog.no_index(&index)) };
            say(&Name::clone(&table.name), Some((Part::Index, &index.table)), text, running)?;
        }
    }
    Ok(Done::new("COMMENT"))
}

/// Of what is no entry of the catalog.
fn say_of_thing(thing: &Thing, text: Option<&str>, running: &RunningStatement) -> Result<()> {
    let text = text.filter(|text| !text.is_empty()).map(String::from);
    running.home.commit(|state| {
        if text.is_some() || state.rights_to(thing).is_some() {
            state.rights_to_mut(thing).comment = text;
        }
        Ok(())
    })
}

/// Refuses a word that is not that of what a name stands for.
fn is_a(kind: &'static str, name: &Name, state: &CatalogState) -> Result<()> {
    match state.get(name) {
        Some(entry) if entry.kind() == kind => Ok(()),
        Some(entry) => Err(Error::plan(
            SqlState::WrongObjectType,
            format!("'{}' is {}, not a {kind}", name.shown(), entry.described()),
        )),
        None => Err(state.not_found(kind, name)),
    }
}

/// Of what a name stands for, or of a part of it.
fn say(name: &Name, part: Option<(Part, &str)>, text: Option<&str>, running: &Arc<RunningStatement>) -> Result<()> {
    if matches!(running.catalog.get(name), Some(Entry::Table(_))) {
        return as_owner(name, running, |table, running| {
            let mut changed = TableEntry::clone(table);
            Arc::make_mut(&mut changed.comments).set(part, text);
            let changed = indexed(changed, running)?;
            running.home.commit(|state| match state.by_id(table.id) {
                Some(known) if known.name == table.name => state.put_table(name.clone(), changed),
                _ => Err(state.not_found("table", name)),
            })
        });
    }
    running.home.commit(|state| {
        let Some(entry) = state.get(name) else { return Err(state.not_found("table", name)) };
        let mut comments = Comments::clone(entry.comments());
        comments.set(part, text);
        state.set_comments(name, comments);
        Ok(())
    })
}
