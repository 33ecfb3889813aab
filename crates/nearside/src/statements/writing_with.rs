//! Statements whose WITH writes: each part runs in one transaction, and what it returns is read by those behind it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use sqlparser::ast::ObjectName;

use crate::catalog::{Entry, Name};
use crate::error::{Error, Result};
use crate::run::outcome::Outcome;
use crate::run::statement::RunningStatement;
use crate::sql::WritingStep;
use crate::statements::written_views::updatable;
use crate::tables::sources::GivenSource;

/// Refuses what would see what another part has written, and has the statement run as a transaction.
///
/// # Errors
/// It does not yet; a part that writes reads a table that one before it writes.
pub(crate) fn may_run(steps: &[WritingStep], rest: &[ObjectName], running: &RunningStatement) -> Result<()> {
    for (place, step) in steps.iter().enumerate() {
        let mut written = running.named(&step.writes)?;
        // What writes a view writes the table that it reads.
        if matches!(running.catalog.get(&written), Some(Entry::View(_)))
            && let Ok(of) = updatable(&written, running)?
        {
            written = Name::clone(&of.table.name);
        }
        let later = steps[place + 1..].iter().flat_map(|step| &step.reads).chain(rest);
        for read in later {
            let Ok(name) = running.named(read) else { continue };
            let is_view = matches!(running.catalog.get(&name), Some(Entry::View(_)));
            if name == written || is_view {
                let what = if is_view { "view" } else { "table" };
                return Err(Error::Unsupported(format!(
                    "a part of the statement that writes reads {what} '{}' behind a part of its WITH that writes '{}', \
                     and would see that: read the rows that RETURNING gives, or use two statements",
                    name.shown(),
                    written.shown()
                )));
            }
        }
    }
    match running.transaction.is_none() {
        true => Err(running.wants_transaction()),
        false => Ok(()),
    }
}

/// Keeps the rows that a part has returned.
///
/// # Errors
/// Those of the part.
pub(crate) fn keep(name: String, outcome: Outcome, running: &Arc<RunningStatement>) -> Result<()> {
    let Outcome::Rows(rows) = outcome else { return Ok(()) };
    let schema = Arc::clone(rows.schema());
    let batches: Vec<RecordBatch> = rows.collect::<Result<_>>()?;
    running.keep_returned(name, GivenSource::table(concat_batches(&schema, &batches)?));
    Ok(())
}
