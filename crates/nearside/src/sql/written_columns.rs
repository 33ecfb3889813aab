//! [`Writes`]: which columns a statement writes, as it says so itself: its plan has all of the table's.

use std::collections::BTreeSet;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, AssignmentTarget, ObjectName, SetExpr};

use super::normalised;

/// What a statement says of the columns that it writes, which its plan does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Writes {
    /// It writes none.
    Nothing,
    /// INSERT into these columns, or into the first ones where it gives so many values, or all.
    Insert(Inserted),
    /// UPDATE of these.
    Update(BTreeSet<String>),
    /// DELETE.
    Delete,
}

/// Which columns INSERT gives values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// These.
    Named(BTreeSet<String>),
    /// So many.
    First(usize),
    /// All.
    All,
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| normalised(ident.clone()))
}

impl Writes {
    /// What a statement says.
    pub(crate) fn of(statement: &Statement) -> Writes {
        let Statement::Statement(statement) = statement else { return Writes::Nothing };
        let mut statement = statement.as_ref();
        while let ast::Statement::Prepare { statement: inner, .. } | ast::Statement::Explain { statement: inner, .. } =
            statement
        {
            statement = inner;
        }
        match statement {
            ast::Statement::Insert(insert) => Writes::Insert(inserted(insert)),
            ast::Statement::Update(update) => {
                let targets = update.assignments.iter().flat_map(|assignment| match &assignment.target {
                    AssignmentTarget::ColumnName(name) => vec![last(name)],
                    AssignmentTarget::Tuple(names) => names.iter().map(last).collect(),
                });
                Writes::Update(targets.flatten().collect())
            }
            ast::Statement::Delete(_) => Writes::Delete,
            _ => Writes::Nothing,
        }
    }
}

fn inserted(insert: &ast::Insert) -> Inserted {
    if !insert.columns.is_empty() {
        return Inserted::Named(insert.columns.iter().filter_map(last).collect());
    }
    match insert.source.as_ref().map(|source| source.body.as_ref()) {
        None => Inserted::Named(BTreeSet::new()),
        Some(SetExpr::Values(values)) => Inserted::First(values.rows.first().map_or(0, |row| row.content.len())),
        Some(_) => Inserted::All,
    }
}
