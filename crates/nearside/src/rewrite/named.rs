//! Numbers of what there is (`regclass`, `regtype`, ..) where somebody wants to read them: as names.
//!
//! The rows of a query have names in their place ([`named`]), and so has what is cast to TEXT. What names them is bound
//! to the statement's catalog, as the function was that gave the numbers: it is looked for in the plan.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF, lit};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::named_types::is_vector;
use crate::error::statement_err;
use crate::functions::arrays::joined;
use crate::functions::catalog_asked::{named_type, naming};

/// A query whose rows somebody reads.
///
/// # Errors
/// None that the plan has not.
pub(crate) fn named(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.schema().fields().iter().any(|field| named_type(field).is_some() || is_vector(field)) {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let outputs = columns.into_iter().zip(plan.schema().fields()).map(|(column, field)| match named_type(field) {
        Some(of) => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let column = Expr::Column(column);
            Ok(naming_in(&column, Some(&plan), of)?.call(vec![column]).alias_qualified(relation, name))
        }
        None if is_vector(field) => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            Ok(joined().call(vec![Expr::Column(column), lit(" ")]).alias_qualified(relation, name))
        }
        None => Ok(Expr::Column(column)),
    });
    let outputs = outputs.collect::<Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}

/// The analyzer rule: PostgreSQL's vectors of numbers count from 0, where lists count from 1.
#[derive(Debug, Default)]
pub(crate) struct VectorBounds;

impl AnalyzerRule for VectorBounds {
    fn name(&self) -> &str {
        "vector_bounds"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let has_vector = |schema: &DFSchema| schema.fields().iter().any(|field| is_vector(field));
        let bounded = plan.transform_up_with_subqueries(|node| {
            if !node.inputs().iter().any(|input| has_vector(input.schema())) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let bounded = expr.transform_up(|part| Ok(bound_of_vector(part, &schema)))?;
                Ok(if bounded.transformed { bounded.update_data(|expr| name.restore(expr)) } else { bounded })
            })
        })?;
        Ok(bounded.data)
    }
}

fn bound_of_vector(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_bound = match &expr {
        Expr::ScalarFunction(call) if matches!(call.name(), "array_lower" | "array_upper") => {
            call.args.first().is_some_and(|list| list.to_field(schema).is_ok_and(|(_, field)| is_vector(&field)))
        }
        _ => false,
    };
    if is_bound { Transformed::yes(expr - lit(1_i32)) } else { Transformed::no(expr) }
}

/// What names the numbers of a type, bound as what gives numbers in the expression or in the plan is.
///
/// # Errors
/// Nothing in the plan gives any.
pub(super) fn naming_in(expr: &Expr, plan: Option<&LogicalPlan>, of: &str) -> Result<Arc<ScalarUDF>> {
    let mut found = None;
    let mut look = |expr: &Expr| {
        expr.apply(|part| {
            if found.is_none()
                && let Expr::ScalarFunction(call) = part
            {
                found = naming(of, &call.func);
            }
            Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    };
    look(expr)?;
    if let Some(plan) = plan {
        plan.apply_with_subqueries(|node| node.apply_expressions(&mut look))?;
    }
    match found {
        Some(found) => Ok(found),
        None => {
            statement_err!(FeatureNotSupported, "a {of} that is not made in this statement cannot be written as text")
        }
    }
}
