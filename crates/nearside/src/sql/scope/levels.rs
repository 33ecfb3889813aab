//! The SELECTs around a place of a statement, the innermost last, and names that nobody may look up.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, visit_expressions_mut};

use super::super::normalised;
use super::sources::{FoundColumn, Scope, ShownColumn, VALUE};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

#[derive(Default)]
pub(super) struct Levels(Vec<Level>);

enum Level {
    Select(Scope),
    /// The SELECT below is not seen from above: a WITH and a query in FROM do not see its sources, and the condition of
    /// a join sees its two sides alone.
    Closed,
}

impl Levels {
    pub(super) fn open(&mut self, scope: Scope) {
        self.0.push(Level::Select(scope));
    }

    /// Hides the innermost SELECT.
    pub(super) fn close(&mut self) {
        self.0.push(Level::Closed);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// The innermost SELECT, if the place is its own.
    pub(super) fn last(&self) -> Option<&Scope> {
        match self.0.last() {
            Some(Level::Select(scope)) => Some(scope),
            _ => None,
        }
    }

    /// What a name stands for, where the planner would not find that.
    ///
    /// # Errors
    /// A name that two columns of one source have: the planner tells them apart by numbers.
    pub(super) fn meant(&self, name: &str) -> Result<Option<Expr>> {
        // A column of that name is meant before that of a function which is called otherwise.
        let mut other_name = None;
        for scope in self.seen() {
            match scope.find(name) {
                FoundColumn::One(ShownColumn { expr: column, source: None, .. }) => return Ok(Some(column.clone())),
                FoundColumn::No => {
                    if let Some(column) = scope.series(name) {
                        if name != VALUE {
                            return Ok(Some(column));
                        }
                        other_name.get_or_insert(column);
                    }
                }
                FoundColumn::Several if scope.has_twice(name) => return Err(ambiguous(name)),
                FoundColumn::Unknown => return Ok(other_name),
                FoundColumn::One(_) | FoundColumn::Several => return Ok(None),
            }
        }
        Ok(other_name)
    }

    /// As [`Levels::meant`], of a name with that of its source before it.
    ///
    /// # Errors
    /// As [`Levels::meant`].
    pub(super) fn meant_behind(&self, names: &[Ident]) -> Result<Option<Expr>> {
        let Some((column, table)) = names.split_last().filter(|(_, table)| !table.is_empty()) else { return Ok(None) };
        let column = normalised(column.clone());
        let first = normalised(table[0].clone());
        // The planner takes `a.b` for a field of a column `a` of the innermost SELECT, before it looks around.
        let mut hidden = false;
        for scope in self.seen() {
            match scope.times(table, &column) {
                None => hidden |= scope.has(&first),
                Some(0) => return Ok(scope.series_of(table, &column)),
                Some(1) => return Ok(hidden.then(|| scope.column_around(table, &column)).flatten()),
                Some(2..) => return Err(ambiguous(&column)),
            }
        }
        Ok(None)
    }

    /// The row of a source that a name stands for, which is no column's.
    pub(super) fn row_of(&self, name: &Ident) -> Option<Expr> {
        for scope in self.seen() {
            match scope.find(&normalised(name.clone())) {
                FoundColumn::No => {
                    if let Some(row) = scope.row_of(std::slice::from_ref(name)) {
                        return Some(row);
                    }
                }
                _ => return None,
            }
        }
        None
    }

    /// The SELECTs whose sources are seen, the innermost first.
    fn seen(&self) -> impl Iterator<Item = &Scope> {
        let mut closed = false;
        self.0.iter().rev().filter_map(move |level| match level {
            Level::Closed => {
                closed = true;
                None
            }
            Level::Select(_) if std::mem::take(&mut closed) => None,
            Level::Select(scope) => Some(scope),
        })
    }
}

fn ambiguous(name: &str) -> Error {
    Error::plan(
        SqlState::AmbiguousColumn,
        format!(
            "column '{name}' is ambiguous: a query or table in FROM has several columns of that name; \
         give them names with AS"
        ),
    )
}

/// Makes a name one that [`Levels::meant`] is not asked for, until it is released.
pub(super) fn hold(expr: &mut Expr) {
    if let Expr::Identifier(name) = expr {
        *expr = Expr::CompoundIdentifier(vec![name.clone()]);
    }
}

/// Gives back all names that are held.
pub(super) fn release(expr: &mut Expr) {
    let _ = visit_expressions_mut(expr, |part| {
        if let Expr::CompoundIdentifier(names) = part
            && let [name] = names.as_slice()
        {
            *part = Expr::Identifier(name.clone());
        }
        ControlFlow::<()>::Continue(())
    });
}
