//! The outputs of a SELECT that a name in ORDER BY means.

use sqlparser::ast::{
    Distinct, Expr, ObjectName, OrderBy, OrderByKind, ReplaceSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use super::super::figured::figured;
use super::super::normalised;
use super::bare;
use super::names::{left_out, output_name};
use super::sources::{FoundColumn, Scope};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Whether an output got this name by AS.
pub(super) fn is_output(select: &Select, wanted: &str) -> bool {
    let named = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()) == wanted,
        _ => false,
    };
    select.projection.iter().any(named)
}

/// Whether an output has this name, by AS or as a column's own.
pub(super) fn has_output(items: &[SelectItem], wanted: &str) -> bool {
    items.iter().any(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()) == wanted,
        SelectItem::UnnamedExpr(expr) => output_name(expr).as_deref() == Some(wanted),
        _ => false,
    })
}

/// The output whose name without AS, which is no column's, a key is.
pub(super) fn figured_output(key: &Expr, select: &Select) -> Option<Expr> {
    let name = bare(key)?;
    if has_output(&select.projection, &name) {
        return None;
    }
    let of_name = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) if figured(expr) == name => Some(expr),
        _ => None,
    });
    let mut of_name: Vec<&Expr> = of_name.collect();
    of_name.dedup();
    match of_name.as_slice() {
        [one] => Some((*one).clone()),
        _ => None,
    }
}

/// Writes out the keys of ORDER BY that are names of outputs, where a merged column has the name too.
///
/// # Errors
/// Names of several outputs that are not the same.
pub(super) fn keys_of_outputs(order_by: &mut Option<OrderBy>, select: &Select, scope: &Scope) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return Ok(()) };
    keys.iter_mut().try_for_each(|key| key_of_output(&mut key.expr, select, scope, "ORDER BY"))
}

/// Likewise for DISTINCT ON.
///
/// # Errors
/// As [`keys_of_outputs`].
pub(super) fn distinct_outputs(select: &mut Select, scope: &Scope) -> Result<()> {
    let Some(Distinct::On(mut keys)) = select.distinct.clone() else { return Ok(()) };
    keys.iter_mut().try_for_each(|key| key_of_output(key, select, scope, "DISTINCT ON"))?;
    select.distinct = Some(Distinct::On(keys));
    Ok(())
}

fn key_of_output(key: &mut Expr, select: &Select, scope: &Scope, clause: &str) -> Result<()> {
    let Some(name) = bare(key).filter(|_| scope.shown.is_some()) else { return Ok(()) };
    if !scope.merges {
        return one_output(&name, &select.projection, scope, clause);
    }
    if let Some(output) = outputs_of_name(&name, &select.projection, scope, clause)?
        && !is_output(select, &name)
    {
        *key = output;
    }
    Ok(())
}

/// Whether outputs of that name are one and the same.
///
/// # Errors
/// Several that are not.
pub(super) fn one_output(name: &str, items: &[SelectItem], scope: &Scope, clause: &str) -> Result<()> {
    outputs_of_name(name, items, scope, clause).map(|_| ())
}

fn outputs_of_name(name: &str, items: &[SelectItem], scope: &Scope, clause: &str) -> Result<Option<Expr>> {
    let mut outputs: Vec<Expr> = Vec::new();
    for item in items {
        if let Some(output) = of_name(item, name, scope)?
            && !outputs.contains(&output)
        {
            outputs.push(output);
        }
    }
    if outputs.len() > 1 {
        return Err(several(name, clause));
    }
    Ok(outputs.pop())
}

/// Whether each name in ORDER BY of a set operation is that of one column.
///
/// # Errors
/// The name of several.
pub(super) fn keys_of_set(order_by: Option<&OrderBy>, columns: Option<&[String]>) -> Result<()> {
    let (Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }), Some(columns)) = (order_by, columns) else {
        return Ok(());
    };
    for name in keys.iter().filter_map(|key| bare(&key.expr)) {
        if columns.iter().filter(|column| **column == name).count() > 1 {
            return Err(several(&name, "ORDER BY"));
        }
    }
    Ok(())
}

fn several(name: &str, clause: &str) -> Error {
    Error::plan(
        SqlState::AmbiguousColumn,
        format!("{clause} {name}: several outputs have that name; give them names with AS"),
    )
}

/// What an item of the SELECT list puts out under a name.
fn of_name(item: &SelectItem, name: &str, scope: &Scope) -> Result<Option<Expr>> {
    Ok(match item {
        SelectItem::ExprWithAlias { expr, alias } if normalised(alias.clone()) == name => Some(meant(expr, scope)),
        SelectItem::UnnamedExpr(expr) if output_name(expr).as_deref() == Some(name) => Some(meant(expr, scope)),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
            of_all(table, options, name, scope)?
        }
        _ => None,
    })
}

/// What `table.*` puts out under a name.
fn of_all(table: &ObjectName, options: &WildcardAdditionalOptions, name: &str, scope: &Scope) -> Result<Option<Expr>> {
    if left_out(options)?.iter().any(|column| column == name) {
        return Ok(None);
    }
    if let Some(ReplaceSelectItem { items }) = &options.opt_replace
        && let Some(item) = items.iter().find(|item| normalised(item.column_name.clone()) == name)
    {
        return Ok(Some(item.expr.clone()));
    }
    let parts: Vec<_> = table.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
    Ok(scope.column_of(&parts, name))
}

/// A column with its source before it; another expression as it is.
fn meant(expr: &Expr, scope: &Scope) -> Expr {
    let column = match expr {
        Expr::Nested(inner) => return meant(inner, scope),
        Expr::Identifier(name) => match scope.find(&normalised(name.clone())) {
            FoundColumn::One(column) => Some(column.expr.clone()),
            _ => None,
        },
        Expr::CompoundIdentifier(names) => {
            names.split_last().and_then(|(name, table)| scope.column_of(table, &normalised(name.clone())))
        }
        _ => None,
    };
    column.unwrap_or_else(|| expr.clone())
}
