//! Values for the parameters of statements that write.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Projection, WriteOp, cast};

use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::reading::{for_arrow, is_read_here, read_one};
use crate::functions::texts::{is_written_here, text_of_value};
use crate::rewrite::assigned::{is_assignable, put_into, written_rows};
use crate::rewrite::kinds::exactly;
use crate::run::prepare::{constants, params};
use crate::run::statement::RunningStatement;

/// A statement's plan with values where its parameters stand. What is written to the columns of `written` is cast to
/// their types, as it would be if the values stood in the statement's text.
///
/// # Errors
/// A parameter without a value, values of types that columns do not take.
pub(crate) fn with_values(
    plan: LogicalPlan,
    values: &[ScalarValue],
    written: Option<(&WriteOp, &SchemaRef)>,
) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    let Some((op, schema)) = written else { return Ok(plan.with_param_values(params(values))?) };
    if matches!(op, WriteOp::Insert(_)) {
        let plan = with_cells_of_columns(plan)?.with_param_values(params(values))?;
        return written_rows(plan, op, schema);
    }
    let plan = plan.with_param_values(params(values))?;
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Err(Error::Internal("an UPDATE without a projection".into()));
    };
    // Casts of values themselves, which fail whether there are rows or not.
    let outputs = expr.into_iter().zip(schema.fields()).map(|(output, to)| {
        Ok(put_into(output.unalias(), to.name(), to.data_type(), input.schema())?.alias(to.name()))
    });
    let plan = LogicalPlan::Projection(Projection::try_new(outputs.collect::<Result<Vec<_>>>()?, input)?);
    written_rows(plan, op, schema)
}

/// The rows of VALUES, in which parameters are cast to the types of their columns: with other values a column would be
/// of another type.
fn with_cells_of_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(mut rows) = plan else { return Ok(plan) };
    if let LogicalPlan::Values(values) = rows.input.as_ref() {
        let mut values = values.clone();
        for row in &mut values.values {
            for (cell, field) in row.iter_mut().zip(values.schema.fields()) {
                if matches!(cell, Expr::Placeholder(_)) {
                    *cell = cast(std::mem::take(cell), field.data_type().clone());
                }
            }
        }
        rows.input = Arc::new(LogicalPlan::Values(values));
    }
    Ok(LogicalPlan::Projection(rows))
}

/// A value of another type than its parameter's, as one of that type. `None` where the value stands for itself, as it
/// would in the text, since the type is not declared: where it would be another value, as a fraction compared with an
/// integer, and where no value of its type is one of the other.
///
/// # Errors
/// What is no value of the type.
pub(crate) fn fitting(
    value: &ScalarValue,
    data_type: &DataType,
    is_declared: bool,
    running: &RunningStatement,
) -> Result<Option<ScalarValue>> {
    let from = value.data_type();
    let text = if data_type.is_string() { None } else { value.try_as_str().flatten() };
    if text.is_none() && !is_assignable(&from, data_type) {
        if is_declared {
            let (from, to) = (sql_type(&from), sql_type(data_type));
            let message =
                format!("a parameter is of type {to} but its value is of type {from}; write CAST(.. AS {to})");
            return Err(Error::plan(SqlState::DatatypeMismatch, message));
        }
        return Ok(None);
    }
    // A time of a zone is read from a text by the session's settings.
    let is_zoned = matches!(data_type, DataType::Timestamp(_, Some(_))) && text.is_some();
    if let Some(text) = text
        && is_read_here(data_type)
        && !is_zoned
        && !data_type.is_numeric()
    {
        // As texts are read everywhere, which no cast of Arrow's does.
        return read_one(text, data_type).map(Some);
    }
    if is_declared || is_zoned {
        let told_in = running.planner.config_options().execution.time_zone.as_deref();
        let of_session = match (data_type, told_in) {
            (DataType::Timestamp(unit, Some(_)), Some(zone)) => DataType::Timestamp(*unit, Some(zone.into())),
            (other, _) => other.clone(),
        };
        let value = match text.filter(|_| is_zoned).map(|text| for_arrow(text, &of_session)) {
            Some(Ok(Some(text))) => &ScalarValue::Utf8View(Some(text)),
            Some(Err((code, message))) => return Err(Error::plan(code, message)),
            _ => value,
        };
        let cast = Expr::Literal(value.clone(), None).cast_to(data_type, &DFSchema::empty())?;
        return Ok(constants(vec![cast], running)?.pop());
    }
    if let Some(text) = text {
        // With more digits than the type has, it is compared as it is and rounded where it is written.
        return if exactly(data_type, text) == *data_type { read_one(text, data_type).map(Some) } else { Ok(None) };
    }
    if data_type.is_string() && is_written_here(&from) {
        return Ok(Some(text_of_value(value)?.cast_to(data_type)?));
    }
    match value.cast_to(data_type) {
        Ok(cast) if value.is_null() || cast.cast_to(&value.data_type())? == *value => Ok(Some(cast)),
        Err(error) if !(value.data_type().is_numeric() && data_type.is_numeric()) => Err(error.into()),
        _ => Ok(None),
    }
}

/// A parameter without a type gets that of a column.
pub(crate) fn with_type(part: Expr, column: &FieldRef) -> DfResult<Transformed<Expr>> {
    match part {
        Expr::Placeholder(mut parameter) if parameter.field.is_none() => {
            parameter.field = Some(Arc::clone(column));
            Ok(Transformed::yes(Expr::Placeholder(parameter)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The types of `$1`, `$2`, .. as far as some plans of one statement tell them.
///
/// # Errors
/// Parameters with gaps, and of two types.
pub(crate) fn parameter_types(plans: &[LogicalPlan]) -> Result<Vec<Option<DataType>>> {
    let mut types: Vec<(String, Option<DataType>)> = Vec::new();
    for plan in plans {
        for (name, data_type) in plan.get_parameter_types()? {
            // Texts are of one type, however an operand of a function would have them.
            let data_type = data_type.map(|data_type| storage::surface_type(&data_type));
            match types.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => match (&known, &data_type) {
                    (Some(a), Some(b)) if a != b => {
                        let a = sql_type(a);
                        let b = sql_type(b);
                        return Err(Error::plan(
                            SqlState::AmbiguousParameter,
                            format!("parameter {name} is {a} in one place and {b} in another; cast it"),
                        ));
                    }
                    (None, _) => *known = data_type,
                    _ => {}
                },
                None => types.push((name, data_type)),
            }
        }
    }
    let count = types.len();
    let mut in_order = vec![None; count];
    for (name, data_type) in types {
        let index = name.trim_start_matches('$').parse::<usize>().unwrap_or(0);
        match in_order.get_mut(index.wrapping_sub(1)) {
            Some(slot) => *slot = data_type,
            None => {
                return Err(Error::plan(
                    SqlState::IndeterminateDatatype,
                    format!("parameter {name}: parameters are $1 to ${count}, without gaps"),
                ));
            }
        }
    }
    Ok(in_order)
}
