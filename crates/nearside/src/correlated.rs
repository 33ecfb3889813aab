//! Columns of a correlated condition get names that nothing else in the subquery has.
//!
//! DataFusion makes a join of a correlated subquery: it pulls the condition out of it and refers to the subquery's columns by name
//! alone. Where the subquery joins tables that share a column name (`FROM p JOIN q .. WHERE q.z = o.x`, and `p` has a `z` too), the
//! first of that name would be compared. This rule runs before, and puts a projection below such a condition that repeats the column
//! under a name of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedNames {
    /// Names given so far.
    given: AtomicU64,
}

impl AnalyzerRule for CorrelatedNames {
    fn name(&self) -> &str {
        "correlated_names"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|node| self.rename(node))?.data)
    }
}

impl CorrelatedNames {
    fn rename(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
        if !filter.predicate.contains_outer() {
            return Ok(Transformed::no(node));
        }
        let schema = filter.input.schema();
        let shared = |column: &Column| schema.fields().iter().filter(|f| *f.name() == column.name).count() > 1;
        let mut renamed: Vec<(Column, String)> = Vec::new();
        let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| {
            if !condition.contains_outer() {
                return Ok(condition.clone());
            }
            let own = condition.clone().transform_up(|e| {
                let Expr::Column(column) = &e else { return Ok(Transformed::no(e)) };
                if !shared(column) {
                    return Ok(Transformed::no(e));
                }
                let known = renamed.iter().find(|(known, _)| known == column).map(|(_, name)| name.clone());
                let name = known.unwrap_or_else(|| {
                    let name = format!("__nearside_outer_{}", self.given.fetch_add(1, Ordering::Relaxed));
                    renamed.push((column.clone(), name.clone()));
                    name
                });
                Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
            })?;
            Ok(own.data)
        });
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let Some(predicate) = conjunction(conditions).filter(|_| !renamed.is_empty()) else {
            return Ok(Transformed::no(node));
        };
        let columns = schema.columns().into_iter().map(Expr::Column);
        let own = renamed.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
        let input = Projection::try_new(columns.chain(own).collect(), Arc::clone(&filter.input))?;
        let input = Arc::new(LogicalPlan::Projection(input));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
    }
}
