//! Functions of texts take texts: DataFusion makes a text of any other argument, so `length` of two bytes were that of
//! their hexadecimal text, and `lpad(5, 3)` were allowed, which PostgreSQL refuses.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion_expr::{Expr, ExprSchemable, cast};

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::functions::bytes::octet_length;

/// Which arguments of a function are texts. Functions that are not here tell wrong ones by themselves.
fn texts_of(function: &str) -> &'static [usize] {
    match function {
        "character_length" | "left" | "reverse" | "right" | "string_agg" => &[0],
        "lpad" | "rpad" => &[0, 2],
        "overlay" | "regexp_count" | "regexp_instr" | "regexp_like" | "regexp_match" => &[0, 1],
        "regexp_replace" | "translate" => &[0, 1, 2],
        _ => &[],
    }
}

/// The length of bytes, where a function asks for that.
///
/// # Errors
/// An argument that is no text.
pub(super) fn of_scalar(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if function.name() == "character_length"
        && let [argument] = function.args.as_slice()
        && argument.get_type(schema).is_ok_and(|of| of.is_binary())
    {
        return Ok(Some(octet_length().call(function.args.clone())));
    }
    check(function.name(), &function.args, schema)?;
    Ok(with_a_digit_more(function, schema))
}

/// Rounding 9.5 gives a number of more digits before the point than its type has.
fn with_a_digit_more(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    if !matches!(function.name(), "floor" | "ceil" | "round") {
        return None;
    }
    let argument = function.args.first()?;
    let wider = match argument.get_type(schema).ok()? {
        DataType::Decimal128(p, s) if s > 0 && p < 38 => DataType::Decimal128(p + 1, s),
        _ => return None,
    };
    // A plan that went through this already stays as it is.
    if let Expr::Cast(given) = argument
        && let (Ok(DataType::Decimal128(p, s)), DataType::Decimal128(wider_p, wider_s)) =
            (given.expr.get_type(schema), &wider)
        && (p + 2, s) == (*wider_p, *wider_s)
    {
        return None;
    }
    let mut args = function.args.clone();
    args[0] = cast(argument.clone(), wider);
    Some(Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args }))
}

/// # Errors
/// An argument that is no text.
pub(super) fn of_aggregate(call: &AggregateFunction, schema: &DFSchema) -> Result<()> {
    check(call.func.name(), &call.params.args, schema)
}

fn check(function: &str, arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let texts = texts_of(function);
    if texts.is_empty() {
        return Ok(());
    }
    // What has no type yet is left to DataFusion, which says why.
    let types = arguments.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(()) };
    if texts.iter().all(|at| types.get(*at).is_none_or(is_text)) {
        return Ok(());
    }
    let shown: Vec<String> = types.iter().map(sql_type).collect();
    let message =
        format!("there is no function {function}({}); cast the arguments to types that it takes", shown.join(", "));
    Err(Error::plan(SqlState::UndefinedFunction, message).into_datafusion())
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, value) => is_text(value),
        of => of.is_string() || of.is_null(),
    }
}
