//! What is put into columns, as PostgreSQL has it: a text whose type nobody has said is read as the column's type, and
//! other values become of that type where there is an assignment cast: between numbers, between days and times, and to
//! texts. The planner casts whatever can be cast, so `DATE '2024-01-31'` would be 19753 in an INTEGER column.
//!
//! A cast that a statement says in the place of a value stands in a call of [`CAST`](crate::sql::CAST), so what is a
//! cast here is one of the planner's.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::expr::Cast;
use datafusion_expr::{Analyze, DmlStatement, Explain, Expr, ExprSchemable, LogicalPlan, Projection, WriteOp, cast};

use crate::catalog::user_types::EnumType;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::json::planner::{is_untyped, kind};
use crate::functions::json::{Kind, kind_of};
use crate::rewrite::enums::enum_of;
use crate::rewrite::kinds::{same_kind, written};

/// A statement as the planner made it, with the types that its columns are written with.
///
/// # Errors
/// A value of a type that the column does not take.
pub(crate) fn assigned(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Dml(dml) => {
            let schema = dml.target.schema();
            let input = written_rows(Arc::unwrap_or_clone(dml.input), &dml.op, &schema)?;
            LogicalPlan::Dml(DmlStatement::new(dml.table_name, dml.target, dml.op, Arc::new(input)))
        }
        LogicalPlan::Explain(explain) => {
            let plan = Arc::new(assigned(Arc::unwrap_or_clone(explain.plan))?);
            LogicalPlan::Explain(Explain { plan, ..explain })
        }
        LogicalPlan::Analyze(analyze) => {
            let input = Arc::new(assigned(Arc::unwrap_or_clone(analyze.input))?);
            LogicalPlan::Analyze(Analyze { input, ..analyze })
        }
        other => other,
    })
}

/// The rows that an INSERT or UPDATE of a table with these columns puts into it.
///
/// # Errors
/// As [`assigned`].
pub(crate) fn written_rows(plan: LogicalPlan, op: &WriteOp, schema: &SchemaRef) -> Result<LogicalPlan> {
    match (op, plan) {
        (WriteOp::Insert(_), LogicalPlan::Projection(rows)) => inserted(rows, schema),
        (WriteOp::Update, LogicalPlan::Projection(rows)) => {
            for (output, field) in rows.expr.iter().zip(schema.fields()) {
                check_json(output, field, rows.input.schema())?;
                check_cast(output, field.name(), rows.input.schema())?;
            }
            Ok(LogicalPlan::Projection(rows))
        }
        (_, other) => Ok(other),
    }
}

/// The planner's projection gives each column an output of the rows, or its default.
fn inserted(rows: Projection, schema: &SchemaRef) -> Result<LogicalPlan> {
    let mut goes_to: Vec<Option<(&str, &DataType)>> = vec![None; rows.input.schema().fields().len()];
    for (output, field) in rows.expr.iter().zip(schema.fields()) {
        if let Expr::Column(column) = without_cast(output)
            && let Some(place) = rows.input.schema().maybe_index_of_column(column)
        {
            goes_to[place] = Some((field.name(), field.data_type()));
        }
    }
    check_json_rows(&rows, schema)?;
    if let LogicalPlan::Values(values) = rows.input.as_ref() {
        for row in &values.values {
            for (cell, column) in row.iter().zip(&goes_to) {
                if let Some((name, _)) = column {
                    check_cast(cell, name, &DFSchema::empty())?;
                }
            }
        }
        return Ok(LogicalPlan::Projection(rows));
    }
    let input = with_read_texts(Arc::unwrap_or_clone(rows.input), &goes_to)?;
    for (field, column) in input.schema().fields().iter().zip(&goes_to) {
        if let Some((name, to)) = column {
            check(field.data_type(), name, to)?;
        }
    }
    Ok(LogicalPlan::Projection(Projection::try_new(rows.expr, Arc::new(input))?))
}

/// Refuses what is put into columns of JSON and JSONB and is neither, nor a text whose type nobody has said.
fn check_json_rows(rows: &Projection, schema: &SchemaRef) -> Result<()> {
    for (output, field) in rows.expr.iter().zip(schema.fields()) {
        if (kind_of(field) != Kind::Other || EnumType::of_field(field).is_some())
            && let Expr::Column(column) = without_cast(output)
            && let Some(place) = rows.input.schema().maybe_index_of_column(column)
        {
            check_json_column(&rows.input, place, field)?;
        }
    }
    Ok(())
}

fn check_json_column(plan: &LogicalPlan, place: usize, to: &Field) -> Result<()> {
    match plan {
        LogicalPlan::Values(values) => {
            values.values.iter().try_for_each(|row| check_json(&row[place], to, &DFSchema::empty()))
        }
        LogicalPlan::Projection(query) => check_json(&query.expr[place], to, query.input.schema()),
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => check_json_column(plan.inputs()[0], place, to),
        LogicalPlan::Union(union) => union.inputs.iter().try_for_each(|input| check_json_column(input, place, to)),
        other => {
            let column = Expr::Column(other.schema().columns()[place].clone());
            check_json(&column, to, other.schema())
        }
    }
}

fn check_json(value: &Expr, to: &Field, schema: &DFSchema) -> Result<()> {
    let value = match value {
        Expr::Cast(_) | Expr::Alias(_) => without_cast(value),
        other => other,
    };
    let is_parameter = matches!(value, Expr::Placeholder(_));
    if let Some(of) = EnumType::of_field(to) {
        return check_enum(value, (to.name(), &of), schema);
    }
    if kind_of(to) == Kind::Other || kind(value, schema) != Kind::Other || is_untyped(value) || is_parameter {
        return Ok(());
    }
    let from = value.get_type(schema)?;
    if from.is_null() {
        return Ok(());
    }
    let (to, name, from) = (kind_of(to).name(), to.name(), sql_type(&from));
    Err(Error::plan(
        SqlState::DatatypeMismatch,
        format!(
            "column '{name}' is of type {to} but the expression is of type {from}; write CAST(.. AS {to}), or \
             to_{to}(..)"
        ),
    ))
}

/// Refuses what is put into a column of an enum and is neither of it nor a text whose type nobody has said.
fn check_enum(value: &Expr, (name, of): (&str, &EnumType), schema: &DFSchema) -> Result<()> {
    let own = enum_of(value, schema);
    if own.as_ref() == Some(of) || (own.is_none() && is_untyped(value)) || matches!(value, Expr::Placeholder(_)) {
        return Ok(());
    }
    let from = match &own {
        Some(own) => own.shown(),
        None => match value.get_type(schema)? {
            DataType::Null => return Ok(()),
            from => sql_type(&from),
        },
    };
    let to = of.shown();
    Err(Error::plan(
        SqlState::DatatypeMismatch,
        format!("column '{name}' is of type {to} but the expression is of type {from}; write CAST(.. AS {to})"),
    ))
}

/// The rows of a query, of which texts that are outputs as they are written have the types of their columns.
fn with_read_texts(plan: LogicalPlan, goes_to: &[Option<(&str, &DataType)>]) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(query) => {
            let outputs = query.expr.into_iter().zip(goes_to).map(|(output, column)| match column {
                Some((_, to)) if is_written(&output) && !same_kind(to, &DataType::Utf8) => {
                    let name = output.schema_name().to_string();
                    cast(output.unalias(), DataType::clone(to)).alias(name)
                }
                _ => output,
            });
            Ok(LogicalPlan::Projection(Projection::try_new(outputs.collect(), query.input)?))
        }
        // An order or a number of rows changes no type.
        node @ (LogicalPlan::Sort(_) | LogicalPlan::Limit(_)) => {
            let read = node.map_children(|below| {
                with_read_texts(below, goes_to).map(Transformed::yes).map_err(Error::into_datafusion)
            })?;
            Ok(read.data.recompute_schema()?)
        }
        other => Ok(other),
    }
}

/// Whether it is a text whose type nobody has said.
fn is_written(output: &Expr) -> bool {
    match output {
        Expr::Alias(alias) => is_written(&alias.expr),
        other => written(other).is_some(),
    }
}

fn without_cast(output: &Expr) -> &Expr {
    match output {
        Expr::Alias(alias) => without_cast(&alias.expr),
        Expr::Cast(cast) => without_cast(&cast.expr),
        other => other,
    }
}

/// Refuses a cast that the planner made and that is none of assignment.
///
/// # Errors
/// As [`assigned`].
fn check_cast(value: &Expr, column: &str, schema: &DFSchema) -> Result<()> {
    let Expr::Cast(Cast { expr, field }) = (match value {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    }) else {
        return Ok(());
    };
    // A parameter may get a value of another type.
    match expr.get_type(schema) {
        Ok(from) if written(expr).is_none() && !matches!(expr.as_ref(), Expr::Placeholder(_)) => {
            check(&from, column, field.data_type())
        }
        _ => Ok(()),
    }
}

/// Refuses a value that a column does not take.
///
/// # Errors
/// As [`assigned`].
fn check(from: &DataType, column: &str, to: &DataType) -> Result<()> {
    if is_assignable(from, to) {
        return Ok(());
    }
    let (from, to) = (sql_type(from), sql_type(to));
    Err(Error::plan(
        SqlState::DatatypeMismatch,
        format!("column '{column}' is of type {to} but the expression is of type {from}; write CAST(.. AS {to})"),
    ))
}

/// A value as one of a type that it is put into a column of.
///
/// # Errors
/// As [`assigned`].
pub(crate) fn put_into(value: Expr, column: &str, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    match value.get_type(schema) {
        Ok(from) if from == *to => Ok(value),
        Ok(from) if written(&value).is_none() => {
            check(&from, column, to)?;
            Ok(value.cast_to(to, schema)?)
        }
        // A text that is no value of the type is an error of its own.
        _ => Ok(cast(value, to.clone())),
    }
}

/// Whether a value becomes another type when it is put into a column of that: PostgreSQL has an assignment cast.
pub(crate) fn is_assignable(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let is_span = |t: &DataType| matches!(t, T::Interval(_) | T::Duration(_));
    let is_time = |t: &DataType| matches!(t, T::Time32(_) | T::Time64(_));
    match (from, to) {
        (T::Dictionary(_, from), to) => is_assignable(from, to),
        _ if same_kind(from, to) || same_kind(&T::Utf8, to) => true,
        (T::Timestamp(..), to) if is_time(to) => true,
        (from, to) if (is_time(from) && is_span(to)) || (is_span(from) && is_time(to)) => true,
        // The planner says which it can cast.
        (from, to) => from.is_nested() && to.is_nested(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{IntervalUnit, TimeUnit};

    use super::*;

    #[test]
    fn assignment_casts_are_those_of_postgresql() {
        let time = DataType::Time64(TimeUnit::Nanosecond);
        let moment = DataType::Timestamp(TimeUnit::Second, None);
        let zoned = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        let span = DataType::Interval(IntervalUnit::MonthDayNano);
        let all = [
            DataType::Boolean,
            DataType::Int32,
            DataType::Decimal128(9, 2),
            DataType::Utf8View,
            DataType::BinaryView,
            DataType::Date32,
            time.clone(),
            moment.clone(),
            zoned.clone(),
            span.clone(),
        ];
        let others = [
            (DataType::Int32, DataType::Decimal128(9, 2)),
            (DataType::Decimal128(9, 2), DataType::Int32),
            (DataType::Date32, moment.clone()),
            (DataType::Date32, zoned.clone()),
            (moment.clone(), DataType::Date32),
            (zoned.clone(), DataType::Date32),
            (moment.clone(), zoned.clone()),
            (zoned.clone(), moment.clone()),
            (moment, time.clone()),
            (zoned, time.clone()),
            (time.clone(), span.clone()),
            (span, time),
        ];
        for from in &all {
            for to in &all {
                let expected = from == to || *to == DataType::Utf8View || others.contains(&(from.clone(), to.clone()));
                assert_eq!(is_assignable(from, to), expected, "{from} to {to}");
            }
            assert!(is_assignable(&DataType::Null, from));
        }
    }
}
