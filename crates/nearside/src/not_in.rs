//! `x IN (query)` where it matters whether it is FALSE or NULL: below an OR, a CASE, a NOT.
//!
//! There DataFusion makes a mark join of it, whose mark is TRUE or FALSE: is there an equal value? As a condition of its own,
//! joined to others by AND, it becomes a semi join or an anti join that knows about NULL, and is right. Elsewhere this rule spells out
//! what SQL says, with a mark for each part (also for NOT IN of a constant):
//!
//! ```text
//! x IN (q)  =  mark(x IN q)  OR  (NULL AND (EXISTS (q WHERE c IS NULL) OR (x IS NULL AND EXISTS (q))))
//! ```
//!
//! Columns without NULLs need none of it. An `x` that may differ from evaluation to evaluation is refused.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, LogicalPlan, Subquery, lit, not};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct NullAwareMarks;

impl AnalyzerRule for NullAwareMarks {
    fn name(&self) -> &str {
        "null_aware_marks"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
            let mut changed = false;
            let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| {
                refuse_correlated(condition)?;
                if is_alone(condition) || !matters(condition, false)? {
                    return Ok(condition.clone());
                }
                changed = true;
                spelled_out(condition.clone(), filter.input.schema())
            });
            let conditions = conditions.collect::<Result<Vec<_>>>()?;
            match (changed, conjunction(conditions)) {
                (true, Some(predicate)) => {
                    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input.clone())?)))
                }
                _ => Ok(Transformed::no(node)),
            }
        })?;
        Ok(rewritten.data)
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

/// NOT IN of a query that refers to the row, as a condition of its own: DataFusion's anti join would look for NULLs in all of the query's rows.
fn refuse_correlated(condition: &Expr) -> Result<()> {
    let (test, negated) = match condition {
        Expr::InSubquery(test) => (test, test.negated),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(test) => (test, !test.negated),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    if negated && !test.subquery.outer_ref_columns.is_empty() {
        let message = "NOT IN (query) is not supported where the query refers to columns outside of it; write NOT EXISTS \
                       (SELECT .. WHERE .. AND inner = outer) and say what NULLs mean";
        return Err(Error::Unsupported(message.into()).into_datafusion());
    }
    Ok(())
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
fn spelled_out(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    let spelled = condition.transform_up(|e| {
        let Expr::InSubquery(test) = e else { return Ok(Transformed::no(e)) };
        if test.expr.is_volatile() {
            let message = "NOT IN (query) of a value that changes with every evaluation is not supported below OR, CASE or \
                           NOT; compute the value in a subquery first";
            return Err(Error::Unsupported(message.into()).into_datafusion());
        }
        let value = three_valued(&test, schema)?;
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

/// EXISTS (query), or of its rows that pass.
fn exists(query: &Subquery, condition: Option<Expr>) -> Result<Expr> {
    let mut query = query.clone();
    if let Some(condition) = condition {
        query.subquery = LogicalPlan::Filter(Filter::try_new(condition, query.subquery)?).into();
    }
    Ok(Expr::Exists(Exists::new(query, false)))
}
