//! `ORDER BY k FETCH FIRST n ROWS WITH TIES`: the first rows, and those that stand where the last of them does. They
//! are those whose rank is one of the first `n`, which QUALIFY asks.

use std::ops::ControlFlow;

use datafusion_common::DataFusionError;
use sqlparser::ast::{self, Expr, OrderByExpr, OrderByKind, SelectItem, SetExpr, Value};
use sqlparser::parser::Parser;

use super::{SqlDialect, fresh_name, normalised};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Takes WITH TIES out of a query, and puts a condition on ranks in its place.
///
/// # Errors
/// There is no ORDER BY, or numbers or keys of another kind than those that are done.
pub(super) fn rank_with_ties(query: &mut ast::Query) -> Result<()> {
    let Some(ast::Fetch { with_ties: true, percent: false, quantity }) = &query.fetch else { return Ok(()) };
    let rows = match quantity {
        Some(quantity) => number(quantity)?,
        None => 1,
    };
    let skipped = match &query.limit_clause {
        None => 0,
        Some(ast::LimitClause::LimitOffset { limit: None, offset, limit_by }) if limit_by.is_empty() => {
            offset.as_ref().map_or(Ok(0), |offset| number(&offset.value))?
        }
        Some(_) => return Err(unsupported("beside LIMIT; write one of both")),
    };
    let keys = match &query.order_by {
        None => {
            return Err(Error::plan(
                SqlState::SyntaxError,
                "WITH TIES needs an ORDER BY, which says what rows are alike in; write one before FETCH",
            ));
        }
        Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) => keys.clone(),
        Some(_) => return Err(unsupported("behind ORDER BY ALL; write the keys")),
    };
    // What decides is the row that is the last without ties.
    let last = rows.checked_add(skipped).ok_or_else(|| unsupported("of so many rows; write a smaller number"))?;
    let keys = match query.body.as_ref() {
        SetExpr::Select(select) if select.distinct.is_none() => {
            keys.into_iter().map(|key| made_of_inputs(key, &select.projection)).collect::<Result<Vec<_>>>()?
        }
        _ => {
            within_another(query, &keys)?;
            keys
        }
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unsupported("behind this query")) };
    let mut condition = ranked(&format!("rank() OVER (ORDER BY 1) <= {last}"), &keys)?;
    if skipped > 0 {
        condition = and(condition, ranked(&format!("row_number() OVER (ORDER BY 1) > {skipped}"), &keys)?);
    }
    select.qualify = Some(match select.qualify.take() {
        Some(own) => and(Expr::Nested(Box::new(own)), condition),
        None => condition,
    });
    query.fetch = None;
    query.limit_clause = None;
    Ok(())
}

fn unsupported(what: &str) -> Error {
    Error::Unsupported(format!("FETCH FIRST .. WITH TIES is not supported {what}"))
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: ast::BinaryOperator::And, right: Box::new(right) }
}

/// A number as it is written.
fn number(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Value(value) if let Value::Number(text, _) = &value.value => text.parse().ok(),
        Expr::Nested(inner) => return number(inner),
        _ => None,
    }
    .ok_or_else(|| unsupported("where a number of rows is no number as it is written"))
}

/// A condition on a window function, with these keys in the place of its own.
fn ranked(text: &str, keys: &[OrderByExpr]) -> Result<Expr> {
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text).map_err(DataFusionError::from)?;
    let mut condition = parser.parse_expr().map_err(DataFusionError::from)?;
    if let Expr::BinaryOp { left, .. } = &mut condition
        && let Expr::Function(function) = left.as_mut()
        && let Some(ast::WindowType::WindowSpec(window)) = &mut function.over
    {
        window.order_by = keys.to_vec();
    }
    Ok(condition)
}

/// Puts a query of sets, or of distinct rows, into FROM of another, whose keys are names of its outputs.
fn within_another(query: &mut ast::Query, keys: &[OrderByExpr]) -> Result<()> {
    if !keys.iter().all(|key| matches!(key.expr, Expr::Identifier(_))) {
        return Err(unsupported("behind such keys of DISTINCT, UNION and VALUES; write names of outputs in ORDER BY"));
    }
    let text = format!("SELECT * FROM (SELECT 1) AS {}", fresh_name("ties"));
    let mut parser = Parser::new(&SqlDialect).try_with_sql(&text).map_err(DataFusionError::from)?;
    let mut outer = *parser.parse_query().map_err(DataFusionError::from)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let ast::TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
    }
    query.body = outer.body;
    Ok(())
}

/// A key that names an output, or numbers it, is what that is made of: a window knows no outputs.
fn made_of_inputs(key: OrderByExpr, outputs: &[SelectItem]) -> Result<OrderByExpr> {
    let of_item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let found = match &key.expr {
        Expr::Value(value) if let Value::Number(place, _) = &value.value => {
            let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            let before = place.and_then(|place| outputs.get(..=place));
            let items = before.and_then(|items| items.iter().map(of_item).collect::<Option<Vec<_>>>());
            let item = items.and_then(|items| items.into_iter().next_back());
            Some(item.ok_or_else(|| unsupported("behind such a number of a column; write what it is made of"))?)
        }
        Expr::Identifier(name) => outputs.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if normalised(alias.clone()) == normalised(name.clone()) => {
                Some(expr.clone())
            }
            _ => None,
        }),
        _ => None,
    };
    let Some(found) = found else { return Ok(key) };
    let is_window = |expr: &Expr| match expr {
        Expr::Function(call) if call.over.is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    match ast::visit_expressions(&found, is_window).is_break() {
        true => Err(unsupported("behind keys that are window functions; put the query into FROM of another")),
        false => Ok(OrderByExpr { expr: found, ..key }),
    }
}
