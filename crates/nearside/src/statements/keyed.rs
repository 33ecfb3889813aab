//! Rows that are put under their key, and taken away by it, without SQL: what [`crate::KeyedTable`] does.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Schema};

use crate::catalog::delta::SMALL_ROWS_MAX;
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::statements::conflict::{Changes, Taken, small_or_merged};
use crate::statements::relations::not_beside_statements;
use crate::statements::stage::as_kept;
use crate::statements::write::fitted;
use crate::statements::writer::{Attempt, as_small_writer, beside_others};

/// A table's primary key, and which of its unique indexes that is.
///
/// # Errors
/// The table has none.
pub(crate) fn primary_key(table: &TableEntry) -> Result<(usize, &IndexEntry)> {
    let mut indexes = table.unique_indexes().enumerate();
    indexes.find(|(_, index)| index.origin == Origin::PrimaryKey).ok_or_else(|| {
        Error::plan(
            SqlState::ObjectNotInPrerequisiteState,
            format!("table '{}' has no primary key; its rows have no key to go by", table.name.shown()),
        )
    })
}

/// Keys in the types of the columns of an index.
///
/// # Errors
/// Another number of columns than the key has, columns of several lengths, a value that does not fit.
pub(crate) fn fitted_keys(keys: Vec<ArrayRef>, table: &TableEntry, index: &IndexEntry) -> Result<RecordBatch> {
    let columns = table.key_columns(index)?;
    if keys.len() != columns.len() || keys.iter().any(|column| column.len() != keys[0].len()) {
        return Err(Error::plan(
            SqlState::InvalidParameterValue,
            format!(
                "the key ({}) of table '{}' has {} columns; give an array for each, all of one length",
                index.columns.join(", "),
                table.name.shown(),
                columns.len()
            ),
        ));
    }
    let fields = columns.iter().map(|column| table.base.schema.field(*column).clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let given =
        keys.iter().zip(schema.fields()).map(|(array, f)| Field::new(f.name(), array.data_type().clone(), true));
    let keys = fitted(&RecordBatch::try_new(Arc::new(Schema::new(given.collect::<Vec<_>>())), keys)?, &schema)?;
    // Texts of CHAR(n) are kept without the blanks at their end.
    let bare = keys.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match (table.lengths.get(field.name()).is_some_and(|length| length.is_fixed()), column.as_string_view_opt()) {
            (true, Some(texts)) => {
                let bare = texts.iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
                Arc::new(bare.collect::<StringViewArray>()) as ArrayRef
            }
            _ => Arc::clone(column),
        }
    });
    Ok(RecordBatch::try_new(Arc::clone(&schema), bare.collect())?)
}

/// Puts rows under their primary keys, in the place of those that have them; how many.
///
/// # Errors
/// Columns that are not the table's, values that do not fit, a key that is given twice, another key that would be
/// there twice, no memory.
pub(crate) fn upsert(name: &Name, rows: &RecordBatch, running: &Arc<RunningStatement>) -> Result<u64> {
    let of = |table: &TableEntry| in_order(rows, table);
    fn changes<'t>(table: &'t TableEntry, rows: &RecordBatch, running: &Arc<RunningStatement>) -> Result<Decided<'t>> {
        let (number, index) = primary_key(table)?;
        let Some(taken) = Taken::of(table, number, index, rows, running)? else { return Ok(None) };
        if let Some(values) = taken.twice() {
            return Err(Error::execution(
                SqlState::CardinalityViolation,
                format!(
                    "the key ({}) = ({values}) of table '{}' is given twice; give each key once",
                    index.columns.join(", "),
                    table.name.shown()
                ),
            ));
        }
        let new = (0..rows.num_rows() as u32).collect();
        Ok(Some((Changes { new, gone: taken.existing(), ..Changes::default() }, rows.clone(), taken)))
    }
    written(name, (rows.num_rows(), &of), &changes, running)?;
    Ok(rows.num_rows() as u64)
}

/// Takes away the rows that have some primary keys; how many there were.
///
/// # Errors
/// Keys of other types, a cancelled statement, no memory.
pub(crate) fn delete(name: &Name, keys: &[ArrayRef], running: &Arc<RunningStatement>) -> Result<u64> {
    let of = |table: &TableEntry| fitted_keys(keys.to_vec(), table, primary_key(table)?.1);
    fn changes<'t>(table: &'t TableEntry, keys: &RecordBatch, running: &Arc<RunningStatement>) -> Result<Decided<'t>> {
        let (number, index) = primary_key(table)?;
        let Some(taken) = Taken::of(table, number, index, keys, running)? else { return Ok(None) };
        // A key that is given twice has one row.
        let mut gone = taken.existing();
        gone.sort_unstable();
        gone.dedup();
        let none = RecordBatch::new_empty(Arc::clone(&table.base.schema));
        Ok(Some((Changes { gone, ..Changes::default() }, none, taken)))
    }
    written(name, (keys.first().map_or(0, |column| column.len()), &of), &changes, running)
}

/// What is to be done, the rows that it is of, and what is known of their keys; `None` where two keys have one code.
type Decided<'t> = Option<(Changes, RecordBatch, Taken<'t>)>;

/// Rows or keys in the types of a table.
type RowsOf<'a> = dyn Fn(&TableEntry) -> Result<RecordBatch> + 'a;

/// What is to be done for rows or keys.
type ChangesOf<'a> = dyn for<'t> Fn(&'t TableEntry, &RecordBatch, &Arc<RunningStatement>) -> Result<Decided<'t>> + 'a;

/// Does what `changes` says of the rows that `of` gives: beside other statements where they are few, else alone.
fn written(
    name: &Name,
    (rows, of): (usize, &RowsOf<'_>),
    changes: &ChangesOf<'_>,
    running: &Arc<RunningStatement>,
) -> Result<u64> {
    let beside = |table: &TableEntry, running: &Arc<RunningStatement>| {
        not_beside_statements(table, running)?;
        let rows = of(table)?;
        match changes(table, &rows, running)? {
            Some((changes, rows, taken)) => changes.apply_beside_others(table, &rows, &taken, running),
            None => Ok(Attempt::Alone),
        }
    };
    if rows <= SMALL_ROWS_MAX
        && let Some(count) = beside_others(name, running, beside)?
    {
        return Ok(count);
    }
    as_small_writer(name, running, |table, running| {
        not_beside_statements(table, running)?;
        table.load_all(running)?;
        let rows = of(table)?;
        small_or_merged(rows.num_rows(), table, running, |table, running| match changes(table, &rows, running)? {
            Some((changes, rows, _)) => changes.apply(table, &rows, running),
            None => Ok(None),
        })
    })
}

/// The rows with the table's columns, by name, in its order and types.
fn in_order(rows: &RecordBatch, table: &TableEntry) -> Result<RecordBatch> {
    let schema = &table.base.schema;
    let missing = |column: &str| {
        let table = table.name.shown();
        Error::plan(
            SqlState::UndefinedColumn,
            format!("the rows have no column '{column}'; give every column of table '{table}'"),
        )
    };
    if let Some(other) = rows.schema().fields().iter().find(|field| schema.index_of(field.name()).is_err()) {
        return Err(Error::plan(
            SqlState::UndefinedColumn,
            format!("table '{}' has no column '{}'", table.name.shown(), other.name()),
        ));
    }
    if rows.num_columns() > schema.fields().len() {
        return Err(Error::plan(SqlState::DuplicateColumn, "a column stands twice in the rows; give each column once"));
    }
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = rows.column_by_name(field.name()).ok_or_else(|| missing(field.name()))?;
        fields.push(Field::new(field.name(), column.data_type().clone(), true));
        columns.push(Arc::clone(column));
    }
    as_kept(fitted(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?, schema)?, table)
}
