//! DuckDB's collation `NOCASE`, in which texts are compared without regard to case: beside comparisons and in ORDER BY.
//!
//! ```text
//! a = b COLLATE NOCASE              lower(a) = lower(b)
//! a COLLATE NOCASE IN (b, c)        lower(a) IN (lower(b), lower(c))
//! ORDER BY a COLLATE NOCASE         ORDER BY lower(a)
//! ```
//!
//! # Limits
//! Columns have no such collation; elsewhere it is refused.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArgumentClause, FunctionArguments, ObjectName, OrderByExpr, OrderByKind, Query,
    VisitorMut, WindowType,
};

use super::calls::call;
use super::walk::rewrite;
use crate::error::{Error, Result};

/// Whether a collation is that one.
pub(super) fn is_it(collation: &ObjectName) -> bool {
    match collation.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("nocase")),
        _ => false,
    }
}

/// Writes comparisons and orders in it as those of texts in lower case.
///
/// # Errors
/// None.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut NoCase)
}

struct NoCase;

impl VisitorMut for NoCase {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(all) = &mut order.kind
        {
            order_by(all);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => fold(vec![left.as_mut(), right.as_mut()]),
            Expr::Between { expr, low, high, .. } => fold(vec![expr.as_mut(), low.as_mut(), high.as_mut()]),
            Expr::InList { expr, list, .. } => fold(std::iter::once(expr.as_mut()).chain(list).collect()),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                fold(vec![left.as_mut(), right.as_mut()]);
            }
            Expr::Function(function) => {
                if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                    order_by(&mut window.order_by);
                }
                order_by(&mut function.within_group);
                if let FunctionArguments::List(list) = &mut function.args {
                    for clause in &mut list.clauses {
                        if let FunctionArgumentClause::OrderBy(all) = clause {
                            order_by(all);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq)
}

/// What is in the collation, and what is within.
fn folded(of: &Expr) -> Option<Expr> {
    match of {
        Expr::Nested(inner) => folded(inner),
        Expr::Collate { expr, collation } if is_it(collation) => Some(Expr::clone(expr)),
        _ => None,
    }
}

/// All in lower case, where one is in the collation.
fn fold(all: Vec<&mut Expr>) {
    if all.iter().any(|expr| folded(expr).is_some()) {
        for expr in all {
            let text = folded(expr).unwrap_or_else(|| Expr::clone(expr));
            *expr = call("lower", vec![text]);
        }
    }
}

fn order_by(all: &mut [OrderByExpr]) {
    for item in all {
        if let Some(text) = folded(&item.expr) {
            item.expr = call("lower", vec![text]);
        }
    }
}
