//! Checked arithmetic: in Nearside an integer or decimal result that its type cannot hold is an error, and so is a
//! division or modulo by zero of integers and decimals. DataFusion wraps by default, at plan time and at run time.
//!
//! # How
//! An analyzer rule ([`CheckedArithmetic`], after type coercion) puts functions of ours named `+ - * / %` in the place
//! of the operators on integers and decimals. A function, rather than the plain operator with
//! `BinaryExpr::with_fail_on_overflow` set on physical expressions, because that is one rewrite that holds on every
//! path: constant folding evaluates the same function (and leaves it in place where it fails, so that the error comes
//! only if the row is reached), as do the constants that later rules make by merging projections; so do filters, join
//! keys and conditions, aggregate arguments, window and sort expressions, left-over operators in DataFusion and
//! expressions lowered into `exec`. A rewrite of physical plans would have to know every operator that holds an
//! expression, and would come too late for folding. No rule of DataFusion 55 makes new arithmetic after analysis
//! (only its own `sum` did, and that is replaced). What the plain operator told the optimizer is told by the function:
//! type, nullability, strictness (outer joins become inner ones), order, bounds, neutral elements. Column names stay
//! `a + b`; logical plans read as written after [`plain_plan`].
//!
//! Arrow's kernels for dates, times, timestamps, durations and intervals are checked already, and so are casts (`safe`
//! is off) and DataFusion's `abs`, `factorial`, `gcd`, `lcm`, `round`, `ceil`, `floor`, `median`; they stay.
//! [`ArithmeticError::of`] recognises their errors too. `power` is DOUBLE. Shifts and bit operations have no overflow.
//!
//! [`CheckedSum`] and [`CheckedAvg`] total exactly and check the range once at the end (module `total`), so whether a query
//! fails does not depend on the order of rows or tasks.
//!
//! Since errors are now more common than DataFusion assumes, the modules `guard` and `lazy` keep `CASE`, `AND`, `OR` and
//! `FILTER` from evaluating what they exclude.
//!
//! # Installing
//! [`register`] for a session state; its two rules and two functions can be had one by one. Expressions that skip the
//! analyzer go through [`checked`] or [`create_physical_expr`]. `lower` recognises the operators with [`as_operator`]
//! and asks [`can_fail`]; a physical plan made by `DefaultPhysicalPlanner` from the same state runs
//! [`LazyConditions`] among its physical rules.
//!
//! # Speed
//! Integers: one pass that vectorises (add, subtract, 32-bit multiply) plus one flag, against arrow's wrapping pass;
//! memory-bound either way. Decimals: DataFusion's kernels were checked with an early exit per row; here a product
//! of two values of 64 bits is one multiplication without a branch. Sums: 128-bit additions for integers too, 16
//! instead of 8 bytes per group.
//!
//! # Limits
//! See the modules `decimal`, `aggregates`, `guard` and `lazy`. In DataFusion's EXPLAIN of a physical plan an operator
//! reads `+(a, b)`. DataFusion's `sum(a + 1)` to `sum(a) + count(a)` rewrite is gone: it overflows elsewhere than the text.

mod accumulators;
mod aggregates;
mod decimal;
mod error;
mod groups;
mod guard;
mod kernels;
mod lazy;
mod operators;
mod rewrite;
mod total;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::execution::{SessionStateBuilder, SessionStateDefaults};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{AggregateUDF, Expr};
use datafusion::physical_expr::PhysicalExpr;

pub use aggregates::{CheckedAvg, CheckedSum, aggregate_functions};
pub use error::ArithmeticError;
pub use guard::can_fail;
pub use lazy::LazyConditions;
pub use operators::as_operator;
pub(crate) use operators::result_type;
pub use rewrite::{CheckedArithmetic, checked, plain, plain_plan};

/// Adds checked arithmetic to a session: the analyzer rule behind those that `builder` has, the physical rule, and `sum`
/// and `avg` in the place of DataFusion's. Call it after `with_default_features`, which would put DataFusion's back.
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .aggregate_functions()
        .get_or_insert_with(SessionStateDefaults::default_aggregate_functions)
        .extend(own_aggregates());
    builder.with_analyzer_rule(Arc::new(CheckedArithmetic)).with_physical_optimizer_rule(Arc::new(LazyConditions))
}

/// The aggregates that stand in the place of DataFusion's of the same name.
pub(crate) fn own_aggregates() -> Vec<Arc<AggregateUDF>> {
    let ordered = crate::ordered_sets::aggregate_functions().into_iter().map(Arc::new);
    aggregate_functions().into_iter().chain(ordered).collect()
}

/// DataFusion's `create_physical_expr` with checked operators: for an expression that was not part of an analysed
/// plan, or may not have been (one that was is left as it is). The types in `expr` must have been coerced; `schema`
/// holds the columns that it names. Errors are DataFusion's planning errors.
pub fn create_physical_expr(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = checked(expr.clone(), schema)?.data;
    let context = PhysicalPlanningContext::default();
    datafusion::physical_expr::create_physical_expr(&expr, schema, props, &context)
}
