//! Joins in which NULL equals NULL, by keys that are never NULL: `a IS NOT DISTINCT FROM b` is written
//! `coalesce(a, some) = coalesce(b, some) AND (a IS NULL) = (b IS NULL)`.
//!
//! DataFusion makes a join of `IS NOT DISTINCT FROM` whose NULLs are equal for all of its keys, and then takes further
//! conditions with `=` for keys of it, from above and from joins around it: NULLs would equal there too.

use std::collections::HashSet;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator};
use datafusion_functions::expr_fn::coalesce;
use datafusion_optimizer::AnalyzerRule;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct NullKeys;

impl AnalyzerRule for NullKeys {
    fn name(&self) -> &str {
        "null_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => of_join(join),
            LogicalPlan::Filter(filter) => of_filter(filter),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.data)
    }
}

fn of_join(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let is_of = |columns: &HashSet<&Column>, side: &LogicalPlan| columns.iter().all(|c| side.schema().has_column(c));
    let filter = rewritten(filter, &join.schema, |left, right| {
        (is_of(left, &join.left) && is_of(right, &join.right)) || (is_of(left, &join.right) && is_of(right, &join.left))
    })?;
    Ok(filter.update_data(|filter| {
        join.filter = Some(filter);
        LogicalPlan::Join(join)
    }))
}

/// A filter above a join of tables may become a condition of the join.
fn of_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter { predicate, input, .. } = filter;
    let predicate = rewritten(predicate, input.schema(), |left, right| {
        let tables = |columns: &HashSet<&Column>| columns.iter().map(|c| c.relation.clone()).collect::<HashSet<_>>();
        tables(left).is_disjoint(&tables(right))
    })?;
    predicate.map_data(|predicate| Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
}

/// A condition with the parts written by keys that compare columns of both sides of a join.
fn rewritten(
    condition: Expr,
    schema: &DFSchema,
    is_join: impl Fn(&HashSet<&Column>, &HashSet<&Column>) -> bool,
) -> Result<Transformed<Expr>> {
    let is_key = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) => {
            let (l, r) = (left.column_refs(), right.column_refs());
            !l.is_empty() && !r.is_empty() && is_join(&l, &r)
        }
        _ => false,
    };
    let parts = split_conjunction_owned(condition);
    let any = parts.iter().any(is_key);
    let mut keys = Vec::new();
    for part in parts {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, right, op }) if op == Operator::IsNotDistinctFrom => {
                let whole = Expr::BinaryExpr(BinaryExpr { left: left.clone(), right: right.clone(), op });
                if is_key(&whole) {
                    let pairs = not_null([(*left, *right)], [schema, schema])?;
                    keys.extend(pairs.into_iter().map(|(left, right)| left.eq(right)));
                } else {
                    keys.push(whole);
                }
            }
            other => keys.push(other),
        }
    }
    let condition = conjunction(keys).unwrap_or_else(|| datafusion_expr::lit(true));
    Ok(Transformed::new_transformed(condition, any))
}

/// Keys that are never NULL, and equal where these pairs of expressions over rows of these shapes are, NULLs being
/// equal.
pub(super) fn not_null(pairs: impl IntoIterator<Item = (Expr, Expr)>, of: [&DFSchema; 2]) -> Result<Vec<(Expr, Expr)>> {
    let mut keys = Vec::new();
    for (left, right) in pairs {
        if !left.nullable(of[0])? && !right.nullable(of[1])? {
            keys.push((left, right));
            continue;
        }
        let some = Expr::Literal(ScalarValue::new_default(&left.get_type(of[0])?)?, None);
        let or_some = |key: &Expr| coalesce(vec![key.clone(), some.clone()]);
        keys.push((or_some(&left), or_some(&right)));
        keys.push((left.is_null(), right.is_null()));
    }
    Ok(keys)
}
