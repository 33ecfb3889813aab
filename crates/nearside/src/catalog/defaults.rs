//! Defaults of a table's columns.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_expr::Expr;

/// What an INSERT that leaves a column out puts into it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnDefault {
    /// As the planner takes it.
    pub expr: Expr,
    /// As it is written.
    pub text: Arc<str>,
    /// The time zone that it was planned in, where it depends on it.
    pub zone: Option<Arc<str>>,
}

/// Those of a table, by column.
pub(crate) type ColumnDefaults = Arc<HashMap<String, ColumnDefault>>;
