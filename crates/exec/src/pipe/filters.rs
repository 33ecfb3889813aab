//! [`Filters`]: what a plan's consumer says of the rows that it has a use for, and what that may change.
//!
//! Rows whose key is not wanted may be left out anywhere below, or not: the join that wants the key tests it again. So
//! scans leave a test out while it keeps nearly everything, and which pieces that concerns depends on which thread
//! comes first. Between the scan and the join something may fail, though, or give another value each time; then whether
//! a row gets there shows. Every test that such a thing lies behind is therefore made *always*
//! ([`ColumnKeys::always`]): what fails, fails in every run.
//!
//! # Limits
//! Whether there is memory for a filter is another matter: a statement that has none sees more rows, and may fail where
//! another run did not.

use std::sync::Arc;

use crate::keys::key_filter::KeyFilter;

/// Keys that a column must have for its row to be of any use.
#[derive(Debug, Clone)]
pub(crate) struct ColumnKeys {
    /// The column of a pipe, or of a table.
    pub(crate) column: usize,
    /// Its keys.
    pub(crate) keys: Arc<KeyFilter>,
    /// Are rows without a key to be left out every time, if they are at all?
    pub(crate) always: bool,
}

/// What is known of the keys that columns of a pipe must have to be of any use.
pub(crate) type Filters = Vec<ColumnKeys>;

impl ColumnKeys {
    /// By a join; nothing lies between yet.
    pub(crate) fn new(column: usize, keys: Arc<KeyFilter>) -> ColumnKeys {
        ColumnKeys { column, keys, always: false }
    }

    /// Of another column, further down; behind something that a row more or less would show in, if so it is.
    pub(crate) fn below(&self, column: usize, shows: bool) -> ColumnKeys {
        ColumnKeys { column, keys: self.keys.clone(), always: self.always || shows }
    }
}

/// The same columns behind something that a row more or less would show in, if so it is.
pub(crate) fn behind(filters: &Filters, shows: bool) -> Filters {
    filters.iter().map(|wanted| wanted.below(wanted.column, shows)).collect()
}
