//! Joins as two nested loops.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;

use super::keys::{Equality, key_columns};
use super::{batch, truth};
use crate::ExecError;
use crate::plan::{Join, JoinKind, Side};

/// The join of all rows of both sides.
pub(super) fn join(
    operator: &Join,
    schema: &SchemaRef,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Result<RecordBatch, ExecError> {
    let pairs = matching_pairs(operator, left, right)?;
    let (mut left_matched, mut right_matched) = (vec![false; left.num_rows()], vec![false; right.num_rows()]);
    for &(l, r) in &pairs {
        (left_matched[l], right_matched[r]) = (true, true);
    }
    let side = |side: Side| match side {
        Side::Left => (left, &left_matched),
        Side::Right => (right, &right_matched),
    };
    let mut rows: Vec<(Option<usize>, Option<usize>)> = pairs.iter().map(|&(l, r)| (Some(l), Some(r))).collect();
    match operator.kind {
        JoinKind::Semi(s) | JoinKind::Anti(s) => {
            let (input, matched) = side(s);
            let wanted = matches!(operator.kind, JoinKind::Semi(_));
            let kept: Vec<usize> = (0..input.num_rows()).filter(|&r| matched[r] == wanted).collect();
            let kept = if operator.null_aware { not_in(operator, s, left, right, kept)? } else { kept };
            let ids: Vec<Option<usize>> = kept.into_iter().map(Some).collect();
            return batch(schema, columns(input, &ids)?, ids.len());
        }
        JoinKind::Mark(s) => {
            let (input, matched) = side(s);
            let mut columns = input.columns().to_vec();
            columns.push(Arc::new(BooleanArray::from(matched.clone())));
            return batch(schema, columns, input.num_rows());
        }
        JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full => {}
    }
    if matches!(operator.kind, JoinKind::Left | JoinKind::Full) {
        rows.extend((0..left.num_rows()).filter(|&l| !left_matched[l]).map(|l| (Some(l), None)));
    }
    if matches!(operator.kind, JoinKind::Right | JoinKind::Full) {
        rows.extend((0..right.num_rows()).filter(|&r| !right_matched[r]).map(|r| (None, Some(r))));
    }
    let (of_left, of_right): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let all = [columns(left, &of_left)?, columns(right, &of_right)?].concat();
    batch(schema, all, rows.len())
}

fn equality(operator: &Join, left: &RecordBatch, right: &RecordBatch) -> Result<Equality, ExecError> {
    let (on_left, on_right): (Vec<usize>, Vec<usize>) = operator.on.iter().copied().unzip();
    Equality::new(key_columns(left, &on_left), key_columns(right, &on_right), operator.nulls_equal)
}

/// Pairs of rows with equal keys for which the residual is TRUE.
fn matching_pairs(operator: &Join, left: &RecordBatch, right: &RecordBatch) -> Result<Vec<(usize, usize)>, ExecError> {
    let equality = equality(operator, left, right)?;
    let mut pairs = Vec::new();
    for l in 0..left.num_rows() {
        for r in 0..right.num_rows() {
            if equality.equal(l, r) && residual_holds(operator, left, right, l, r)? {
                pairs.push((l, r));
            }
        }
    }
    Ok(pairs)
}

fn residual_holds(
    operator: &Join,
    left: &RecordBatch,
    right: &RecordBatch,
    l: usize,
    r: usize,
) -> Result<bool, ExecError> {
    let Some(residual) = &operator.residual else { return Ok(true) };
    let pair: Vec<ArrayRef> =
        left.columns().iter().map(|c| c.slice(l, 1)).chain(right.columns().iter().map(|c| c.slice(r, 1))).collect();
    let pair = batch(&Arc::new(operator.pair_schema()), pair, 1)?;
    Ok(truth(residual, &pair, 0)? == Some(true))
}

/// NOT IN: of the kept side's rows without a match, those that are certain to have none. A row of the other side for
/// which the residual is not TRUE is not in the list.
fn not_in(
    operator: &Join,
    kept_side: Side,
    left: &RecordBatch,
    right: &RecordBatch,
    unmatched: Vec<usize>,
) -> Result<Vec<usize>, ExecError> {
    let equality = equality(operator, left, right)?;
    let others = if kept_side == Side::Left { right.num_rows() } else { left.num_rows() };
    let mut certain = Vec::new();
    for row in unmatched {
        let mut sure = true;
        for other in 0..others {
            let (l, r) = if kept_side == Side::Left { (row, other) } else { (other, row) };
            let unknown = equality.left_null(l) || equality.right_null(r);
            sure &= !(unknown && residual_holds(operator, left, right, l, r)?);
        }
        if sure {
            certain.push(row);
        }
    }
    Ok(certain)
}

/// Rows of a side; `None` is a row of NULLs.
fn columns(input: &RecordBatch, rows: &[Option<usize>]) -> Result<Vec<ArrayRef>, ExecError> {
    let rows: UInt32Array = rows.iter().map(|r| r.map(|r| r as u32)).collect();
    input.columns().iter().map(|c| Ok(take(c.as_ref(), &rows, None)?)).collect()
}
