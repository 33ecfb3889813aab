//! The view of what tasks of a shape turned out to cost, beside what was expected of them: `nearside.task_shapes`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::Field;

use super::{decimals, field, flags, numbers, text};
use crate::error::Result;
use crate::plan::planner::Planner;
use crate::run::config;
use crate::run::inner::Inner;
use crate::run::scheduling;

/// Its columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        field::text("shape"),
        field::number("tasks"),
        field::decimal("bytes_ratio"),
        field::decimal("time_ratio"),
        field::decimal("bytes_per_us"),
        field::flag("memory_intensive"),
    ]
}

/// A row per shape. What is memory-intensive the session's settings say.
///
/// # Errors
/// Settings that are none.
pub(super) fn task_shapes(inner: &Arc<Inner>, planner: &Planner) -> Result<Vec<ArrayRef>> {
    let options = config::nearside(planner.config_options());
    let machine = inner.threshold.known().unwrap_or(0);
    let threshold = f64::from(scheduling::settings(&options, machine)?.memory_intensive_bytes_per_us);
    let all = inner.traffic.feedback().shapes();
    Ok(vec![
        text(all.iter().map(|shape| Some(&shape.shape))),
        numbers(all.iter().map(|shape| shape.tasks)),
        decimals(all.iter().map(|shape| shape.bytes_ratio)),
        decimals(all.iter().map(|shape| shape.time_ratio)),
        Arc::new(all.iter().map(|shape| shape.bytes_per_us).collect::<Float64Array>()),
        flags(all.iter().map(|shape| threshold > 0.0 && shape.bytes_per_us.is_some_and(|rate| rate >= threshold))),
    ])
}
