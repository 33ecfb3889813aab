//! Which columns determine others, as far as it is true.
//!
//! DataFusion leaves columns out of GROUP BY and ORDER BY that depend on others of it, as those of a table on its key.
//! It takes what determines some columns of an aggregate's input for what determines all of its output: of
//! `(SELECT DISTINCT a FROM t) x JOIN u ON .. GROUP BY x.a, u.c`, grouped once more, it would keep `x.a` alone. And it
//! takes keys of what lists come from for keys of their elements: of `SELECT id, unnest(list) AS e .. ORDER BY id, e`
//! it would order by `id` alone. This rule takes such dependencies from the plan before they are used.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, FunctionalDependence, FunctionalDependencies, Result};
use datafusion_expr::{Aggregate, LogicalPlan};
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::anywhere::any_node;

/// The optimizer rule.
#[derive(Debug, Default)]
pub(crate) struct TrueKeys;

impl OptimizerRule for TrueKeys {
    fn name(&self) -> &str {
        "true_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_wrong = |node: &LogicalPlan| match node {
            LogicalPlan::Aggregate(grouped) => kept(grouped).is_some(),
            LogicalPlan::Unnest(unnest) => !unnest.schema.functional_dependencies().is_empty(),
            _ => false,
        };
        if !any_node(&plan, |node| Ok(is_wrong(node)))? {
            return Ok(Transformed::no(plan));
        }
        // What stands above took its dependencies from below.
        plan.transform_up_with_subqueries(|node| match node.recompute_schema()? {
            LogicalPlan::Aggregate(mut grouped) => {
                if let Some(kept) = kept(&grouped) {
                    let schema = DFSchema::clone(&grouped.schema).with_functional_dependencies(kept)?;
                    grouped.schema = Arc::new(schema);
                }
                Ok(Transformed::yes(LogicalPlan::Aggregate(grouped)))
            }
            LogicalPlan::Unnest(mut unnest) => {
                let none = FunctionalDependencies::empty();
                let schema = DFSchema::clone(&unnest.schema).with_functional_dependencies(none)?;
                unnest.schema = Arc::new(schema);
                Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
            }
            other => Ok(Transformed::yes(other)),
        })
    }
}

/// The dependencies of an aggregate's output that are true, if some are not: those on all columns that it groups by, or
/// on some of them that determine the others in its input.
fn kept(grouped: &Aggregate) -> Option<FunctionalDependencies> {
    let input = grouped.input.schema();
    let (below, names) = (input.functional_dependencies(), input.field_names());
    let groups: Vec<String> = grouped.group_expr.iter().map(|expr| expr.schema_name().to_string()).collect();
    let output = grouped.schema.field_names();
    let is_true = |dependence: &FunctionalDependence| {
        let sources: Vec<&String> = dependence.source_indices.iter().map(|i| &output[*i]).collect();
        let is_source = |name: &String| sources.contains(&name);
        groups.iter().all(is_source)
            || below.iter().any(|known| {
                known.source_indices.iter().all(|i| is_source(&names[*i]))
                    && groups
                        .iter()
                        .all(|group| is_source(group) || known.target_indices.iter().any(|i| names[*i] == *group))
            })
    };
    let all = grouped.schema.functional_dependencies();
    let kept: Vec<FunctionalDependence> = all.iter().filter(|dependence| is_true(dependence)).cloned().collect();
    (kept.len() < all.len()).then(|| FunctionalDependencies::new(kept))
}
