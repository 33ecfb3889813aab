//! Statements that a client has had parsed: drivers send a text anew for each run.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::api::prepared::Template;
use crate::run::cache::{Key, PlanCache};
use crate::run::statement::RunningStatement;

/// How many of them a session keeps.
const PARSED_MAX: usize = 64;

/// A session's, by their texts and the types that were declared.
#[derive(Debug)]
pub(super) struct Parsed(pub(super) PlanCache<Arc<Template>>);

impl Default for Parsed {
    fn default() -> Parsed {
        Parsed(PlanCache::new(PARSED_MAX))
    }
}

/// What a statement is kept under.
pub(super) fn key(sql: &str, declared: &[Option<DataType>], running: &RunningStatement, settings: u64) -> Key {
    Key { sql: format!("{declared:?} {sql}"), settings, ddl_version: running.catalog.ddl_version }
}
