//! Views of keyed objects, the unique indexes of tables with small writes: what each unit has of them
//! (`nearside.partitions`), which unit has which keys (`nearside.routing`), and what moved (`nearside.balancing`).
//!
//! Keys are those that units have: 64 bits that stand for the values of the index's columns.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::Field;
use units::store::{Cycle, Keyed};

use super::{decimals, field, ids, numbers, text};
use crate::catalog::index::IndexEntry;
use crate::catalog::{CatalogState, TableEntry};
use crate::run::inner::Inner;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    let mut fields = vec![field::text("schema"), field::text("table"), field::text("index"), field::id("object")];
    match view {
        super::PARTITIONS => fields.extend([
            field::id("unit"),
            field::id("node"),
            field::number("ranges"),
            field::word("first_key"),
            field::word("last_key"),
            field::number("keys"),
            field::number("bytes"),
            field::number("accesses"),
            field::decimal("mean_execution_ns"),
        ]),
        super::ROUTING => fields.extend([
            field::number("version"),
            field::number("replicas"),
            field::id("range"),
            field::word("first_key"),
            field::word("last_key"),
            field::id("unit"),
            field::id("node"),
        ]),
        _ => {
            fields.insert(0, field::moment("at"));
            fields.extend([
                field::text("algorithm"),
                field::decimal("deviation"),
                field::number("ranges"),
                field::number("keys"),
                field::number("linked_ranges"),
                field::number("copied_ranges"),
                field::decimal("seconds"),
                field::text("error"),
            ]);
        }
    }
    fields
}

/// A keyed object, and the index of a table that it is of.
type Object<'a> = (&'a TableEntry, &'a IndexEntry, &'a Keyed);

fn objects(catalog: &CatalogState) -> impl Iterator<Item = Object<'_>> {
    let with_delta = catalog.tables().filter_map(|table| Some((table.as_ref(), table.delta.as_ref()?)));
    with_delta.flat_map(|(table, delta)| {
        table.unique_indexes().zip(&delta.keys.objects).map(move |(index, keyed)| (table, index, keyed))
    })
}

/// The columns that name the object of each row.
fn names<T>(rows: &[(Object<'_>, T)]) -> Vec<ArrayRef> {
    vec![
        text(rows.iter().map(|((table, ..), _)| Some(&table.name.schema))),
        text(rows.iter().map(|((table, ..), _)| Some(&table.name.table))),
        text(rows.iter().map(|((_, index, _), _)| Some(&index.name))),
        ids(rows.iter().map(|((.., keyed), _)| Some(keyed.id().0))),
    ]
}

fn words(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

/// A row per object and unit that has a partition of it.
pub(super) fn partitions(catalog: &CatalogState) -> Vec<ArrayRef> {
    let rows: Vec<_> =
        objects(catalog).flat_map(|object| object.2.partitions().into_iter().map(move |of| (object, of))).collect();
    let mean = rows.iter().map(|(_, of)| of.time_per_key.map(|time| time.as_nanos() as f64));
    let mut columns = names(&rows);
    columns.extend([
        ids(rows.iter().map(|(_, of)| Some(of.unit as u32))),
        ids(rows.iter().map(|(_, of)| of.node.map(|node| node.0))),
        numbers(rows.iter().map(|(_, of)| of.ranges as u64)),
        words(rows.iter().map(|(_, of)| of.first_key)),
        words(rows.iter().map(|(_, of)| of.last_key)),
        numbers(rows.iter().map(|(_, of)| of.pairs)),
        numbers(rows.iter().map(|(_, of)| of.bytes)),
        numbers(rows.iter().map(|(_, of)| of.accesses)),
        Arc::new(mean.collect::<Float64Array>()),
    ]);
    columns
}

/// A row per object and range of its routing table.
pub(super) fn routing(catalog: &CatalogState) -> Vec<ArrayRef> {
    let mut rows = Vec::new();
    for object in objects(catalog) {
        let table = object.2.routing();
        let number = |(range, of)| (object, (table.version, table.replicas as u64, range, of));
        rows.extend(table.ranges.into_iter().enumerate().map(number));
    }
    let mut columns = names(&rows);
    columns.extend([
        numbers(rows.iter().map(|(_, (version, ..))| *version)),
        numbers(rows.iter().map(|(_, (_, replicas, ..))| *replicas)),
        ids(rows.iter().map(|(_, (_, _, range, _))| Some(*range as u32))),
        words(rows.iter().map(|(_, (.., of))| Some(of.first))),
        words(rows.iter().map(|(_, (.., of))| Some(of.last))),
        ids(rows.iter().map(|(_, (.., of))| Some(of.unit as u32))),
        ids(rows.iter().map(|(_, (.., of))| of.node.map(|node| node.0))),
    ]);
    columns
}

/// A row per cycle that moved something or failed, with the names that the object had when it began.
pub(super) fn balancing(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let cycles = inner.catalog.known_units().map(|units| units.balancing()).unwrap_or_default();
    let at = |cycle: &Cycle| cycle.at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_micros() as i64);
    let linked = |cycle: &Cycle| cycle.moved.iter().filter(|moved| moved.linked).count() as u64;
    vec![
        Arc::new(cycles.iter().map(at).collect::<TimestampMicrosecondArray>()),
        text(cycles.iter().map(|cycle| cycle.name.first())),
        text(cycles.iter().map(|cycle| cycle.name.get(1))),
        text(cycles.iter().map(|cycle| cycle.name.get(2))),
        ids(cycles.iter().map(|cycle| Some(cycle.object.0))),
        text(cycles.iter().map(|cycle| Some(cycle.algorithm.to_string()))),
        Arc::new(cycles.iter().map(|cycle| cycle.deviation).collect::<Float64Array>()),
        numbers(cycles.iter().map(|cycle| cycle.moved.len() as u64)),
        numbers(cycles.iter().map(|cycle| cycle.pairs())),
        numbers(cycles.iter().map(linked)),
        numbers(cycles.iter().map(|cycle| cycle.moved.len() as u64 - linked(cycle))),
        decimals(cycles.iter().map(|cycle| cycle.took.as_secs_f64())),
        text(cycles.iter().map(|cycle| cycle.failure.as_ref())),
    ]
}
