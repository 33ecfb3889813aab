//! What names stand for, as messages say it, and tables by their names.

use std::sync::Arc;

use super::{CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

impl Entry {
    /// The word with its article.
    pub(crate) fn described(&self) -> &'static str {
        match self {
            Entry::Table(table) if table.materialized.is_some() => "a materialized view",
            Entry::Table(_) => "a table",
            Entry::View(_) => "a view",
            Entry::External(_) => "an external table",
            Entry::Sequence(_) => "a sequence",
            Entry::Type(_) => "a type",
            Entry::Function(_) => "a function",
            Entry::Domain(_) => "a domain",
        }
    }

    /// The word for an error message.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Entry::Table(table) if table.materialized.is_some() => "materialized view",
            Entry::Table(_) => "table",
            Entry::View(_) => "view",
            Entry::External(_) => "external table",
            Entry::Sequence(_) => "sequence",
            Entry::Type(_) => "type",
            Entry::Function(_) => "function",
            Entry::Domain(_) => "domain",
        }
    }

    /// The query of a view, be it materialized.
    pub(crate) fn query(&self) -> Option<&str> {
        match self {
            Entry::View(view) => Some(&view.sql),
            Entry::Table(table) => table.materialized.as_ref().map(|of| of.sql.as_str()),
            Entry::External(_) | Entry::Sequence(_) | Entry::Type(_) | Entry::Function(_) | Entry::Domain(_) => None,
        }
    }

    /// Whether it is a table that statements write.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Entry::Table(table) if table.materialized.is_none())
    }
}

impl CatalogState {
    /// A table by name, that statements write.
    ///
    /// # Errors
    /// There is none, or the name stands for something else, be it a materialized view.
    pub(crate) fn table(&self, name: &Name) -> Result<&Arc<TableEntry>> {
        match self.get(name) {
            Some(Entry::Table(table)) if table.materialized.is_none() => Ok(table),
            Some(other) => Err(Error::plan(
                SqlState::WrongObjectType,
                format!("'{}' is {}, not a table", name.shown(), other.described()),
            )),
            None => Err(self.not_found("table", name)),
        }
    }

    /// A table or materialized view by name.
    ///
    /// # Errors
    /// There is none, or the name stands for something else.
    pub(crate) fn stored(&self, name: &Name) -> Result<&Arc<TableEntry>> {
        match self.get(name) {
            Some(Entry::Table(table)) => Ok(table),
            _ => self.table(name),
        }
    }
}
