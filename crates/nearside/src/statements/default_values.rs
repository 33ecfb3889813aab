//! What a column's default is at the moment.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use datafusion_expr::{Expr, LogicalPlanBuilder};

use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::statements::write::fitted;

/// A default's value now, as one row of the column's type.
pub(crate) fn default_value(default: &Expr, field: &FieldRef, running: &Arc<RunningStatement>) -> Result<ArrayRef> {
    if default.is_volatile() {
        return Err(Error::Unsupported(format!(
            "the default of column '{}' differs from row to row, and can be filled in by INSERT only",
            field.name()
        )));
    }
    let plan = LogicalPlanBuilder::empty(true).project(vec![default.clone().alias(field.name())])?.build()?;
    let batches = query::run(plan, Arc::clone(running), true)?.collect_all()?;
    let batch = batches.first().ok_or_else(|| Error::Internal("a default gave no value".into()))?;
    let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
    Ok(Arc::clone(fitted(batch, &schema)?.column(0)))
}
