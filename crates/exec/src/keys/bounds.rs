//! The smallest and the largest of a column's values.

use crate::chunk::vector::{ColumnInfo, Data, Vector, integer_bounds};

/// Bounds that are close enough: those known of the column, or those of its values where these are few for so wide a
/// range.
pub(crate) fn tight_bounds(info: &ColumnInfo, vector: &Vector) -> Option<(i64, i64)> {
    match info.bounds() {
        Some((low, high)) if (high.wrapping_sub(low) as u64) < (4 * vector.len() as u64).max(1 << 12) => {
            Some((low, high))
        }
        _ => bounds(vector),
    }
}

/// Smallest and largest value; `None` where some do not fit in 64 bits.
fn bounds(vector: &Vector) -> Option<(i64, i64)> {
    match &vector.data {
        Data::Arrow(array) => integer_bounds(array.as_ref()),
        Data::Int(values) => {
            let bounds = match &vector.valid {
                None => values.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v))),
                Some(valid) => values.iter().zip(valid).fold((i64::MAX, i64::MIN), |(low, high), (&v, &valid)| {
                    if valid { (low.min(v), high.max(v)) } else { (low, high) }
                }),
            };
            Some(if bounds.0 > bounds.1 { (0, 0) } else { bounds })
        }
        _ => None,
    }
}
