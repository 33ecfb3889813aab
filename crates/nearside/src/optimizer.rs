//! DataFusion's optimizer rules, without what they cost where there is nothing for them to do, and one of ours among them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use crate::subquery_places::SubqueryMarks;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// The rules that plans are optimised by, in order.
pub(crate) fn optimizer_rules() -> Rules {
    let replaced = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() == RewriteSetComparison.name() {
        true => Arc::new(SetComparisons::default()) as Arc<dyn OptimizerRule + Send + Sync>,
        false => rule,
    };
    let mut rules: Rules = Optimizer::new().rules.into_iter().map(replaced).collect();
    // What it makes of EXISTS and IN (query) as values is what the rule behind it makes of them as conditions.
    let marks = rules.iter().position(|rule| rule.name() == "decorrelate_predicate_subquery");
    rules.insert(marks.unwrap_or(0), Arc::new(SubqueryMarks::default()));
    rules
}

/// DataFusion's rule for `= ANY (query)` and the like, which computes every schema of a plan anew: a tenth of all
/// optimising. Few plans have something for it.
#[derive(Debug, Default)]
struct SetComparisons(RewriteSetComparison);

impl OptimizerRule for SetComparisons {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut any = false;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                any |= expr.exists(|e| Ok(matches!(e, Expr::SetComparison(_))))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if any { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}
