//! Arguments of functions that statements have made are of types that their parameters take without a cast, as in
//! PostgreSQL: numbers of narrower kinds, days for times, texts that are written for whatever they say.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result as DfResult};
use datafusion_expr::expr::{Cast, ScalarFunction};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::anywhere::{any_node, any_part};
use crate::functions::arguments::ARGUMENT;

/// A plan, as the planner made it, whose arguments were looked at.
///
/// # Errors
/// One of a type that its parameter does not take.
pub(crate) fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| any_part(node, |part| argument(part).is_some()))? {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let looked_at = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let bare = expr.transform_down(|part| without(part, &schema))?;
            Ok(bare.update_data(|expr| name.restore(expr)))
        })?;
        match looked_at.transformed {
            true => looked_at.map_data(LogicalPlan::recompute_schema),
            false => Ok(looked_at),
        }
    })?;
    Ok(plan.data)
}

fn argument(part: &Expr) -> Option<&ScalarFunction> {
    match part {
        Expr::ScalarFunction(call) if call.func.name() == ARGUMENT => Some(call),
        _ => None,
    }
}

fn without(part: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    if let Expr::Cast(Cast { expr, field }) = &part
        && let Some(call) = argument(expr)
    {
        let given = call.args[0].get_type(schema)?;
        let is_written = matches!(&call.args[0], Expr::Literal(value, None) if value.data_type().is_string());
        if !is_written && !takes(field.data_type(), &given) {
            return Err(refused(call, &given).into_datafusion());
        }
        let expr = Box::new(call.args[0].clone());
        return Ok(Transformed::yes(Expr::Cast(Cast { expr, field: field.clone() })));
    }
    match argument(&part) {
        Some(call) => Ok(Transformed::yes(call.args[0].clone())),
        None => Ok(Transformed::no(part)),
    }
}

fn refused(call: &ScalarFunction, given: &DataType) -> Error {
    let text = |place: usize| match call.args.get(place) {
        Some(Expr::Literal(value, _)) => value.try_as_str().flatten().unwrap_or_default().to_string(),
        _ => String::new(),
    };
    let (of, function) = (text(1), text(2));
    let given = sql_type(given);
    Error::plan(
        SqlState::UndefinedFunction,
        format!("function {function} takes {of}, and an argument is of type {given}; write CAST(.. AS {of})"),
    )
}

/// Whether values of a type go where others are expected.
pub(crate) fn takes(to: &DataType, from: &DataType) -> bool {
    use DataType as T;
    match (to, from) {
        (to, from) if to == from => true,
        (_, T::Null) => true,
        (to, from) if to.is_string() => from.is_string(),
        // What does not fit is told when it is met.
        (to, from) if to.is_integer() => from.is_integer(),
        (T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..), from) => {
            from.is_integer() || from.is_decimal()
        }
        (to, from) if to.is_floating() => from.is_numeric(),
        (T::Timestamp(..), T::Timestamp(..) | T::Date32 | T::Date64) => true,
        (T::Date32 | T::Date64, T::Date32 | T::Date64) => true,
        (T::Time32(_) | T::Time64(_), T::Time32(_) | T::Time64(_)) => true,
        (T::Interval(_), T::Interval(_) | T::Duration(_)) => true,
        (T::Binary | T::LargeBinary | T::BinaryView, T::Binary | T::LargeBinary | T::BinaryView) => true,
        (T::List(to) | T::LargeList(to), T::List(from) | T::LargeList(from)) => takes(to.data_type(), from.data_type()),
        _ => false,
    }
}
