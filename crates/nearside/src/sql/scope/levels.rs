//! The SELECTs around a place of a statement, the innermost last, and names that nobody may look up.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, visit_expressions_mut};

use super::sources::{FoundColumn, Scope, ShownColumn};

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
    pub(super) fn meant(&self, name: &str) -> Option<Expr> {
        let mut closed = false;
        for level in self.0.iter().rev() {
            let scope = match level {
                Level::Closed => {
                    closed = true;
                    continue;
                }
                Level::Select(_) if std::mem::take(&mut closed) => continue,
                Level::Select(scope) => scope,
            };
            match scope.find(name) {
                FoundColumn::One(ShownColumn { expr: column, source: None, .. }) => return Some(column.clone()),
                FoundColumn::No => {
                    if let Some(column) = scope.series(name) {
                        return Some(column);
                    }
                }
                FoundColumn::One(_) | FoundColumn::Several | FoundColumn::Unknown => return None,
            }
        }
        None
    }
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
