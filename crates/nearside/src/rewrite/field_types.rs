//! What the rules of types have in common that a field's metadata tells of, and whose values are texts: `CHAR(n)`,
//! JSON, enums.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, LogicalPlan, Projection};

use crate::functions::json::planner::is_untyped;

/// One step of a plan with its expressions rewritten, which keep their names. Where `handed_on` gives the metadata of a
/// type, an output is told to be of it: aggregates and window functions do not hand it on by themselves.
///
/// # Errors
/// Those of the functions.
pub(super) fn with_parts(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
    handed_on: impl Fn(&Expr, &DFSchema) -> Option<HashMap<String, String>>,
) -> Result<LogicalPlan> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| rewrite(part, &schema))?;
        let rewritten =
            if rewritten.transformed { rewritten.update_data(|expr| name.restore(expr)) } else { rewritten };
        let Some(metadata) = handed_on(&rewritten.data, &schema) else { return Ok(rewritten) };
        let name = rewritten.data.schema_name().to_string();
        Ok(Transformed::yes(rewritten.data.alias_with_metadata(name, Some(FieldMetadata::from(metadata)))))
    })?;
    // Also where only something below has changed.
    rewritten.data.recompute_schema()
}

/// A query of a UNION whose column is a text as it is written, which is read as the type that the other queries have
/// there; `None` where it is no such text.
///
/// # Errors
/// Those of reading it.
pub(super) fn with_read_column(
    query: &LogicalPlan,
    column: usize,
    read: impl FnOnce(Expr, &DFSchema) -> Result<Expr>,
) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(query) = query else { return Ok(None) };
    if !is_untyped(&query.expr[column].clone().unalias()) {
        return Ok(None);
    }
    let mut outputs = query.expr.clone();
    let (relation, name) = outputs[column].qualified_name();
    let value = std::mem::take(&mut outputs[column]).unalias();
    outputs[column] = read(value, query.input.schema())?.alias_qualified(relation, name);
    Ok(Some(LogicalPlan::Projection(Projection::try_new(outputs, Arc::clone(&query.input))?)))
}
