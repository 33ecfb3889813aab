//! `ARRAY(query)`: the list of the rows of a query of one column, in their order, `{}` where there are none.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};

use super::calls::{call, is_called};
use super::complete::is_aggregate;
use super::figured::figured;
use super::parsed::from_query;
use super::{fresh_name, normalised};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The query of `ARRAY(query)`.
pub(super) fn array_query(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) if is_called(name, "array") => {
            Some(query)
        }
        _ => None,
    }
}

/// `ARRAY(query)`.
pub(super) fn listed(query: &Query) -> Result<Expr> {
    let none = Expr::Array(ast::Array { elem: Vec::new(), named: true });
    let list = Expr::Subquery(Box::new(match aggregated(query) {
        Some(query) => query,
        None => list_of_rows(query)?,
    }));
    Ok(call("coalesce", vec![list, none]))
}

/// A query whose rows are those of its FROM, with the list of its one output in the place of that.
fn aggregated(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let changed = select.distinct.is_some() || select.having.is_some() || select.qualify.is_some() || grouped;
    let limited = query.limit_clause.is_some() || query.fetch.is_some() || query.order_by.is_some();
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice() else {
        return None;
    };
    if changed || limited || calls(expr) {
        return None;
    }
    let list = SelectItem::UnnamedExpr(call("array_agg", vec![expr.clone()]));
    let select = Select { projection: vec![list], ..select.as_ref().clone() };
    Some(Query { body: Box::new(SetExpr::Select(Box::new(select))), ..query.clone() })
}

/// Whether functions over rows or that give rows may be called.
fn calls(expr: &Expr) -> bool {
    ast::visit_expressions(expr, |part| match part {
        Expr::Function(function)
            if function.over.is_some()
                || is_aggregate(&function.name)
                || is_called(&function.name, "unnest")
                || is_called(&function.name, "generate_series") =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The list of any query's rows.
fn list_of_rows(query: &Query) -> Result<Query> {
    let mut query = query.clone();
    let mut columns = vec![fresh_name("element")];
    let keys = match &query.order_by {
        Some(_) => ordered(&mut query, &mut columns)?,
        None => Vec::new(),
    };
    let element = Expr::Identifier(Ident::with_quote('"', &columns[0]));
    let mut list = call("array_agg", vec![element]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut list
        && !keys.is_empty()
    {
        list.clauses = vec![FunctionArgumentClause::OrderBy(keys)];
    }
    let mut around = from_query(query, &columns)?;
    if let SetExpr::Select(select) = around.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(list)];
    }
    Ok(around)
}

/// The name of what a query gives, of several the first one's, and what it is.
fn output(body: &SetExpr) -> Option<(String, Expr)> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => Some((figured(expr), expr.clone())),
            SelectItem::ExprWithAlias { expr, alias } => Some((normalised(alias.clone()), expr.clone())),
            _ => None,
        },
        SetExpr::SetOperation { left, .. } => output(left),
        SetExpr::Query(query) => output(&query.body),
        SetExpr::Values(_) => {
            let name = "column1";
            Some((name.into(), Expr::Identifier(Ident::new(name))))
        }
        _ => None,
    }
}

/// What the rows of a query with ORDER BY are ordered by, as columns of what is around it: the one that it gives, or
/// further ones that are added to it.
fn ordered(query: &mut Query, columns: &mut Vec<String>) -> Result<Vec<OrderByExpr>> {
    let refused = |what: &str| {
        Err(Error::Unsupported(format!(
            "ARRAY(query) with ORDER BY {what} is not supported; use (SELECT array_agg(x ORDER BY y) FROM ..)"
        )))
    };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else { return refused("ALL") };
    let output = output(&query.body);
    let is_output = |key: &Expr| match key {
        Expr::Identifier(name) => output.as_ref().is_some_and(|(known, _)| *known == normalised(name.clone())),
        key => output.as_ref().is_some_and(|(_, expr)| *expr == *key),
    };
    let mut all = Vec::with_capacity(keys.len());
    let mut further = Vec::new();
    for key in keys {
        let is_first = match &key.expr {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) if number == "1" => true,
                Value::Number(number, _) => {
                    let message = format!("ORDER BY position {number} is not in select list: ARRAY(query) has one");
                    return Err(Error::plan(SqlState::InvalidColumnReference, message));
                }
                _ => false,
            },
            key => is_output(key),
        };
        let column = match is_first {
            true => columns[0].clone(),
            false => {
                let name = fresh_name("key");
                let alias = Ident::with_quote('"', &name);
                further.push(SelectItem::ExprWithAlias { expr: key.expr.clone(), alias });
                columns.push(name.clone());
                name
            }
        };
        all.push(OrderByExpr { expr: Expr::Identifier(Ident::with_quote('"', column)), ..key.clone() });
    }
    if further.is_empty() {
        return Ok(all);
    }
    match query.body.as_mut() {
        SetExpr::Select(select) if select.distinct.is_none() => select.projection.extend(further),
        _ => return refused("what the query does not give"),
    }
    Ok(all)
}
