//! GROUPING SETS of a query that depends on outer rows, as a union of its groupings: each has its own rows for an outer
//! row that nothing is found for.

use std::sync::Arc;

use datafusion_common::{Result, ScalarValue};
use datafusion_expr::utils::{enumerate_grouping_sets, grouping_set_to_exprlist};
use datafusion_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection, Union, cast, lit};
use datafusion_functions_aggregate::expr_fn::count;

use crate::error::Error;
use crate::sql::fresh_name;

/// The union, with the columns that the aggregation has.
///
/// # Errors
/// Sets that were not written out.
pub(super) fn as_union(grouped: &Aggregate) -> Result<LogicalPlan> {
    let keys: Vec<Expr> = grouping_set_to_exprlist(&grouped.group_expr)?.into_iter().cloned().collect();
    let columns = grouped.schema.columns();
    let type_of = |place: usize| grouped.schema.field(place).data_type().clone();
    let mut groupings = Vec::new();
    for set in sets(grouped)? {
        let mut chosen: Vec<Expr> = Vec::new();
        for key in &set {
            if !chosen.contains(key) {
                chosen.push(key.clone());
            }
        }
        let mut id: u64 = 0;
        let mut calls = grouped.aggr_expr.clone();
        if chosen.is_empty() && calls.is_empty() {
            // The one row of all rows, of which nothing is asked.
            calls.push(count(lit(1_i64)).alias(fresh_name("rows")));
        }
        let made = Aggregate::try_new(Arc::clone(&grouped.input), chosen.clone(), calls)?;
        let own = made.schema.columns();
        let mut outputs = Vec::with_capacity(columns.len());
        for (place, key) in keys.iter().enumerate() {
            let at = chosen.iter().position(|one| one == key);
            id = id << 1 | u64::from(at.is_none());
            outputs.push(match at {
                Some(at) => Expr::Column(own[at].clone()),
                None => Expr::Literal(ScalarValue::try_from(&type_of(place))?, None),
            });
        }
        // Equal sets are told apart by the union.
        outputs.push(cast(lit(id), type_of(keys.len())));
        outputs.extend(own[chosen.len()..].iter().take(grouped.aggr_expr.len()).cloned().map(Expr::Column));
        let named = outputs.into_iter().zip(&columns);
        let named = named.map(|(output, column)| output.alias_qualified(column.relation.clone(), &column.name));
        groupings.push(Arc::new(projected(LogicalPlan::Aggregate(made), named)?));
    }
    match groupings.pop() {
        Some(one) if groupings.is_empty() => Ok(Arc::unwrap_or_clone(one)),
        Some(last) => {
            groupings.push(last);
            let union = LogicalPlan::Union(Union::try_new(groupings)?);
            let named = union.schema().columns().into_iter().zip(&columns);
            let named =
                named.map(|(made, column)| Expr::Column(made).alias_qualified(column.relation.clone(), &column.name));
            let named: Vec<Expr> = named.collect();
            projected(union, named)
        }
        None => Err(Error::Internal("grouping sets without a set".into()).into_datafusion()),
    }
}

fn projected(plan: LogicalPlan, outputs: impl IntoIterator<Item = Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(outputs.into_iter().collect(), Arc::new(plan))?))
}

fn sets(grouped: &Aggregate) -> Result<Vec<Vec<Expr>>> {
    match enumerate_grouping_sets(grouped.group_expr.clone())?.as_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => Ok(sets.clone()),
        [Expr::GroupingSet(GroupingSet::Rollup(keys))] => {
            Ok((0..=keys.len()).rev().map(|n| keys[..n].to_vec()).collect())
        }
        [Expr::GroupingSet(GroupingSet::Cube(keys))] if keys.len() < 16 => {
            let chosen = |set: usize| {
                let within = keys.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
                within.map(|(_, key)| key.clone()).collect()
            };
            Ok((0..1_usize << keys.len()).map(chosen).collect())
        }
        _ => Err(Error::Unsupported(
            "GROUPING SETS of this form in a subquery that refers to the row outside it are not supported".into(),
        )
        .into_datafusion()),
    }
}
