//! Statements of our own, from their text: what they hold is put into them.

use datafusion_common::DataFusionError;
use sqlparser::ast::{self, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef, TableFactor};
use sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::dialect::SqlDialect;
use crate::sql::fresh_name;

/// The statement of a text of ours.
///
/// # Errors
/// None that such a text has.
pub(super) fn statement(sql: &str) -> Result<ast::Statement> {
    let parsed = Parser::parse_sql(&SqlDialect, sql).map_err(DataFusionError::from)?;
    parsed.into_iter().next().ok_or_else(|| other(sql))
}

/// The query of a text of ours.
///
/// # Errors
/// As [`statement`].
pub(super) fn query(sql: &str) -> Result<Query> {
    match statement(sql)? {
        ast::Statement::Query(query) => Ok(*query),
        _ => Err(other(sql)),
    }
}

/// It was read as another statement than it is.
pub(super) fn other(sql: &str) -> Error {
    Error::Internal(format!("'{sql}' was parsed as something else"))
}

/// `SELECT 1 FROM (query) AS name (columns)`.
pub(super) fn from_query(query: Query, columns: &[String]) -> Result<Query> {
    let parsed = Parser::parse_sql(&SqlDialect, "SELECT 1 FROM (SELECT 1) AS x").map_err(DataFusionError::from)?;
    let Some(ast::Statement::Query(mut outer)) = parsed.into_iter().next() else {
        return Err(Error::Internal("a query around a query".into()));
    };
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, alias, .. } = &mut from.relation
    {
        **subquery = query;
        let named = |name: &String| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None };
        *alias = Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', fresh_name("rows")),
            columns: columns.iter().map(named).collect(),
            at: None,
        });
    }
    Ok(*outer)
}
