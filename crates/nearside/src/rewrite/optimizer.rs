//! DataFusion's optimizer rules, without those that ours replace, and some of ours among them.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Aggregate, Expr, Filter, GroupingSet, LogicalPlan};
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion_optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::rewrite::cross_joins::KeyedJoins;
use crate::rewrite::days::ComparedDays;
use crate::rewrite::subquery_places::SubqueryMarks;
use crate::rewrite::true_keys::TrueKeys;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;
type Rules = Vec<Rule>;

/// The rules that plans are optimised by, in order.
pub(crate) fn optimizer_rules() -> Rules {
    let filters = HeldFilters::default();
    let replaced = |rule: Rule| -> Rule {
        match rule.name() {
            name if name == filters.name() => Arc::new(HeldFilters::default()),
            "eliminate_cross_join" => Arc::new(KeyedJoins),
            _ => rule,
        }
    };
    let mut rules: Rules = Optimizer::new().rules.into_iter().map(replaced).collect();
    // Ours has been there before (`quantified`); DataFusion's puts the left side among the query's names.
    rules.retain(|rule| rule.name() != RewriteSetComparison.name());
    // What it makes of EXISTS and IN (query) as values is what the rule behind it makes of them as conditions.
    let marks = rules.iter().position(|rule| rule.name() == "decorrelate_predicate_subquery");
    rules.insert(marks.unwrap_or(0), Arc::new(SubqueryMarks::default()));
    let folded = rules.iter().position(|rule| rule.name() == "simplify_expressions");
    rules.insert(folded.map_or(0, |place| place + 1), Arc::new(ComparedDays));
    // Before each rule that asks what depends on what.
    let asks = ["optimize_projections", "replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr"];
    let with_true_keys = |rule: Rule| match asks.contains(&rule.name()) {
        true => vec![Arc::new(TrueKeys) as Rule, rule],
        false => vec![rule],
    };
    rules.into_iter().flat_map(with_true_keys).collect()
}

/// DataFusion's rule that moves conditions down, without three moves that change answers. A condition that names no
/// column is about no group; below an aggregation that gives a row even without one of its input, it would empty the
/// input, not the result. And one that may differ from call to call is to be asked of the rows that it was written
/// for, groups and numbered rows, not of those that they are made of. And one that names no column is not moved into
/// one of the places of a shared query, which stands for all of them.
#[derive(Debug, Default)]
struct HeldFilters(PushDownFilter);

impl OptimizerRule for HeldFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return self.0.rewrite(plan, config) };
        // The rule would put one condition into the other itself, and go on from there.
        let mut conditions = vec![filter.predicate];
        let mut input = filter.input;
        while let LogicalPlan::Filter(below) = input.as_ref() {
            conditions.push(below.predicate.clone());
            input = Arc::clone(&below.input);
        }
        let (held, free): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().rev().flat_map(split_conjunction_owned).partition(|c| is_held(c, &input));
        let Some(held) = conjunction(held) else {
            let free = conjunction(free).expect("a filter has a condition");
            return self.0.rewrite(LogicalPlan::Filter(Filter::new(free, input)), config);
        };
        let Some(free) = conjunction(free) else {
            return Ok(Transformed::no(LogicalPlan::Filter(Filter::new(held, input))));
        };
        let moved = self.0.rewrite(LogicalPlan::Filter(Filter::new(free, input)), config)?;
        moved.map_data(|plan| {
            Ok(LogicalPlan::Filter(match plan {
                LogicalPlan::Filter(kept) => Filter::new(kept.predicate.and(held), kept.input),
                other => Filter::new(held, Arc::new(other)),
            }))
        })
    }
}

/// Is a condition to stay above this operator?
fn is_held(condition: &Expr, below: &LogicalPlan) -> bool {
    match below {
        LogicalPlan::Aggregate(aggregate) => {
            condition.is_volatile()
                || (condition.column_refs().is_empty() && has_grand_total(aggregate))
                || aggregate.group_expr.iter().any(Expr::is_volatile)
        }
        LogicalPlan::Window(_) | LogicalPlan::Distinct(_) | LogicalPlan::Unnest(_) => condition.is_volatile(),
        // What is shared is the same in all of its places.
        LogicalPlan::Extension(_) => true,
        _ => false,
    }
}

/// Does an aggregation give a row even where its input has none?
fn has_grand_total(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}
