//! Calls of [`CAST`], which keep casts apart from the columns that they cast: DataFusion names a cast after what it
//! casts, and takes `min(x)` and `min(CAST(x AS TEXT))` for one.
//!
//! They have a name of their own while names are resolved, and are gone when types are known; what they were part of
//! keeps its name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{
    ColumnarValue, Expr, GroupingSet, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::lengths::LENGTH;
use crate::sql::CAST;

/// The analyzer rule that takes the calls away.
#[derive(Debug, Default)]
pub(crate) struct PlainCasts;

impl AnalyzerRule for PlainCasts {
    fn name(&self) -> &str {
        "plain_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(without_calls(plan, CAST)?.data)
    }
}

/// A plan in which the calls of a function are their first argument; what they were part of keeps its name.
///
/// # Errors
/// None that a valid plan gives.
pub(crate) fn without_calls(plan: LogicalPlan, function: &str) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let renamed = node.map_expressions(|expr| match expr {
            // The names are those of what is in the sets.
            Expr::GroupingSet(mut sets) => {
                let mut changed = false;
                for key in keys(&mut sets) {
                    let name = names.save(key);
                    let bare = bare(std::mem::take(key), function)?;
                    changed |= bare.transformed;
                    *key = if bare.transformed { name.restore(bare.data) } else { bare.data };
                }
                Ok(Transformed::new_transformed(Expr::GroupingSet(sets), changed))
            }
            expr => {
                let name = names.save(&expr);
                let bare = bare(expr, function)?;
                Ok(if bare.transformed { bare.update_data(|expr| name.restore(expr)) } else { bare })
            }
        })?;
        if renamed.transformed { renamed.map_data(LogicalPlan::recompute_schema) } else { Ok(renamed) }
    })
}

/// The keys in grouping sets.
pub(super) fn keys(sets: &mut GroupingSet) -> Vec<&mut Expr> {
    match sets {
        GroupingSet::Rollup(keys) | GroupingSet::Cube(keys) => keys.iter_mut().collect(),
        GroupingSet::GroupingSets(sets) => sets.iter_mut().flatten().collect(),
    }
}

fn bare(expr: Expr, function: &str) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| match part {
        Expr::ScalarFunction(mut call) if call.func.name() == function && !call.args.is_empty() => {
            Ok(Transformed::yes(call.args.swap_remove(0)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// An expression whose texts have a length (`CHAR(3)`).
pub(super) fn kept(expr: Expr, length: &str) -> Expr {
    function().call(vec![expr, lit(length)])
}

/// The function of that name: a second argument is the length of its texts.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(KeptCast { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KeptCast {
    signature: Signature,
}

impl ScalarUDFImpl for KeptCast {
    fn name(&self) -> &str {
        CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(of) = args.arg_fields.first() else { return Ok(Arc::new(Field::new(CAST, DataType::Null, true))) };
        let field = Field::new(CAST, of.data_type().clone(), of.is_nullable());
        Ok(Arc::new(match args.scalar_arguments.get(1) {
            Some(Some(ScalarValue::Utf8(Some(length)))) => {
                field.with_metadata(HashMap::from([(LENGTH.to_string(), length.clone())]))
            }
            _ => field,
        }))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args.first() {
            Some(Expr::Cast(cast)) => format!("CAST({} AS {})", cast.expr.schema_name(), cast.field.data_type()),
            Some(Expr::TryCast(cast)) => format!("TRY_CAST({} AS {})", cast.expr.schema_name(), cast.field.data_type()),
            Some(other) => other.schema_name().to_string(),
            None => String::new(),
        })
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
