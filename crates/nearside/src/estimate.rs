//! How many rows a native plan gives, and what is known of its columns, from dictionaries: nothing is read.
//!
//! Comparisons are estimated by the share of a dictionary's entries that pass, as if entries were equally frequent; what
//! cannot be estimated passes a fifth. Distinct counts of affine dictionaries are upper bounds.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use exec::{CompareOp, Output, Plan, Predicate};
use storage::{Column, TableVersion};

/// The share of rows that a predicate of unknown effect lets pass.
const UNKNOWN_SHARE: f64 = 0.2;

/// Statistics of the plan's output, for DataFusion's choice of join sides.
pub(crate) fn estimate(plan: &Plan) -> Statistics {
    let (rows, columns) = walk(plan);
    let schema = plan.schema();
    let mut statistics = Statistics::new_unknown(&schema);
    statistics.num_rows = match is_guess(plan) {
        true => Precision::Inexact(rows.ceil() as usize),
        false => Precision::Exact(rows as usize),
    };
    let width: u64 = schema.fields().iter().map(|f| f.data_type().primitive_width().unwrap_or(24) as u64).sum();
    statistics.total_byte_size = Precision::Inexact((rows * width as f64) as usize);
    for (i, origin) in columns.iter().enumerate() {
        if let (Some((snapshot, column)), Some(slot)) = (origin, statistics.column_statistics.get_mut(i)) {
            *slot = column_statistics(snapshot, *column);
        }
    }
    statistics
}

type Origin<'a> = Option<(&'a TableVersion, usize)>;

/// Estimated rows, and for each output column the stored column that it is.
fn walk(plan: &Plan) -> (f64, Vec<Origin<'_>>) {
    match plan {
        Plan::Scan { snapshot, columns, .. } => {
            let origins =
                columns.iter().map(|&c| (c < snapshot.schema.fields().len()).then_some((snapshot.as_ref(), c)));
            (snapshot.rows() as f64, origins.collect())
        }
        Plan::Filter { input, predicate } => {
            let (rows, origins) = walk(input);
            (rows * share(predicate, &origins), origins)
        }
        Plan::Project { input, outputs } => {
            let (rows, origins) = walk(input);
            let outputs = outputs.iter().map(|o| match o {
                Output::Column { column, .. } => origins.get(*column).copied().flatten(),
                Output::Expression { .. } => None,
            });
            (rows, outputs.collect())
        }
        Plan::Limit { input, skip, fetch } => {
            let (rows, origins) = walk(input);
            let rows = (rows - *skip as f64).max(0.0);
            (fetch.map_or(rows, |f| rows.min(f as f64)), origins)
        }
        other => {
            let rows = exec::estimates(other).first().copied().unwrap_or_default();
            (rows, vec![None; other.schema().fields().len()])
        }
    }
}

fn is_guess(plan: &Plan) -> bool {
    let exact = matches!(plan, Plan::Scan { .. } | Plan::Project { .. } | Plan::Limit { .. } | Plan::Values { .. });
    !exact || plan.inputs().into_iter().any(is_guess)
}

fn share(predicate: &Predicate, origins: &[Origin<'_>]) -> f64 {
    let column = |c: &usize| origins.get(*c).copied().flatten().and_then(|(t, c)| largest(t, c));
    match predicate {
        Predicate::And(parts) => parts.iter().map(|p| share(p, origins)).product(),
        Predicate::Or(parts) => parts.iter().map(|p| share(p, origins)).sum::<f64>().min(1.0),
        Predicate::Not(inner) => 1.0 - share(inner, origins),
        Predicate::Compare { column: c, op, value } => {
            let Some(Column::Coded(coded)) = column(c) else { return UNKNOWN_SHARE };
            let dictionary = coded.dictionary();
            let entries = dictionary.len().max(1) as f64;
            let Ok(lower) = dictionary.lower_bound(value.as_ref()) else { return UNKNOWN_SHARE };
            let Ok(upper) = dictionary.upper_bound(value.as_ref()) else { return UNKNOWN_SHARE };
            match op {
                CompareOp::Eq => f64::from(upper.saturating_sub(lower)) / entries,
                CompareOp::NotEq => 1.0 - f64::from(upper.saturating_sub(lower)) / entries,
                CompareOp::Lt => f64::from(lower) / entries,
                CompareOp::LtEq => f64::from(upper) / entries,
                CompareOp::Gt => 1.0 - f64::from(upper) / entries,
                CompareOp::GtEq => 1.0 - f64::from(lower) / entries,
            }
        }
        Predicate::In { column: c, values, negated } => {
            let Some(Column::Coded(coded)) = column(c) else { return UNKNOWN_SHARE };
            let found = (values.len() as f64 / coded.dictionary().len().max(1) as f64).min(1.0);
            if *negated { 1.0 - found } else { found }
        }
        Predicate::IsNull { negated, .. } => {
            if *negated {
                0.95
            } else {
                0.05
            }
        }
        Predicate::Boolean(_) => UNKNOWN_SHARE,
    }
}

/// The column of the table's largest segment: it speaks for the others.
fn largest(table: &TableVersion, column: usize) -> Option<&Column> {
    let segments = table.parts.iter().flat_map(|p| p.segments.iter());
    let largest = segments.max_by_key(|s| s.segment.rows())?;
    largest.segment.columns().get(column).map(|c| c.as_ref())
}

fn column_statistics(table: &TableVersion, column: usize) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let segments = table.parts.iter().map(|p| p.segments.len()).sum::<usize>();
    let Some(Column::Coded(coded)) = largest(table, column) else { return statistics };
    let dictionary = coded.dictionary();
    let entries = dictionary.len();
    if entries == 0 || segments > 8 {
        return statistics;
    }
    statistics.distinct_count = Precision::Inexact(entries.min(table.rows()));
    // With one dictionary for all segments the ends are the bounds; they stay bounds when a filter narrows them.
    let last = (entries - 1) as u32;
    if segments == 1
        && let Ok(low) = ScalarValue::try_from_array(&dictionary.values(0..1), 0)
        && let Ok(high) = ScalarValue::try_from_array(&dictionary.values(last..last + 1), 0)
    {
        statistics.min_value = Precision::Inexact(low);
        statistics.max_value = Precision::Inexact(high);
    }
    statistics
}
