//! Views of what the placer decided: all of it, and what it would do.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray};
use arrow::datatypes::Field;

use super::{decimals, field, numbers, text};
use crate::run::inner::Inner;
use crate::run::placer_log::{Entry, Line, Outcome};

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    let of_entry = [
        field::number("number"),
        field::moment("at"),
        field::text("schema"),
        field::text("table"),
        field::text("column"),
        field::text("from_placement"),
        field::text("to_placement"),
        field::text("why"),
        field::number("bytes"),
        field::decimal("predicted_gain"),
    ];
    let of_log = [field::decimal("achieved_gain"), field::text("outcome"), field::text("error")];
    match view {
        super::ADVICE => of_entry.into(),
        _ => of_entry.into_iter().chain(of_log).collect(),
    }
}

/// A row per decision, and one for each time that the placer began anew.
pub(super) fn log(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let lines = inner.placer.log.all();
    let mut columns = of_entries(&lines);
    columns.push(Arc::new(lines.iter().map(|line| line.achieved).collect::<Float64Array>()));
    columns.push(text(lines.iter().map(|line| Some(line.outcome.text()))));
    columns.push(text(lines.iter().map(|line| line.outcome.error())));
    columns
}

/// The last decision about each column, where nothing came of it.
pub(super) fn advice(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let mut lines = inner.placer.log.all();
    let item = |line: &Line| line.entry.as_ref().map(|entry| entry.item);
    let last: Vec<u64> = lines
        .iter()
        .filter(|line| {
            let is_later = |other: &&Line| other.number > line.number && item(other) == item(line);
            item(line).is_some() && line.outcome == Outcome::Advised && !lines.iter().any(|other| is_later(&other))
        })
        .map(|line| line.number)
        .collect();
    lines.retain(|line| last.contains(&line.number));
    of_entries(&lines)
}

fn of_entries(lines: &[Line]) -> Vec<ArrayRef> {
    let entries = || lines.iter().map(|line| line.entry.as_ref());
    let at = lines.iter().map(|line| Some(line.at.timestamp_micros()));
    let of = |of: fn(&Entry) -> String| text(entries().map(|entry| entry.map(of)));
    let to = |entry: &Entry| entry.to.as_ref().map_or_else(String::new, ToString::to_string);
    vec![
        numbers(lines.iter().map(|line| line.number)),
        Arc::new(at.collect::<TimestampMicrosecondArray>()),
        of(|entry| entry.table.schema.clone()),
        of(|entry| entry.table.table.clone()),
        of(|entry| entry.column.clone()),
        of(|entry| entry.from_text.clone()),
        of(to),
        text(lines.iter().map(|line| Some(&line.why))),
        numbers(entries().map(|entry| entry.map_or(0, |entry| entry.bytes))),
        decimals(entries().map(|entry| entry.map_or(1.0, |entry| entry.predicted))),
    ]
}
