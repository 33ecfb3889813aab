//! Keys of ORDER BY and of `DISTINCT ON`, as the planner looks for them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self, PipeOperator, SelectItem, SetExpr, Value, visit_expressions};

use super::figured::figured;
use super::fresh_name;
use super::scope::quoted;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// `SELECT DISTINCT a + 1 .. ORDER BY a + 1`: what is ordered by is an output, by its place; the planner knows those of
/// DISTINCT again only as columns.
pub(super) fn order_by_outputs(query: &mut ast::Query) {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return };
    if !matches!(select.distinct, Some(ast::Distinct::Distinct)) {
        return;
    }
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    let shown = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.to_string()),
        _ => None,
    };
    // Behind a star nobody knows the places here.
    let outputs: Vec<String> = select.projection.iter().map_while(shown).collect();
    for key in keys {
        if matches!(key.expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Value(_)) {
            continue;
        }
        let wanted = key.expr.to_string();
        if let Some(place) = outputs.iter().position(|output| *output == wanted) {
            key.expr = ast::Expr::Value(Value::Number((place + 1).to_string(), false).into());
        }
    }
}

/// The outputs of a SELECT in their places; a star is none.
pub(super) fn outputs(select: &ast::Select) -> Vec<Option<ast::Expr>> {
    let output = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    select.projection.iter().map(output).collect()
}

/// Puts the output in the place of a key which is a number. Behind a star nobody knows the places here.
///
/// # Errors
/// There is no output in that place.
pub(super) fn put_output(key: &mut ast::Expr, outputs: &[Option<ast::Expr>], clause: &str) -> Result<()> {
    let ast::Expr::Value(value) = &*key else { return Ok(()) };
    let Value::Number(number, _) = &value.value else { return Ok(()) };
    let Ok(place) = number.to_string().parse::<usize>() else { return Ok(()) };
    if let Some(output) = place.checked_sub(1).and_then(|at| outputs.get(..=at)) {
        if let Some(known) = output.iter().cloned().collect::<Option<Vec<_>>>().and_then(|mut known| known.pop()) {
            *key = known;
        }
        return Ok(());
    }
    match outputs.iter().all(Option::is_some) {
        true => Err(Error::plan(
            SqlState::InvalidColumnReference,
            format!("{clause} {place}: there are {} outputs; give the number of one, or an expression", outputs.len()),
        )),
        false => Ok(()),
    }
}

/// Numbers in `DISTINCT ON (..)` are outputs, and its keys stand in the order in which ORDER BY has them.
///
/// # Errors
/// A number that no output has.
pub(super) fn order_distinct_keys(query: &mut ast::Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if !matches!(select.distinct, Some(ast::Distinct::On(_))) {
        return Ok(());
    }
    let outputs = outputs(select);
    let Some(ast::Distinct::On(keys)) = &mut select.distinct else { return Ok(()) };
    keys.iter_mut().try_for_each(|key| put_output(key, &outputs, "DISTINCT ON"))?;
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(sorts), .. }) = &query.order_by else { return Ok(()) };
    let mut sorts: Vec<ast::Expr> = sorts.iter().take(keys.len()).map(|sort| sort.expr.clone()).collect();
    sorts.iter_mut().try_for_each(|sort| put_output(sort, &outputs, "ORDER BY"))?;
    let sorted = |key: &ast::Expr| sorts.iter().position(|sort| sort == key);
    if let Some(places) = keys.iter().map(sorted).collect::<Option<Vec<_>>>() {
        let mut placed: Vec<(usize, ast::Expr)> = places.into_iter().zip(keys.drain(..)).collect();
        placed.sort_by_key(|(place, _)| *place);
        keys.extend(placed.into_iter().map(|(_, key)| key));
    }
    Ok(())
}

/// `SELECT c FROM t ORDER BY (SELECT max(y) FROM u WHERE x = a)`: a key that is a query is an output, which is gone
/// behind the sort. The planner shows such a query the other outputs alone.
pub(super) fn order_by_queries(query: &mut ast::Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    if select.distinct.is_some() || !keys.iter().any(|key| has_query(&key.expr)) {
        return;
    }
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => Some(figured(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(super::normalised(alias.clone())),
        _ => None,
    };
    let Some(names) = select.projection.iter().map(name).collect::<Option<Vec<String>>>() else { return };
    if names.iter().collect::<HashSet<_>>().len() < names.len() {
        return;
    }
    for (item, name) in select.projection.iter_mut().zip(&names) {
        if let SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) };
        }
    }
    for key in keys.iter_mut().filter(|key| has_query(&key.expr)) {
        let alias = quoted(&fresh_name("sort"));
        let expr = std::mem::replace(&mut key.expr, ast::Expr::Identifier(alias.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    let shown = names.iter().map(|name| SelectItem::UnnamedExpr(ast::Expr::Identifier(quoted(name))));
    query.pipe_operators.insert(0, PipeOperator::Select { exprs: shown.collect() });
}

/// Whether a query stands in an expression.
pub(super) fn has_query(expr: &ast::Expr) -> bool {
    let is_query = |part: &ast::Expr| {
        matches!(part, ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. })
    };
    visit_expressions(expr, |part| if is_query(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        .is_break()
}
