//! What tasks cost is told by their shape, and hints follow it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{AggregateCall, AggregateFunction, Context, Plan, Traffic, execute_on_workers};
use numa::{Allocator, NodeId};
use storage::{ColumnAllocator, ColumnPlacement, GRANULE_ROWS, Serial, Stager, TableVersion, build_part};

use crate::support::{context, drain, scan, soon};

/// Granules of the table.
const GRANULES: usize = 7;

/// A column that lies somewhere: what lies nobody knows where is not counted.
fn table() -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let rows = (0..(GRANULES * GRANULE_ROWS) as i64).map(|row| row * 7919 % 100_003);
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(schema.clone(), vec![values]).unwrap()).unwrap();
    let allocators = [ColumnAllocator::new(ColumnPlacement::one(NodeId(0)), Allocator::unplaced())];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    Arc::new(TableVersion::empty(&schema).with_appended(part))
}

fn run(plan: &Plan, traffic: &Arc<Traffic>) {
    let context = Context { traffic: Arc::clone(traffic), ..context() };
    drain(&execute_on_workers(Arc::new(plan.clone()), context)).unwrap();
}

fn tasks(traffic: &Traffic) -> Vec<(String, u64)> {
    traffic.feedback().shapes().into_iter().map(|shape| (shape.shape.to_string(), shape.tasks)).collect()
}

#[test]
fn every_morsel_is_measured_once_by_what_is_done_to_it() {
    let table = table();
    let output = scan(&table);
    let call = AggregateCall {
        function: AggregateFunction::Max,
        arguments: vec![0],
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: Arc::new(Field::new("largest", DataType::Int64, true)),
    };
    let grouped = scan(&table).aggregate(Vec::new(), vec![call]).unwrap();
    let whole: Arc<Traffic> = Arc::default();
    for statement in 1..4 {
        // Each with an account of its own that is part of a larger one, as statements of a database have.
        let own = Arc::new(Traffic::within(Arc::clone(&whole)));
        run(&output, &own);
        run(&grouped, &own);
        let expected = [
            ("scan t load x > aggregate".to_string(), statement * GRANULES as u64),
            ("scan t load x > output".to_string(), statement * GRANULES as u64),
        ];
        // A task may tell what it cost after its last batch was taken.
        soon("the last measurement", || tasks(&own) == expected);
        assert_eq!(tasks(&whole), expected);
    }
    for shape in whole.feedback().shapes() {
        assert!(shape.bytes_per_us.is_some_and(|rate| rate > 0.0), "{shape:?}");
        assert!((1.0 / 64.0..=64.0).contains(&shape.time_ratio), "{shape:?}");
        // Codes of 17 bits were read; that eight bytes are written for each row was expected, and is not counted.
        let read = 17.0 / 8.0;
        assert!((shape.bytes_ratio - read / (read + 8.0)).abs() < 0.01, "{shape:?}");
    }
}
