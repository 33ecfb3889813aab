//! Checked arithmetic.
mod accumulators;
mod aggregates;
mod error;
mod groups;
mod kernels;
mod operators;
mod rewrite;
mod total;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::PhysicalExpr;

pub use aggregates::{CheckedAvg, CheckedSum, aggregate_functions};
pub use error::ArithmeticError;
pub use rewrite::{CheckedArithmetic, checked, plain, plain_plan};

/// Adds checked arithmetic to a session: the analyzer rule behind those that `builder` has, and `sum` and `avg` in the
/// place of DataFusion's. Call it after `with_default_features`, which would put DataFusion's back.
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .aggregate_functions()
        .get_or_insert_with(SessionStateDefaults::default_aggregate_functions)
        .extend(aggregate_functions());
    builder.with_analyzer_rule(Arc::new(CheckedArithmetic))
}

/// DataFusion's `create_physical_expr` with checked operators: for an expression that was not part of an analysed
/// plan, or may not have been. The types in `expr` must have been coerced; `schema` holds the columns it names.
pub fn create_physical_expr(
    expr: &Expr,
    schema: &DFSchema,
    props: &ExecutionProps,
) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = checked(expr.clone(), schema)?.data;
    let context = PhysicalPlanningContext::default();
    datafusion::physical_expr::create_physical_expr(&expr, schema, props, &context)
}
