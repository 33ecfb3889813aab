//! Operands of checked arithmetic, and the loop over their rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

/// One side of an operation: an array, or a scalar as an array of one row.
pub(super) struct Operand {
    pub array: ArrayRef,
    pub scalar: bool,
}

impl Operand {
    /// Of a value.
    pub fn new(value: &ColumnarValue) -> Result<Operand> {
        Ok(match value {
            ColumnarValue::Array(array) => Operand { array: Arc::clone(array), scalar: false },
            ColumnarValue::Scalar(scalar) => Operand { array: scalar.to_array()?, scalar: true },
        })
    }

    /// The row of the array that row `i` of the batch reads.
    pub fn row(&self, i: usize) -> usize {
        if self.scalar { 0 } else { i }
    }
}

/// The NULLs of the result, or `None` when a scalar NULL makes all of it NULL.
pub(super) fn union_nulls(left: &Operand, right: &Operand) -> Option<Option<NullBuffer>> {
    let side = |operand: &Operand| match operand.scalar {
        true if operand.array.null_count() > 0 => None,
        true => Some(None),
        false => Some(operand.array.nulls().cloned()),
    };
    let l = side(left)?;
    let r = side(right)?;
    Some(NullBuffer::union(l.as_ref(), r.as_ref()))
}

/// Runs `f` over all rows and returns the results; when any row of them was bad and not NULL, its number instead.
/// `f` is total: for a bad row it returns any value and `true`.
pub(super) fn flagged<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    left: &Operand,
    right: &Operand,
    rows: usize,
    nulls: Option<&NullBuffer>,
    f: impl Fn(I::Native, I::Native) -> (O::Native, bool),
) -> Result<Vec<O::Native>, usize> {
    let l = left.array.as_primitive::<I>().values();
    let r = right.array.as_primitive::<I>().values();
    let mut out = Vec::with_capacity(rows);
    let mut bad = false;
    let mut keep = |(value, overflow): (O::Native, bool)| {
        bad |= overflow;
        value
    };
    match (left.scalar, right.scalar) {
        (false, false) => out.extend(l.iter().zip(r.iter()).map(|(&a, &b)| keep(f(a, b)))),
        (false, true) => {
            let b = r[0];
            out.extend(l.iter().map(|&a| keep(f(a, b))));
        }
        (true, false) => {
            let a = l[0];
            out.extend(r.iter().map(|&b| keep(f(a, b))));
        }
        (true, true) => out.push(keep(f(l[0], r[0]))),
    }
    if bad {
        let found = (0..rows).find(|&i| nulls.is_none_or(|n| n.is_valid(i)) && f(l[left.row(i)], r[right.row(i)]).1);
        if let Some(row) = found {
            return Err(row);
        }
    }
    Ok(out)
}
