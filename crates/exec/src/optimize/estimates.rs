//! Estimates of operators that have no statistics of their own: limits, sorts, windows and unions.

use super::cardinality::{ColumnEstimate, Estimate};
use super::cost;

/// After LIMIT.
pub(super) fn limited(mut input: Estimate, skip: usize, fetch: Option<usize>) -> Estimate {
    let left = (input.rows - skip as f64).max(0.0);
    input.rows = fetch.map_or(left, |f| left.min(f as f64));
    input.base_rows = input.rows;
    // Its rows are chosen before anybody above can say which are of use.
    input.cost = cost::Cost { fixed: input.cost.total(), work: input.rows };
    input
}

/// After a sort.
pub(super) fn sorted(mut input: Estimate, fetch: Option<usize>) -> Estimate {
    let steps = fetch.map_or(input.rows, |f| f as f64).max(2.0).log2();
    input.cost.work += input.rows * cost::SORT_STEP * steps;
    match fetch {
        Some(fetch) => limited(input, 0, Some(fetch)),
        None => input,
    }
}

/// After functions over the rows around each row.
pub(super) fn windowed(input: Estimate, calls: usize) -> Estimate {
    let mut windowed = sorted(input, None);
    let column = ColumnEstimate { choices: windowed.rows.max(1.0), bounds: None, nullable: true, aggregate: false };
    windowed.columns.resize(windowed.columns.len() + calls, column);
    windowed.cost.work += windowed.rows * cost::ROW * calls as f64;
    // Every row is kept before the first one comes out.
    windowed.cost = cost::Cost { fixed: windowed.cost.total(), work: windowed.rows * cost::ROW };
    windowed
}

/// Of several inputs.
pub(super) fn united<'a>(mut inputs: impl Iterator<Item = &'a Estimate>) -> Estimate {
    let mut all = inputs.next().cloned().unwrap_or_else(|| Estimate::of_rows(0.0, 0));
    for input in inputs {
        all.rows += input.rows;
        all.base_rows += input.base_rows;
        all.cost.fixed += input.cost.fixed;
        all.cost.work += input.cost.work;
        for (column, other) in all.columns.iter_mut().zip(&input.columns) {
            column.choices = column.choices.max(other.choices);
            column.nullable |= other.nullable;
            column.aggregate |= other.aggregate;
            column.bounds = match (column.bounds, other.bounds) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                _ => None,
            };
        }
    }
    all
}
