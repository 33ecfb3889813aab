//! What common table expressions say of themselves, kept where the planner would lose it: `AS MATERIALIZED`,
//! `AS NOT MATERIALIZED`, and functions that give something else at each call.
//!
//! The planner puts a copy of the query wherever its name stands. So the query is put into a table of a name that tells
//! ([`Wish`]), which [`SharedQueries`](crate::rewrite::shared_queries) reads off the plan.

use crate::sql::dialect::SqlDialect;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, CteAsMaterialized, Ident, ObjectName, Query, SetExpr, TableFactor, VisitorMut, visit_expressions,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::exclude::solid;
use super::normalised;
use super::walk::visit_mut;

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

    /// The name of a table around a query of which this is wished.
    pub(crate) fn fresh_name(self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Of all statements: a view's text is planned within others.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        format!("{PREFIX}{number}{}", self.letter())
    }

    /// Which common table expression a name of a table stands for, and what is wished for that one.
    pub(crate) fn of_name(name: &str) -> Option<(u64, Wish)> {
        let rest = name.strip_prefix(PREFIX)?;
        let wish = [Wish::Once, Wish::InEachPlace, Wish::SameEverywhere];
        let wish = wish.into_iter().find(|wish| rest.ends_with(wish.letter()))?;
        Some((rest[..rest.len() - 1].parse().ok()?, wish))
    }
}

/// `AS MATERIALIZED (..)` of one common table expression, which the parser does not know.
#[derive(Debug)]
pub(super) struct CteWord {
    /// Where its name stands.
    name: Location,
    says: CteAsMaterialized,
}

/// The statement's tokens without MATERIALIZED and NOT MATERIALIZED, and of which common table expressions they are.
pub(super) fn without_words(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Vec<CteWord>) {
    let (places, solid) = solid(&tokens);
    let is = |place: Option<usize>, word: &str| {
        let token = place.and_then(|place| solid.get(place)).map(|token| &token.token);
        matches!(token, Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    };
    let mut said = Vec::new();
    let mut words: HashSet<usize> = HashSet::new();
    for place in (0..solid.len()).filter(|place| is(Some(*place), "MATERIALIZED")) {
        let negated = is(place.checked_sub(1), "NOT");
        let first = place - usize::from(negated);
        let opens = matches!(solid.get(place + 1).map(|t| &t.token), Some(Token::LParen));
        let Some(name) = first.checked_sub(2).filter(|_| opens && is(first.checked_sub(1), "AS")) else { continue };
        let Some(name) = before_columns(&solid, name) else { continue };
        let says = if negated { CteAsMaterialized::NotMaterialized } else { CteAsMaterialized::Materialized };
        said.push(CteWord { name: solid[name].span.start, says });
        words.extend(&places[first..=place]);
    }
    if said.is_empty() {
        return (tokens, said);
    }
    let kept = tokens.into_iter().enumerate().filter(|(place, _)| !words.contains(place));
    (kept.map(|(_, token)| token).collect(), said)
}

/// The name before a list of columns that ends here, or the name that stands here.
fn before_columns(solid: &[&TokenWithSpan], end: usize) -> Option<usize> {
    match &solid[end].token {
        Token::Word(_) => Some(end),
        Token::RParen => {
            let open = (0..end).rev().find(|place| matches!(solid[*place].token, Token::LParen))?;
            open.checked_sub(1).filter(|name| matches!(solid[*name].token, Token::Word(_)))
        }
        _ => None,
    }
}

/// Tells common table expressions what was said of them.
pub(super) fn put_back(statement: &mut Statement, said: &[CteWord]) {
    if !said.is_empty() {
        let _ = visit_mut(statement, &mut PutBack { said });
    }
}

struct PutBack<'a> {
    said: &'a [CteWord],
}

impl VisitorMut for PutBack<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let of = self.said.iter().find(|said| said.name == cte.alias.name.span.start);
            cte.materialized = of.map(|said| said.says);
        }
        ControlFlow::Continue(())
    }
}

/// Puts the wishes into the names of a statement; `is_volatile` tells functions that give something else at each call,
/// `is_volatile_view` views that do.
pub(super) fn keep_wishes(
    statement: &mut Statement,
    is_volatile: &dyn Fn(&str) -> bool,
    is_volatile_view: &dyn Fn(&ObjectName) -> bool,
) {
    let _ = visit_mut(statement, &mut Keep { is_volatile, is_volatile_view });
}

struct Keep<'a> {
    is_volatile: &'a dyn Fn(&str) -> bool,
    is_volatile_view: &'a dyn Fn(&ObjectName) -> bool,
}

impl VisitorMut for Keep<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in &mut with.cte_tables {
            // What names itself is planned as a recursion only as it was written, and runs once for each name in any
            // case.
            if with.recursive && names_itself(cte) {
                continue;
            }
            let wish = match cte.materialized {
                Some(CteAsMaterialized::Materialized) => Some(Wish::Once),
                // As in PostgreSQL, where functions that give something else each time come before the user's word.
                Some(CteAsMaterialized::NotMaterialized) if !self.calls_volatile(&cte.query) => Some(Wish::InEachPlace),
                _ => self.calls_volatile(&cte.query).then_some(Wish::SameEverywhere),
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
            ast::Expr::Function(call)
                if call
                    .name
                    .0
                    .last()
                    .and_then(|name| name.as_ident())
                    .is_some_and(|name| (self.is_volatile)(&normalised(name.clone()))) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        let of_view = || {
            ast::visit_relations(query, |relation| match (self.is_volatile_view)(relation) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        };
        found.is_break() || of_view().is_break()
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

/// Puts a wish into the name of a table around the query.
fn wrap(query: &mut Query, wish: Wish) {
    in_from(query, &wish.fresh_name());
}

/// `query` becomes `SELECT * FROM (query) AS name`.
pub(super) fn in_from(query: &mut Query, name: &str) {
    let Ok(mut statements) = Parser::parse_sql(&SqlDialect, "SELECT * FROM (SELECT 1) AS x") else { return };
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
