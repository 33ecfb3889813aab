//! Where the tasks of a scan run, on a machine with several nodes; run in the emulated machine.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{Plan, affinities};
use numa::{Allocator, NodeId, PageMap, Topology};
use storage::{ColumnAllocator, ColumnPlacement, GRANULE_ROWS, Serial, Stager, TableVersion, build_part, place};

const ROWS: usize = 33 * GRANULE_ROWS + 777;

fn table(placement: ColumnPlacement) -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row * 7919 % 130_001)));
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(schema.clone(), vec![values]).unwrap()).unwrap();
    let allocators = [ColumnAllocator::new(placement, Allocator::unplaced())];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    Arc::new(TableVersion::empty(&schema).with_appended(part))
}

/// The nodes on which the codes of these rows really lie.
fn nodes_read(version: &TableVersion, rows: &std::ops::Range<usize>) -> Vec<NodeId> {
    let column = version.parts[0].segments[0].segment.column(0);
    let granules = rows.start / GRANULE_ROWS..rows.end.div_ceil(GRANULE_ROWS);
    let ranges: Vec<_> = granules
        .flat_map(|granule| column.granule_bytes(granule))
        .map(|(region, bytes)| (region.address() + bytes.start, bytes.len()))
        .collect();
    PageMap::read(&ranges).bytes_per_node().into_keys().collect()
}

#[test]
fn every_task_of_an_ivp_scan_is_on_the_node_of_its_rows() {
    let nodes = Topology::discover().unwrap().usable_memory_nodes().to_vec();
    let ivp = ColumnPlacement::ivp(nodes.clone());
    let version = table(ivp.clone());
    let plan = Plan::scan("t", version.clone(), vec![0]).unwrap();
    let tasks = affinities(&plan).unwrap();
    assert_eq!(tasks.iter().map(|(_, rows, _)| rows.len()).sum::<usize>(), ROWS);
    if nodes.len() < 2 {
        eprintln!("skipped: this machine has one node");
        return;
    }
    let mut used = Vec::new();
    for (_, rows, node) in &tasks {
        assert_eq!(nodes_read(&version, rows), [node.unwrap()], "{rows:?}");
        used.push(node.unwrap());
    }
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, nodes);
    // Moved under the same snapshot: the next scan finds the new places.
    for wish in [ColumnPlacement::one(nodes[1]), ivp] {
        place(&version, &[Some(wish)], None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
        for (_, rows, node) in affinities(&plan).unwrap() {
            assert_eq!(nodes_read(&version, &rows), [node.unwrap()], "{rows:?}");
        }
    }
}
