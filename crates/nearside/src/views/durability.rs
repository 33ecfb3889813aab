//! The view of what is on the disk: `nearside.durability`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray};
use arrow::datatypes::Field;

use super::{field, known_numbers, numbers, text};
use crate::catalog::journal::{JournalStatus, MadeCheckpoint};
use crate::run::inner::Inner;

type Moments = TimestampMicrosecondArray;

/// Its columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        field::text("folder"),
        field::number("last_record"),
        field::number("durable_record"),
        field::number("checkpoint_record"),
        field::number("log_bytes"),
        field::number("syncs"),
        field::moment("checkpoint_at"),
        field::number("checkpoint_files"),
        field::number("checkpoint_bytes"),
        field::decimal("checkpoint_seconds"),
        field::moment("restorable_from"),
        field::number("history_bytes"),
        field::number("unread_columns"),
        field::text("error"),
    ]
}

/// A row where the database has a folder.
pub(super) fn durability(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all: Vec<JournalStatus> = inner.catalog.journal().map(|journal| journal.status()).into_iter().collect();
    let made = || all.iter().map(|status| status.checkpoint.as_ref());
    let at = |made: Option<&MadeCheckpoint>| made.map(|made| made.at.timestamp_micros());
    let at: Moments = made().map(at).collect();
    let seconds: Float64Array = made().map(|made| made.map(|made| made.elapsed.as_secs_f64())).collect();
    vec![
        text(all.iter().map(|status| Some(&status.path))),
        numbers(all.iter().map(|status| status.last)),
        numbers(all.iter().map(|status| status.durable)),
        numbers(all.iter().map(|status| status.checkpointed)),
        numbers(all.iter().map(|status| status.log_bytes)),
        numbers(all.iter().map(|status| status.syncs)),
        Arc::new(at),
        known_numbers(made().map(|made| made.map(|made| made.files as u64))),
        known_numbers(made().map(|made| made.map(|made| made.bytes))),
        Arc::new(seconds),
        Arc::new(all.iter().map(|status| Some(status.restorable_from.timestamp_micros())).collect::<Moments>()),
        numbers(all.iter().map(|status| status.history_bytes)),
        numbers(all.iter().map(|status| status.unread_columns)),
        text(all.iter().map(|status| status.stopped.as_ref())),
    ]
}
