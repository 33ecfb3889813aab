//! What common table expressions say of themselves, kept where the planner would lose it: `AS MATERIALIZED`, `AS NOT MATERIALIZED`, and
//! functions that give something else at each call.
//!
//! The planner puts a copy of the query wherever its name stands. So the query is put into a table of a name that tells
//! ([`Wish`]), which [`SharedQueries`](crate::shared_queries) reads off the plan.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, CteAsMaterialized, Ident, Query, SetExpr, TableFactor, VisitMut, VisitorMut, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

const PREFIX: &str = "__nearside_cte_";

/// What is wished for a common table expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// MATERIALIZED: it is computed once, whatever that costs.
    Once,
    /// NOT MATERIALIZED: it is computed wherever it stands.
    InEachPlace,
    /// It calls functions that give something else each time: computed once if it stands in several places.
    SameEverywhere,
}

impl Wish {
    fn letter(self) -> char {
        match self {
            Wish::Once => 'm',
            Wish::InEachPlace => 'n',
            Wish::SameEverywhere => 'v',
        }
    }

    /// Which common table expression a name of a table stands for, and what is wished for that one.
    pub(crate) fn of_name(name: &str) -> Option<(u64, Wish)> {
        let rest = name.strip_prefix(PREFIX)?;
        let wish = [Wish::Once, Wish::InEachPlace, Wish::SameEverywhere];
        let wish = wish.into_iter().find(|wish| rest.ends_with(wish.letter()))?;
        Some((rest[..rest.len() - 1].parse().ok()?, wish))
    }
}

/// Puts the wishes into the names of a statement; `is_volatile` tells functions that give something else at each call.
pub(super) fn keep_wishes(statement: &mut Statement, is_volatile: &dyn Fn(&str) -> bool) {
    match statement {
        Statement::Statement(inner) => {
            let _ = inner.visit(&mut Keep { is_volatile });
        }
        Statement::Explain(explain) => keep_wishes(&mut explain.statement, is_volatile),
        _ => {}
    }
}

struct Keep<'a> {
    is_volatile: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Keep<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in &mut with.cte_tables {
            // What names itself is planned as a recursion only as it was written, and runs once for each name in any case.
            if with.recursive && names_itself(cte) {
                continue;
            }
            let wish = match cte.materialized {
                Some(CteAsMaterialized::Materialized) => Some(Wish::Once),
                Some(CteAsMaterialized::NotMaterialized) => Some(Wish::InEachPlace),
                None => self.calls_volatile(&cte.query).then_some(Wish::SameEverywhere),
            };
            if let Some(wish) = wish {
                wrap(&mut cte.query, wish);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Keep<'_> {
    fn calls_volatile(&self, query: &Query) -> bool {
        let found = visit_expressions(query, |expr: &ast::Expr| match expr {
            ast::Expr::Function(call) if (self.is_volatile)(&call.name.to_string().to_lowercase()) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

fn names_itself(cte: &ast::Cte) -> bool {
    let name = cte.alias.name.value.to_lowercase();
    let found = ast::visit_relations(&cte.query, |relation| match relation.to_string().to_lowercase() == name {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `query` becomes `SELECT * FROM (query) AS name`.
fn wrap(query: &mut Query, wish: Wish) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Of all statements: a view's text is planned within others.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}{number}{}", wish.letter());
    let Ok(mut statements) = Parser::parse_sql(&GenericDialect {}, "SELECT * FROM (SELECT 1) AS x") else { return };
    let Some(ast::Statement::Query(mut outer)) = statements.pop() else { return };
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut from.relation
    {
        alias.name = Ident::with_quote('"', name);
        std::mem::swap(subquery.as_mut(), query);
        *query = *outer;
    }
}
