//! Plans of views that are written: from the outputs down to the scan of the one table there are projections,
//! conditions and names alone, into which other rows and further columns are put.

use std::sync::Arc;

use datafusion_common::Column;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::{Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias, TableScan};

use super::VIEW_ID;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::tables::stored::StoredSource;

pub(super) fn projected(outputs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(input))?))
}

/// The column of a plan that has a name which no other one has.
pub(super) fn column(plan: &LogicalPlan, name: &str) -> Result<Column> {
    let found = plan.schema().columns().into_iter().find(|column| column.name == name);
    found.ok_or_else(|| Error::Internal("a column of a view's table was lost".into()))
}

/// A view's plan over `leaf` in the place of the table that it reads, with these columns of that behind its own; with
/// its conditions or without.
///
/// # Errors
/// A plan of another kind.
pub(super) fn through(
    plan: &LogicalPlan,
    leaf: &LogicalPlan,
    carried: &[String],
    with_conditions: bool,
) -> Result<LogicalPlan> {
    let below = |input: &LogicalPlan| through(input, leaf, carried, with_conditions);
    match plan {
        LogicalPlan::TableScan(scan) => {
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(leaf.clone()), scan.table_name.clone())?))
        }
        LogicalPlan::Projection(outputs) => {
            let input = below(&outputs.input)?;
            let mut exprs = outputs.expr.clone();
            for name in carried {
                exprs.push(Expr::Column(column(&input, name)?));
            }
            projected(exprs, input)
        }
        LogicalPlan::Filter(filter) => {
            let input = below(&filter.input)?;
            match with_conditions {
                true => Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?)),
                false => Ok(input),
            }
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = Arc::new(below(&alias.input)?);
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?))
        }
        // The order of rows that are written means nothing.
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => below(&sort.input),
        _ => Err(other_view()),
    }
}

/// The condition of a view itself, not of those that it reads, and what it is over.
pub(super) fn condition(plan: &LogicalPlan) -> Option<&Filter> {
    match plan {
        LogicalPlan::Filter(filter) => Some(filter),
        LogicalPlan::Projection(outputs) => condition(&outputs.input),
        LogicalPlan::SubqueryAlias(alias) => condition(&alias.input),
        LogicalPlan::Sort(sort) => condition(&sort.input),
        _ => None,
    }
}

fn other_view() -> Error {
    Error::plan(
        SqlState::ObjectNotInPrerequisiteState,
        "a view that does more than show columns and rows of one table cannot be written; write the tables that it \
         reads",
    )
}

fn is_of(scan: &TableScan, id: u64) -> bool {
    scan.source.downcast_ref::<StoredSource>().is_some_and(|source| source.id == id)
}

/// The plan of a statement's rows with `rows` in the place of the table with a number, the leftmost, and these columns
/// of theirs behind its own.
///
/// # Errors
/// A plan of another kind.
pub(super) fn in_place_of(plan: LogicalPlan, id: u64, rows: &LogicalPlan, carried: &[String]) -> Result<LogicalPlan> {
    let below = |input: Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        Ok(Arc::new(in_place_of(Arc::unwrap_or_clone(input), id, rows, carried)?))
    };
    Ok(match plan {
        LogicalPlan::TableScan(scan) if is_of(&scan, id) => {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(rows.clone()), scan.table_name)?)
        }
        LogicalPlan::Filter(filter) => LogicalPlan::Filter(Filter::try_new(filter.predicate, below(filter.input)?)?),
        LogicalPlan::SubqueryAlias(alias) => {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(below(alias.input)?, alias.alias)?)
        }
        LogicalPlan::Limit(limit) => {
            LogicalPlan::Limit(Limit { skip: limit.skip, fetch: limit.fetch, input: below(limit.input)? })
        }
        LogicalPlan::Join(join) => {
            // What is written stands before what it is joined with.
            let left = below(Arc::clone(&join.left))?;
            let right = join.right.as_ref().clone();
            let join = LogicalPlan::Join(join);
            join.with_new_exprs(join.expressions(), vec![Arc::unwrap_or_clone(left), right])?
        }
        LogicalPlan::Projection(outputs) => {
            let input = Arc::unwrap_or_clone(below(outputs.input)?);
            let mut exprs = outputs.expr;
            for name in carried {
                exprs.push(Expr::Column(column(&input, name)?));
            }
            projected(exprs, input)?
        }
        other => {
            return Err(Error::Unsupported(format!(
                "this form of DELETE or UPDATE of a view is not supported: {}",
                other.display()
            )));
        }
    })
}

/// A plan in which a view's query stands wherever the view is read as if it were a table.
pub(super) fn with_views(plan: LogicalPlan, view: &LogicalPlan) -> Result<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if is_of(&scan, VIEW_ID) => {
            let alias = SubqueryAlias::try_new(Arc::new(view.clone()), scan.table_name)?;
            Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(replaced.data)
}
