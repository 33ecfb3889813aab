//! Functions and macros that statements have made: SQL that stands where they are called.
//!
//! They are entries of the catalog as tables are, under names that end with brackets ([`key`]): so a function and a
//! table may be called alike, and schemas, owners, transactions and the log have functions as they have tables.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::comments::Comments;
use crate::catalog::user_types::FIRST;
use crate::catalog::{CatalogState, Entry, Name};
use crate::error::Result;

/// A function or a macro.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MadeFunction {
    /// Unique for the life of the database.
    pub id: u64,
    /// What it takes, in order.
    pub parameters: Vec<Parameter>,
    /// What it gives.
    pub returns: Returns,
    /// What stands for a call.
    pub body: Body,
    /// Whether it gives NULL where an argument is.
    pub is_strict: bool,
    /// `i`, `s` or `v`, as in `pg_proc`.
    pub volatility: char,
}

/// What a function takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Its type; `None` for that of a macro, which takes any.
    pub of: Option<TypeName>,
    /// What it is where nothing is given for it, as it is written.
    pub default: Option<String>,
}

/// A type, as statements write it, and its number in PostgreSQL's catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypeName {
    /// As it is written.
    pub text: String,
    /// Its number.
    pub oid: u32,
}

/// What a function gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Returns {
    /// A value of whatever type: a macro.
    Any,
    /// Rows of whatever types: a macro.
    AnyRows,
    /// A value.
    Value(TypeName),
    /// Rows of one column.
    Values(TypeName),
    /// Rows.
    Rows(Vec<(String, TypeName)>),
}

/// What stands for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    /// A value of its arguments.
    Expression(String),
    /// A query.
    Query(String),
}

impl MadeFunction {
    /// Whether it is a macro.
    pub(crate) fn is_macro(&self) -> bool {
        matches!(self.returns, Returns::Any | Returns::AnyRows)
    }

    /// Whether it gives rows, so that it stands in FROM.
    pub(crate) fn gives_rows(&self) -> bool {
        !matches!(self.returns, Returns::Any | Returns::Value(_))
    }

    /// Its text, as it is kept.
    pub(crate) fn text(&self) -> &str {
        match &self.body {
            Body::Expression(text) | Body::Query(text) => text,
        }
    }

    /// Its text as a query, for who asks as PostgreSQL's clients do.
    pub(crate) fn source(&self) -> String {
        match &self.body {
            Body::Expression(text) => format!("SELECT {text}"),
            Body::Query(text) => text.clone(),
        }
    }

    /// Its number in `pg_proc`.
    pub(crate) fn oid(&self) -> u32 {
        u32::try_from(u64::from(FIRST) + self.id).unwrap_or(u32::MAX)
    }
}

/// A function in the catalog.
#[derive(Debug, Clone)]
pub(crate) struct FunctionEntry {
    /// What it is.
    pub of: Arc<MadeFunction>,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

/// The name that a function has among all that has names.
pub(crate) fn key(name: &Name) -> Name {
    Name { schema: name.schema.clone(), table: format!("{}()", name.table) }
}

/// The name of a function of which this is the [`key`].
pub(crate) fn called(key: &Name) -> &str {
    key.table.strip_suffix("()").unwrap_or(&key.table)
}

impl CatalogState {
    /// Puts a function under its [`key`], in place of what stood there.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`].
    pub(crate) fn put_function(&mut self, key: Name, of: Arc<FunctionEntry>) -> Result<()> {
        self.insert(key, Entry::Function(of))
    }

    /// Functions that statements have made, by their names.
    pub(crate) fn made_functions(&self) -> impl Iterator<Item = (&Name, &Arc<FunctionEntry>)> {
        self.entries().filter_map(|(key, entry)| match entry {
            Entry::Function(of) => Some((key, of)),
            _ => None,
        })
    }
}
