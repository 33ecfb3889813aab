//! `x IN (query)` where it matters whether it is FALSE or NULL: below an OR, a CASE, a NOT, and wherever its value is
//! seen.
//!
//! There a mark join is made of it, whose mark is TRUE or FALSE: is there an equal value? As a condition of its own,
//! joined to others by AND, it becomes a semi join or an anti join that knows about NULL, and is right. Elsewhere this
//! rule spells out what SQL says, with a mark for each part (also for NOT IN of a constant):
//!
//! ```text
//! x IN (q)  =  mark(x IN q)  OR  (NULL AND (EXISTS (q WHERE c IS NULL) OR (x IS NULL AND EXISTS (q))))
//! ```
//!
//! The anti join looks for NULLs in all of the query's rows, so NOT IN of a query that refers to the row is three
//! conditions:
//!
//! ```text
//! x NOT IN (q)  =  NOT EXISTS (q WHERE c = x) AND NOT EXISTS (q WHERE c IS NULL) AND (x IS NOT NULL OR NOT EXISTS (q))
//! ```
//!
//! Columns without NULLs need less of it. An `x` that may differ from evaluation to evaluation is computed once, in a
//! projection below.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InSubquery;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, lit, not};
use datafusion_optimizer::AnalyzerRule;

use crate::rewrite::quantified::{Below, exists, named};

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct NullAwareMarks;

impl AnalyzerRule for NullAwareMarks {
    fn name(&self) -> &str {
        "null_aware_marks"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Filter(filter) => match in_filter(filter)? {
                Some(filter) => Ok(Transformed::yes(filter)),
                None => Ok(Transformed::no(node)),
            },
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => as_values(node),
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(rewritten.data)
    }
}

/// The filter with the conditions spelled out that need it, if any does.
fn in_filter(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let columns = filter.input.schema().columns();
    let mut below = Below { input: filter.input.as_ref().clone() };
    let mut changed = false;
    let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| {
        if let Some(test) = alone(condition).filter(|test| !test.subquery.outer_ref_columns.is_empty()) {
            changed = true;
            return none_equal(test, &mut below);
        }
        if is_alone(condition) || !matters(condition, false)? {
            return Ok(condition.clone());
        }
        changed = true;
        spelled_out(condition.clone(), &mut below)
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let Some(predicate) = conjunction(conditions).filter(|_| changed) else { return Ok(None) };
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(below.input))?);
    if filter.schema().fields().len() == columns.len() {
        return Ok(Some(filter));
    }
    let own = LogicalPlanBuilder::from(filter).project(columns.into_iter().map(Expr::Column))?;
    Ok(Some(own.build()?))
}

/// An operator whose expressions are seen as values, with every IN (query) in them spelled out.
fn as_values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::InSubquery(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(node));
    }
    let columns = node.schema().columns();
    let names = NamePreserver::new(&node);
    let mut below = Below { input: node.inputs()[0].clone() };
    let mut exprs = node.expressions();
    for expr in &mut exprs {
        let name = names.save(expr);
        *expr = name.restore(spelled_out(std::mem::take(expr), &mut below)?);
    }
    let spelled = node.with_new_exprs(exprs, vec![below.input])?;
    if spelled.schema().fields().len() == columns.len() {
        return Ok(Transformed::yes(spelled));
    }
    // A window hands all columns of its input on.
    let own = LogicalPlanBuilder::from(spelled).project(columns.into_iter().map(Expr::Column))?;
    Ok(Transformed::yes(own.build()?))
}

/// The NOT IN (query) that a condition is.
fn alone(condition: &Expr) -> Option<InSubquery> {
    match condition {
        Expr::InSubquery(test) if test.negated => Some(test.clone()),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(test) if !test.negated => Some(test.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether it is a join of DataFusion's that is right. NOT IN of a constant is none.
fn is_alone(condition: &Expr) -> bool {
    let (test, negated) = match condition {
        Expr::InSubquery(test) => (test, test.negated),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(test) => (test, !test.negated),
            _ => return false,
        },
        _ => return false,
    };
    !negated || test.expr.any_column_refs()
}

/// TRUE where `x NOT IN (query)` is, for a query that refers to the row: conditions of which each is a join.
fn none_equal(test: InSubquery, below: &mut Below) -> Result<Expr> {
    let schema: &DFSchema = below.input.schema();
    let nullable = !matches!(test.expr.nullable(schema), Ok(false));
    // Under names that neither side has: the query may be over a table that the row is of.
    let value = below.bound(*test.expr)?;
    let may_be_null = test.subquery.subquery.schema().field(0).is_nullable();
    let data_type = test.subquery.subquery.schema().field(0).data_type().clone();
    let (query, column) = named(&test.subquery, &data_type)?;
    let mut all = vec![not(exists(&query, Some(column.clone().eq(below.outside(&value)?)))?)];
    if may_be_null {
        all.push(not(exists(&query, Some(column.is_null()))?));
    }
    if nullable {
        all.push(value.is_not_null().or(not(exists(&query, None)?)));
    }
    Ok(conjunction(all).unwrap_or_else(|| lit(true)))
}

/// Whether an IN (query) stands where its being NULL matters: negated, or below something that may negate it.
fn matters(expr: &Expr, negated: bool) -> Result<bool> {
    Ok(match expr {
        Expr::InSubquery(test) => negated || test.negated,
        Expr::BinaryExpr(b) if b.op.is_logic_operator() => matters(&b.left, negated)? || matters(&b.right, negated)?,
        other => {
            let mut found = false;
            other.apply_children(|child| {
                found |= matters(child, true)?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
            found
        }
    })
}

/// The condition with every IN (query) in it spelled out.
fn spelled_out(condition: Expr, below: &mut Below) -> Result<Expr> {
    let spelled = condition.transform_up(|e| {
        let Expr::InSubquery(mut test) = e else { return Ok(Transformed::no(e)) };
        // It stands in several places: one value for all of them.
        if test.expr.is_volatile() {
            *test.expr = below.bound(*test.expr)?;
        }
        let value = three_valued(&test, below.input.schema())?;
        Ok(Transformed::yes(if test.negated { not(value) } else { value }))
    })?;
    Ok(spelled.data)
}

/// `x IN (q)`, NULL where SQL says so.
fn three_valued(test: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let query = &test.subquery;
    let mark = Expr::InSubquery(InSubquery::new(test.expr.clone(), query.clone(), false));
    let values = query.subquery.schema();
    let unknown_value = match values.fields().first() {
        Some(field) if field.is_nullable() => {
            let column = Expr::Column(Column::from(values.qualified_field(0)));
            Some(exists(query, Some(column.is_null()))?)
        }
        _ => None,
    };
    // What has no type yet may be NULL.
    let unknown_x = match test.expr.nullable(schema) {
        Ok(false) => None,
        _ => Some(test.expr.as_ref().clone().is_null().and(exists(query, None)?)),
    };
    let unknown = match (unknown_value, unknown_x) {
        (Some(value), Some(x)) => value.or(x),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Ok(mark),
    };
    Ok(mark.or(lit(ScalarValue::Boolean(None)).and(unknown)))
}
