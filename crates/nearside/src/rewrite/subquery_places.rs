//! EXISTS, IN (query) and scalar subqueries in places that DataFusion has no join for.
//!
//! Two rules. [`SubqueryPlaces`], of the analyser: a subquery in the ON of an inner join becomes a condition above the
//! join, and one in ORDER BY, GROUP BY or a window function a column below that. (Those of other joins:
//! `dependent::outer_joins`.) [`SubqueryMarks`], of the optimiser: EXISTS and IN (query) whose value is seen (the
//! SELECT list, GROUP BY, the arguments of aggregates and of window functions) become mark joins below the operator.
//! How a subquery becomes a mark join is DataFusion's own affair: it is handed over as a filter, and what comes out is
//! taken apart. The rule `not_in` has spelled out before where IN is NULL.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{Aggregate, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Sort, Window};
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use crate::error::Error;
use crate::functions::anywhere::any_node;
use crate::rewrite::casts::keys;
use crate::rewrite::dependent::has_subquery;

/// The analyser's rule: subqueries go where they can be joined.
#[derive(Debug, Default)]
pub(crate) struct SubqueryPlaces;

impl AnalyzerRule for SubqueryPlaces {
    fn name(&self) -> &str {
        "subquery_places"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one = |node: &LogicalPlan| match node {
            LogicalPlan::Join(join) => join.filter.as_ref().is_some_and(has_subquery),
            LogicalPlan::Sort(sort) => sort.expr.iter().any(|key| has_subquery(&key.expr)),
            LogicalPlan::Aggregate(aggregate) => groups_by_queries(aggregate),
            LogicalPlan::Window(window) => window.window_expr.iter().any(has_subquery),
            _ => false,
        };
        if !any_node(&plan, |node| Ok(is_one(node)))? {
            return Ok(plan);
        }
        let moved = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => above_join(join),
            LogicalPlan::Sort(sort) if sort.expr.iter().any(|s| has_subquery(&s.expr)) => {
                Ok(Transformed::yes(below_sort(sort)?))
            }
            LogicalPlan::Aggregate(aggregate) if groups_by_queries(&aggregate) => {
                Ok(Transformed::yes(below_groups(aggregate)?))
            }
            LogicalPlan::Window(window) if window.window_expr.iter().any(has_subquery) => {
                Ok(Transformed::yes(below_windows(window)?))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(moved.data)
    }
}

/// Conditions with subqueries stand above an inner join.
fn above_join(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take_if(|filter| has_subquery(filter)) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let (above, within): (Vec<Expr>, Vec<Expr>) =
        split_conjunction(&filter).into_iter().cloned().partition(has_subquery);
    join.filter = conjunction(within);
    let joined = LogicalPlan::Join(join);
    match conjunction(above) {
        Some(condition) => Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(joined))?))),
        None => Ok(Transformed::no(joined)),
    }
}

/// Keys with subqueries are columns below a sort, which are gone above it.
fn below_sort(mut sort: Sort) -> Result<LogicalPlan> {
    let own = sort.input.schema().columns();
    let mut columns: Vec<Expr> = own.iter().cloned().map(Expr::Column).collect();
    for (place, key) in sort.expr.iter_mut().enumerate().filter(|(_, key)| has_subquery(&key.expr)) {
        let name = format!("__nearside_key_{place}");
        columns.push(std::mem::take(&mut key.expr).alias(&name));
        key.expr = Expr::Column(Column::from_name(name));
    }
    sort.input = Arc::new(LogicalPlan::Projection(Projection::try_new(columns, sort.input)?));
    LogicalPlanBuilder::from(LogicalPlan::Sort(sort)).project(own.into_iter().map(Expr::Column))?.build()
}

/// Whether keys of groups have queries, or arguments of aggregates have such as give a value.
fn groups_by_queries(aggregate: &Aggregate) -> bool {
    let gives_value = |expr: &Expr| expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_)))).unwrap_or(false);
    aggregate.group_expr.iter().any(has_subquery) || aggregate.aggr_expr.iter().any(gives_value)
}

/// Queries in keys of groups and arguments of aggregates are columns below them.
fn below_groups(mut aggregate: Aggregate) -> Result<LogicalPlan> {
    let mut below = Below::default();
    for key in &mut aggregate.group_expr {
        // The names are those of what is in the sets.
        match key {
            Expr::GroupingSet(sets) => keys(sets).into_iter().try_for_each(|key| below.move_queries(key))?,
            key => below.move_queries(key)?,
        }
    }
    aggregate.aggr_expr.iter_mut().try_for_each(|expr| below.move_queries(expr))?;
    let input = below.under(aggregate.input)?;
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, aggregate.group_expr, aggregate.aggr_expr)?))
}

/// Queries in window functions are columns below them, which are gone above.
fn below_windows(mut window: Window) -> Result<LogicalPlan> {
    let own = window.schema.columns();
    let mut below = Below::default();
    window.window_expr.iter_mut().try_for_each(|expr| below.move_queries(expr))?;
    let input = below.under(window.input)?;
    let windows = LogicalPlan::Window(Window::try_new(window.window_expr, input)?);
    LogicalPlanBuilder::from(windows).project(own.into_iter().map(Expr::Column))?.build()
}

/// Queries of expressions that are to be columns below them.
#[derive(Default)]
struct Below {
    columns: Vec<Expr>,
}

impl Below {
    /// Puts columns in the place of the queries of an expression, which keeps its name.
    fn move_queries(&mut self, expr: &mut Expr) -> Result<()> {
        if !has_subquery(expr) {
            return Ok(());
        }
        let name = expr.schema_name().to_string();
        let moved = std::mem::take(expr).transform_down(|part| match part {
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => {
                let column = format!("__nearside_key_{}", self.columns.len());
                self.columns.push(part.alias(&column));
                Ok(Transformed::new(Expr::Column(Column::from_name(column)), true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        })?;
        *expr = moved.data.alias_if_changed(name)?;
        Ok(())
    }

    fn under(self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.extend(self.columns);
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
    }
}

/// The optimiser's rule: EXISTS and IN (query) as values.
#[derive(Debug, Default)]
pub(crate) struct SubqueryMarks {
    joins: DecorrelatePredicateSubquery,
}

impl OptimizerRule for SubqueryMarks {
    fn name(&self) -> &str {
        "subquery_marks"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let place = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
        if !place || !has_test(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let columns = plan.schema().columns();
        let mut input = plan.inputs()[0].clone();
        let mut marks: Vec<(Expr, Expr)> = Vec::new();
        let mut exprs = plan.expressions();
        for expr in &mut exprs {
            let name = names.save(expr);
            let marked = std::mem::take(expr).transform_down(|part| {
                if !is_test(&part) {
                    return Ok(Transformed::no(part));
                }
                let mark = match marks.iter().find(|(known, _)| *known == part) {
                    Some((_, mark)) => mark.clone(),
                    None => self.mark(&part, &mut input, config)?,
                };
                marks.push((part, mark.clone()));
                Ok(Transformed::new(mark, true, TreeNodeRecursion::Jump))
            })?;
            *expr = name.restore(marked.data);
        }
        let marked = plan.with_new_exprs(exprs, vec![input])?;
        // A window's rows have all columns of its input.
        if marked.schema().fields().len() == columns.len() {
            return Ok(Transformed::yes(marked));
        }
        let own = LogicalPlanBuilder::from(marked).project(columns.into_iter().map(Expr::Column))?;
        Ok(Transformed::yes(own.build()?))
    }
}

impl SubqueryMarks {
    /// What stands for the test: the mark of a join that is put above `input`.
    fn mark(&self, test: &Expr, input: &mut LogicalPlan, config: &dyn OptimizerConfig) -> Result<Expr> {
        // Within a larger condition the test becomes a mark; alone it would drop rows.
        let filter = Filter::try_new(test.clone().is_not_null(), Arc::new(std::mem::take(input)))?;
        let joined = self.joins.rewrite(LogicalPlan::Filter(filter), config)?.data;
        if let LogicalPlan::Projection(above) = joined
            && let LogicalPlan::Filter(filter) = above.input.as_ref()
            && let Expr::IsNotNull(mark) = &filter.predicate
            && !is_test(mark)
        {
            *input = filter.input.as_ref().clone();
            return Ok(mark.as_ref().clone());
        }
        Err(unsupported(test).into_datafusion())
    }
}

fn has_test(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(is_test(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_test(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_))
}

/// Refuses a plan with subqueries of which no join could be made.
pub(crate) fn refuse_left_over(plan: &LogicalPlan) -> crate::error::Result<()> {
    let mut refused = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let left = match part {
                    Expr::ScalarSubquery(query) => !query.outer_ref_columns.is_empty(),
                    Expr::SetComparison(_) => true,
                    other => is_test(other),
                };
                if left {
                    refused = Some(unsupported(part));
                }
                Ok(if left { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    refused.map_or(Ok(()), Err)
}

fn unsupported(expr: &Expr) -> Error {
    let (what, query) = match expr {
        Expr::Exists(exists) => ("EXISTS (query)", Some(&exists.subquery)),
        Expr::InSubquery(test) => ("IN (query)", Some(&test.subquery)),
        Expr::ScalarSubquery(query) => ("a subquery as a value", Some(query)),
        _ => ("a comparison with ANY or ALL of a query", None),
    };
    let why = match query.is_some_and(|query| !query.outer_ref_columns.is_empty()) {
        true => "where the query refers to columns outside of it in this way",
        false => "in this place",
    };
    Error::Unsupported(format!(
        "{what} is not supported {why}; join the query's rows instead, or compute them in a WITH first"
    ))
}
