//! Materialized views: tables whose rows are those that a query gave when they were last refreshed.
//!
//! # Invariants
//! No statement but CREATE, ALTER, REFRESH and DROP MATERIALIZED VIEW, those about its indexes and its placement
//! changes one: writers ask for tables by [`CatalogState::table`](super::CatalogState::table), which refuses them.

use crate::catalog::TableEntry;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// What makes a table a materialized view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Materialized {
    /// The query's text, whose columns are the table's, in order.
    pub sql: String,
    /// Whether it may be read: it has the rows that its query gave.
    pub is_populated: bool,
}

impl TableEntry {
    /// Fails where it is a materialized view without its rows.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn is_readable(&self) -> Result<()> {
        match &self.materialized {
            Some(of) if !of.is_populated => Err(Error::execution(
                SqlState::ObjectNotInPrerequisiteState,
                format!(
                    "materialized view '{0}' has not been populated; REFRESH MATERIALIZED VIEW {0} does so",
                    self.name.shown()
                ),
            )),
            _ => Ok(()),
        }
    }
}
