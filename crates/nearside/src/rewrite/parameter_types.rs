//! Parameters of no type among the arguments of functions that choose or compare: they take the type of what they meet,
//! as the planner has it beside operators. `coalesce(id, $1)`, `id = ANY ($1)`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};

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
