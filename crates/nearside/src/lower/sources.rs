//! Scans of tables that are not stored, and recursive queries with their work tables.

use std::sync::Arc;

use datafusion_common::DFSchema;
use datafusion_expr::{RecursiveQuery, TableScan};
use exec::{Plan, Recursion};

use super::binder::Binder;
use super::bug;
use super::predicate::predicate;
use super::scan::{bind_scan, limited};
use super::scope::keep;
use super::unnest::cast_to;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::tables::sources::{ForeignSource, GivenSource, WorkSource};

/// Numbers of plans that are kept between the steps of a recursion begin here; those of queries that are named twice
/// stay below.
const KEPT_FIRST: usize = 1 << 32;

/// The plan of any scan.
pub(super) fn scan(binder: &Binder<'_>, scan: &TableScan) -> Result<Plan> {
    let width = scan.source.schema().fields().len();
    let whole: Vec<usize> = (0..width).collect();
    let wanted = scan.projection.as_ref().unwrap_or(&whole);
    // Filters may read what the output does not have.
    let read = if scan.filters.is_empty() { wanted } else { &whole };
    let mut plan = if let Some(foreign) = scan.source.downcast_ref::<ForeignSource>() {
        Plan::Source { source: Arc::clone(&foreign.rows), columns: read.clone() }
    } else if let Some(given) = scan.source.downcast_ref::<GivenSource>() {
        let batch = given.batch.project(read)?;
        Plan::Values { schema: batch.schema(), batches: vec![batch] }
    } else if let Some(work) = scan.source.downcast_ref::<WorkSource>() {
        let id = binder.recursions.borrow().iter().rev().find(|(name, _)| *name == work.name).map(|(_, id)| *id);
        let unknown = || {
            Error::plan(
                SqlState::InvalidRecursion,
                format!("'{}' refers to itself outside of its recursive part", work.name),
            )
        };
        let table = Plan::WorkTable { id: id.ok_or_else(unknown)?, schema: scan.source.schema() };
        if read.len() == width { table } else { keep(table, read.iter().copied())? }
    } else {
        return bind_scan(scan, binder.catalog, binder.props);
    };
    if !scan.filters.is_empty() {
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        for filter in &scan.filters {
            plan = plan.filter(predicate(filter, &schema, binder.props)?).map_err(bug)?;
        }
        plan = keep(plan, wanted.iter().copied())?;
    }
    Ok(limited(plan, scan.fetch))
}

/// The plan of a recursive query.
pub(super) fn recursive(binder: &Binder<'_>, query: &RecursiveQuery) -> Result<Plan> {
    let schema = Arc::clone(query.schema.inner());
    let base = cast_to(binder.plan(&query.static_term)?, &schema)?;
    let id = binder.next_number();
    binder.recursions.borrow_mut().push((query.name.clone(), id));
    let step = binder.plan(&query.recursive_term);
    binder.recursions.borrow_mut().pop();
    let step = step?.kept_between_steps(&mut || KEPT_FIRST + binder.next_number());
    let step = cast_to(step, &schema)?;
    Plan::recursive(Recursion { base, step, id, distinct: query.is_distinct, schema }).map_err(bug)
}
