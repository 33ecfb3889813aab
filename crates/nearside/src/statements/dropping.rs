//! DROP TABLE and DROP VIEW of several at once, and with CASCADE: as one statement of a transaction, all or none.
//!
//! CASCADE takes foreign keys with a table that refer to it, and views whose query names what goes, or what goes with
//! it.

use std::sync::Arc;

use datafusion_sql::parser::Statement as DfStatement;
use datafusion_sql::resolve::resolve_table_references;
use sqlparser::ast::{ObjectName, ObjectType};

use crate::catalog::index::indexed;
use crate::catalog::rules::ForeignKey;
use crate::catalog::{Entry, Name};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::AnyStatement;
use crate::statements::writer::{as_owner, is_left_alone};
use crate::statements::{relations, sequences};

/// Whether a DROP is about more than one table or view that nothing depends on.
pub(crate) fn is_of_several(kind: ObjectType, names: &[ObjectName], cascade: bool) -> bool {
    matches!(kind, ObjectType::Table | ObjectType::View) && (names.len() > 1 || cascade)
}

/// What a DROP is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Tables, be it those that stay in files.
    Tables,
    /// Views.
    Views,
    /// Materialized views.
    Materialized,
}

impl Dropped {
    /// What SQL's word says.
    pub(crate) fn of(kind: ObjectType) -> Dropped {
        match kind {
            ObjectType::View => Dropped::Views,
            _ => Dropped::Tables,
        }
    }

    fn is_of(self, entry: &Entry) -> bool {
        match self {
            Dropped::Tables => entry.is_written() || matches!(entry, Entry::External(_)),
            Dropped::Views => matches!(entry, Entry::View(_)),
            Dropped::Materialized => matches!(entry, Entry::Table(_)) && !entry.is_written(),
        }
    }
}

/// Drops them.
///
/// # Errors
/// Names that there are not, or that stand for something else; foreign keys of other tables, without CASCADE.
pub(crate) fn drop_all(
    kind: Dropped,
    names: &[ObjectName],
    (if_exists, cascade): (bool, bool),
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let (word, tag) = match kind {
        Dropped::Tables => ("table", "DROP TABLE"),
        Dropped::Views => ("view", "DROP VIEW"),
        Dropped::Materialized => ("materialized view", "DROP MATERIALIZED VIEW"),
    };
    let mut going: Vec<Name> = Vec::new();
    for name in names {
        let name = running.named(name)?;
        match running.catalog.get(&name) {
            Some(entry) if kind.is_of(entry) => {}
            Some(other) => {
                let text = format!("'{}' is {}, not a {word}", name.shown(), other.described());
                return Err(Error::plan(SqlState::WrongObjectType, text));
            }
            None if if_exists => continue,
            None => return Err(running.catalog.not_found(word, &name)),
        }
        if !going.contains(&name) {
            going.push(name);
        }
    }
    if running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    let ids: Vec<u64> = going.iter().filter_map(|name| Some(running.catalog.table(name).ok()?.id)).collect();
    let mut referring: Vec<Name> = Vec::new();
    for id in &ids {
        for (child, key) in relations::referring(&running.catalog, *id) {
            if !cascade && !ids.contains(&child.id) {
                let table = running.catalog.by_id(*id).map_or_else(String::new, |table| table.name.shown());
                return Err(Error::plan(
                    SqlState::DependentObjectsStillExist,
                    format!(
                        "table '{table}' is referred to by foreign key '{}' of table '{}'; drop that first, or use \
                         CASCADE",
                        key.name,
                        child.name.shown()
                    ),
                ));
            }
            if child.id != *id && !referring.contains(&child.name) {
                referring.push(Name::clone(&child.name));
            }
        }
    }
    for child in referring {
        as_owner(&child, running, |table, running| {
            let mut changed = table.clone();
            Arc::make_mut(&mut changed.rules).foreign_keys.retain(|key| !ids.contains(&key.to));
            let changed = indexed(changed, running)?;
            running.home.commit(|state| state.put_table(child.clone(), changed))
        })?;
    }
    let mut place = 0;
    while let Some(name) = going.get(place).filter(|_| cascade).cloned() {
        place += 1;
        for (view_name, entry) in running.catalog.entries() {
            if !going.contains(view_name) && reads(entry, &name, running)? {
                going.push(view_name.clone());
            }
        }
    }
    running.home.commit(|state| {
        for name in &going {
            if let Some(Entry::Table(table)) = state.get(name) {
                is_left_alone(table, running)?;
            }
            if let Some(Entry::Table(table)) = state.remove(name) {
                sequences::drop_owned(state, &table, None)?;
            }
        }
        Ok(())
    })?;
    Ok(Done::new(tag))
}

/// Drops the foreign keys of other tables that refer to columns of a table.
///
/// # Errors
/// The statement is none of a transaction yet; others change those tables.
pub(crate) fn drop_references(name: &Name, columns: &[String], running: &Arc<RunningStatement>) -> Result<()> {
    let parent = running.catalog.table(name)?;
    let own = parent.id;
    let refers = |key: &ForeignKey| key.to == own && key.to_columns.iter().any(|column| columns.contains(column));
    let referring = relations::referring(&running.catalog, own).filter(|(child, key)| child.id != own && refers(key));
    let mut children: Vec<Name> = referring.map(|(child, _)| Name::clone(&child.name)).collect();
    children.dedup();
    if !children.is_empty() && running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    for child in children {
        as_owner(&child, running, |table, running| {
            let mut changed = table.clone();
            Arc::make_mut(&mut changed.rules).foreign_keys.retain(|key| !refers(key));
            let changed = indexed(changed, running)?;
            running.home.commit(|state| state.put_table(child.clone(), changed))
        })?;
    }
    Ok(())
}

/// Whether it is a view, be it materialized, whose query names something.
pub(super) fn reads(view: &Entry, name: &Name, running: &RunningStatement) -> Result<bool> {
    let Some(sql) = view.query() else { return Ok(false) };
    let AnyStatement::Sql(statement) = AnyStatement::one(sql)? else { return Ok(false) };
    let statement: &DfStatement = &statement;
    let normalise = running.planner.config_options().sql_parser.enable_ident_normalization;
    let (references, _) = resolve_table_references(statement, normalise)?;
    Ok(references.iter().any(|reference| Name::resolve(reference).is_ok_and(|read| read == *name)))
}
