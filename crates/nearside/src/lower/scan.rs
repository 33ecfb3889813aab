//! Scans of stored tables, with the filters and the limit that DataFusion pushed into them.

use std::sync::Arc;

use datafusion_common::DFSchema;
use datafusion_expr::{LogicalPlan, TableScan};
use exec::{Output, Plan};
use storage::TableVersion;

use super::predicate::predicate;
use super::{Props, bug};
use crate::catalog::{Snapshot, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::tables::stored::{ROW_ID, StoredSource};

/// The plan of one scan, filters and limit pushed into it included.
pub(crate) fn bind_scan(scan: &TableScan, catalog: &Snapshot, props: &Props) -> Result<Plan> {
    let (plan, of) = filtered_scan(scan, catalog, props)?;
    of.tell(catalog, &plan);
    Ok(limited(plan, scan.fetch))
}

/// The table that a scan is of, as it is read.
pub(super) struct Scanned<'a> {
    table: &'a TableEntry,
    version: Arc<TableVersion>,
}

impl Scanned<'_> {
    /// Tells whoever wants to know that the rows are read which a plan gives of it.
    pub(super) fn tell(&self, catalog: &Snapshot, plan: &Plan) {
        catalog.tell_scan(self.table, &self.version, plan);
    }
}

/// The scan of a stored table that an operator has its rows from, all that pass its filters, and nothing else.
pub(super) fn stored_scan(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => stored_scan(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() && scan.source.is::<StoredSource>() => Some(scan),
        _ => None,
    }
}

/// A scan with the filters that were pushed into it, without its limit; who binds it tells what is read.
pub(super) fn filtered_scan<'a>(scan: &TableScan, catalog: &'a Snapshot, props: &Props) -> Result<(Plan, Scanned<'a>)> {
    let source = scan
        .source
        .downcast_ref::<StoredSource>()
        .ok_or_else(|| Error::Internal(format!("table {} is not stored here", scan.table_name)))?;
    let table = catalog.by_id(source.id).ok_or_else(|| {
        Error::execution(
            SqlState::UndefinedTable,
            format!("table '{}' was dropped meanwhile; run the statement again", source.name.shown()),
        )
    })?;
    table.is_readable()?;
    let stored = &table.base.schema;
    let kept = source.schema.fields().iter().zip(stored.fields());
    let altered = kept.into_iter().any(|(a, b)| a.name() != b.name() || a.data_type() != b.data_type());
    if altered || source.schema.fields().len() != stored.fields().len() + usize::from(source.row_ids) {
        return Err(Error::execution(
            SqlState::ObjectNotInPrerequisiteState,
            format!("table '{}' was altered meanwhile; run the statement again", source.name.shown()),
        ));
    }
    let wanted: Vec<usize> = match &scan.projection {
        Some(columns) => columns.clone(),
        None => (0..source.schema.fields().len()).collect(),
    };
    let snapshot = table.whole(catalog.version())?;
    let snapshot = if source.row_ids { Arc::new(snapshot.with_row_ids(ROW_ID)) } else { snapshot };
    let of = Scanned { table, version: Arc::clone(&snapshot) };
    if scan.filters.is_empty() {
        return Ok((Plan::scan(Arc::clone(&source.shown), snapshot, wanted).map_err(bug)?, of));
    }
    // Filters may read columns that the output does not have: read both, filter, then keep what is asked for.
    let full = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source.schema)?;
    let mut read = wanted.clone();
    for filter in &scan.filters {
        for column in filter.column_refs() {
            let index = full.index_of_column(column)?;
            if !read.contains(&index) {
                read.push(index);
            }
        }
    }
    let fields = read.iter().map(|&i| {
        let (qualifier, field) = full.qualified_field(i);
        (qualifier.cloned(), Arc::clone(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), full.metadata().clone())?;
    let mut plan = Plan::scan(Arc::clone(&source.shown), snapshot, read.clone()).map_err(bug)?;
    for filter in &scan.filters {
        plan = plan.filter(predicate(filter, &schema, props)?).map_err(bug)?;
    }
    if read.len() > wanted.len() {
        let outputs = (0..wanted.len()).map(|i| {
            let field = Arc::clone(&schema.fields()[i]);
            Output::Column { column: i, field }
        });
        plan = plan.project(outputs.collect()).map_err(bug)?;
    }
    Ok((plan, of))
}

/// The first rows, where a limit was pushed into the scan.
pub(super) fn limited(plan: Plan, fetch: Option<usize>) -> Plan {
    match fetch {
        Some(rows) => plan.limit(0, Some(rows)),
        None => plan,
    }
}
