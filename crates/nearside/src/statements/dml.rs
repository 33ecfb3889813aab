//! INSERT, DELETE, UPDATE and TRUNCATE: planned over what there is when the statement may write, and given to who does
//! what it says.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::logical_plan::dml::InsertOp;
use datafusion_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion_sql::parser::Statement;
use sqlparser::ast;

use crate::catalog::Entry;
use crate::error::{Error, Result};
use crate::run::outcome::Outcome;
use crate::run::statement::RunningStatement;
use crate::sql::{plan_statement, take_conflict, take_returning};
use crate::statements::conflict;
use crate::statements::kept::{KeptWrite, PlannedWrite};
use crate::statements::parameters::with_values;
use crate::statements::relations::{not_emptied, referring, within_a_transaction};
use crate::statements::returning::Returned;
use crate::statements::write::{check_assignments, delete, insert, overwrite, truncate, update};
use crate::statements::writer::{as_small_writer, merged};
use crate::statements::written_views::WrittenView;
use crate::tables::stored::StoredSource;

/// The plan of a statement that writes, of the rows it inserts where ON CONFLICT says what becomes of them.
pub(crate) fn plan_of(mut statement: Statement, running: &RunningStatement) -> Result<LogicalPlan> {
    let returns = take_returning(&mut statement).is_some();
    take_conflict(&mut statement)?;
    planned(statement, returns, running)
}

/// The plan of a statement without RETURNING and ON CONFLICT: of one that writes a view that of its table's rows.
fn planned(statement: Statement, returns: bool, running: &RunningStatement) -> Result<LogicalPlan> {
    match WrittenView::of(&statement, running)? {
        Some(view) => Ok(LogicalPlan::Dml(view.planned(statement, returns, running)?)),
        None => plan_statement(statement, &running.plan_context()),
    }
}

/// Whether it is a DELETE, which is planned as an UPDATE where its table has an alias.
pub(crate) fn is_delete(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(inner) if matches!(inner.as_ref(), ast::Statement::Delete(_)))
}

/// INSERT, DELETE, UPDATE and TRUNCATE, with values for the statement's parameters.
pub(crate) fn dml(
    mut statement: Statement,
    dml: DmlStatement,
    values: &[ScalarValue],
    running: &Arc<RunningStatement>,
) -> Result<Outcome> {
    let name = running.resolve(&dml.table_name)?;
    if matches!(running.catalog.get(&name), Some(Entry::View(_))) {
        // TRUNCATE is for tables alone; what else writes a view writes the table that it reads.
        running.catalog.table(&name)?;
    }
    if !dml.target.is::<StoredSource>() {
        return Err(Error::Unsupported(format!("'{}' cannot be written: it is not a stored table", name.shown())));
    }
    check_assignments(&statement)?;
    let deletes = is_delete(&statement);
    let returning = take_returning(&mut statement);
    let conflict = take_conflict(&mut statement)?;
    let planned_with = running.catalog.ddl_version;
    as_small_writer(&name, running, |table, running| {
        within_a_transaction(table, running)?;
        if !matches!(dml.op, WriteOp::Truncate | WriteOp::Insert(InsertOp::Overwrite)) {
            table.load_all(running)?;
        }
        // The columns may have changed while this statement waited for its turn.
        let dml = match running.catalog.ddl_version == planned_with {
            true => dml,
            false => match planned(statement.clone(), returning.is_some(), running)? {
                LogicalPlan::Dml(dml) => dml,
                _ => return Err(Error::Internal("the statement planned to something else the second time".into())),
            },
        };
        let view = WrittenView::of(&statement, running)?;
        let mut returned = Returned::of(returning.as_ref(), view.as_ref(), values, running)?;
        if let Some(view) = view.as_ref().filter(|_| !deletes) {
            returned = returned.checking(view.checks(running)?);
        }
        let input = Arc::unwrap_or_clone(dml.input);
        let written = matches!(dml.op, WriteOp::Insert(_)) || dml.op == WriteOp::Update && !deletes;
        let input = with_values(input, values, written.then_some((&dml.op, &table.base.schema)))?;
        let is_by_key = matches!(dml.op, WriteOp::Delete | WriteOp::Update) && !returned.is_wanted() && view.is_none();
        if running.transaction.is_none() && is_by_key {
            let write = PlannedWrite { op: &dml.op, deletes, input: &input, conflict: None, types: &[] };
            // The row of a key is found and written at its place.
            if let Some(kept) = KeptWrite::of(&write, table, running)?
                && let Some(done) = kept.run_once(table, running)?
            {
                return Ok(Outcome::Done(done));
            }
        }
        let done = match dml.op {
            WriteOp::Insert(InsertOp::Append) => match &conflict {
                Some(conflict) => conflict::insert(table, input, conflict, (values, &returned), running),
                None => insert(table, input, &returned, running),
            },
            WriteOp::Insert(InsertOp::Overwrite) => {
                let (table, running) = merged(table, running)?;
                overwrite(&table, input, &running)
            }
            WriteOp::Insert(InsertOp::Replace) => {
                Err(Error::Unsupported("REPLACE INTO is not supported; use DELETE and INSERT".into()))
            }
            WriteOp::Delete => delete(table, input, &returned, running),
            // A DELETE with an alias is planned as an UPDATE of its rows.
            WriteOp::Update if deletes => delete(table, input, &returned, running),
            WriteOp::Update => update(table, input, &returned, running),
            WriteOp::Truncate => {
                let mut others = referring(&running.catalog, table.id).filter(|(child, _)| child.id != table.id);
                match others.next() {
                    Some((child, key)) => Err(not_emptied(table, child, key)),
                    None => truncate(table, running),
                }
            }
            other => Err(Error::Unsupported(format!("{} is not supported", other.name()))),
        }?;
        Ok(returned.outcome(done))
    })
}
