//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t`: beside each row of `a` the row of `b` with the nearest `t`, as in
//! DuckDB; `ASOF LEFT JOIN` keeps rows of `a` that have none.
//!
//! The parser does not know the word, so a condition stands for it until the tree is there, in which it becomes
//! ```text
//! a JOIN LATERAL (SELECT * FROM b WHERE a.k = b.k AND a.t >= b.t ORDER BY b.t DESC LIMIT 1) AS b ON true
//! ```
//!
//! # Limits
//! One condition compares by `<`, `<=`, `>` or `>=`, with names of tables before its columns; no USING.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, Join, JoinConstraint, JoinOperator, Select, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value, VisitorMut, visit_expressions,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use super::walk::rewrite;
use super::{normalised, parsed, text};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The condition that stands for the word.
const MARK: &str = "__nearside_asof";

/// The tokens with a mark in the conditions of such joins.
///
/// # Errors
/// Joins by USING.
pub(super) fn with_marks(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| is_word(token, "ASOF")) {
        return Ok(tokens);
    }
    let (places, words) = solid(&tokens);
    let is = |at: usize, text: &str| words.get(at).is_some_and(|word| is_word(word, text));
    let (mut gone, mut marked) = (Vec::new(), Vec::new());
    for at in 0..words.len() {
        let join = (1..=3).find(|offset| is(at + offset, "JOIN"));
        let Some(join) = join.filter(|_| is(at, "ASOF")) else { continue };
        let kinds = (1..join).all(|offset| ["LEFT", "OUTER", "INNER"].iter().any(|kind| is(at + offset, kind)));
        let Some(on) = condition(&words, at + join + 1).filter(|_| kinds) else {
            return Err(Error::Unsupported(
                "an ASOF JOIN that is no ASOF [LEFT] JOIN .. ON condition is not supported; write the condition out"
                    .into(),
            ));
        };
        gone.push(places[at]);
        marked.push(places[on]);
    }
    let mut mark = text::tokens(&format!(" {MARK}() AND "))?;
    mark.retain(|token| token.token != Token::EOF);
    let mut all = Vec::with_capacity(tokens.len() + 8 * marked.len());
    for (place, token) in tokens.into_iter().enumerate().filter(|(place, _)| !gone.contains(place)) {
        let span = token.span;
        all.push(token);
        if marked.contains(&place) {
            all.extend(mark.iter().cloned().map(|token| TokenWithSpan { span, ..token }));
        }
    }
    Ok(all)
}

/// The place of the ON that belongs to a join whose table begins at a place.
fn condition(words: &[&TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate().skip(from) {
        match word.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return None,
            Token::RParen => depth -= 1,
            _ if depth > 0 => {}
            _ if is_word(word, "ON") => return Some(at),
            _ if ["USING", "JOIN", "WHERE", "MATCH_CONDITION"].iter().any(|other| is_word(word, other)) => return None,
            _ => {}
        }
    }
    None
}

/// Writes marked joins with LATERAL.
///
/// # Errors
/// Conditions of another form.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Joins)
}

struct Joins;

impl VisitorMut for Joins {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for from in &mut select.from {
            if let Err(error) = from.joins.iter_mut().try_for_each(as_lateral) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match is_mark(expr) {
            true => {
                ControlFlow::Break(Error::Unsupported("ASOF JOIN within brackets of a FROM; write it first".into()))
            }
            false => ControlFlow::Continue(()),
        }
    }
}

fn is_mark(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(Function { name, .. }) if name.to_string() == MARK)
}

/// The conditions that all have to hold.
fn conjuncts(condition: &Expr, all: &mut Vec<Expr>) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, all);
            conjuncts(right, all);
        }
        Expr::Nested(inner) => conjuncts(inner, all),
        other => all.push(other.clone()),
    }
}

fn as_lateral(join: &mut Join) -> Result<()> {
    let (JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::Left(on) | JoinOperator::LeftOuter(on)) =
        &mut join.join_operator
    else {
        return Ok(());
    };
    let JoinConstraint::On(condition) = on else { return Ok(()) };
    let mut all = Vec::new();
    conjuncts(condition, &mut all);
    if !all.iter().any(is_mark) {
        let hides = visit_expressions(condition, |part| match is_mark(part) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        return match hides.is_break() {
            true => Err(wrong("its conditions are joined by AND")),
            false => Ok(()),
        };
    }
    all.retain(|part| !is_mark(part));
    let name = match &join.relation {
        TableFactor::Table { name, alias: None, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        _ => None,
    };
    let Some(name) = name else { return Err(wrong("its right side is a table, or a query with a name")) };
    let own = normalised(name.clone());
    let mut keys = all.iter().filter_map(|part| nearest(part, &own));
    let (Some((key, descends)), None) = (keys.next(), keys.next()) else {
        return Err(wrong(
            "one condition compares columns of both sides, behind their tables' names, by <, <=, > or >=",
        ));
    };
    let mut query = parsed::query(match descends {
        true => "SELECT * FROM x WHERE a ORDER BY b DESC LIMIT 1",
        false => "SELECT * FROM x WHERE a ORDER BY b LIMIT 1",
    })?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation: join.relation.clone(), joins: Vec::new() }];
        select.selection = all.into_iter().reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
    }
    if let Some(order_by) = &mut query.order_by
        && let sqlparser::ast::OrderByKind::Expressions(keys) = &mut order_by.kind
        && let Some(first) = keys.first_mut()
    {
        first.expr = key;
    }
    let quoted = Ident::with_quote('"', own);
    let alias = Some(TableAlias { explicit: true, name: quoted, columns: Vec::new(), at: None });
    join.relation = TableFactor::Derived { lateral: true, subquery: Box::new(query), alias, sample: None };
    *on = JoinConstraint::On(Expr::Value(Value::Boolean(true).into()));
    Ok(())
}

/// The side of a comparison that is of the joined table, and whether its largest value is the nearest.
fn nearest(condition: &Expr, own: &str) -> Option<(Expr, bool)> {
    let Expr::BinaryOp { left, op, right } = condition else { return None };
    let is_greater = match op {
        BinaryOperator::Gt | BinaryOperator::GtEq => true,
        BinaryOperator::Lt | BinaryOperator::LtEq => false,
        _ => return None,
    };
    match (is_of(left, own)?, is_of(right, own)?) {
        (false, true) => Some((right.as_ref().clone(), is_greater)),
        (true, false) => Some((left.as_ref().clone(), !is_greater)),
        _ => None,
    }
}

/// Whether an expression's columns are all of the table; `None` where that is not told.
fn is_of(expr: &Expr, own: &str) -> Option<bool> {
    let mut found: Vec<bool> = Vec::new();
    let unknown = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(names) => {
            found.push(names.first().cloned().map(normalised).as_deref() == Some(own));
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    });
    match found.as_slice() {
        [first, rest @ ..] if unknown.is_continue() && rest.iter().all(|other| other == first) => Some(*first),
        _ => None,
    }
}

fn wrong(what: &str) -> Error {
    Error::plan(SqlState::SyntaxError, format!("ASOF JOIN: {what}"))
}
