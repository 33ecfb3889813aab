//! Views of small writes: what units did, and what tables hold that is not merged (`nearside.units`,
//! `nearside.deltas`).

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::Field;
use storage::Deltas;

use super::{field, flags, ids, known_numbers, numbers, text};
use crate::catalog::merges::MergeReport;
use crate::catalog::{CatalogState, TableEntry};
use crate::run::inner::Inner;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    match view {
        super::UNITS => {
            vec![field::id("unit"), field::id("node"), field::number("commands"), field::number("keys")]
        }
        _ => vec![
            field::text("schema"),
            field::text("table"),
            field::number("statements"),
            field::number("rows"),
            field::number("live_rows"),
            field::number("dead_base_rows"),
            field::number("bytes"),
            field::number("key_bytes"),
            field::flag("merging"),
            field::flag("compacting"),
            field::number("merges"),
            field::number("last_merge_rows"),
            field::decimal("last_merge_ms"),
            field::text("last_failure"),
        ],
    }
}

/// A row per unit; none before a statement needed units.
pub(super) fn units(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let counts = inner.catalog.known_units().map(|units| units.counts()).unwrap_or_default();
    vec![
        ids((0..counts.len()).map(|unit| Some(unit as u32))),
        ids(counts.iter().map(|unit| unit.node.map(|node| node.0))),
        numbers(counts.iter().map(|unit| unit.commands)),
        numbers(counts.iter().map(|unit| unit.keys)),
    ]
}

/// A row per table that has a delta, or whose delta was merged beside its statements.
pub(super) fn deltas(catalog: &CatalogState) -> Vec<ArrayRef> {
    let all: Vec<(&TableEntry, MergeReport)> = catalog
        .tables()
        .map(|table| (table.as_ref(), table.meta.merges.report()))
        .filter(|(table, merges)| table.delta.is_some() || merges.done > 0)
        .collect();
    let key_bytes = |objects: &[units::store::Keyed]| objects.iter().map(|object| object.used_bytes()).sum::<u64>();
    let of_delta = |of: fn(&Deltas) -> u64| {
        numbers(all.iter().map(|(table, _)| table.delta.as_ref().map_or(0, |delta| of(&delta.rows))))
    };
    let keys = |table: &TableEntry| table.delta.as_ref().map_or(0, |delta| key_bytes(&delta.keys.objects));
    let last_ms = all.iter().map(|(_, merges)| merges.last_time.map(|time| time.as_secs_f64() * 1e3));
    vec![
        text(all.iter().map(|(table, _)| Some(&table.name.schema))),
        text(all.iter().map(|(table, _)| Some(&table.name.table))),
        of_delta(|delta| delta.entries() as u64),
        of_delta(|delta| delta.rows() as u64),
        of_delta(|delta| delta.live_rows() as u64),
        of_delta(|delta| delta.dead_base_rows() as u64),
        of_delta(Deltas::bytes),
        numbers(all.iter().map(|(table, _)| keys(table))),
        flags(all.iter().map(|(_, merges)| merges.is_merging)),
        flags(all.iter().map(|(_, merges)| merges.is_compacting)),
        numbers(all.iter().map(|(_, merges)| merges.done)),
        known_numbers(all.iter().map(|(_, merges)| merges.last_rows)),
        Arc::new(last_ms.collect::<Float64Array>()),
        text(all.iter().map(|(_, merges)| merges.failure.as_ref())),
    ]
}
