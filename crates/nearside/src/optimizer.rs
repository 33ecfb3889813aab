//! DataFusion's optimizer rules, without the one that ours for quantified comparisons replaces, and one of ours among
//! them.

use std::sync::Arc;

use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::{Optimizer, OptimizerRule};

use crate::subquery_places::SubqueryMarks;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// The rules that plans are optimised by, in order.
pub(crate) fn optimizer_rules() -> Rules {
    let mut rules = Optimizer::new().rules;
    // Ours has been there before (`quantified`); DataFusion's puts the left side among the query's names.
    rules.retain(|rule| rule.name() != RewriteSetComparison.name());
    // What it makes of EXISTS and IN (query) as values is what the rule behind it makes of them as conditions.
    let marks = rules.iter().position(|rule| rule.name() == "decorrelate_predicate_subquery");
    rules.insert(marks.unwrap_or(0), Arc::new(SubqueryMarks::default()));
    rules
}
