//! Placements on a machine with several nodes, read back from the kernel; skipped where there is one. Run in the
//! emulated machine.

use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

use arrow::array::{Int64Array, StringViewArray};
use numa::{PageMap, Topology};

use super::*;

const ROWS: usize = 9 * GRANULE_ROWS + 12_345;

/// The first nodes with memory, or `None` where there are fewer than two.
fn nodes() -> Option<Vec<NodeId>> {
    let nodes = Topology::discover().unwrap().usable_memory_nodes().to_vec();
    if nodes.len() < 2 {
        eprintln!("skipped: this machine has one node");
        return None;
    }
    Some(nodes)
}

fn columns() -> (SchemaRef, Vec<ArrayRef>) {
    let fields = vec![
        Field::new("code", DataType::Int64, false),
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, false),
    ];
    let mix = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let rows = 0..ROWS as i64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row * 7919 % 130_001))),
        Arc::new(Int64Array::from_iter_values(rows.clone().map(mix))),
        Arc::new(StringViewArray::from_iter_values(rows.map(|row| format!("{:x}", mix(row))))),
    ];
    (Arc::new(Schema::new(fields)), columns)
}

fn built(placement: &ColumnPlacement) -> (TableVersion, Vec<ArrayRef>) {
    let (schema, columns) = columns();
    let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
    stager.append(&batch_of(&schema, columns.clone(), ROWS)).unwrap();
    let allocators = vec![ColumnAllocator::new(placement.clone(), Allocator::unplaced()); columns.len()];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Threads).unwrap();
    (TableVersion::empty(&schema).with_appended(part), columns)
}

/// The nodes of every page of a granule of a column.
fn nodes_of(column: &Column, granule: usize) -> Vec<NodeId> {
    let ranges = column.granule_bytes(granule);
    let ranges: Vec<_> =
        ranges.into_iter().map(|(region, bytes)| (region.address() + bytes.start, bytes.len())).collect();
    PageMap::read(&ranges).bytes_per_node().into_keys().collect()
}

fn check_stripes(version: &TableVersion, placement: &Placement) {
    for column in version.parts[0].segments[0].segment.columns() {
        let granules = ROWS.div_ceil(GRANULE_ROWS);
        for granule in 0..granules {
            let wanted = placement.node_of_granule(granules, 0, granule).unwrap();
            assert_eq!(nodes_of(column, granule), [wanted], "{:?} granule {granule}", column.encoding());
        }
    }
}

#[test]
fn no_granule_of_a_striped_column_is_on_two_nodes() {
    let Some(nodes) = nodes() else { return };
    let striped = ColumnPlacement::ivp(nodes.clone());
    let (version, columns) = built(&striped);
    check_stripes(&version, &striped.codes);
    // To one node and back, while others read.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = data::Random::new(5);
            while !done.load(AtomicOrdering::Relaxed) {
                for (stored, expected) in version.parts[0].segments[0].segment.columns().zip(&columns) {
                    let from = random.below(ROWS - 5000);
                    assert_same(&stored.slice(from..from + 5000), &expected.slice(from, 5000), "read while moving");
                }
            }
        });
        for wish in [ColumnPlacement::one(nodes[1]), striped.clone(), ColumnPlacement::one(nodes[0]), striped.clone()] {
            let wishes = vec![Some(wish.clone()); 3];
            let placed = place(&version, &wishes, None, &Allocator::unplaced(), &Threads, &|| false);
            let report = placed.as_ref().map(|(_, report)| *report);
            match placed {
                Ok((placed, report)) if report.stuck_bytes == 0 => check_stripes(&placed, &wish.codes),
                _ => assert!(report.is_ok(), "{report:?}"),
            }
        }
        done.store(true, AtomicOrdering::Relaxed);
    });
}

#[test]
fn every_node_has_its_copy() {
    let Some(nodes) = nodes() else { return };
    let (version, columns) = built(&ColumnPlacement::one(nodes[0]));
    let wishes = vec![Some(ColumnPlacement::replicated(nodes.clone())); 3];
    let (version, report) = place(&version, &wishes, None, &Allocator::unplaced(), &Threads, &|| false).unwrap();
    assert!(report.copied_bytes > 0);
    for (stored, expected) in version.parts[0].segments[0].segment.columns().zip(&columns) {
        let mut per_node = std::collections::BTreeMap::new();
        for (component, region) in stored.components() {
            if component == Component::Codes {
                for (node, bytes) in PageMap::of(region).bytes_per_node() {
                    *per_node.entry(node).or_insert(0) += bytes;
                }
            }
        }
        let share = stored.bytes_codes() as u64 / nodes.len() as u64;
        for node in &nodes {
            let bytes = per_node.get(node).copied().unwrap_or(0);
            assert!(bytes.abs_diff(share) <= share / 20, "{node}: {per_node:?}");
        }
        assert_same(&stored.slice(0..ROWS), expected, "replicated");
    }
}

#[test]
fn parts_lie_on_their_nodes_and_rows_where_they_are_sent() {
    let Some(nodes) = nodes() else { return };
    let (version, _) = built(&ColumnPlacement::one(nodes[0]));
    let partitioner = Partitioner::Hash { columns: vec![1], parts: nodes.len() };
    let on = |node: &NodeId| vec![ColumnAllocator::new(ColumnPlacement::one(*node), Allocator::unplaced()); 3];
    let allocators: Vec<_> = nodes.iter().map(on).collect();
    let parts = repartition(&version, Some(&partitioner), &allocators, &Threads).unwrap();
    for (part, node) in parts.iter().zip(&nodes) {
        for stored in part.segments.iter().flat_map(|segment| segment.segment.columns()) {
            for granule in 0..stored.len().div_ceil(GRANULE_ROWS) {
                assert_eq!(nodes_of(stored, granule), [*node], "{:?}", stored.encoding());
            }
        }
    }
    let rows = 2 * GRANULE_ROWS as u64 + 5..4 * GRANULE_ROWS as u64;
    let report = place_rows(&version, 0..1, rows, nodes[1], &|| false).unwrap();
    assert_eq!(report.stuck_bytes, 0, "{report:?}");
    let column = version.parts[0].segments[0].segment.column(0);
    let found: Vec<_> = (0..5).map(|granule| nodes_of(column, granule)).collect();
    let here = vec![nodes[0]];
    let there = vec![nodes[1]];
    assert_eq!(found, [here.clone(), here.clone(), there.clone(), there, here]);
}
