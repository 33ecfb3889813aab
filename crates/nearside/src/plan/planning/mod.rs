//! Analysing and optimising a statement's plan, rule by rule, in a way that ends: in time where the plan is deep, and
//! early where the statement is cancelled or out of time.
//!
//! DataFusion's drivers cannot be told to stop, and what they check before and after the rules doubles with every level
//! of nested subqueries (20 levels took half a minute). So the analyser's rules are run by a loop of ours, and so are
//! the optimiser's where subqueries nest deeply; else DataFusion's own loop runs them, which changes plans without
//! subqueries in place and is faster. Each of the optimiser's rules looks at the statement before every operator that
//! it visits.
//!
//! Views and common table expressions stand wherever they are named, and NOT IN is spelled out with copies of its
//! query, so a short text can be an enormous plan. One with more than [`OPERATORS_MAX`] operators is refused.
//!
//! # Limits
//! A rule that walks the plan by itself is interrupted between plans, not within. Memory of plans is not counted.
//! Before all of this the SQL planner walks the plan of a common table expression wherever it is named; expressions
//! that name each other twice over 20 levels keep it busy for minutes, and it looks at the statement only where a view
//! is named.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion_common::{Result as DfResult, ScalarValue};
use datafusion_expr::{Expr, InvariantLevel, LogicalPlan, assert_expected_schema, check_subquery_expr, lit};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::planner::{CostRule, Planner};
use crate::plan::stop::Stop;
use crate::rewrite::coerce::is_about_subqueries;
use crate::rewrite::subquery_places::refuse_left_over;
use crate::stack::deep;

/// How many operators a plan may have once views, common table expressions and subqueries stand in their places.
const OPERATORS_MAX: usize = 50_000;

/// From how many levels of subqueries on our own loop runs the optimiser's rules: what DataFusion's loop checks takes
/// twice as long for every level.
const NESTING_MAX: usize = 4;

/// The statement that a plan is made for.
pub(crate) trait PlanningStatement: OptimizerConfig {
    /// Functions, rules and settings.
    fn planner(&self) -> &Planner;

    /// When to end early.
    fn stop(&self) -> Stop;
}

/// The plan after all analyser rules of the session.
///
/// # Errors
/// What the rules and the checks behind them refuse; [`Error::Cancelled`] and [`Error::Timeout`].
pub(crate) fn analyse(plan: LogicalPlan, statement: &dyn PlanningStatement) -> Result<LogicalPlan> {
    deep(|| analysed(plan, statement))
}

fn analysed(plan: LogicalPlan, statement: &dyn PlanningStatement) -> Result<LogicalPlan> {
    let stop = statement.stop();
    let options = statement.planner().config_options();
    plan.check_invariants(InvariantLevel::Always)?;
    let mut plan = plan;
    limit_size(&plan)?;
    let has_subqueries = contains_subqueries(&plan)?;
    for rule in statement.planner().analyzer_rules() {
        stop.check()?;
        // Most queries have none, and walking a plan takes time. Of our rules only these put more into a plan than
        // there was.
        match is_about_subqueries(rule.name()) {
            false => plan = rule.analyze(plan, options)?,
            true if has_subqueries => {
                plan = rule.analyze(plan, options)?;
                limit_size(&plan)?;
            }
            true => {}
        }
    }
    stop.check()?;
    limit_size(&plan)?;
    check_subqueries(&plan)?;
    Ok(plan)
}

/// The analysed plan after all optimiser rules of the session.
///
/// # Errors
/// What a rule refuses; [`Error::Cancelled`] and [`Error::Timeout`].
pub(crate) fn optimise(plan: LogicalPlan, statement: &dyn PlanningStatement) -> Result<LogicalPlan> {
    optimise_with(statement.planner().optimizer_rules(), plan, statement)
}

/// As [`optimise`], by these rules only.
///
/// # Errors
/// As [`optimise`].
pub(crate) fn optimise_with(
    rules: &[CostRule],
    plan: LogicalPlan,
    statement: &dyn PlanningStatement,
) -> Result<LogicalPlan> {
    let stop = statement.stop();
    let heeding = |rule: &CostRule| Arc::new(StoppableRule { rule: Arc::clone(rule), stop: stop.clone() }) as CostRule;
    let rules: Vec<_> = rules.iter().map(heeding).collect();
    deep(|| {
        let plan = match nesting(&plan) <= NESTING_MAX {
            true => Optimizer::with_rules(rules).optimize(plan, statement, |_, _| {})?,
            false => run_rules(plan, &rules, statement)?,
        };
        refuse_left_over(&plan)?;
        Ok(plan)
    })
}

/// Runs the rules over the plan until it no longer changes, as often as the session allows.
fn run_rules(mut plan: LogicalPlan, rules: &[CostRule], config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    for _ in 0..config.options().optimizer.max_passes {
        let before = plan.clone();
        for rule in rules {
            let rewritten = match rule.apply_order() {
                Some(order) => plan.rewrite_with_subqueries(&mut Visit { rule: rule.as_ref(), order, config }),
                None => rule.rewrite(plan, config),
            };
            plan = rewritten?.data;
            assert_expected_schema(&schema, &plan)?;
        }
        if plan == before {
            break;
        }
    }
    check_subqueries(&plan)?;
    Ok(plan)
}

/// A rule that looks at the statement before each operator that it is shown.
#[derive(Debug)]
struct StoppableRule {
    rule: CostRule,
    stop: Stop,
}

impl OptimizerRule for StoppableRule {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        self.stop.check().map_err(Error::into_datafusion)?;
        self.rule.rewrite(plan, config)
    }
}

/// Shows a rule one operator after the other, in its order.
struct Visit<'a> {
    rule: &'a dyn OptimizerRule,
    order: ApplyOrder,
    config: &'a dyn OptimizerConfig,
}

impl TreeNodeRewriter for Visit<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => self.rule.rewrite(node, self.config),
            ApplyOrder::BottomUp => Ok(Transformed::no(node)),
        }
    }

    fn f_up(&mut self, node: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => Ok(Transformed::no(node)),
            ApplyOrder::BottomUp => self.rule.rewrite(node, self.config),
        }
    }
}

/// How many levels of subqueries there are.
fn nesting(plan: &LogicalPlan) -> usize {
    let mut deepest = 0;
    // The walk never fails.
    let _ = plan.apply(|node| {
        node.apply_subqueries(|query| {
            deepest = deepest.max(1 + nesting(query));
            Ok(TreeNodeRecursion::Continue)
        })
    });
    deepest
}

/// Whether a query stands in an expression or under LATERAL.
fn contains_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.apply(|node| {
        any |= matches!(node, LogicalPlan::Subquery(_));
        node.apply_expressions(|expr| {
            any |= has_subquery(expr) || expr.contains_outer();
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

/// Refuses plans that would take hours and all memory to plan.
fn limit_size(plan: &LogicalPlan) -> Result<()> {
    let mut operators = 0;
    plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(if operators > OPERATORS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if operators <= OPERATORS_MAX {
        return Ok(());
    }
    let message = format!(
        "the statement's plan has more than {OPERATORS_MAX} operators once its views, common table expressions and \
         subqueries stand wherever they are named; create tables of parts of it, and query those"
    );
    Err(Error::plan(SqlState::StatementTooComplex, message))
}

/// Refuses subqueries where they cannot stand, and of shapes that cannot be run. Each is looked at once: DataFusion's
/// check of a plan looks at a subquery once for every way to it through the levels above.
fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    if nesting(plan) <= 1 {
        return Ok(plan.check_invariants(InvariantLevel::Executable)?);
    }
    plan.clone().transform_up_with_subqueries(|node| {
        if !node.expressions().iter().any(has_subquery) {
            return Ok(Transformed::no(node));
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Some(query) = subquery_of(part) {
                    check_subquery_expr(&node, query, part)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        // The levels above need not look at it again.
        node.map_expressions(|expr| {
            expr.transform_up(|part| {
                Ok(match (&part, subquery_of(&part)) {
                    (_, None) => Transformed::no(part),
                    (Expr::ScalarSubquery(_), Some(query)) => {
                        let data_type = query.schema().fields().first().map(|f| f.data_type().clone());
                        Transformed::yes(lit(ScalarValue::try_from(
                            data_type.unwrap_or(arrow::datatypes::DataType::Null),
                        )?))
                    }
                    (_, Some(_)) => Transformed::yes(lit(true)),
                })
            })
        })
    })?;
    Ok(())
}

fn has_subquery(expr: &Expr) -> bool {
    matches!(expr.exists(|part| Ok(subquery_of(part).is_some())), Ok(true))
}

fn subquery_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(query) => Some(&query.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(test) => Some(&test.subquery.subquery),
        Expr::SetComparison(test) => Some(&test.subquery.subquery),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
