//! Sorting: a stable sort of row numbers, key by key.

use std::cmp::Ordering;

use arrow::array::{RecordBatch, make_comparator};
use arrow::compute::SortOptions;

use super::keys::canonical;
use super::pick;
use crate::ExecError;
use crate::plan::Sort;

/// The rows in order; equal ones keep theirs.
pub(super) fn sort(operator: &Sort, input: &RecordBatch) -> Result<RecordBatch, ExecError> {
    let mut compare = Vec::new();
    for key in &operator.keys {
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let column = canonical(input.column(key.column));
        compare.push(make_comparator(column.as_ref(), column.as_ref(), options)?);
    }
    let mut rows: Vec<u32> = (0..input.num_rows() as u32).collect();
    rows.sort_by(|&a, &b| {
        compare.iter().map(|c| c(a as usize, b as usize)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
    rows.truncate(operator.fetch.unwrap_or(usize::MAX));
    pick(input, &rows)
}
