//! Rows that the plan itself has.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};

use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Vector, integer_bounds, is_integer};
use crate::chunk::{Rows, check_kept};
use crate::pipe::Pipe;
use crate::pipe::kept::of_rows;

/// A pipe of the batches' rows.
pub(crate) fn pipe(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Pipe, ExecError> {
    let infos: Vec<ColumnInfo> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(c, field)| given_info(field, batches.iter().map(|b| b.column(c))))
        .collect();
    let columns = (0..infos.len()).map(|c| {
        let parts: Vec<Vector> = batches.iter().map(|b| infos[c].vector_of(b.column(c))).collect();
        Arc::new(if parts.is_empty() {
            infos[c].vector_of(&arrow::array::new_empty_array(infos[c].data_type()))
        } else {
            Vector::concat(parts)
        })
    });
    let columns = columns.collect();
    let rows = batches.iter().map(|b| b.num_rows()).sum();
    check_kept(rows)?;
    Ok(of_rows(Arc::new(Rows { infos, columns, rows, _charged: Vec::new(), lies: None })))
}

/// What is known of a column whose values are given.
fn given_info<'a>(field: &FieldRef, arrays: impl Iterator<Item = &'a ArrayRef>) -> ColumnInfo {
    let mut info = ColumnInfo::plain(field.clone());
    info.nullable = false;
    let mut bounds: Option<(i64, i64)> = None;
    let mut integers = is_integer(field.data_type());
    for array in arrays.filter(|array| !array.is_empty()) {
        info.nullable |= array.is_nullable();
        match integer_bounds(array.as_ref()) {
            Some((low, high)) => {
                bounds = Some(bounds.map_or((low, high), |known| (known.0.min(low), known.1.max(high))));
            }
            None => integers = false,
        }
    }
    match bounds {
        Some((low, high)) if integers => ColumnInfo::int(field.clone(), low, high, info.nullable),
        _ => info,
    }
}
