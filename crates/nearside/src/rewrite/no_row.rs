//! A query as a value is NULL where it has no row, also over columns that have no NULL: DataFusion takes the column for
//! the value, and makes FALSE of `(SELECT id FROM t WHERE ..) IS NULL`.
//!
//! So such queries stand in a call of a function that gives its argument, of which nobody knows that it is not NULL.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, internal_err};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_optimizer::AnalyzerRule;

static VALUE: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(ValueOrNull { signature: Signature::any(1, Volatility::Immutable) })));

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct NoRowIsNull;

impl AnalyzerRule for NoRowIsNull {
    fn name(&self) -> &str {
        "no_row_is_null"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = Cell::new(false);
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let rewritten = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|part| Ok(of_part(part)))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?;
            changed.set(changed.get() || rewritten.transformed);
            // Also where only something below may be NULL now.
            if changed.get() { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })?;
        Ok(rewritten.data)
    }
}

fn of_part(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::ScalarSubquery(query) => {
            let fields = query.subquery.schema().fields();
            let is_known = fields.iter().any(|field| !field.is_nullable()) && !has_one_row(&query.subquery);
            let query = Expr::ScalarSubquery(query);
            if is_known { Transformed::yes(VALUE.call(vec![query])) } else { Transformed::no(query) }
        }
        // What stands in one already, since rules may see a plan twice.
        Expr::ScalarFunction(mut call) if call.func.inner().is::<ValueOrNull>() => match call.args.pop() {
            Some(inner) if is_value(&inner) => Transformed::no(inner),
            Some(inner) => Transformed::no(VALUE.call(vec![inner])),
            None => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => Transformed::no(other),
    }
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<ValueOrNull>())
}

/// An aggregate over all rows has one, whatever it is over.
fn has_one_row(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        _ => false,
    }
}

/// Gives its argument. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueOrNull {
    signature: Signature,
}

impl ScalarUDFImpl for ValueOrNull {
    fn name(&self) -> &str {
        "value_or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            _ => internal_err!("value_or_null takes one argument"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
