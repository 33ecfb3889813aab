//! EXISTS and IN of queries that DataFusion has no join for, or a wrong one, become values that [`DependentJoins`]
//! takes:
//! ```text
//! EXISTS (q)  =  (SELECT count(*) FROM q) > 0
//! x IN (q)    =  (SELECT CASE WHEN equal > 0 THEN TRUE WHEN unknown > 0 THEN NULL ELSE FALSE END
//!                 FROM (SELECT count(*) FILTER (WHERE x = c) AS equal,
//!                              count(*) FILTER (WHERE (x = c) IS NULL) AS unknown FROM q))
//! ```
//! `x op ANY (q)` is the same with `op`, and `x op ALL (q)` with NOT around both.
//!
//! [`DependentJoins`]: super::DependentJoins

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Aggregate, Expr, ExprFunctionExt, LogicalPlan, Subquery, binary_expr, lit, not, when};
use datafusion_functions_aggregate::expr_fn::count;
use datafusion_optimizer::AnalyzerRule;

use crate::rewrite::dependent::push::projected;
use crate::rewrite::dependent::simple::is_test;
use crate::sql::fresh_name;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct TestsAsValues;

impl AnalyzerRule for TestsAsValues {
    fn name(&self) -> &str {
        "tests_as_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let rows = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|part| as_value(part, &rows))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(rewritten.data)
    }
}

fn as_value(part: Expr, rows: &DFSchema) -> Result<Transformed<Expr>> {
    match part {
        Expr::Exists(test) if !is_test(&test.subquery)? => {
            let any = some(exists(&test.subquery)?, test.negated);
            Ok(Transformed::yes(any))
        }
        Expr::InSubquery(test) if !is_test(&test.subquery)? => Ok(match is_in(&test, rows)? {
            Some(value) => Transformed::yes(some(value, test.negated)),
            None => Transformed::no(Expr::InSubquery(test)),
        }),
        Expr::SetComparison(test) if !is_test(&test.subquery)? => Ok(match is_any(&test, rows)? {
            Some(value) => Transformed::yes(value),
            None => Transformed::no(Expr::SetComparison(test)),
        }),
        other => Ok(Transformed::no(other)),
    }
}

fn some(value: Expr, negated: bool) -> Expr {
    if negated { not(value) } else { value }
}

/// EXISTS (query) as a comparison of a value.
pub(super) fn exists(query: &Subquery) -> Result<Expr> {
    let name = fresh_name("n");
    let n = count(lit(1_i64)).alias(&name);
    let counted = Aggregate::try_new(Arc::clone(&query.subquery), Vec::new(), vec![n])?;
    let counted = Subquery { subquery: Arc::new(LogicalPlan::Aggregate(counted)), ..query.clone() };
    Ok(Expr::ScalarSubquery(counted).gt(lit(0_i64)))
}

fn is_in(test: &InSubquery, rows: &DFSchema) -> Result<Option<Expr>> {
    found(&test.expr, &test.subquery, rows, |left, right| left.eq(right))
}

/// `x op ALL (q)` is that it is not so for any of them that it is not.
fn is_any(test: &SetComparison, rows: &DFSchema) -> Result<Option<Expr>> {
    let compared = |left, right| {
        let holds = binary_expr(left, test.op, right);
        if test.quantifier == SetQuantifier::All { not(holds) } else { holds }
    };
    let any = found(&test.expr, &test.subquery, rows, compared)?;
    Ok(any.map(|any| some(any, test.quantifier == SetQuantifier::All)))
}

/// Whether a comparison holds for any row of a query. `None` where the left side is a query itself, or another one
/// each time.
fn found(
    left: &Expr,
    subquery: &Subquery,
    rows: &DFSchema,
    compared: impl FnOnce(Expr, Expr) -> Expr,
) -> Result<Option<Expr>> {
    let is_query = |part: &Expr| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    };
    if left.is_volatile() || left.exists(is_query)? {
        return Ok(None);
    }
    let mut references = subquery.outer_ref_columns.clone();
    let left = left.clone().transform_up(|part| {
        let part = match part {
            Expr::Column(column) => {
                let (_, field) = rows.qualified_field_from_column(&column)?;
                Expr::OuterReferenceColumn(Arc::clone(field), column)
            }
            other => other,
        };
        if matches!(part, Expr::OuterReferenceColumn(..)) && !references.contains(&part) {
            references.push(part.clone());
        }
        Ok(Transformed::yes(part))
    })?;
    let query = &subquery.subquery;
    let equal = compared(left.data, Expr::Column(query.schema().columns()[0].clone()));
    let names = ["equal", "unknown"].map(fresh_name);
    let counts = [equal.clone(), equal.is_null()].into_iter().zip(&names);
    let counts = counts.map(|(condition, name)| Ok(count(lit(1_i64)).filter(condition).build()?.alias(name)));
    let counted = Aggregate::try_new(Arc::clone(query), Vec::new(), counts.collect::<Result<_>>()?)?;
    let [some, unknown] = names.map(|name| Expr::Column(Column::from_name(name)).gt(lit(0_i64)));
    let value = when(some, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?;
    let plan = projected(LogicalPlan::Aggregate(counted), [value.alias(fresh_name("is_in"))])?;
    let value = Subquery { subquery: Arc::new(plan), outer_ref_columns: references, ..subquery.clone() };
    Ok(Some(Expr::ScalarSubquery(value)))
}
