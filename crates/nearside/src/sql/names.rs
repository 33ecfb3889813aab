//! Names, as they stand in statements, and ones that stand in none.

use std::sync::atomic::{AtomicU64, Ordering};

use datafusion_common::TableReference;
use sqlparser::ast::ObjectName;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::dialect::SqlDialect;
use super::normalised;
use crate::catalog::Name;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// A table's name in one of sqlparser's trees, where a name without a schema is one of the usual schema.
pub(crate) fn object_name(name: &ObjectName) -> Result<Name> {
    Name::resolve(&object_reference(name)?)
}

/// A table's name in one of sqlparser's trees.
pub(crate) fn object_reference(name: &ObjectName) -> Result<TableReference> {
    let parts = name.0.iter().map(|part| match part.as_ident() {
        Some(ident) => Ok(normalised(ident.clone())),
        None => Err(Error::plan(SqlState::InvalidName, format!("'{name}' is not a table's name"))),
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    referred_to(&parts)
        .ok_or_else(|| Error::plan(SqlState::SyntaxError, format!("'{name}' has too many parts; write schema.table")))
}

/// What the parts of a name refer to; `None` where there are too many.
fn referred_to(parts: &[String]) -> Option<TableReference> {
    Some(match parts {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [catalog, schema, table] => TableReference::full(catalog.as_str(), schema.as_str(), table.as_str()),
        _ => return None,
    })
}

/// What a text refers to that says a name as SQL writes it.
///
/// # Errors
/// It is none.
pub(crate) fn reference_of_text(text: &str) -> Result<TableReference> {
    let wrong = || Error::plan(SqlState::InvalidName, format!("'{text}' is not a name"));
    referred_to(&parts_of_text(text)?).ok_or_else(wrong)
}

/// The name that a text says as SQL writes it, as PostgreSQL's `regclass` reads it: `'s'`, `'public."S"'`.
///
/// # Errors
/// It is none.
pub(crate) fn name_of_text(text: &str) -> Result<Name> {
    let wrong = || Error::plan(SqlState::InvalidName, format!("'{text}' is not a name"));
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text).map_err(|_| wrong())?;
    let name = parser.parse_object_name(false).map_err(|_| wrong())?;
    match parser.peek_token().token {
        Token::EOF => object_name(&name),
        _ => Err(wrong()),
    }
}

/// The parts of the name that a text says as SQL writes it.
///
/// # Errors
/// It is none.
pub(crate) fn parts_of_text(text: &str) -> Result<Vec<String>> {
    let wrong = || Error::plan(SqlState::InvalidName, format!("'{text}' is not a name"));
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text).map_err(|_| wrong())?;
    let name = parser.parse_object_name(false).map_err(|_| wrong())?;
    let parts = name.0.iter().map(|part| part.as_ident().cloned().map(normalised)).collect::<Option<Vec<_>>>();
    match parser.peek_token().token {
        Token::EOF => parts.ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// A name as SQL text, whatever it holds.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Numbers of names given so far, in the whole process: plans of views and kept plans meet in one statement.
static FRESH: AtomicU64 = AtomicU64::new(0);

/// What names begin with that stand in no statement.
const MADE: &str = "__nearside_";

/// Whether a name is one of ours.
pub(crate) fn is_made(name: &str) -> bool {
    name.starts_with(MADE)
}

/// What stands before the name that users see.
const SEEN_AS: &str = "_as_";

/// A name that no column has, of one that users see under another, which others may have too.
pub(crate) fn named_otherwise(name: &str) -> String {
    format!("{}{SEEN_AS}{name}", fresh_name("output"))
}

/// The name under which users see what is [named otherwise](named_otherwise).
pub(crate) fn seen_name(name: &str) -> Option<&str> {
    name.strip_prefix(MADE)?.split_once(SEEN_AS).map(|(_, name)| name)
}

/// A name that no column has.
pub(crate) fn fresh_name(what: &str) -> String {
    format!("{MADE}{what}_{}", FRESH.fetch_add(1, Ordering::Relaxed))
}
