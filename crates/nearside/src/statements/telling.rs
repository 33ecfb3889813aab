//! Which rows of a table come, go and change by a statement of a transaction, told to foreign keys and
//! to keys that are DEFERRABLE: see [`referential`](super::referential).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use numa::Budget;

use crate::catalog::TableEntry;
use crate::catalog::transactions::Level;
use crate::error::{Error, Result};
use crate::run::changes::Went;
use crate::run::statement::RunningStatement;
use crate::run::transaction::InTransaction;
use crate::statements::relations::referring;

/// Tells of rows that come into a table with foreign keys, or with keys that are DEFERRABLE.
pub(crate) struct Teller {
    of: Arc<InTransaction>,
    table: u64,
    /// Which columns these are about.
    places: Vec<usize>,
    schema: SchemaRef,
    budget: Arc<Budget>,
}

impl Teller {
    /// `None` where nobody has to know.
    ///
    /// # Errors
    /// None that a table's own columns have.
    pub(crate) fn of(table: &TableEntry, running: &RunningStatement) -> Result<Option<Teller>> {
        let of_references = table.rules.foreign_keys.iter().flat_map(|key| &key.columns);
        let mut columns = of_references.chain(table.deferrable_keys().flat_map(|key| &key.columns)).peekable();
        let is_wanted = columns.peek().is_some();
        let Some(of) = running.transaction.as_ref().filter(|_| is_wanted) else { return Ok(None) };
        let (places, schema) = places_of(columns.map(String::as_str), table)?;
        let budget = Arc::clone(running.statement.budget());
        Ok(Some(Teller { of: Arc::clone(of), table: table.id, places, schema, budget }))
    }

    /// Rows came, which have the table's columns.
    ///
    /// # Errors
    /// No memory for them.
    pub(crate) fn tell(&self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let values = self.places.iter().map(|place| Arc::clone(rows.column(*place))).collect();
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), values)?;
        self.of.changes.came(self.table, rows, &self.budget)
    }
}

/// Columns of a table by their names, each once.
fn places_of<'a>(columns: impl Iterator<Item = &'a str>, table: &TableEntry) -> Result<(Vec<usize>, SchemaRef)> {
    let mut names: Vec<&str> = columns.collect();
    names.sort_unstable();
    names.dedup();
    let places = names.iter().map(|name| Ok(table.base.schema.index_of(name)?)).collect::<Result<Vec<_>>>()?;
    let fields = places.iter().map(|place| table.base.schema.field(*place).clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok((places, schema))
}

/// Tells of rows that go, while they are there.
///
/// # Errors
/// No memory for their keys.
pub(crate) fn told_of_going(table: &TableEntry, ids: &ArrayRef, went: Went, running: &RunningStatement) -> Result<()> {
    let Some((of, rows)) = keys_of(table, ids, running)? else { return Ok(()) };
    of.changes.went(table.id, rows, went, running.statement.budget())
}

/// Whether somebody has to know of rows that are changed.
pub(crate) fn is_asked(table: &TableEntry, running: &RunningStatement) -> bool {
    running.transaction.is_some() && referring(&running.catalog, table.id).next().is_some()
}

/// Tells of rows that are others from now on, as the table keeps them.
///
/// # Errors
/// No memory for their keys.
pub(crate) fn told_of_changing(
    table: &TableEntry,
    ids: &ArrayRef,
    new: &RecordBatch,
    running: &RunningStatement,
) -> Result<()> {
    let Some((of, old)) = keys_of(table, ids, running)? else { return Ok(()) };
    let (places, schema) = places_of(old.schema_ref().fields().iter().map(|field| field.name().as_str()), table)?;
    let values = places.iter().map(|place| Arc::clone(new.column(*place))).collect();
    let new = RecordBatch::try_new(schema, values)?;
    of.changes.changed(table.id, (old, new), running.statement.budget())
}

/// The values of rows in the columns that others refer to; `None` where nobody does.
fn keys_of<'a>(
    table: &TableEntry,
    ids: &ArrayRef,
    running: &'a RunningStatement,
) -> Result<Option<(&'a InTransaction, RecordBatch)>> {
    let Some(of) = running.transaction.as_deref().filter(|_| !ids.is_empty()) else { return Ok(None) };
    let newest = running.inner.catalog.state();
    for (child, key) in referring(&newest, table.id) {
        let is_seen = running.catalog.by_id(child.id).is_some();
        if !is_seen && of.level != Level::ReadCommitted {
            return Err(Error::Serialization(format!(
                "table '{}', whose foreign key '{}' refers to rows that go, was made by another transaction",
                child.name.shown(),
                key.name
            )));
        }
    }
    let columns = referring(&running.catalog, table.id).flat_map(|(_, key)| &key.to_columns);
    let (places, schema) = places_of(columns.map(String::as_str), table)?;
    if places.is_empty() {
        return Ok(None);
    }
    let ids = ids.as_primitive_opt::<UInt64Type>();
    let ids = ids.ok_or_else(|| Error::Internal("row identities of another type".into()))?;
    let rows = table.places(ids.values().iter().copied())?;
    let values = table.columns_at(&rows, &places)?;
    Ok(Some((of, RecordBatch::try_new(schema, values)?)))
}
