//! Keys as rows of their columns' values, and the rows of a table that have some.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Column as ColumnName, JoinType, ScalarValue, TableReference};
use datafusion_expr::{Expr, LogicalPlanBuilder, lit};

use crate::catalog::TableEntry;
use crate::error::Result;
use crate::tables::sources::GivenSource;
use crate::tables::stored::StoredSource;

/// Keys that are looked for as a list, not by a join.
const LISTED_MAX: usize = 1_000;

/// What the table, and the keys, are called in plans.
const TABLE: &str = "child";
pub(crate) const KEYS: &str = "keys";

/// Each row as bytes, which are the same where the values are.
///
/// # Errors
/// Types that have no order.
pub(crate) fn encoded(rows: &RecordBatch) -> Result<Vec<Vec<u8>>> {
    let fields = rows.columns().iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(rows.columns())?;
    Ok(rows.iter().map(|row| row.data().to_vec()).collect())
}

/// Each row once, without those with a NULL.
///
/// # Errors
/// As [`encoded`].
pub(crate) fn distinct(rows: &RecordBatch) -> Result<RecordBatch> {
    let mut seen = HashSet::new();
    let keys = encoded(rows)?;
    let is_whole = |row: usize| rows.columns().iter().all(|column| column.is_valid(row));
    let wanted: BooleanArray =
        keys.into_iter().enumerate().map(|(row, key)| Some(is_whole(row) && seen.insert(key))).collect();
    Ok(filter_record_batch(rows, &wanted)?)
}

/// A column of the table in these plans.
pub(crate) fn of_table(column: &str) -> Expr {
    Expr::Column(ColumnName::new(Some(TABLE), column))
}

/// All rows of a table.
///
/// # Errors
/// None that a table's own columns have.
pub(crate) fn scan(table: &TableEntry) -> Result<LogicalPlanBuilder> {
    Ok(LogicalPlanBuilder::scan(TableReference::bare(TABLE), Arc::new(StoredSource::new(table)), None)?)
}

/// The rows of a table that have some keys in these columns.
///
/// # Errors
/// Keys of types that are none of the columns'.
pub(crate) fn rows_with(table: &TableEntry, columns: &[String], keys: &RecordBatch) -> Result<LogicalPlanBuilder> {
    let [column] = columns else { return beside(table, columns, keys, None) };
    if keys.num_rows() > LISTED_MAX {
        return beside(table, columns, keys, None);
    }
    let data_type = table.base.schema.field_with_name(column)?.data_type();
    // What the column's type does not have no row has.
    let keys = arrow::compute::cast(keys.column(0), data_type)?;
    let there = (0..keys.len()).filter(|row| keys.is_valid(*row));
    let values = there.map(|row| Ok(lit(ScalarValue::try_from_array(&keys, row)?))).collect::<Result<Vec<_>>>()?;
    let condition = match &values[..] {
        [] => lit(false),
        [one] => of_table(column).eq(one.clone()),
        _ => of_table(column).in_list(values, false),
    };
    Ok(scan(table)?.filter(condition)?)
}

/// The rows of a table that have some keys, beside these and what has become of them.
///
/// # Errors
/// As [`rows_with`].
pub(crate) fn beside(
    table: &TableEntry,
    of: &[String],
    old: &RecordBatch,
    new: Option<&RecordBatch>,
) -> Result<LogicalPlanBuilder> {
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (place, name) in of.iter().enumerate() {
        let data_type = table.base.schema.field_with_name(name)?.data_type();
        fields.push(Field::new(format!("old {place}"), data_type.clone(), true));
        columns.push(arrow::compute::cast(old.column(place), data_type)?);
    }
    for (place, column) in new.iter().flat_map(|new| new.columns().iter().enumerate()) {
        fields.push(Field::new(format!("new {place}"), column.data_type().clone(), true));
        columns.push(Arc::clone(column));
    }
    let keys = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    let keys = LogicalPlanBuilder::scan(TableReference::bare(KEYS), GivenSource::table(keys), None)?.build()?;
    let left: Vec<ColumnName> = of.iter().map(|name| ColumnName::new(Some(TABLE), name)).collect();
    let right: Vec<ColumnName> =
        (0..of.len()).map(|place| ColumnName::new(Some(KEYS), format!("old {place}"))).collect();
    Ok(scan(table)?.join(keys, JoinType::Inner, (left, right), None)?)
}
