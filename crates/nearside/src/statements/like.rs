//! `CREATE TABLE .. (LIKE t ..)`: the columns of another table, and what of it is asked for.

use std::sync::Arc;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{ColumnDef, TableConstraint};

use crate::catalog::comments::{Comments, Part};
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::{Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, TableLike, created, like_of, object_name};
use crate::statements::written;

/// What a table gets of others that no text of a CREATE TABLE says.
#[derive(Debug, Default)]
pub(crate) struct Likeness {
    /// Indexes that are no keys.
    pub indexes: Vec<IndexEntry>,
    /// What was said of columns and constraints, and of indexes.
    pub comments: Comments,
}

/// Writes columns, keys and conditions in the place of each LIKE of a CREATE TABLE.
///
/// # Errors
/// Tables that there are not, types that SQL has no name for.
pub(crate) fn write_out(statement: &mut Statement, running: &Arc<RunningStatement>) -> Result<Likeness> {
    let mut likeness = Likeness::default();
    let Some(create) = created(statement) else { return Ok(likeness) };
    if create.columns.iter().all(|column| like_of(column).is_none()) {
        return Ok(likeness);
    }
    let own = object_name(&create.name)?;
    let mut columns = Vec::new();
    for column in std::mem::take(&mut create.columns) {
        match like_of(&column) {
            None => columns.push(column),
            Some(like) => {
                let (more, constraints) = parts(&like, &own, &mut likeness, running)?;
                columns.extend(more);
                create.constraints.extend(constraints);
            }
        }
    }
    create.columns = columns;
    Ok(likeness)
}

/// The columns and constraints that one LIKE stands for.
fn parts(
    like: &TableLike,
    own: &Name,
    likeness: &mut Likeness,
    running: &Arc<RunningStatement>,
) -> Result<(Vec<ColumnDef>, Vec<TableConstraint>)> {
    let name = running.named(&like.table)?;
    let lines = match running.catalog.get(&name) {
        Some(Entry::Table(table)) => {
            of_table(table, like, own, likeness);
            written::lines_like(table, like.including, running)?
        }
        Some(Entry::View(_) | Entry::External(_)) => written::columns_of_view(&name, running)?,
        Some(other @ (Entry::Sequence(_) | Entry::Type(_) | Entry::Function(_) | Entry::Domain(_))) => {
            return Err(Error::plan(
                SqlState::WrongObjectType,
                format!("'{}' is {}, and LIKE takes a table or a view", name.shown(), other.described()),
            ));
        }
        None => return Err(running.catalog.not_found("table", &name)),
    };
    let text = format!("CREATE TABLE made ({})", lines.join(", "));
    let AnyStatement::Sql(mut made) = AnyStatement::one(&text)? else {
        return Err(Error::Internal("a CREATE TABLE that is none".into()));
    };
    let made = created(&mut made).ok_or_else(|| Error::Internal("a CREATE TABLE that is none".into()))?;
    Ok((std::mem::take(&mut made.columns), std::mem::take(&mut made.constraints)))
}

fn of_table(table: &TableEntry, like: &TableLike, own: &Name, likeness: &mut Likeness) {
    let including = like.including;
    if including.indexes {
        let created = table.indexes.iter().filter(|index| index.origin == Origin::Created);
        likeness.indexes.extend(created.map(|index| IndexEntry { name: String::new(), ..index.clone() }));
    }
    if !including.comments {
        return;
    }
    for (part, text) in table.comments.all() {
        match part {
            Some((Part::Index, index)) if including.indexes => {
                // Those of the new table get their usual names, as far as these are free.
                if let Some(index) = table.indexes.iter().find(|known| known.name == index) {
                    let usual = index.usual_name(&own.table);
                    likeness.comments.set(Some((Part::Index, &usual)), Some(text));
                }
            }
            Some((Part::Constraint, key)) if table.indexes.iter().any(|index| index.is_key() && index.name == key) => {
                if let Some(index) = table.indexes.iter().find(|index| index.name == key && including.indexes) {
                    let usual = index.usual_name(&own.table);
                    likeness.comments.set(Some((Part::Constraint, &usual)), Some(text));
                }
            }
            Some((Part::Constraint, name)) if including.constraints => {
                likeness.comments.set(Some((Part::Constraint, name)), Some(text));
            }
            Some((Part::Column, column)) => likeness.comments.set(Some((Part::Column, column)), Some(text)),
            _ => {}
        }
    }
}
