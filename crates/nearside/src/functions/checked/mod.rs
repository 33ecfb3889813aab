//! Checked arithmetic: in Nearside a number that its type cannot hold is an error, and so is a division or modulo by
//! zero. DataFusion wraps by default, at plan time and at run time, and gives infinities and zeros of floats.
//!
//! # How
//! An analyzer rule ([`CheckedArithmetic`], after type coercion) puts functions of ours named `+ - * / %` in the place
//! of the operators on numbers. A function, rather than the plain operator with
//! `BinaryExpr::with_fail_on_overflow` set on physical expressions, because that is one rewrite that holds on every
//! path: constant folding evaluates the same function (and leaves it in place where it fails, so that the error comes
//! only if the row is reached), as do the constants that later rules make by merging projections; so do filters, join
//! keys and conditions, aggregate arguments, window and sort expressions when they are lowered into `exec`. A rewrite
//! of what was lowered would come too late for folding. No rule of DataFusion 55 makes new arithmetic after analysis
//! (only its own `sum` did, and that is replaced). What the plain operator told the optimizer is told by the function:
//! type, nullability, strictness (outer joins become inner ones), order, bounds, neutral elements. Column names stay
//! `a + b`; expressions read as written after [`plain`].
//!
//! Casts of decimals and floats to integers round, as SQL says (module `nearest`); Arrow's cut digits off. Casts to
//! floats fail where there is no float for a number (module `ranges`).
//!
//! Arrow's kernels for dates, times, timestamps, durations and intervals are checked already, and so are casts (`safe`
//! is off) and DataFusion's `abs`, `factorial`, `gcd`, `lcm`, `round`, `ceil`, `floor`, `median`; they stay.
//! `power` is DOUBLE. Shifts and bit operations have no overflow.
//!
//! [`CheckedSum`] and [`CheckedAvg`] total exactly and check the range once at the end (module `total`), so whether a
//! query fails does not depend on the order of rows or tasks.
//!
//! Since errors are more common than DataFusion assumes, the module `guard` keeps `CASE`, `AND`, `OR` and `FILTER` from
//! evaluating what they exclude; `exec` sees to the order of the conditions at the top of a WHERE or ON.
//!
//! # Installing
//! [`CheckedArithmetic`] among the analyzer's rules, and [`own_aggregates`] after DataFusion's. Expressions that skip
//! the analyzer go through [`checked`] or [`create_physical_expr`]. `lower` recognises the operators with
//! [`as_operator`].
//!
//! # Speed
//! Integers: one pass that vectorises (add, subtract, 32-bit multiply) plus one flag, against arrow's wrapping pass;
//! memory-bound either way. Decimals: DataFusion's kernels were checked with an early exit per row; here a product
//! of two values of 64 bits is one multiplication without a branch. Sums: 128-bit additions for integers too, 16
//! instead of 8 bytes per group.
//!
//! # Limits
//! See the modules `decimal`, `aggregates` and `guard`. DataFusion's rewrite of `sum(a + 1)` to `sum(a) + count(a)`
//! does not happen: it would overflow elsewhere than the text.

mod accumulators;
mod aggregates;
mod decimal;
mod error;
mod groups;
mod guard;
mod kernels;
mod nearest;
mod operand;
mod operators;
mod quotient;
mod ranges;
mod rewrite;
mod span_average;
mod total;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion_common::{DFSchema, Result};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{AggregateUDF, Expr};
use datafusion_physical_expr::PhysicalExpr;

use crate::functions::{named_aggregates, ordered_sets};
use aggregates::aggregate_functions;
pub(crate) use aggregates::{CheckedAvg, CheckedSum};
pub(crate) use nearest::rounded_to;
pub(crate) use operators::{as_operator, result_type};
pub(crate) use quotient::{product, product_of_any_digits, quotient};
pub(crate) use rewrite::{CheckedArithmetic, checked, plain};

/// The aggregates that stand in the place of DataFusion's of the same name.
pub(crate) fn own_aggregates() -> Vec<Arc<AggregateUDF>> {
    let ordered = ordered_sets::aggregate_functions();
    let named = named_aggregates::aggregate_functions();
    aggregate_functions().into_iter().chain(ordered.into_iter().chain(named).map(Arc::new)).collect()
}

/// What a statement fails with where it divides by zero.
pub(crate) fn division_by_zero() -> datafusion_common::DataFusionError {
    error::ArithmeticError::DivisionByZero.into()
}

/// DataFusion's `create_physical_expr` with checked operators: for an expression that was not part of an analysed
/// plan, or may not have been (one that was is left as it is). The types in `expr` must have been coerced; `schema`
/// holds the columns that it names. Errors are DataFusion's planning errors.
pub(crate) fn create_physical_expr(
    expr: &Expr,
    schema: &DFSchema,
    props: &ExecutionProps,
) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = checked(expr.clone(), schema)?.data;
    let context = PhysicalPlanningContext::default();
    datafusion_physical_expr::create_physical_expr(&expr, schema, props, &context)
}
