//! What views read of a table that is changed: a view keeps its columns, so a change that it would not survive is
//! refused.
//!
//! # Limits
//! A column that a view reads cannot be renamed, where PostgreSQL has the view follow. A view that does not show a
//! column, but compares it, takes another type of it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::LogicalPlan;
use sqlparser::ast::{AlterColumnOperation, AlterTable, AlterTableOperation, DropBehavior};

use crate::catalog::index::IndexedTable;
use crate::catalog::{CatalogState, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::context::PlanContext;
use crate::run::statement::RunningStatement;
use crate::sql::AnyStatement;
use crate::statements::dropping::reads;

/// Refuses to change a table's columns where a view would be another one then, or none. Gives the views that go with a
/// column that is dropped by CASCADE.
///
/// # Errors
/// One would.
pub(crate) fn survive(
    operations: &[AlterTableOperation],
    name: &Name,
    changed: &IndexedTable,
    running: &Arc<RunningStatement>,
) -> Result<Vec<Name>> {
    let mut going = Vec::new();
    let Some((done, code)) = operations.iter().find_map(what_is_done) else { return Ok(going) };
    let views = reading(name, running)?;
    if views.is_empty() {
        return Ok(going);
    }
    let cascades = operations.iter().any(drops_by_cascade);
    let mut after = CatalogState::clone(running.catalog.state());
    after.remove(name);
    after.put_table(Name::clone(&changed.table().name), changed.clone())?;
    let after = running.catalog.over(Arc::new(after));
    for (view_name, view) in views {
        let context = PlanContext { planning: vec![view_name.clone()], ..running.own_context() };
        // One that cannot be used any more is nobody's hindrance.
        let Ok(before) = AnyStatement::one(&view)?.plan(&context) else { continue };
        let context = PlanContext { catalog: after.clone(), ..context };
        match AnyStatement::one(&view)?.plan(&context) {
            Ok(plan) if types(&plan) == types(&before) => {}
            Err(error @ (Error::Cancelled | Error::Timeout)) => return Err(error),
            _ if cascades => going.push(view_name),
            _ => {
                return Err(Error::plan(
                    code,
                    format!("a column that view '{}' reads cannot {done}; drop the view first", view_name.shown()),
                ));
            }
        }
    }
    Ok(going)
}

/// Refuses what cannot be changed of a materialized view.
///
/// # Errors
/// An operation that is for tables.
pub(crate) fn may_be_altered(table: &TableEntry, alter: &AlterTable) -> Result<()> {
    let is_for_all = |operation: &AlterTableOperation| {
        matches!(operation, AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. })
    };
    match alter.operations.iter().find(|operation| !is_for_all(operation) && table.materialized.is_some()) {
        Some(operation) => Err(Error::plan(
            SqlState::WrongObjectType,
            format!(
                "'{}' is a materialized view, and ALTER TABLE .. {operation} is for tables; drop it and make it again",
                table.name.shown()
            ),
        )),
        None => Ok(()),
    }
}

/// Whether an operation drops a column with what depends on it.
pub(super) fn drops_by_cascade(operation: &AlterTableOperation) -> bool {
    matches!(operation, AlterTableOperation::DropColumn { drop_behavior: Some(DropBehavior::Cascade), .. })
}

/// The types of what a query gives.
pub(super) fn types(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// What an operation does to a column that views may read.
fn what_is_done(operation: &AlterTableOperation) -> Option<(&'static str, SqlState)> {
    match operation {
        AlterTableOperation::DropColumn { .. } => Some(("be dropped", SqlState::DependentObjectsStillExist)),
        AlterTableOperation::RenameColumn { .. } => Some(("be renamed", SqlState::FeatureNotSupported)),
        AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. } => {
            Some(("get another type", SqlState::FeatureNotSupported))
        }
        _ => None,
    }
}

/// The views, be they materialized, that read a table, or a view that does; with their queries.
fn reading(name: &Name, running: &RunningStatement) -> Result<Vec<(Name, String)>> {
    let mut names = vec![name.clone()];
    let mut found: Vec<(Name, String)> = Vec::new();
    let mut place = 0;
    while let Some(read) = names.get(place).cloned() {
        place += 1;
        for (view_name, entry) in running.catalog.entries() {
            if let Some(query) = entry.query()
                && !names.contains(view_name)
                && reads(entry, &read, running)?
            {
                names.push(view_name.clone());
                found.push((view_name.clone(), query.to_string()));
            }
        }
    }
    Ok(found)
}
