//! Names of outputs, which the planner wants to differ: it makes them of expressions, and calls alike what is not.
//!
//! # Limits
//! Two outputs have the same name where their expressions are written alike but for case, brackets and casts, or as
//! columns, and may have where users see them under one. What the planner takes for the same otherwise it refuses: `*`
//! beside `*` or `t.*`, and beside a column `AS` the name of one of its own.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self, Ident, SelectItem, SetExpr, Value, visit_expressions_mut};

use super::figured::figured;
use super::intervals::spell_out;
use super::keys::has_query;
use super::names::{fresh_name, named_otherwise};
use super::normalised;

/// An output gets the name that it has without AS where the planner would make another of it: below a sort by what is
/// no output it calls a query otherwise than above, and of operators that are written as calls it knows the calls
/// alone.
pub(super) fn name_queries(query: &mut ast::Query) {
    let is_sorted = query.order_by.is_some();
    each_select(&mut query.body, &mut |select| {
        let name = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => figured(expr),
            SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()),
            _ => String::new(),
        };
        let names: Vec<String> = select.projection.iter().map(name).collect();
        for (item, name) in select.projection.iter_mut().zip(&names) {
            if let SelectItem::UnnamedExpr(expr) = item
                && (is_called_otherwise(expr) || is_sorted && has_query(expr))
            {
                let is_alone = names.iter().filter(|other| *other == name).count() == 1;
                // Users see it under the name that it has without AS.
                let alias = if is_alone { name.clone() } else { fresh_name("output") };
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
            }
        }
    });
}

/// `a ^ b`, `t AT TIME ZONE 'UTC'` and `1e3`.
fn is_called_otherwise(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_called_otherwise(inner),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::PGExp, .. } | ast::Expr::AtTimeZone { .. } => true,
        ast::Expr::Value(value) => {
            matches!(&value.value, Value::Number(number, _) if number.to_string().contains(['e', 'E']))
        }
        _ => false,
    }
}

/// `SELECT a, a` gives two columns, which the planner wants to be called otherwise. Users see them under their names.
pub(super) fn name_outputs_apart(query: &mut ast::Query) {
    each_select(&mut query.body, &mut |select| {
        let mut places = repeated(&select.projection);
        let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        if select.projection.iter().any(is_star) {
            // The star may give the same columns.
            let columns = select.projection.iter().enumerate().filter(|(_, item)| is_column(item));
            places.extend(columns.map(|(place, _)| place));
        }
        places.extend(taken_otherwise(&select.projection));
        places.sort_unstable();
        places.dedup();
        for place in places {
            let item = &mut select.projection[place];
            let free = match column_name(item) {
                Some(name) => named_otherwise(&name),
                // Users see it under the name that it has without AS.
                None => fresh_name("output"),
            };
            if let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item {
                let expr = expr.clone();
                let alias = Ident::with_quote('"', free);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
    });
}

/// Which items are columns by a name that another one has by AS, or behind a table's name.
fn taken_otherwise(items: &[SelectItem]) -> Vec<usize> {
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some((folded(alias), true)),
        SelectItem::UnnamedExpr(expr) => match told(expr) {
            ast::Expr::CompoundIdentifier(names) => names.last().map(|name| (folded(name), false)),
            _ => None,
        },
        _ => None,
    };
    let taken: Vec<(String, bool)> = items.iter().filter_map(name).collect();
    let is_taken = |item: &SelectItem| {
        let SelectItem::UnnamedExpr(expr) = item else { return false };
        match bare(expr) {
            ast::Expr::Identifier(own) => taken.iter().any(|(name, _)| *name == folded(own)),
            ast::Expr::CompoundIdentifier(own) => {
                own.last().is_some_and(|own| taken.iter().any(|(name, by_as)| *by_as && *name == folded(own)))
            }
            _ => false,
        }
    };
    items.iter().enumerate().filter(|(_, item)| is_taken(item)).map(|(place, _)| place).collect()
}

fn is_column(item: &SelectItem) -> bool {
    let SelectItem::UnnamedExpr(expr) = item else { return false };
    matches!(bare(expr), ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
}

/// The SELECTs of a query; one in brackets is a query by itself.
pub(super) fn each_select(body: &mut SetExpr, visit: &mut dyn FnMut(&mut ast::Select)) {
    match body {
        SetExpr::Select(select) => visit(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, visit);
            each_select(right, visit);
        }
        _ => {}
    }
}

/// Which items have the name of one before them, or may have: what users see under one name, the planner may call alike
/// too.
fn repeated(items: &[SelectItem]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut shown = HashSet::new();
    let mut again = |item: &SelectItem| {
        let is_shown =
            matches!(item, SelectItem::UnnamedExpr(expr) if !is_column(item) && !shown.insert(figured(expr)));
        output_name(item).is_some_and(|name| !seen.insert(name)) || is_shown
    };
    let numbers = items.iter().map(&mut again).enumerate().collect::<Vec<_>>();
    numbers.into_iter().filter_map(|(place, again)| again.then_some(place)).collect()
}

/// What the planner makes an output's name of: an alias, which is no table's, or the expression.
fn output_name(item: &SelectItem) -> Option<(bool, String)> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some((true, folded(alias))),
        SelectItem::UnnamedExpr(expr) => Some((false, text_of(&without_casts(told(expr))))),
        _ => None,
    }
}

/// Casts within an expression are not told either, nor what queries within it are.
fn without_casts(expr: &ast::Expr) -> ast::Expr {
    let mut bare = expr.clone();
    let word = |word: &str| ast::Expr::Identifier(Ident::with_quote('"', word));
    let _ = visit_expressions_mut(&mut bare, |part| {
        match part {
            ast::Expr::Cast { expr: inner, .. } | ast::Expr::Nested(inner) => *part = inner.as_ref().clone(),
            ast::Expr::Exists { negated, .. } => *part = word(if *negated { "NOT EXISTS" } else { "EXISTS" }),
            ast::Expr::InSubquery { negated, .. } => *part = word(if *negated { "NOT IN" } else { "IN" }),
            ast::Expr::Subquery(_) => *part = word("query"),
            // What cannot be read is told when it is planned.
            ast::Expr::Interval(_) => drop(spell_out(part)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    bare
}

/// What the planner names an output after: of a query, the output of that.
fn told(expr: &ast::Expr) -> &ast::Expr {
    match bare(expr) {
        ast::Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(inner)) => told(inner),
                _ => bare(expr),
            },
            _ => bare(expr),
        },
        expr => expr,
    }
}

/// An expression's text with names as SQL folds them.
fn text_of(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Identifier(name) => folded(name),
        ast::Expr::CompoundIdentifier(names) => names.iter().map(folded).collect::<Vec<_>>().join("."),
        expr => as_call(expr).unwrap_or_else(|| expr.to_string()),
    }
}

/// What the planner calls an expression that SQL has a syntax of its own for, and the functions that it stands for.
fn as_call(expr: &ast::Expr) -> Option<String> {
    let call = |name: &str, arguments: &[Option<&ast::Expr>]| {
        let arguments: Vec<String> = arguments.iter().flatten().map(|argument| argument.to_string()).collect();
        Some(format!("{name}({})", arguments.join(", ")))
    };
    match expr {
        ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                None | Some(ast::TrimWhereField::Both) => "btrim",
                Some(ast::TrimWhereField::Leading) => "ltrim",
                Some(ast::TrimWhereField::Trailing) => "rtrim",
            };
            let characters = trim_characters.as_ref().and_then(|characters| characters.first());
            call(name, &[Some(expr), trim_what.as_deref().or(characters)])
        }
        ast::Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let name = if *shorthand { "substr" } else { "substring" };
            call(name, &[Some(expr), substring_from.as_deref(), substring_for.as_deref()])
        }
        ast::Expr::Position { expr, r#in } => call("position", &[Some(r#in), Some(expr)]),
        ast::Expr::Extract { field, expr, .. } => Some(format!("extract('{field}', {expr})")),
        ast::Expr::Function(function) => {
            let name = function.name.to_string();
            let rest = expr.to_string().split_off(name.len());
            Some(format!("{}{rest}", name.to_lowercase()))
        }
        _ => None,
    }
}

/// The column's name as people see it.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => Some(match told(expr) {
            ast::Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, folded),
            expr => text_of(expr),
        }),
        _ => None,
    }
}

/// The name that an output has from AS, or from the column that it is.
fn column_name(item: &SelectItem) -> Option<String> {
    let is_named = match item {
        SelectItem::ExprWithAlias { .. } => true,
        SelectItem::UnnamedExpr(expr) => {
            matches!(told(expr), ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    name_of(item).filter(|_| is_named)
}

pub(super) fn folded(name: &Ident) -> String {
    normalised(name.clone())
}

/// Without brackets and casts around it, which names of outputs do not tell.
fn bare(mut expr: &ast::Expr) -> &ast::Expr {
    loop {
        expr = match expr {
            ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => inner,
            ast::Expr::AtTimeZone { timestamp, .. } => timestamp,
            expr => return expr,
        }
    }
}
