//! Keys of ORDER BY and of `DISTINCT ON`, as the planner looks for them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self, PipeOperator, SelectItem, SetExpr, Value, visit_expressions};

use super::figured::figured;
use super::fresh_name;
use super::scope::quoted;

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

/// Numbers in `DISTINCT ON (..)` are outputs, and its keys stand in the order in which ORDER BY has them.
pub(super) fn order_distinct_keys(query: &mut ast::Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let outputs: Vec<Option<ast::Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let output = |key: &ast::Expr| {
        let ast::Expr::Value(value) = key else { return None };
        let Value::Number(number, _) = &value.value else { return None };
        let place = number.to_string().parse::<usize>().ok()?.checked_sub(1)?;
        // Behind a star nobody knows the places here.
        outputs[..=place.min(outputs.len().checked_sub(1)?)].iter().all(Option::is_some).then_some(())?;
        outputs.get(place).cloned().flatten()
    };
    let Some(ast::Distinct::On(keys)) = &mut select.distinct else { return };
    for key in keys.iter_mut() {
        if let Some(output) = output(key) {
            *key = output;
        }
    }
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(sorts), .. }) = &query.order_by else { return };
    let sorted = |key: &ast::Expr| {
        sorts.iter().take(keys.len()).position(|sort| output(&sort.expr).as_ref().unwrap_or(&sort.expr) == key)
    };
    if let Some(places) = keys.iter().map(sorted).collect::<Option<Vec<_>>>() {
        let mut placed: Vec<(usize, ast::Expr)> = places.into_iter().zip(keys.drain(..)).collect();
        placed.sort_by_key(|(place, _)| *place);
        keys.extend(placed.into_iter().map(|(_, key)| key));
    }
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
