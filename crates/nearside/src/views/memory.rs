//! Views of where memory lies: per component and node, per owner and node, and what changed it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};

use super::{flags, ids, numbers, text};
use crate::catalog::CatalogState;
use crate::database::Inner;
use crate::report;

/// Bytes of one page in the counts of `nearside.pages`.
const PAGE_BYTES: u64 = 4096;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let text = |name| field(name, DataType::Utf8View);
    let number = |name| field(name, DataType::Int64);
    let id = |name| field(name, DataType::UInt32);
    match view {
        super::PAGES => vec![
            text("schema"),
            text("table"),
            text("column"),
            id("part"),
            text("component"),
            id("node"),
            number("bytes"),
            number("pages"),
            field("measured", DataType::Boolean),
        ],
        super::MEMORY => vec![text("owner"), id("node"), text("kind"), number("bytes")],
        _ => vec![
            field("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
            text("schema"),
            text("table"),
            text("from_placement"),
            text("to_placement"),
            number("moved_bytes"),
            number("already_bytes"),
            number("copied_bytes"),
            number("rewritten_bytes"),
            number("stuck_bytes"),
            field("seconds", DataType::Float64),
            text("error"),
        ],
    }
}

pub(super) fn pages(catalog: &CatalogState) -> Vec<ArrayRef> {
    let all = report::pages(catalog);
    vec![
        text(all.iter().map(|p| Some(&p.schema))),
        text(all.iter().map(|p| Some(&p.table))),
        text(all.iter().map(|p| Some(&p.column))),
        ids(all.iter().map(|p| Some(p.part))),
        text(all.iter().map(|p| Some(p.component))),
        ids(all.iter().map(|p| p.node.map(|n| n.0))),
        numbers(all.iter().map(|p| p.bytes)),
        numbers(all.iter().map(|p| p.bytes.div_ceil(PAGE_BYTES))),
        flags(all.iter().map(|p| p.measured)),
    ]
}

pub(super) fn memory() -> Vec<ArrayRef> {
    let all = numa::usage();
    vec![
        text(all.iter().map(|u| Some(&u.owner))),
        ids(all.iter().map(|u| u.node.map(|n| n.0))),
        text(all.iter().map(|u| Some(u.kind.to_string()))),
        numbers(all.iter().map(|u| u.bytes)),
    ]
}

pub(super) fn changes(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.changes.all();
    let at = all.iter().map(|c| Some(c.at.timestamp_micros()));
    vec![
        Arc::new(at.collect::<TimestampMicrosecondArray>()),
        text(all.iter().map(|c| Some(&c.table.schema))),
        text(all.iter().map(|c| Some(&c.table.table))),
        text(all.iter().map(|c| Some(&c.from))),
        text(all.iter().map(|c| Some(&c.to))),
        numbers(all.iter().map(|c| c.report.placed.moved_bytes)),
        numbers(all.iter().map(|c| c.report.placed.already_bytes)),
        numbers(all.iter().map(|c| c.report.placed.copied_bytes)),
        numbers(all.iter().map(|c| c.report.rewritten_bytes)),
        numbers(all.iter().map(|c| c.report.placed.stuck_bytes)),
        Arc::new(all.iter().map(|c| Some(c.elapsed.as_secs_f64())).collect::<Float64Array>()),
        text(all.iter().map(|c| c.error.as_ref())),
    ]
}
