//! MERGE: the rows of all its clauses are found over one state of the tables, and changed by one commit.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::{Expr, LogicalPlan};
use sqlparser::ast::{Merge, ObjectName, TableFactor};

use crate::catalog::{Entry, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::context::PlanContext;
use crate::run::changes::Went;
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{KnownTables, MergeStep, merge_steps, plan_statement};
use crate::statements::relations::within_a_transaction;
use crate::statements::stage::as_kept;
use crate::statements::telling::told_of_going;
use crate::statements::write::{Replacement, check_assignments, fitted, nullable_values, row_ids_of, with_row_ids};
use crate::statements::writer::as_small_writer;

/// Runs the statement.
///
/// # Errors
/// Names that there are not, a row that two rows of the source would change, those of INSERT, UPDATE and DELETE.
pub(crate) fn merge(merge: &Merge, running: &Arc<RunningStatement>) -> Result<Done> {
    let TableFactor::Table { name, .. } = &merge.table else {
        return Err(Error::Unsupported("MERGE into something else than a table".into()));
    };
    let name = running.named(name)?;
    if let Some(Entry::View(_)) = running.catalog.get(&name) {
        return Err(Error::Unsupported(format!(
            "MERGE into view '{}' is not supported; MERGE into the table that it reads, or use INSERT, UPDATE and \
             DELETE",
            name.shown()
        )));
    }
    as_small_writer(&name, running, |table, running| {
        within_a_transaction(table, running)?;
        table.load_all(running)?;
        let context = PlanContext { target: Some(table.id), ..running.plan_context() };
        let columns = |table: &ObjectName| context.columns(table);
        let (pairs, steps) = merge_steps(merge, &columns)?;
        // Names that are good in one table alone are ambiguous in both.
        if is_volatile(&plan_statement(pairs, &context)?)? {
            return Err(Error::Unsupported(
                "random(), uuid() or the like in the source or the condition of MERGE is not supported: each clause \
                 reads it anew; make a table of it first"
                    .into(),
            ));
        }
        let mut changes = Changes::default();
        for (step, statement) in steps {
            check_assignments(&statement)?;
            let LogicalPlan::Dml(dml) = plan_statement(statement, &context)? else {
                return Err(Error::Internal("a clause of MERGE planned to something else".into()));
            };
            let input = Arc::unwrap_or_clone(dml.input);
            match step {
                MergeStep::Insert => changes.insert(input, table, running)?,
                MergeStep::Update => changes.change(input, true, table, running)?,
                MergeStep::Delete => changes.change(input, false, table, running)?,
            }
        }
        let count = changes.replacement.rows() + changes.inserted;
        changes.replacement.commit(table, running)?;
        Ok(Done::rows("MERGE", count))
    })
}

/// Whether a plan gives something else each time.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What the clauses do.
#[derive(Default)]
struct Changes {
    replacement: Replacement,
    /// Rows that some clause changes.
    seen: HashSet<u64>,
    inserted: u64,
}

impl Changes {
    fn insert(&mut self, input: LogicalPlan, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
        for batch in query::run(nullable_values(input)?, Arc::clone(running), true)? {
            let batch = as_kept(fitted(&batch?, &table.base.schema)?, table)?;
            self.inserted += batch.num_rows() as u64;
            self.replacement.add(batch, running)?;
        }
        Ok(())
    }

    /// Rows that are changed, or taken away.
    fn change(
        &mut self,
        input: LogicalPlan,
        updates: bool,
        table: &TableEntry,
        running: &Arc<RunningStatement>,
    ) -> Result<()> {
        let columns: Vec<usize> = (0..table.base.schema.fields().len()).collect();
        let plan = with_row_ids(input, table)?;
        let ids = row_ids_of(&plan)?;
        for batch in query::run(plan, Arc::clone(running), true)? {
            let batch = batch?;
            let numbers = batch.column(ids).as_primitive_opt::<UInt64Type>();
            let numbers = numbers.ok_or_else(|| Error::Internal("row identities of another type".into()))?;
            if numbers.values().iter().any(|id| !self.seen.insert(*id)) {
                return Err(Error::execution(
                    SqlState::CardinalityViolation,
                    format!(
                        "MERGE would change a row of table '{}' twice: several rows of the source match it; join it \
                         with one row for each",
                        table.name.shown()
                    ),
                ));
            }
            self.replacement.remove(batch.column(ids), running)?;
            let went = if updates { Went::Updated } else { Went::Deleted };
            told_of_going(table, batch.column(ids), went, running)?;
            if updates {
                let rows = as_kept(fitted(&batch.project(&columns)?, &table.base.schema)?, table)?;
                self.replacement.add(rows, running)?;
            }
        }
        Ok(())
    }
}
