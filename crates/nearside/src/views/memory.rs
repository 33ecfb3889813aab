//! Views of where memory lies: per component and node, per owner and node, and what changed it.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use arrow::datatypes::Field;

use super::{decimals, field, flags, ids, numbers, text};
use crate::catalog::CatalogState;
use crate::catalog::report;
use crate::run::inner::Inner;

/// Bytes of one page in the counts of `nearside.pages`.
const PAGE_BYTES: u64 = 4096;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    match view {
        super::PAGES => vec![
            field::text("schema"),
            field::text("table"),
            field::text("column"),
            field::id("part"),
            field::text("component"),
            field::id("node"),
            field::number("bytes"),
            field::number("pages"),
            field::flag("measured"),
        ],
        super::MEMORY => vec![field::text("owner"), field::id("node"), field::text("kind"), field::number("bytes")],
        _ => vec![
            field::moment("at"),
            field::text("schema"),
            field::text("table"),
            field::text("from_placement"),
            field::text("to_placement"),
            field::number("moved_bytes"),
            field::number("already_bytes"),
            field::number("copied_bytes"),
            field::number("rewritten_bytes"),
            field::number("stuck_bytes"),
            field::decimal("seconds"),
            field::text("error"),
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
        decimals(all.iter().map(|c| c.elapsed.as_secs_f64())),
        text(all.iter().map(|c| c.error.as_ref())),
    ]
}
