//! Transactions over several statements that are open: `nearside.transactions`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray};
use arrow::datatypes::Field;

use super::{field, flags, known_numbers, numbers, text};
use crate::catalog::transactions::{Activity, TransactionReport};
use crate::run::inner::Inner;

/// Its columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        field::number("id"),
        field::moment("began_at"),
        field::decimal("age_seconds"),
        field::text("level"),
        field::flag("read_only"),
        field::text("state"),
        field::text("statement"),
        field::number("written_rows"),
        field::number("waits_for"),
    ]
}

/// A row for each, the oldest first.
pub(super) fn transactions(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.transactions.report();
    let began: TimestampMicrosecondArray = all.iter().map(|open| Some(open.began.timestamp_micros())).collect();
    let age: Float64Array = all.iter().map(|open| Some(open.age.as_secs_f64())).collect();
    let statement = |open: &TransactionReport| match &open.activity {
        Activity::Running(statement) => Some(statement.clone()),
        Activity::Idle(_) => None,
    };
    vec![
        numbers(all.iter().map(|open| open.id)),
        Arc::new(began),
        Arc::new(age),
        text(all.iter().map(|open| Some(open.level.name()))),
        flags(all.iter().map(|open| open.is_read_only)),
        text(all.iter().map(|open| Some(state(open)))),
        text(all.iter().map(statement)),
        numbers(all.iter().map(|open| open.written_rows)),
        known_numbers(all.iter().map(|open| open.waits_for)),
    ]
}

/// What it does.
fn state(open: &TransactionReport) -> &'static str {
    match (&open.activity, open.has_failed, open.waits_for) {
        (_, _, Some(_)) => "waiting",
        (_, true, _) => "failed",
        (Activity::Running(_), ..) => "running",
        (Activity::Idle(_), ..) => "idle",
    }
}
