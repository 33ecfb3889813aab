//! Views of keyed objects, the unique indexes of tables with small writes: what each unit has of them
//! (`nearside.partitions`), which unit has which keys (`nearside.routing`), and what moved (`nearside.balancing`).
//!
//! Keys are those that units have: 64 bits that stand for the values of the index's columns. Tables whose rows are in
//! units themselves have rows without an index: a unit's number is that of its part.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, Float64Array, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::Field;
use numa::NodeId;
use storage::{SegmentVersion, StoredColumn};
use units::store::{Cycle, Keyed, PartitionCounts, RoutedRange};

use super::{decimals, field, ids, known_numbers, numbers, text};
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

/// What a row is of: a table, and an index of it with its object, or its rows.
type Of<'a> = (&'a TableEntry, Option<(&'a IndexEntry, &'a Keyed)>);

/// The columns that name what each row is of.
fn names<T>(rows: &[(Of<'_>, T)]) -> Vec<ArrayRef> {
    vec![
        text(rows.iter().map(|((table, _), _)| Some(&table.name.schema))),
        text(rows.iter().map(|((table, _), _)| Some(&table.name.table))),
        text(rows.iter().map(|((_, of), _)| Some(&of.as_ref()?.0.name))),
        ids(rows.iter().map(|((_, of), _)| Some(of.as_ref()?.1.id().0))),
    ]
}

/// What a unit has of an index's keys or of a table's rows.
struct UnitPart {
    unit: u32,
    node: Option<NodeId>,
    keys: u64,
    bytes: u64,
    /// Of an index's keys.
    counts: Option<PartitionCounts>,
}

/// What the units have of tables whose rows are in them: units that have none are left out, as the bitmap partition
/// table leaves them out.
fn rows_in_units(catalog: &CatalogState) -> Vec<(Of<'_>, UnitPart)> {
    let mut all = Vec::new();
    for table in catalog.tables() {
        let Some(nodes) = table.placement.units() else { continue };
        for (unit, node) in nodes.iter().enumerate() {
            let segments = table.base.parts.get(unit).map_or(&[][..], |part| &part.segments);
            let of_delta = table.delta.as_ref().and_then(|delta| delta.rows.of_part(unit));
            if segments.is_empty() && of_delta.is_none() {
                continue;
            }
            let of_delta = of_delta.unwrap_or_default();
            let of_base: usize = segments.iter().map(SegmentVersion::live_rows).sum();
            let columns = segments.iter().flat_map(|of| of.segment.stored_columns());
            let columns = columns.filter_map(StoredColumn::resident);
            let codes: usize = columns.map(|column| column.bytes_codes()).sum();
            let keys = (of_base + of_delta.live_rows).saturating_sub(of_delta.dead_base_rows) as u64;
            let bytes = codes as u64 + of_delta.bytes;
            let part = UnitPart { unit: unit as u32, node: Some(*node), keys, bytes, counts: None };
            all.push(((table.as_ref(), None), part));
        }
    }
    all
}

fn words(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

/// A row per object and unit that has a partition of it, and per unit that has rows of a table.
pub(super) fn partitions(catalog: &CatalogState) -> Vec<ArrayRef> {
    let part = |of: PartitionCounts| UnitPart {
        unit: of.unit as u32,
        node: of.node,
        keys: of.pairs,
        bytes: of.bytes,
        counts: Some(of),
    };
    let of_objects = objects(catalog).flat_map(|(table, index, keyed)| {
        keyed.partitions().into_iter().map(move |of| ((table, Some((index, keyed))), part(of)))
    });
    let rows: Vec<(Of<'_>, UnitPart)> = of_objects.chain(rows_in_units(catalog)).collect();
    let mean = rows.iter().map(|(_, of)| Some(of.counts?.time_per_key?.as_nanos() as f64));
    let mut columns = names(&rows);
    columns.extend([
        ids(rows.iter().map(|(_, of)| Some(of.unit))),
        ids(rows.iter().map(|(_, of)| of.node.map(|node| node.0))),
        known_numbers(rows.iter().map(|(_, of)| of.counts.map(|of| of.ranges as u64))),
        words(rows.iter().map(|(_, of)| of.counts?.first_key)),
        words(rows.iter().map(|(_, of)| of.counts?.last_key)),
        numbers(rows.iter().map(|(_, of)| of.keys)),
        numbers(rows.iter().map(|(_, of)| of.bytes)),
        known_numbers(rows.iter().map(|(_, of)| of.counts.map(|of| of.accesses))),
        Arc::new(mean.collect::<Float64Array>()),
    ]);
    columns
}

/// Where commands for a range go, or scans of a unit's rows.
struct Route {
    unit: u32,
    node: Option<NodeId>,
    /// Of an index: which range, and the table's number and copies.
    range: Option<(RoutedRange, u32, u64, u64)>,
}

/// A row per object and range of its routing table, and per unit of a table's bitmap.
pub(super) fn routing(catalog: &CatalogState) -> Vec<ArrayRef> {
    let mut rows: Vec<(Of<'_>, Route)> = Vec::new();
    for (table, index, keyed) in objects(catalog) {
        let routing = keyed.routing();
        for (number, of) in (0..).zip(routing.ranges) {
            let range = Some((of, number, routing.version, routing.replicas as u64));
            rows.push(((table, Some((index, keyed))), Route { unit: of.unit as u32, node: of.node, range }));
        }
    }
    let route = |(of, part): (_, UnitPart)| (of, Route { unit: part.unit, node: part.node, range: None });
    rows.extend(rows_in_units(catalog).into_iter().map(route));
    let mut columns = names(&rows);
    columns.extend([
        known_numbers(rows.iter().map(|(_, of)| of.range.map(|(.., version, _)| version))),
        known_numbers(rows.iter().map(|(_, of)| of.range.map(|(.., replicas)| replicas))),
        ids(rows.iter().map(|(_, of)| of.range.map(|(_, number, ..)| number))),
        words(rows.iter().map(|(_, of)| of.range.map(|(of, ..)| of.first))),
        words(rows.iter().map(|(_, of)| of.range.map(|(of, ..)| of.last))),
        ids(rows.iter().map(|(_, of)| Some(of.unit))),
        ids(rows.iter().map(|(_, of)| of.node.map(|node| node.0))),
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
