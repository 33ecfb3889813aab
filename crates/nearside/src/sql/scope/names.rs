//! Names of columns and tables as the syntax tree has them.

use sqlparser::ast::{ExcludeSelectItem, Expr, Ident, ObjectName, TableAlias, WildcardAdditionalOptions};

use super::super::normalised;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::seen_name;

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

/// The name that an expression's output has without AS: a column's own, also behind a cast.
pub(in crate::sql) fn output_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast { expr, .. } => output_name(expr),
        Expr::Nested(inner) => output_name(inner),
        other => name_of(other),
    }
}

/// The columns that a `*` leaves out.
///
/// # Errors
/// Names with a table before them.
pub(super) fn left_out(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    let mut names: Vec<String> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![one_name(name)?],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(one_name).collect::<Result<_>>()?,
        None => Vec::new(),
    };
    if let Some(except) = &options.opt_except {
        let all = std::iter::once(&except.first_element).chain(&except.additional_elements);
        names.extend(all.cloned().map(normalised));
    }
    Ok(names)
}

fn one_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().map(normalised),
        _ => None,
    }
    .ok_or_else(|| {
        Error::plan(SqlState::SyntaxError, format!("EXCLUDE ({name}): a column's name without a table before it"))
    })
}

/// The columns that an alias names, as users see them.
pub(super) fn alias_columns(alias: &TableAlias) -> Vec<String> {
    let names = alias.columns.iter().map(|column| normalised(column.name.clone()));
    names.map(|name| seen_name(&name).map(str::to_string).unwrap_or(name)).collect()
}

/// Columns with the names of an alias's list, which may be shorter.
pub(super) fn renamed(columns: Vec<String>, names: &[String]) -> Option<Vec<String>> {
    let rest = columns.get(names.len()..)?;
    Some(names.iter().chain(rest).cloned().collect())
}

/// A name that is folded already.
pub(in crate::sql) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}
