//! Scans that use an index: which rows they look at, and what says so beforehand.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use exec::{
    CompareOp, Context, Join, JoinKind, Plan, Predicate, Profile, ScanOptions, Side, TouchedComponent, affinities,
    execute, execute_on_workers, execute_profiled,
};
use numa::{Allocator, NodeId};
use storage::{ColumnAllocator, ColumnPlacement, RowsToDelete, Serial, TableVersion};

use crate::support::{context, drain, expected, int, run, run_default, scan, table};

const ROWS: i64 = 200_000;

/// A permuted key, the same as text, a serial number, and a column without an index; two segments with their own
/// dictionaries.
fn keyed() -> TableVersion {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("t", DataType::Utf8View, false),
        Field::new("s", DataType::Int64, false),
        Field::new("v", DataType::Int64, true),
    ]));
    let batch = |rows: std::ops::Range<i64>| {
        let key = |row: i64| row * 7_919 % ROWS;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(key))),
            Arc::new(StringViewArray::from_iter_values(rows.clone().map(|row| format!("number {:07}", key(row))))),
            Arc::new(Int64Array::from_iter_values(rows.clone())),
            Arc::new(Int64Array::from_iter(rows.map(|row| (row % 10 != 0).then_some(row % 100)))),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let version = table(&schema, &[batch(0..150_000), batch(150_000..ROWS)]);
    version.with_indexes(&[0, 1, 2], &|_, _| ColumnAllocator::unplaced(), &Serial).unwrap()
}

fn compare(column: usize, op: CompareOp, value: ArrayRef) -> Predicate {
    Predicate::Compare { column, op, value: value.into() }
}

/// Rows of the pieces that tasks would look at.
fn looked_at(plan: &Plan) -> usize {
    affinities(plan).unwrap().into_iter().map(|(_, rows, _)| rows.len()).sum()
}

#[test]
fn a_key_is_looked_up_by_every_kind_of_index() {
    let version = Arc::new(keyed());
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["number 0000777"]));
    for (column, value, name) in [(0, int(777), "k"), (1, text, "t"), (2, int(160_777), "s")] {
        let plan = scan(&version).filter(compare(column, CompareOp::Eq, value)).unwrap();
        let got = run_default(&plan).unwrap();
        assert_eq!((got.num_rows(), &got), (1, &expected(&plan).unwrap()));
        assert_eq!(run(&plan).unwrap(), got);
        assert!(looked_at(&plan) <= 256, "{} rows", looked_at(&plan));
        assert!(plan.describe_operator().ends_with(&format!(" [index: {name}]")), "{plan}");
        assert!(plan.estimated_bytes() < 40_000, "{} bytes: it runs on the caller", plan.estimated_bytes());
    }
    let unindexed = scan(&version).filter(compare(3, CompareOp::Eq, int(7))).unwrap();
    assert!(!unindexed.to_string().contains("index") && unindexed.estimated_bytes() > 256 << 10);
}

#[test]
fn conditions_on_a_column_are_put_together_and_the_others_are_tested() {
    let version = Arc::new(keyed());
    let list: ArrayRef = Arc::new(Int64Array::from(vec![3, 7, 3, 199_999, 500_000, -1, 11]));
    let between = |column, low, high| {
        Predicate::And(vec![compare(column, CompareOp::GtEq, int(low)), compare(column, CompareOp::Lt, int(high))])
    };
    let conditions = [
        (between(0, 1000, 1100), 100),
        (Predicate::In { column: 0, values: list.clone(), negated: false }, 4),
        (Predicate::And(vec![between(0, 1000, 1100), compare(3, CompareOp::Lt, int(50))]), 47),
        (Predicate::And(vec![between(0, 0, 100), compare(0, CompareOp::Gt, int(2000))]), 0),
        (Predicate::And(vec![between(0, 5, 150), between(2, 0, 30_000)]), 20),
        (between(2, 149_990, 150_010), 20),
        (Predicate::Or(vec![compare(0, CompareOp::Eq, int(5)), compare(2, CompareOp::Eq, int(5))]), 2),
    ];
    for (condition, rows) in conditions {
        let plan = scan(&version).filter(condition).unwrap();
        let got = run_default(&plan).unwrap();
        assert_eq!(got, expected(&plan).unwrap(), "{plan}");
        // Counts are of the right order where they are not exact.
        assert!(got.num_rows() <= 2 * rows && got.num_rows() >= rows / 3, "{} rows: {plan}", got.num_rows());
        for (index_lookups, block_skipping) in [(false, true), (true, false), (false, false)] {
            let options =
                Context { scan: ScanOptions { index_lookups, block_skipping, ..ScanOptions::default() }, ..context() };
            assert_eq!(drain(&execute(Arc::new(plan.clone()), options)).unwrap(), got, "{plan}");
        }
    }
}

#[test]
fn deleted_rows_are_found_by_no_look_up() {
    let version = keyed();
    let delete = RowsToDelete { part: 0, segment: 0, rows: vec![0, 1, 5] };
    let version = Arc::new(version.with_deleted(&[delete], &Allocator::unplaced()).unwrap());
    for (row, rows) in [(0, 0), (1, 0), (2, 1), (5, 0)] {
        let plan = scan(&version).filter(compare(2, CompareOp::Eq, int(row))).unwrap();
        assert_eq!(run_default(&plan).unwrap().num_rows(), rows);
        let plan = scan(&version).filter(compare(0, CompareOp::Eq, int(row * 7_919))).unwrap();
        assert_eq!(run_default(&plan).unwrap().num_rows(), rows);
    }
}

/// A join with few keys looks them up: the scan of the other side gives no more rows than match.
#[test]
fn few_keys_of_a_join_are_looked_up() {
    let version = Arc::new(keyed());
    let few = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(17), Some(170_001), None, Some(17), Some(900_000)]));
    let given = Plan::Values { schema: few.clone(), batches: vec![RecordBatch::try_new(few, vec![keys]).unwrap()] };
    for (kind, rows) in [(JoinKind::Inner, 3), (JoinKind::Semi(Side::Right), 2)] {
        let join = Join {
            left: given.clone(),
            right: scan(&version),
            kind,
            on: vec![(0, 0)],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build: Side::Left,
        };
        let plan = Plan::join(join).unwrap();
        let profile = Profile::new(&plan);
        let batches = execute_profiled(Arc::new(plan.clone()), context(), &profile).collect_blocking().unwrap();
        assert_eq!(concat_batches(&plan.schema(), &batches).unwrap().num_rows(), rows);
        let id = plan.operators().iter().find(|o| matches!(o.plan, Plan::Scan { .. })).unwrap().id;
        let scanned = profile.operators()[id].as_ref().map(|o| o.rows);
        assert_eq!(scanned, Some(2), "{plan}");
    }
}

/// As many look-ups as are done by several tasks, of a list and of a join: the rows are those of a scan, and the bytes
/// of indexes are accounted for.
#[test]
fn many_keys_are_looked_up_by_several_tasks() {
    const PARTS: i64 = 10;
    const PART_ROWS: i64 = 131_072;
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let keys = |part: i64| (0..PART_ROWS).map(move |row| (row * 7_919 % PART_ROWS) * PARTS + part);
    let batch = |part| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from_iter_values(keys(part))) as ArrayRef])
    };
    let batches: Vec<RecordBatch> = (0..PARTS).map(|part| batch(part).unwrap()).collect();
    let near = |_, _| ColumnAllocator::new(ColumnPlacement::one(NodeId(0)), Allocator::unplaced());
    let version = Arc::new(table(&schema, &batches).with_indexes(&[0], &near, &Serial).unwrap());
    // Some 12 in each part, and 7 in none; of so many a part is asked for all.
    let wanted: Vec<i64> = (0..121).map(|i| i * 10_777).chain((0..7).map(|i| -i - 1)).collect();
    let list: ArrayRef = Arc::new(Int64Array::from(wanted.clone()));
    let listed = scan(&version).filter(Predicate::In { column: 0, values: list.clone(), negated: false }).unwrap();
    let given = Plan::Values {
        schema: schema.clone(),
        batches: vec![RecordBatch::try_new(schema.clone(), vec![list]).unwrap()],
    };
    let join = Join {
        left: given,
        right: scan(&version),
        kind: JoinKind::Semi(Side::Right),
        on: vec![(0, 0)],
        nulls_equal: false,
        null_aware: false,
        residual: None,
        build: Side::Left,
    };
    for plan in [listed, Plan::join(join).unwrap()] {
        let by_index = context();
        let got = drain(&execute_on_workers(Arc::new(plan.clone()), by_index.clone())).unwrap();
        let options = Context { scan: ScanOptions { index_lookups: false, ..ScanOptions::default() }, ..context() };
        assert_eq!(drain(&execute_on_workers(Arc::new(plan.clone()), options)).unwrap(), got, "{plan}");
        assert_eq!(got.num_rows(), 121, "{plan}");
        let lines = by_index.traffic.lines();
        let of_index = lines.iter().filter(|line| line.component == TouchedComponent::Index);
        let bytes: u64 = of_index.map(|line| line.touched.bytes).sum();
        assert_eq!(bytes, 121 * 64, "a line for each row: {plan}");
    }
}
