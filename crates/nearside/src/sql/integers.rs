//! Literals of integers are INTEGER where they fit, as in PostgreSQL; the planner makes BIGINT of all of them.
//!
//! A plan is changed before anything is made of its types. Names that the planner makes up of expressions tell the
//! types of literals, so columns of these names are called anew above.
//!
//! # Limits
//! BIGINT stay arguments of functions but those that give one of their arguments, offsets and limits, literals in what
//! INSERT, UPDATE and DELETE write (which the columns' types decide), and all of a statement with WITH RECURSIVE, or
//! with a subquery that reads a BIGINT of the query around it which is no table's column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// Functions that give one of their arguments, or a list of them.
const OF_ARGUMENTS: [&str; 8] = ["abs", "array", "coalesce", "greatest", "ifnull", "least", "make_array", "nullif"];
/// Aggregates of values whose type is that of the values, or is made of it.
const OF_VALUES: [&str; 6] = ["array_agg", "avg", "max", "min", "mean", "sum"];

/// The plan of a statement with INTEGER literals.
///
/// # Errors
/// None that a plan which was made has.
pub(super) fn narrowed(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_narrow(&plan)? {
        return Ok(plan);
    }
    let mut names: HashMap<String, String> = HashMap::new();
    let narrowed = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            // Limits are read as they are.
            LogicalPlan::Limit(_) => return Ok(Transformed::no(node)),
            // It keeps the schema that it has, otherwise.
            LogicalPlan::Union(union) => {
                let mut inputs = union.inputs.into_iter().map(Arc::unwrap_or_clone);
                let Some(first) = inputs.next() else { return internal_err!("a UNION of nothing") };
                let all = inputs.try_fold(LogicalPlanBuilder::from(first), LogicalPlanBuilder::union)?;
                return Ok(Transformed::yes(all.build()?));
            }
            LogicalPlan::Values(values) => return Ok(Transformed::yes(LogicalPlan::Values(of_values(values)?))),
            node => node,
        };
        let before = made_names(&node);
        let node = node.map_expressions(|expr| Ok(Transformed::yes(narrow(expr, &names)?)))?.data;
        for (before, after) in before.into_iter().zip(made_names(&node)) {
            if before != after {
                names.insert(before, after);
            }
        }
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(narrowed.data)
}

/// Whether there is a literal to narrow, and nothing that needs types as they are.
fn has_narrow(plan: &LogicalPlan) -> Result<bool> {
    let (mut any, mut may) = (false, true);
    plan.apply_with_subqueries(|node| {
        may &= !matches!(node, LogicalPlan::Dml(_) | LogicalPlan::RecursiveQuery(_));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    Expr::Literal(value, _) => any |= narrow_value(value).is_some(),
                    // Who has made it knows its type by now.
                    Expr::OuterReferenceColumn(field, _) => may &= field.data_type() != &DataType::Int64,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(any && may)
}

fn narrow_value(value: &ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Int64(Some(value)) => i32::try_from(*value).ok().map(|value| ScalarValue::Int32(Some(value))),
        _ => None,
    }
}

/// The names of what an operator computes.
fn made_names(node: &LogicalPlan) -> Vec<String> {
    let of = |exprs: &[Expr]| exprs.iter().map(|expr| expr.schema_name().to_string()).collect::<Vec<_>>();
    match node {
        LogicalPlan::Projection(node) => of(&node.expr),
        LogicalPlan::Window(node) => of(&node.window_expr),
        LogicalPlan::Aggregate(node) => {
            let keys = grouping_set_to_exprlist(&node.group_expr).unwrap_or_default();
            let keys = keys.into_iter().map(|expr| expr.schema_name().to_string()).collect();
            [keys, of(&node.aggr_expr)].concat()
        }
        LogicalPlan::Distinct(datafusion_expr::Distinct::On(node)) => of(&node.select_expr),
        _ => Vec::new(),
    }
}

fn narrow(expr: Expr, names: &HashMap<String, String>) -> Result<Expr> {
    // An argument that functions read as it is.
    let argument = |expr: Expr| match expr {
        Expr::Literal(..) => Ok(expr),
        other => narrow(other, names),
    };
    let arguments = |args: Vec<Expr>| args.into_iter().map(argument).collect::<Result<Vec<Expr>>>();
    let values = |args: Vec<Expr>, is_first: bool| {
        let value = |(place, arg)| if place == 0 && is_first { narrow(arg, names) } else { argument(arg) };
        args.into_iter().enumerate().map(value).collect::<Result<Vec<Expr>>>()
    };
    let all = |args: Vec<Expr>| args.into_iter().map(|arg| narrow(arg, names)).collect::<Result<Vec<Expr>>>();
    Ok(match expr {
        Expr::Literal(value, metadata) => match narrow_value(&value).filter(|_| metadata.is_none()) {
            Some(value) => Expr::Literal(value, None),
            None => Expr::Literal(value, metadata),
        },
        Expr::Column(mut column) => {
            if let Some(name) = names.get(&column.name) {
                column.name.clone_from(name);
            }
            Expr::Column(column)
        }
        Expr::ScalarFunction(mut call) => {
            call.args = match OF_ARGUMENTS.contains(&call.func.name()) {
                true => all(call.args)?,
                false => arguments(call.args)?,
            };
            Expr::ScalarFunction(call)
        }
        Expr::AggregateFunction(mut call) => {
            let is_of_values = OF_VALUES.contains(&call.func.name());
            call.params.args = values(call.params.args, is_of_values)?;
            call.params.filter = call.params.filter.map(|filter| narrow(*filter, names).map(Box::new)).transpose()?;
            for sort in &mut call.params.order_by {
                sort.expr = narrow(std::mem::take(&mut sort.expr), names)?;
            }
            Expr::AggregateFunction(call)
        }
        Expr::WindowFunction(mut call) => {
            let is_of_values = OF_VALUES.contains(&call.fun.name());
            call.params.args = values(std::mem::take(&mut call.params.args), is_of_values)?;
            call.params.partition_by = all(std::mem::take(&mut call.params.partition_by))?;
            for sort in &mut call.params.order_by {
                sort.expr = narrow(std::mem::take(&mut sort.expr), names)?;
            }
            call.params.filter = match call.params.filter.take() {
                Some(filter) => Some(Box::new(narrow(*filter, names)?)),
                None => None,
            };
            Expr::WindowFunction(call)
        }
        other => other.map_children(|part| Ok(Transformed::yes(narrow(part, names)?)))?.data,
    })
}

/// Rows that are written out: a column is INTEGER where each of its literals fits.
fn of_values(mut rows: datafusion_expr::Values) -> Result<datafusion_expr::Values> {
    let none = HashMap::new();
    let mut fields: Vec<Arc<Field>> = rows.schema.fields().iter().cloned().collect();
    for (place, field) in fields.iter_mut().enumerate() {
        let fits = |cell: &Expr| match cell {
            Expr::Literal(value, None) => value.is_null() || narrow_value(value).is_some(),
            _ => false,
        };
        let has_all = rows.values.iter().all(|row| row.get(place).is_some_and(fits));
        let any = rows.values.iter().any(|row| matches!(&row[place], Expr::Literal(value, _) if !value.is_null()));
        if field.data_type() != &DataType::Int64 || !has_all || !any {
            continue;
        }
        for row in &mut rows.values {
            row[place] = match std::mem::take(&mut row[place]) {
                Expr::Literal(value, None) if value.is_null() => Expr::Literal(ScalarValue::Int32(None), None),
                cell => narrow(cell, &none)?,
            };
        }
        *field = Arc::new(Field::clone(field).with_data_type(DataType::Int32));
    }
    let qualified = rows.schema.iter().map(|(table, _)| table.cloned()).zip(fields).collect();
    let schema = DFSchema::new_with_metadata(qualified, rows.schema.metadata().clone())?;
    rows.schema = Arc::new(schema);
    Ok(rows)
}
