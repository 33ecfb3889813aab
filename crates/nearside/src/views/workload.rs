//! The views of statements by kind: `nearside.workload`, `nearside.admission`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;

use super::{decimals, field, numbers, pairs, text};
use crate::run::inner::Inner;
use crate::run::recording::StatementKind;

/// Its columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        field::text("sql"),
        field::number("statements"),
        field::number("rows"),
        field::number("tasks"),
        field::decimal("cpu_seconds"),
        field::decimal("seconds"),
        field::number("bytes"),
        field::text("bytes_by_column"),
    ]
}

/// A row per kind of statement, all figures summed over its statements.
pub(super) fn workload(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.recorder.workload().statements;
    // Tables and columns, as the other views write pairs.
    let by_column = |kind: &StatementKind| {
        pairs(kind.bytes.iter().map(|((table, column), bytes)| (format!("{table}.{column}"), bytes)))
    };
    vec![
        text(all.iter().map(|kind| Some(&kind.sql))),
        numbers(all.iter().map(|kind| kind.count)),
        numbers(all.iter().map(|kind| kind.rows)),
        numbers(all.iter().map(|kind| kind.tasks)),
        decimals(all.iter().map(|kind| kind.cpu.as_secs_f64())),
        decimals(all.iter().map(|kind| kind.elapsed.as_secs_f64())),
        numbers(all.iter().map(|kind| kind.bytes.values().sum())),
        text(all.iter().map(|kind| Some(by_column(kind)))),
    ]
}

/// The columns of `nearside.admission`.
pub(super) fn admission_fields() -> Vec<Field> {
    vec![
        field::text("sql"),
        field::number("statements"),
        field::decimal("cpu_seconds"),
        field::decimal("waiting_share"),
        field::decimal("moving_share"),
        field::decimal("sequential_share"),
        field::decimal("alone_seconds"),
    ]
}

/// A row per kind of query that the model knows.
pub(super) fn admission(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.admission.known();
    vec![
        text(all.iter().map(|kind| Some(&kind.sql))),
        numbers(all.iter().map(|kind| kind.runs)),
        decimals(all.iter().map(|kind| kind.job.t_s)),
        decimals(all.iter().map(|kind| kind.job.q)),
        decimals(all.iter().map(|kind| kind.job.hidden)),
        decimals(all.iter().map(|kind| kind.job.sequential)),
        decimals(all.iter().map(|kind| kind.alone_s)),
    ]
}
