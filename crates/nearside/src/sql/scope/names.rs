//! Names of columns and tables as the syntax tree has them.

use sqlparser::ast::{Expr, Ident, ObjectName, TableAlias};

use super::super::normalised;

/// The columns of a table, by its name.
pub(crate) type Tables<'a> = &'a dyn Fn(&ObjectName) -> Option<Vec<String>>;

/// The name of a column that an expression is.
pub(in crate::sql) fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normalised(name.clone())),
        Expr::CompoundIdentifier(names) => names.last().cloned().map(normalised),
        Expr::Nested(inner) => name_of(inner),
        _ => None,
    }
}

pub(super) fn alias_columns(alias: &TableAlias) -> Vec<String> {
    alias.columns.iter().map(|column| normalised(column.name.clone())).collect()
}

/// Columns with the names of an alias's list, if it has one.
pub(super) fn renamed(columns: Vec<String>, names: &[String]) -> Option<Vec<String>> {
    match names.len() {
        0 => Some(columns),
        given if given == columns.len() => Some(names.to_vec()),
        _ => None,
    }
}

/// A name that is folded already.
pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}
