//! INSERT, UPDATE and DELETE in the WITH of a statement: `WITH gone AS (DELETE .. RETURNING *) INSERT ..`. Each is
//! taken off and run first, in order; in its place stands a query of the rows that it returned.
//!
//! # Limits
//! In PostgreSQL all parts see one state. A query that is the statement itself does; a part that writes sees what those
//! before it have done, so one that reads a table which they write is refused.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Cte, FromTable, ObjectName, Query, SetExpr, TableFactor, TableObject, Visit, With, visit_relations,
};

use super::{fresh_name, parsed, quoted};
use crate::error::{Error, Result};

/// A statement that is run before the one in whose WITH it stands.
#[derive(Debug, Clone)]
pub(crate) struct WritingStep {
    /// The name under which the rows that it returns are read; made, so that nothing else has it.
    pub rows: String,
    /// The statement.
    pub statement: Box<Statement>,
    /// The table that it writes.
    pub writes: ObjectName,
    /// The tables that it reads.
    pub reads: Vec<ObjectName>,
}

/// What [`taken_off`] has found besides the statements, which are in the order of the steps.
#[derive(Debug)]
pub(super) struct Found {
    pub rows: String,
    pub writes: ObjectName,
    pub reads: Vec<ObjectName>,
}

/// Takes statements that write off the WITH of a statement, and puts them into `steps`.
///
/// # Errors
/// What cannot be taken off, by name.
pub(super) fn taken_off(statement: &mut Statement, steps: &mut Vec<Statement>) -> Result<Vec<Found>> {
    let Statement::Statement(inner) = statement else { return Ok(Vec::new()) };
    let with = match inner.as_mut() {
        ast::Statement::Query(query) => query.with.as_mut(),
        ast::Statement::Insert(insert) => insert.source.as_mut().and_then(|source| source.with.as_mut()),
        _ => None,
    };
    let Some(with) = with.filter(|with| with.cte_tables.iter().any(|table| written(&table.query).is_some())) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut before: Vec<Cte> = Vec::new();
    for mut table in std::mem::take(&mut with.cte_tables) {
        let Some((writes, returns)) = written(&table.query) else {
            before.push(table);
            continue;
        };
        let rows = fresh_name("written");
        let replacement = parsed::query(&format!("SELECT * FROM {}", quoted(&rows)))?;
        let mut step = std::mem::replace(table.query.as_mut(), replacement);
        if step.with.is_some() {
            return Err(Error::Unsupported("WITH within a statement that writes in WITH; put it before that".into()));
        }
        let reads = read_by(&step);
        if !before.is_empty() {
            step.with = Some(With { cte_tables: before.clone(), ..with.clone() });
        }
        found.push(Found { rows, writes, reads });
        steps.push(Statement::Statement(Box::new(ast::Statement::Query(Box::new(step)))));
        if returns {
            before.push(table);
        }
    }
    with.cte_tables = before;
    if with.cte_tables.is_empty() {
        match inner.as_mut() {
            ast::Statement::Query(query) => query.with = None,
            ast::Statement::Insert(insert) => insert.source.iter_mut().for_each(|source| source.with = None),
            _ => {}
        }
    }
    Ok(found)
}

/// The table that a query of WITH writes, if it is a statement that writes one, and whether it returns rows.
fn written(query: &Query) -> Option<(ObjectName, bool)> {
    let (SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement)) = query.body.as_ref()
    else {
        return None;
    };
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => Some(name.clone()),
        _ => None,
    };
    match statement {
        ast::Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => Some((name.clone(), insert.returning.is_some())),
            _ => None,
        },
        ast::Statement::Update(update) => Some((of_factor(&update.table.relation)?, update.returning.is_some())),
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            Some((of_factor(&from.first()?.relation)?, delete.returning.is_some()))
        }
        _ => None,
    }
}

/// The tables that something reads: all that it names, but for the one that rows are put into.
fn read_by(query: &Query) -> Vec<ObjectName> {
    match query.body.as_ref() {
        SetExpr::Insert(ast::Statement::Insert(insert)) => {
            let mut all = names_of(&query.with);
            all.extend(names_of(&insert.source));
            all.extend(names_of(&insert.returning));
            all
        }
        _ => names_of(query),
    }
}

/// The tables that a statement reads which is the rest of one whose WITH writes; none if it only reads, since then it
/// sees the state before.
pub(super) fn read_by_rest(rest: &Statement) -> Vec<ObjectName> {
    match rest {
        Statement::Statement(inner) => match inner.as_ref() {
            ast::Statement::Query(query) => match query.body.as_ref() {
                SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => read_by(query),
                _ => Vec::new(),
            },
            ast::Statement::Insert(insert) => names_of(&insert.source),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn names_of<V: Visit>(of: &V) -> Vec<ObjectName> {
    let mut names = Vec::new();
    let _ = visit_relations(of, |name| {
        names.push(name.clone());
        ControlFlow::<()>::Continue(())
    });
    names
}
