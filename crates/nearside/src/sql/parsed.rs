//! Statements of our own, from their text: what they hold is put into them.

use datafusion_common::DataFusionError;
use sqlparser::ast::{self, Query};
use sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::dialect::SqlDialect;

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
