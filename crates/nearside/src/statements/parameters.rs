//! Values for the parameters of statements that write.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result as DfResult, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection};

use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::run::prepare::{constants, params};
use crate::run::statement::RunningStatement;

/// A statement's plan with values where its parameters stand. What is written to the columns of `written` is cast to
/// their types, as it would be if the values stood in the statement's text.
///
/// # Errors
/// A parameter without a value, values of types that no cast takes.
pub(crate) fn with_values(
    plan: LogicalPlan,
    values: &[ScalarValue],
    written: Option<&SchemaRef>,
) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    let plan = plan.with_param_values(params(values))?;
    let Some(schema) = written else { return Ok(plan) };
    let fields = || plan.schema().iter().zip(schema.fields());
    if fields().all(|((_, field), to)| field.data_type() == to.data_type()) {
        return Ok(plan);
    }
    let mut outputs = Vec::with_capacity(schema.fields().len());
    if let LogicalPlan::Projection(Projection { expr, input, .. }) = &plan {
        // Casts of values themselves, which fail whether there are rows or not.
        for (output, to) in expr.iter().zip(schema.fields()) {
            outputs.push(output.clone().unalias().cast_to(to.data_type(), input.schema())?.alias(to.name()));
        }
        return Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::clone(input))?));
    }
    for ((table, field), to) in fields() {
        let column = Expr::Column(Column::from((table, field)));
        outputs.push(column.cast_to(to.data_type(), plan.schema())?.alias(to.name()));
    }
    Ok(LogicalPlanBuilder::from(plan).project(outputs)?.build()?)
}

/// A value of another type than its parameter's. `None` where it would be another value then, and the type is not
/// declared: a fraction compared with an integer, say, stands for itself, as it would in the text.
///
/// # Errors
/// What is no value of the type.
pub(crate) fn fitting(
    value: &ScalarValue,
    data_type: &DataType,
    is_declared: bool,
    running: &RunningStatement,
) -> Result<Option<ScalarValue>> {
    // A time of a zone is read from a text by the session's settings.
    let is_zoned = matches!(data_type, DataType::Timestamp(_, Some(_))) && value.data_type().is_string();
    if is_declared || is_zoned {
        let cast = Expr::Literal(value.clone(), None).cast_to(data_type, &DFSchema::empty())?;
        return Ok(constants(vec![cast], running)?.pop());
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
                        return Err(Error::plan(format!(
                            "parameter {name} is {a} in one place and {b} in another; cast it"
                        )));
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
            None => return Err(Error::plan(format!("parameter {name}: parameters are $1 to ${count}, without gaps"))),
        }
    }
    Ok(in_order)
}
