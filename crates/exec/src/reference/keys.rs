//! Equality of rows over some columns, as GROUP BY, DISTINCT and joins see it.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use crate::ExecError;

/// The columns of a batch with -0.0 and every NaN written in one way, so that equal keys are equal bits.
pub(super) fn key_columns(batch: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
    columns.iter().map(|&c| canonical(batch.column(c))).collect()
}

/// The array with -0.0 written as 0.0 and every NaN in one way.
pub(super) fn canonical(array: &ArrayRef) -> ArrayRef {
    let array = one_nan(array);
    match array.data_type() {
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0)),
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0)),
        _ => array,
    }
}

/// The array with every NaN written in one way, the greatest of all values.
pub(super) fn one_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => array.clone(),
    }
}

/// Tells whether a row on the left equals one on the right.
pub(super) struct Equality {
    comparators: Vec<DynComparator>,
    left: Vec<ArrayRef>,
    right: Vec<ArrayRef>,
    nulls_equal: bool,
}

impl Equality {
    /// Over columns as [`key_columns`] gives them, of equal number and types.
    pub(super) fn new(left: Vec<ArrayRef>, right: Vec<ArrayRef>, nulls_equal: bool) -> Result<Equality, ExecError> {
        let comparators = left
            .iter()
            .zip(&right)
            .map(|(l, r)| make_comparator(l.as_ref(), r.as_ref(), SortOptions::default()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Equality { comparators, left, right, nulls_equal })
    }

    /// Are they equal in every column?
    pub(super) fn equal(&self, left: usize, right: usize) -> bool {
        (0..self.comparators.len()).all(|c| match (self.left[c].is_null(left), self.right[c].is_null(right)) {
            (true, true) => self.nulls_equal,
            (false, false) => (self.comparators[c])(left, right) == Ordering::Equal,
            _ => false,
        })
    }

    /// Is any column of this row of the left NULL?
    pub(super) fn left_null(&self, row: usize) -> bool {
        self.left.iter().any(|c| c.is_null(row))
    }

    /// Is any column of this row of the right NULL?
    pub(super) fn right_null(&self, row: usize) -> bool {
        self.right.iter().any(|c| c.is_null(row))
    }
}
