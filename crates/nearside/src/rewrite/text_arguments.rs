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

/// Rounding 9.5 gives a number of more digits before the point than its type has; what is rounded down or up has none
/// behind it.
fn with_a_digit_more(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let is_whole = matches!(function.name(), "floor" | "ceil");
    if !is_whole && function.name() != "round" {
        return None;
    }
    let argument = function.args.first()?;
    let Ok(DataType::Decimal128(p, s)) = argument.get_type(schema) else { return None };
    if s <= 0 {
        return None;
    }
    // Of a plan that went through this already, and of a cast that has made the room.
    let has_room = matches!(argument, Expr::Cast(given)
        if given.expr.get_type(schema).is_ok_and(|of| of == DataType::Decimal128(p - 1, s)));
    let mut args = function.args.clone();
    if p < 38 && !has_room {
        args[0] = cast(argument.clone(), DataType::Decimal128(p + 1, s));
    } else if !is_whole {
        return None;
    }
    let rounded = Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args });
    let digits = (p + 1).saturating_sub(s as u8).min(38);
    Some(if is_whole { cast(rounded, DataType::Decimal128(digits, 0)) } else { rounded })
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
