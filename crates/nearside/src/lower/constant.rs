//! Values of expressions that read no column.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::Expr;
use datafusion_expr::execution_props::ExecutionProps;
use exec::Expression;

use super::PhysicalExpression;
use crate::error::Result;

/// One row without columns.
pub(super) fn row() -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?)
}

/// The value of an expression that reads no column.
///
/// # Errors
/// What its evaluation fails with.
pub(super) fn value(expr: &Expr, props: &ExecutionProps) -> Result<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Ok(value.clone());
    }
    let value = PhysicalExpression::opaque(expr, &DFSchema::empty(), props)?.evaluate(&row()?)?;
    Ok(ScalarValue::try_from_array(&value, 0)?)
}
