//! `* RENAME`, `* ILIKE` and `COLUMNS(..)` in SELECT lists, as DuckDB has them: the columns that they show.
//!
//! ```text
//! * RENAME (a AS b)            all columns, a as b
//! * ILIKE 'x%'                 the columns whose names are like that
//! max(COLUMNS('^n'))           max(n1), max(n2), ..: one output for each column that the expression finds
//! COLUMNS(* EXCLUDE (a))       all columns but a
//! COLUMNS([a, 'b'])            these columns
//! ```

use std::ops::ControlFlow;

use arrow::array::{BooleanArray, StringArray};
use arrow::compute::regexp_is_match_scalar;
use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, IdentWithAlias, RenameSelectItem,
    SelectItem, Value, WildcardAdditionalOptions, visit_expressions, visit_expressions_mut,
};

use super::super::normalised;
use super::names::{left_out, quoted};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};

/// Whether the planner would pass over what a `*` says.
pub(super) fn is_written_out(options: &WildcardAdditionalOptions) -> bool {
    options.opt_rename.is_some() || options.opt_ilike.is_some()
}

/// The columns that a `*` shows, of all: the place of each, and its name.
///
/// # Errors
/// Names of columns that there are not.
pub(super) fn shown(options: &WildcardAdditionalOptions, all: &[String]) -> Result<Vec<(usize, String)>> {
    let left_out = left_out(options)?;
    let renamed: Vec<(String, String)> = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => vec![pair(one)],
        Some(RenameSelectItem::Multiple(several)) => several.iter().map(pair).collect(),
        None => Vec::new(),
    };
    for name in left_out.iter().chain(renamed.iter().map(|(name, _)| name)) {
        if !all.contains(name) {
            let nearest = nearest(name, all.iter().map(String::as_str));
            return Err(Error::NotFound { kind: "column", name: name.clone(), nearest });
        }
    }
    let pattern = options.opt_ilike.as_ref().map(|ilike| like(&ilike.pattern));
    let mut shown = Vec::with_capacity(all.len());
    for (place, name) in all.iter().enumerate() {
        let is_like = match &pattern {
            Some(pattern) => finds(pattern, name)?,
            None => true,
        };
        if is_like && !left_out.contains(name) {
            let other = renamed.iter().find(|(column, _)| column == name).map(|(_, other)| other);
            shown.push((place, other.unwrap_or(name).clone()));
        }
    }
    Ok(shown)
}

fn pair(renamed: &IdentWithAlias) -> (String, String) {
    (normalised(renamed.ident.clone()), normalised(renamed.alias.clone()))
}

/// The regular expression of a pattern of ILIKE.
fn like(pattern: &str) -> String {
    let mut text = String::from("(?is)^");
    for letter in pattern.chars() {
        match letter {
            '%' => text.push_str(".*"),
            '_' => text.push('.'),
            other if other.is_alphanumeric() => text.push(other),
            other => {
                text.push('\\');
                text.push(other);
            }
        }
    }
    text + "$"
}

fn finds(expression: &str, name: &str) -> Result<bool> {
    let found: BooleanArray =
        regexp_is_match_scalar(&StringArray::from(vec![name]), expression, None).map_err(|_| {
            Error::plan(SqlState::SyntaxError, format!("COLUMNS('{expression}'): this is no regular expression"))
        })?;
    Ok(found.value(0))
}

/// Whether an output names columns by COLUMNS.
pub(super) fn has_columns(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            visit_expressions(expr, |part| match call(part) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            })
            .is_break()
        }
        _ => false,
    }
}

fn call(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(call) => match call.name.0.as_slice() {
            [part] => {
                let is =
                    part.as_ident().is_some_and(|i| i.quote_style.is_none() && i.value.eq_ignore_ascii_case("columns"));
                is.then_some(call)
            }
            _ => None,
        },
        _ => None,
    }
}

/// An output for each column that COLUMNS finds.
///
/// # Errors
/// Several that do not find the same, arguments of another kind, none.
pub(super) fn each_column(item: &SelectItem, all: &[(String, Expr)]) -> Result<Vec<SelectItem>> {
    let SelectItem::UnnamedExpr(expr) = item else {
        return Err(Error::Unsupported(
            "AS behind COLUMNS(..) is not supported; the outputs have the columns' names".into(),
        ));
    };
    let mut calls: Vec<Function> = Vec::new();
    let _ = visit_expressions(expr, |part| {
        calls.extend(call(part).cloned());
        ControlFlow::<()>::Continue(())
    });
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let Some(first) = calls.first() else { return Ok(vec![item.clone()]) };
    if calls.iter().any(|call| call != first) {
        return Err(Error::Unsupported("two different COLUMNS(..) in one output are not supported".into()));
    }
    let found = found(first, &names)?;
    if found.is_empty() {
        return Err(Error::plan(SqlState::UndefinedColumn, format!("{first} finds no column")));
    }
    let items = found.into_iter().map(|(place, name)| {
        let mut one = expr.clone();
        let _ = visit_expressions_mut(&mut one, |part| {
            if call(part).is_some() {
                *part = all[place].1.clone();
            }
            ControlFlow::<()>::Continue(())
        });
        match call(expr) {
            Some(_) => SelectItem::ExprWithAlias { expr: one, alias: quoted(&name) },
            None => SelectItem::UnnamedExpr(one),
        }
    });
    Ok(items.collect())
}

fn found(call: &Function, names: &[String]) -> Result<Vec<(usize, String)>> {
    let wrong = || {
        Err(Error::Unsupported(format!(
            "{call} is not supported; COLUMNS takes *, a regular expression or a list of columns"
        )))
    };
    let FunctionArguments::List(list) = &call.args else { return wrong() };
    let all = || names.iter().cloned().enumerate().collect();
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => Ok(all()),
        [FunctionArg::Unnamed(FunctionArgExpr::WildcardWithOptions(options))] => shown(options, names),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(ast::Array { elem, .. })))] => {
            let mut listed = Vec::with_capacity(elem.len());
            for column in elem {
                let name = match column {
                    Expr::Identifier(name) => normalised(name.clone()),
                    Expr::Value(value) => match &value.value {
                        Value::SingleQuotedString(name) => name.clone(),
                        _ => return wrong(),
                    },
                    _ => return wrong(),
                };
                let Some(place) = names.iter().position(|known| *known == name) else {
                    let nearest = nearest(&name, names.iter().map(String::as_str));
                    return Err(Error::NotFound { kind: "column", name, nearest });
                };
                listed.push((place, name));
            }
            // In the order that the columns have.
            listed.sort_unstable_by_key(|(place, _)| *place);
            Ok(listed)
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => {
            let Value::SingleQuotedString(expression) = &value.value else { return wrong() };
            let mut matching = Vec::new();
            for (place, name) in names.iter().enumerate() {
                if finds(expression, name)? {
                    matching.push((place, name.clone()));
                }
            }
            Ok(matching)
        }
        _ => wrong(),
    }
}
