//! Key filters that scans leave out while they keep nearly all rows: rows are the same, and so is whether a statement
//! fails.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use exec::{
    AggregateCall, AggregateFunction, Context, Join, JoinKind, Output, Plan, ScanOptions, Side, execute_on_workers,
};
use numa::{Allocator, Budget};
use sched::{Scheduler, Statement};
use storage::{RowsToDelete, TableVersion};

use super::schedulers;
use crate::support::{Function, Kind, drain, scan, table};

/// Rows of the large tables: so many pieces that a filter is judged long before the end, by several threads too.
const ROWS: i64 = 7 * 65_536;

/// A table of Int64 columns, one segment.
fn columns(columns: &[&dyn Fn(i64) -> i64], rows: i64) -> TableVersion {
    let field = |c| Field::new(format!("c{c}"), DataType::Int64, false);
    let schema = Arc::new(Schema::new((0..columns.len()).map(field).collect::<Vec<_>>()));
    let arrays = columns.iter().map(|of| Arc::new((0..rows).map(of).collect::<Int64Array>()) as ArrayRef).collect();
    table(&schema, &[RecordBatch::try_new(schema.clone(), arrays).unwrap()])
}

fn inner(left: Plan, right: Plan, on: (usize, usize)) -> Plan {
    let (kind, on, build) = (JoinKind::Inner, vec![on], Side::Right);
    Plan::join(Join { left, right, kind, on, nulls_equal: false, null_aware: false, residual: None, build }).unwrap()
}

/// Rows whose first column is not negative; of a whole table no keys go down.
fn some(plan: Plan) -> Plan {
    let value = crate::support::int(0);
    plan.filter(exec::Predicate::Compare { column: 0, op: exec::CompareOp::GtEq, value: value.into() }).unwrap()
}

/// How many rows, and the sum of a column.
fn totals(plan: Plan, column: usize) -> Plan {
    let call = |function, arguments, name| AggregateCall {
        function,
        arguments,
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: Arc::new(Field::new(name, DataType::Int64, true)),
    };
    let calls = vec![call(AggregateFunction::CountRows, vec![], "n"), call(AggregateFunction::Sum, vec![column], "s")];
    plan.aggregate(Vec::new(), calls).unwrap()
}

fn run(plan: &Plan, scheduler: &Arc<Scheduler>, block_skipping: bool) -> Result<(i64, i64), exec::ExecError> {
    let scan = ScanOptions { block_skipping, ..ScanOptions::default() };
    let context = Context { scan, ..Context::new(scheduler.clone(), Statement::new(1, Budget::unlimited())) };
    let batch = drain(&execute_on_workers(Arc::new(plan.clone()), context))?;
    let number = |c: usize| batch.column(c).as_primitive::<Int64Type>().value(0);
    Ok((number(0), number(1)))
}

/// Numbers far apart, each its own.
fn far(i: i64) -> i64 {
    i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64) & i64::MAX
}

/// Every fifth row is deleted, if any is.
fn deleted(version: TableVersion, deletes: bool) -> Arc<TableVersion> {
    if !deletes {
        return Arc::new(version);
    }
    let (mut first, mut gone) = (0, Vec::new());
    for (part, p) in version.parts.iter().enumerate() {
        for (segment, s) in p.segments.iter().enumerate() {
            let count = s.segment.rows();
            let rows = (0..count as u32).filter(|&row| (first + row as usize).is_multiple_of(5)).collect();
            gone.push(RowsToDelete { part, segment, rows });
            first += count;
        }
    }
    Arc::new(version.with_deleted(&gone, &Allocator::unplaced()).unwrap())
}

/// Of `ROWS` clustered rows most have a key, but none of the fourth and fifth granule: what is left out begins to pay
/// again, and bounds tell it where they are looked at.
#[test]
fn what_keeps_most_rows_is_left_out_and_nothing_else_changes() {
    let wanted = |row: i64| row / 65_536 != 3 && row / 65_536 != 4 && row % 40 != 7;
    let coded = |row: i64| row / 400 * 40 + row % 40;
    for (name, key) in [("coded", &coded as &dyn Fn(i64) -> i64), ("plain", &far)] {
        let mut keys: Vec<i64> = (0..ROWS).filter(|&row| wanted(row)).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        for deletes in [false, true] {
            let big = deleted(columns(&[key, &|row| row], ROWS), deletes);
            let column = big.parts[0].segments[0].segment.column(0);
            assert_eq!(column.as_coded().is_some(), name == "coded");
            let small = columns(&[&|i| keys[i as usize]], keys.len() as i64);
            let plan = totals(inner(scan(&big), some(scan(&Arc::new(small))), (0, 0)), 1);
            let live = |row: &i64| !deletes || row % 5 != 0;
            let rows = || (0..ROWS).filter(live).filter(|&row| keys.binary_search(&key(row)).is_ok());
            let expected = (rows().count() as i64, rows().sum::<i64>());
            for scheduler in &schedulers()[..2] {
                for block_skipping in [true, false] {
                    let got = run(&plan, scheduler, block_skipping).unwrap();
                    assert_eq!(got, expected, "{name}, deletes: {deletes}, skipping: {block_skipping}");
                }
            }
        }
    }
}

/// One row in fifty has no match, and a zero that something between the scan and the join divides by.
#[test]
fn whether_something_fails_is_no_race() {
    let matches = |row: i64| row % 50 != 33;
    let key = |row: i64| if matches(row) { row % 50 } else { 50 + row % 7 };
    let big = Arc::new(columns(&[&key, &|row| i64::from(matches(row)), &|row| row], ROWS));
    let outputs = || {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
        vec![
            Output::Column { column: 0, field: field("k") },
            Output::Expression { expression: Function::new(Kind::Divide, vec![1]), field: field("q") },
        ]
    };
    let small = Arc::new(columns(&[&|i| i], 50));
    let plan = totals(inner(scan(&big).project(outputs()).unwrap(), some(scan(&small)), (0, 0)), 1);
    let rows = (0..ROWS).filter(|&row| matches(row)).count() as i64;
    for scheduler in schedulers() {
        for block_skipping in [true, false] {
            assert_eq!(run(&plan, scheduler, block_skipping).unwrap(), (rows, 100 * rows));
        }
    }
}

/// The same one join further: what is left of a build side decides which rows of the probe side are wanted.
#[test]
fn whether_something_fails_behind_another_join_is_no_race() {
    let matches = |row: i64| row % 50 != 33;
    let key = |row: i64| if matches(row) { row % 50 } else { 50 + row % 7 };
    // The rows without a match, and no others, lead to zeros.
    let leaf = |row: i64| if matches(row) { row / 10 * 10 + row % 7 } else { row % 300 * 10 + 7 + row % 3 };
    let middle = Arc::new(columns(&[&key, &leaf], ROWS));
    let leaves = Arc::new(columns(&[&|i| i, &|i| i64::from(i % 10 < 7)], 3000));
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let outputs = vec![
        Output::Column { column: 0, field: field("j") },
        Output::Expression { expression: Function::new(Kind::Divide, vec![1]), field: field("q") },
    ];
    let small = Arc::new(columns(&[&|i| i], 50));
    let below = inner(scan(&leaves).project(outputs).unwrap(), scan(&middle), (0, 1));
    // Columns: j, q, k, j.
    let plan = totals(inner(below, some(scan(&small)), (2, 0)), 1);
    let rows = (0..3000).filter(|&row| matches(row)).count() as i64;
    for scheduler in schedulers() {
        for block_skipping in [true, false] {
            assert_eq!(run(&plan, scheduler, block_skipping).unwrap(), (rows, 100 * rows));
        }
    }
}
