//! Parameters of no type among the arguments of functions that choose or compare: they take the type of what they meet,
//! as the planner has it beside operators. `coalesce(id, $1)`, `id = ANY ($1)`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Placeholder, ScalarFunction};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};

use storage::surface_type;

use super::kinds::{is_moment, same_kind};
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::functions::anywhere::{any_node, any_part};

/// Functions whose arguments are of one type.
const CHOICES: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// A plan, as the planner made it, with types for such parameters.
pub(crate) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| any_part(node, is_concerned))? {
        return Ok(plan);
    }
    let typed = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let typed = node.map_expressions(|expr| {
            expr.transform_up(|part| match part {
                Expr::ScalarFunction(mut call) if is_concerned_call(&call) => {
                    let changed = give(&mut call, &schema);
                    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        match typed.transformed {
            true => typed.map_data(LogicalPlan::recompute_schema),
            false => Ok(typed),
        }
    })?;
    Ok(typed.data)
}

/// A plan in which each parameter is of one type: that of the place where it stands first, as PostgreSQL has it. What
/// it meets in other places becomes of one type with it there, as with a column.
///
/// # Errors
/// Places of which no type is that of the other.
pub(crate) fn of_one_type_each(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut known: HashMap<String, FieldRef> = HashMap::new();
    let mut any = false;
    let mut fault = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = part {
                    match known.get(id).map(|first| first.data_type()) {
                        None => {
                            known.insert(id.clone(), Arc::clone(field));
                        }
                        Some(first) if first == field.data_type() => {}
                        Some(first) if meets(first, field.data_type()) => any = true,
                        Some(first) => {
                            let (a, b) = (sql_type(first), sql_type(field.data_type()));
                            let message = format!("parameter {id} is {a} in one place and {b} in another; cast it");
                            fault.get_or_insert(Error::plan(SqlState::AmbiguousParameter, message));
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if let Some(fault) = fault {
        return Err(fault.into_datafusion());
    }
    if !any {
        return Ok(plan);
    }
    // Texts are of one type, however an operand of a function would have them.
    for first in known.values_mut() {
        *first = Arc::new(first.as_ref().clone().with_data_type(surface_type(first.data_type())));
    }
    let given = plan.transform_up_with_subqueries(|node| {
        let given = node.map_expressions(|expr| {
            expr.transform_up(|part| match part {
                Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
                    let first = known.get(&id).cloned();
                    let changed = first.as_ref().is_some_and(|first| first.data_type() != field.data_type());
                    let field = if changed { first } else { Some(field) };
                    Ok(Transformed::new_transformed(Expr::Placeholder(Placeholder { id, field }), changed))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        match given.transformed {
            true => given.map_data(LogicalPlan::recompute_schema),
            false => Ok(given),
        }
    })?;
    Ok(given.data)
}

/// Whether a value of the first type may stand where one of the other was looked for: beside an interval that is added
/// to it a time is taken for one.
fn meets(first: &DataType, other: &DataType) -> bool {
    same_kind(first, other) || (is_moment(first) && matches!(other, DataType::Interval(_)))
}

fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(parameter) if parameter.field.is_none())
}

fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if is_concerned_call(call))
}

fn is_concerned_call(call: &ScalarFunction) -> bool {
    let name = call.func.name();
    (CHOICES.contains(&name) || of_list(name)) && call.args.iter().any(is_unknown)
}

fn of_list(name: &str) -> bool {
    name.ends_with(" ANY") || name.ends_with(" ALL")
}

fn give(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let known = call.args.iter().filter(|arg| !is_unknown(arg)).filter_map(|arg| arg.get_type(schema).ok());
    let Some(known) = known.into_iter().find(|of| *of != DataType::Null) else { return false };
    let is_list = of_list(call.func.name());
    for (place, arg) in call.args.iter_mut().enumerate() {
        let of = match (is_list, place) {
            (false, _) => known.clone(),
            (true, 1) => DataType::new_list(known.clone(), true),
            // A value beside a list is one of its elements.
            (true, _) => match &known {
                DataType::List(element) => element.data_type().clone(),
                _ => continue,
            },
        };
        if let Expr::Placeholder(parameter) = arg
            && parameter.field.is_none()
        {
            parameter.field = Some(Arc::new(Field::new("", of, true)));
        }
    }
    true
}
