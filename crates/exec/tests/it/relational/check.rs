//! Comparing what the engine gives with what the reference gives.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, RecordBatch, UInt32Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use arrow::util::pretty::pretty_format_batches;
use exec::{Plan, Sort, SortKey};

use crate::support::expected;

/// What is to be expected of a plan's rows.
pub enum Expected {
    /// These, in any order.
    Rows(RecordBatch),
    /// These, in any order, sorted by some keys.
    Sorted(RecordBatch, Vec<SortKey>),
    /// `n` of these.
    Some(RecordBatch, usize),
    /// Rows of the first with the keys of the second, in that order.
    Top(RecordBatch, RecordBatch, Vec<SortKey>),
}

impl Expected {
    /// What the reference says. `Err` where it fails: the engine may then do what it likes, but panic.
    pub fn of(plan: &Plan) -> Result<Expected, exec::ExecError> {
        Ok(match plan {
            Plan::Limit { input, skip, fetch } => {
                let all = expected(input)?;
                let rows = all.num_rows().saturating_sub(*skip).min(fetch.unwrap_or(usize::MAX));
                Expected::Some(all, rows)
            }
            Plan::Sort(sort) => match sort.fetch {
                None => Expected::Sorted(expected(plan)?, sort.keys.clone()),
                Some(_) => {
                    let whole = Plan::Sort(Box::new(Sort { fetch: None, ..sort.as_ref().clone() }));
                    Expected::Top(expected(&whole)?, expected(plan)?, sort.keys.clone())
                }
            },
            _ => Expected::Rows(expected(plan)?),
        })
    }

    /// What is wrong with these rows, if anything is.
    pub fn problem(&self, got: &RecordBatch) -> Option<String> {
        match self {
            Expected::Rows(rows) => difference(rows, got, true),
            Expected::Sorted(rows, keys) => difference(rows, got, true).or_else(|| unsorted(got, keys)),
            Expected::Some(rows, count) => wrong_count(*count, got).or_else(|| difference(rows, got, false)),
            Expected::Top(rows, first, keys) => wrong_count(first.num_rows(), got)
                .or_else(|| unsorted(got, keys))
                .or_else(|| difference(rows, got, false))
                .or_else(|| {
                    let columns: Vec<usize> = keys.iter().map(|k| k.column).collect();
                    difference(&first.project(&columns).unwrap(), &got.project(&columns).unwrap(), true)
                }),
        }
    }
}

fn wrong_count(expected: usize, got: &RecordBatch) -> Option<String> {
    (got.num_rows() != expected).then(|| format!("{} rows instead of {expected}", got.num_rows()))
}

/// -0.0 and every NaN in one way: either is a right answer where a group has both.
fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().iter().map(|v| v.map(one)).collect::<Float64Array>())
        }
        DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().iter().map(|v| v.map(one)).collect::<Float32Array>())
        }
        _ => array.clone(),
    }
}

/// Each row as bytes, and its number, by bytes.
fn rows(batch: &RecordBatch) -> Vec<(Vec<u8>, usize)> {
    if batch.num_columns() == 0 {
        return (0..batch.num_rows()).map(|row| (Vec::new(), row)).collect();
    }
    let columns: Vec<ArrayRef> = batch.columns().iter().map(canonical).collect();
    let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let bytes = RowConverter::new(fields).unwrap().convert_columns(&columns).unwrap();
    let mut rows: Vec<_> = bytes.iter().enumerate().map(|(row, bytes)| (bytes.as_ref().to_vec(), row)).collect();
    rows.sort();
    rows
}

/// The first rows that one has and the other has not, as multisets; with `all` neither may have more.
fn difference(expected: &RecordBatch, got: &RecordBatch, all: bool) -> Option<String> {
    let (want, have) = (rows(expected), rows(got));
    let (mut missing, mut surplus) = (Vec::new(), Vec::new());
    let (mut w, mut h) = (0, 0);
    while w < want.len() || h < have.len() {
        let order = match (want.get(w), have.get(h)) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Equal => (w, h) = (w + 1, h + 1),
            Ordering::Less => {
                missing.push(want[w].1 as u32);
                w += 1;
            }
            Ordering::Greater => {
                surplus.push(have[h].1 as u32);
                h += 1;
            }
        }
    }
    if surplus.is_empty() && (missing.is_empty() || !all) {
        return None;
    }
    let show = |from: &RecordBatch, rows: &[u32]| {
        let some = UInt32Array::from(rows[..rows.len().min(shown())].to_vec());
        let columns: Vec<ArrayRef> = from.columns().iter().map(|c| take(c.as_ref(), &some, None).unwrap()).collect();
        match columns.is_empty() {
            true => "(no columns)".to_string(),
            false => {
                pretty_format_batches(&[RecordBatch::try_new(from.schema(), columns).unwrap()]).unwrap().to_string()
            }
        }
    };
    Some(format!(
        "{} rows, {} expected; {} missing:\n{}\n{} too many:\n{}",
        have.len(),
        want.len(),
        missing.len(),
        show(expected, &missing),
        surplus.len(),
        show(got, &surplus)
    ))
}

/// Rows of a difference that are shown.
fn shown() -> usize {
    std::env::var("NEARSIDE_FUZZ_ROWS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

fn unsorted(batch: &RecordBatch, keys: &[SortKey]) -> Option<String> {
    let compare: Vec<_> = keys
        .iter()
        .map(|key| {
            let column = canonical(batch.column(key.column));
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            make_comparator(column.as_ref(), column.as_ref(), options).unwrap()
        })
        .collect();
    let behind = |row: usize| {
        let order = compare.iter().map(|c| c(row - 1, row)).find(|o| o.is_ne());
        order == Some(Ordering::Greater)
    };
    (1..batch.num_rows()).find(|&row| behind(row)).map(|row| format!("row {row} comes too late"))
}
