//! Walks over a statement: every query of it, whatever kind it is of, and the parts of an expression that stand in no
//! query within it.
//!
//! Invariant: a walk meets whatever can hold a query. A kind that it passed over would be planned as it was written,
//! and give another answer than the same query alone.

use std::ops::ControlFlow;

use datafusion_sql::parser::{CopyToSource, CopyToStatement, Statement};
use sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};

use crate::error::{Error, Result};

/// Shows a visitor all of a statement.
pub(super) fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(inner) => inner.visit(visitor),
        Statement::Explain(explain) => visit(&explain.statement, visitor),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => query.visit(visitor),
        // These name tables, files and settings only.
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Relation(_), .. })
        | Statement::CreateExternalTable(_)
        | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Shows a visitor all of a statement, to change it.
pub(super) fn visit_mut<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(inner) => inner.visit(visitor),
        Statement::Explain(explain) => visit_mut(&mut explain.statement, visitor),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => query.visit(visitor),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Relation(_), .. })
        | Statement::CreateExternalTable(_)
        | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// As [`visit_mut`], for a visitor that may refuse what it meets.
///
/// # Errors
/// What the visitor breaks off with.
pub(super) fn rewrite<V: VisitorMut<Break = Error>>(statement: &mut Statement, visitor: &mut V) -> Result<()> {
    match visit_mut(statement, visitor) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Visits the parts of a node that do not stand in a query within it, what is inside first.
pub(super) fn outside<N: VisitMut>(node: &mut N, each: &mut dyn FnMut(&mut Expr)) {
    struct Outside<'e> {
        queries: usize,
        each: &'e mut dyn FnMut(&mut Expr),
    }

    impl VisitorMut for Outside<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.queries == 0 {
                (self.each)(expr);
            }
            ControlFlow::Continue(())
        }
    }

    let _ = node.visit(&mut Outside { queries: 0, each });
}

/// Whether some part of a node that does not stand in a query within it is so.
pub(super) fn is_any_outside<N: Visit>(node: &N, is: &dyn Fn(&Expr) -> bool) -> bool {
    struct Outside<'e> {
        queries: usize,
        is: &'e dyn Fn(&Expr) -> bool,
    }

    impl Visitor for Outside<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match self.queries == 0 && (self.is)(expr) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    node.visit(&mut Outside { queries: 0, is }).is_break()
}

#[cfg(test)]
mod tests;
