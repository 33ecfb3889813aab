//! One zero and one NaN in what DataFusion compares.
//!
//! In Nearside -0.0 equals 0.0, every NaN equals every other and is greater than any number. Operators see to that
//! themselves. Arrow's kernels, which expressions without a form of ours run on, follow IEEE 754's total order, where
//! both have a sign (and `0e0 / 0e0` is a NaN with one). So floats are written in one way before they are compared
//! there: [`OneZeroConstants`] before constants are folded, and [`in_expression`] in expressions that are opaque to
//! `exec`.
//!
//! # Limits
//! Not within lists and structs. A constant that a later rule moves into a comparison of constants is compared as it
//! is.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{ScalarFunction, WindowFunctionDefinition};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_optimizer::AnalyzerRule;

use crate::functions::anywhere::{any_node, any_part};

/// Scalar functions that compare their arguments.
const COMPARING: [&str; 3] = ["nullif", "greatest", "least"];

static ONE_ZERO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(OneZero { signature: Signature::any(1, Volatility::Immutable) }))
});

/// The function that writes -0.0 as 0.0 and every NaN in one way. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZero {
    signature: Signature,
}

impl ScalarUDFImpl for OneZero {
    fn name(&self) -> &str {
        "one_zero"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(canonical_value(value.clone())),
            ColumnarValue::Array(array) => ColumnarValue::Array(canonical(array)),
        })
    }
}

/// The array with -0.0 written as 0.0 and every NaN in one way.
pub(crate) fn canonical(array: &ArrayRef) -> ArrayRef {
    macro_rules! of {
        ($t:ty, $nan:expr, $zero:expr) => {
            Arc::new(array.as_primitive::<$t>().unary::<_, $t>(|v| if v.is_nan() { $nan } else { v + $zero }))
        };
    }
    match array.data_type() {
        DataType::Float64 => of!(Float64Type, f64::NAN, 0.0),
        DataType::Float32 => of!(Float32Type, f32::NAN, 0.0),
        _ => Arc::clone(array),
    }
}

/// The analyser's rule, after types are coerced: comparisons of constants, which are folded before anything else runs.
#[derive(Debug, Default)]
pub(crate) struct OneZeroConstants;

impl AnalyzerRule for OneZeroConstants {
    fn name(&self) -> &str {
        "one_zero_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let schema = DFSchema::empty();
        let constant = |expr: &Expr| !expr.any_column_refs() && !expr.is_volatile();
        if !any_node(&plan, |node| any_part(node, |part| compares(part) && constant(part)))? {
            return Ok(plan);
        }
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                if !mentions_comparison(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|part| match compares(&part) && constant(&part) {
                    true => compare_canonical(part, &schema),
                    false => Ok(Transformed::no(part)),
                })?;
                Ok(rewritten.update_data(|e| name.restore(e)))
            })
        })?;
        Ok(rewritten.data)
    }
}

/// An expression that compares floats as the native operators do.
pub(crate) fn in_expression(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match mentions_comparison(&expr) {
        true => Ok(expr.transform_up(|part| compare_canonical(part, schema))?.data),
        false => Ok(expr),
    }
}

/// True where a part of the expression compares something.
fn mentions_comparison(expr: &Expr) -> bool {
    let mut found = false;
    let _ = expr.apply(|part| {
        found |= compares(part);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn compares(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Between(_) | Expr::InList(_) | Expr::WindowFunction(_) | Expr::AggregateFunction(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(function) => COMPARING.contains(&function.name()),
        _ => false,
    }
}

/// True for operators that compare two values.
pub(crate) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The expression with its operands written in one way, if it compares floats.
fn compare_canonical(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !compares(&expr) {
        return Ok(Transformed::no(expr));
    }
    let mut changed = false;
    let mut wrap = |e: &mut Expr| changed |= wrap(e, schema);
    let expr = match expr {
        Expr::BinaryExpr(mut binary) => {
            wrap(&mut binary.left);
            wrap(&mut binary.right);
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            [&mut between.expr, &mut between.low, &mut between.high].into_iter().for_each(|e| wrap(e));
            Expr::Between(between)
        }
        Expr::InList(mut list) => {
            wrap(&mut list.expr);
            list.list.iter_mut().for_each(wrap);
            Expr::InList(list)
        }
        Expr::Case(mut case) => {
            if let Some(value) = &mut case.expr {
                wrap(value);
                case.when_then_expr.iter_mut().for_each(|(when, _)| wrap(when));
            }
            Expr::Case(case)
        }
        Expr::ScalarFunction(mut function) => {
            function.args.iter_mut().for_each(wrap);
            Expr::ScalarFunction(function)
        }
        Expr::AggregateFunction(mut call) => {
            if call.params.distinct || is_extreme(call.func.name()) {
                call.params.args.iter_mut().for_each(&mut wrap);
            }
            call.params.order_by.iter_mut().for_each(|key| wrap(&mut key.expr));
            Expr::AggregateFunction(call)
        }
        Expr::WindowFunction(mut call) => {
            let extreme = matches!(&call.fun, WindowFunctionDefinition::AggregateUDF(f) if is_extreme(f.name()));
            if extreme || call.params.distinct {
                call.params.args.iter_mut().for_each(&mut wrap);
            }
            call.params.partition_by.iter_mut().for_each(&mut wrap);
            call.params.order_by.iter_mut().for_each(|key| wrap(&mut key.expr));
            Expr::WindowFunction(call)
        }
        other => other,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn is_extreme(function: &str) -> bool {
    matches!(function, "min" | "max")
}

/// Puts the function around a float. True when it did.
fn wrap(expr: &mut Expr, schema: &DFSchema) -> bool {
    let done = matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<OneZero>());
    // What has no type here is of another place's rows; it is compared as it is.
    let float = expr.get_type(schema).is_ok_and(|t| t.is_floating());
    if done || !float {
        return false;
    }
    *expr = match std::mem::take(expr) {
        Expr::Literal(value, metadata) => Expr::Literal(canonical_value(value), metadata),
        other => one_zero(other),
    };
    true
}

fn canonical_value(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(v)) => ScalarValue::Float64(Some(if v.is_nan() { f64::NAN } else { v + 0.0 })),
        ScalarValue::Float32(Some(v)) => ScalarValue::Float32(Some(if v.is_nan() { f32::NAN } else { v + 0.0 })),
        other => other,
    }
}

/// A value with its NaN written in the one way that tables keep it in. Zeros keep their signs, which `1 / x` shows.
pub(crate) fn with_one_nan(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(v)) if v.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        ScalarValue::Float32(Some(v)) if v.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        other => other,
    }
}

fn one_zero(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&ONE_ZERO), args: vec![expr] })
}
