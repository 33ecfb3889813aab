//! Calls of sequences in queries of FROM and WITH whose outputs nobody reads: they are made all the same, as PostgreSQL
//! makes them, where the planner would leave such outputs out.
//!
//! A condition that is always true reads them. It is called anew for each row, so no rule drops or moves it.
//!
//! # Limits
//! Calls below DISTINCT, aggregates and windows of such a query are made where something reads what they give, and
//! those of EXISTS, whose outputs PostgreSQL leaves out too, are not made.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Expr, Filter, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SubqueryAlias,
    Volatility,
};

use crate::functions::anywhere::any_node;
use crate::functions::sequences::has_effect;

static READS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Reads { signature: Signature::variadic_any(Volatility::Volatile) })));

/// True, whatever it reads. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Reads {
    signature: Signature,
}

/// Has every call of a sequence made in the outputs of queries in FROM and WITH.
pub(crate) fn made(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is = |node: &LogicalPlan| match node {
        LogicalPlan::Projection(projection) => projection.expr.iter().any(calls),
        _ => false,
    };
    if !any_node(&plan, |node| Ok(is(node)))? {
        return Ok(plan);
    }
    let made = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::SubqueryAlias(alias) => {
            let input = within(alias.input.as_ref().clone())?;
            let changed = input.transformed;
            let alias = SubqueryAlias::try_new(Arc::new(input.data), alias.alias)?;
            Ok(Transformed::new_transformed(LogicalPlan::SubqueryAlias(alias), changed))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(made.data)
}

/// A query whose outputs are read, in what it begins with.
fn within(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Projection(projection) => {
            let schema = projection.schema.columns();
            let outputs = projection.expr.iter().zip(schema);
            let read: Vec<Expr> = outputs.filter(|(expr, _)| calls(expr)).map(|(_, name)| Expr::Column(name)).collect();
            if read.is_empty() {
                return plan.map_children(within);
            }
            let filter = Filter::try_new(READS.call(read), Arc::new(plan))?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Union(_) | LogicalPlan::Filter(_) => {
            plan.map_children(within)
        }
        _ => Ok(Transformed::no(plan)),
    }
}

fn calls(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if has_effect(&call.func)))).unwrap_or(false)
}

impl ScalarUDFImpl for Reads {
    fn name(&self) -> &str {
        "reads"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}
