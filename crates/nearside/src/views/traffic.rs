//! The view of what tasks touched, of what, and from which node to which: `nearside.traffic`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;

use super::{decimals, field, ids, numbers, text};
use crate::run::inner::Inner;

/// Its columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        field::text("table"),
        field::text("column"),
        field::id("part"),
        field::text("component"),
        field::text("phase"),
        field::id("from_node"),
        field::id("to_node"),
        field::number("bytes"),
        field::number("tasks"),
        field::decimal("busy_seconds"),
    ]
}

/// A row per item, phase and pair of nodes, over all statements that ended.
pub(super) fn traffic(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.traffic.lines();
    vec![
        text(all.iter().map(|line| Some(&line.table))),
        text(all.iter().map(|line| line.column.as_ref())),
        ids(all.iter().map(|line| line.column.as_ref().map(|_| line.part))),
        text(all.iter().map(|line| Some(line.component.name()))),
        text(all.iter().map(|line| Some(line.phase.name()))),
        ids(all.iter().map(|line| Some(line.from.0))),
        ids(all.iter().map(|line| line.to.map(|node| node.0))),
        numbers(all.iter().map(|line| line.touched.bytes)),
        numbers(all.iter().map(|line| line.touched.tasks)),
        decimals(all.iter().map(|line| line.touched.busy_ns as f64 / 1e9)),
    ]
}
