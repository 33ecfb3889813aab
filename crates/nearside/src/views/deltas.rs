//! Views of small writes: what units did, and what tables hold that is not merged (`nearside.units`,
//! `nearside.deltas`).

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;

use super::{field, ids, numbers, text};
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

/// A row per table that has a delta.
pub(super) fn deltas(catalog: &CatalogState) -> Vec<ArrayRef> {
    let all: Vec<(&TableEntry, _)> =
        catalog.tables().filter_map(|table| Some((table.as_ref(), table.delta.as_ref()?))).collect();
    let key_bytes = |objects: &[units::store::Keyed]| objects.iter().map(|object| object.used_bytes()).sum::<u64>();
    vec![
        text(all.iter().map(|(table, _)| Some(&table.name.schema))),
        text(all.iter().map(|(table, _)| Some(&table.name.table))),
        numbers(all.iter().map(|(_, delta)| delta.rows.entries() as u64)),
        numbers(all.iter().map(|(_, delta)| delta.rows.rows() as u64)),
        numbers(all.iter().map(|(_, delta)| delta.rows.live_rows() as u64)),
        numbers(all.iter().map(|(_, delta)| delta.rows.dead_base_rows() as u64)),
        numbers(all.iter().map(|(_, delta)| delta.rows.bytes())),
        numbers(all.iter().map(|(_, delta)| key_bytes(&delta.keys.objects))),
    ]
}
