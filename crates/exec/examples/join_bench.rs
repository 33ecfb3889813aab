//! Times joins like those of TPC-H on synthetic tables, on two threads:
//! `cargo run --release -p nearside-exec --example join_bench [RUNS [NAME]]`. Each line says what is joined, rows of
//! the probe and the build side, the median, and nanoseconds per row of the probe.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{
    AggregateCall, AggregateFunction, CompareOp, Context, Join, JoinKind, Plan, Predicate, Side, execute_on_workers,
};
use numa::{Allocator, Budget, Topology};
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};

fn table(columns: &[(&str, Vec<i64>)]) -> Plan {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays: Vec<ArrayRef> =
        columns.iter().map(|(_, values)| Arc::new(Int64Array::from(values.clone())) as ArrayRef).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).expect("columns of one length");
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&batch).expect("rows are staged");
    let allocators = vec![ColumnAllocator::unplaced(); columns.len()];
    let part = build_part(&schema, vec![stager.finish().expect("staged")], &allocators, &Serial).expect("a part");
    let version = TableVersion::empty(&schema).with_appended(part);
    Plan::scan("t", Arc::new(version), (0..columns.len()).collect()).expect("columns are there")
}

fn hashed(i: u64) -> i64 {
    let wide = u128::from(i + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    (((wide >> 64) ^ wide) as u64 >> 2) as i64
}

/// A join and the rows of its two sides.
struct Case {
    name: &'static str,
    join: Join,
    probe_rows: usize,
    build_rows: usize,
}

fn join(left: Plan, right: Plan, kind: JoinKind, on: Vec<(usize, usize)>) -> Join {
    Join { left, right, kind, on, nulls_equal: false, null_aware: false, residual: None, build: Side::Right }
}

fn below(plan: &Plan, column: usize, most: i64) -> Plan {
    let value: ArrayRef = Arc::new(Int64Array::from(vec![most]));
    plan.clone().filter(Predicate::Compare { column, op: CompareOp::Lt, value: value.into() }).expect("a filter")
}

fn cases() -> Vec<Case> {
    const LINES: usize = 6_000_000;
    const ORDERS: usize = 1_500_000;
    let each = |rows: usize, of: &dyn Fn(u64) -> i64| (0..rows as u64).map(of).collect::<Vec<i64>>();
    let sparse = |order: u64| (order / 8 * 32 + order % 8) as i64;
    let some = |i: u64, n: u64| (hashed(i) as u64 % n) as i64;
    let lines = table(&[
        ("order", each(LINES, &|i| sparse(i / 4))),
        ("any", each(LINES, &|i| some(i, ORDERS as u64))),
        ("wide", each(LINES, &|i| hashed(some(i, ORDERS as u64) as u64))),
        ("part", each(LINES, &|i| some(i, 200_000))),
        ("supplier", each(LINES, &|i| (some(i, 200_000) + some(i + 7, 4) * 2501) % 10_000)),
        ("own", each(LINES, &|i| hashed(i))),
        ("value", each(LINES, &|i| some(i, 1000))),
    ]);
    let orders = table(&[
        ("order", each(ORDERS, &sparse)),
        ("any", each(ORDERS, &|i| i as i64)),
        ("wide", each(ORDERS, &|i| hashed(i))),
        ("own", each(ORDERS, &|i| hashed(4 * i))),
        ("value", each(ORDERS, &|i| some(i, 1000))),
    ]);
    let supplies = table(&[
        ("part", each(800_000, &|i| (i / 4) as i64)),
        ("supplier", each(800_000, &|i| ((i / 4 + i % 4 * 2501) % 10_000) as i64)),
        ("value", each(800_000, &|i| some(i, 1000))),
    ]);
    let all = |name, on, build_rows| Case {
        name,
        join: join(lines.clone(), below(&orders, 4, 1000), JoinKind::Inner, on),
        probe_rows: LINES,
        build_rows,
    };
    let semi = |name, most, build_rows, on| Case {
        name,
        join: join(lines.clone(), below(&orders, 4, most), JoinKind::Semi(Side::Left), on),
        probe_rows: LINES,
        build_rows,
    };
    let mut cases = vec![
        all("unique, sparse, in order", vec![(0, 0)], ORDERS),
        all("unique, dense, at random", vec![(1, 1)], ORDERS),
        all("hash of 64 bits", vec![(2, 2)], ORDERS),
        semi("semi of 1%, in order", 10, ORDERS / 100, vec![(0, 0)]),
        semi("semi of 1%, at random", 10, ORDERS / 100, vec![(1, 1)]),
        semi("semi of 90%, at random", 900, ORDERS / 10 * 9, vec![(1, 1)]),
        semi("semi of 80%, at random", 800, ORDERS / 10 * 8, vec![(1, 1)]),
        semi("semi of 10%, far apart", 100, ORDERS / 10, vec![(2, 2)]),
        semi("semi of 80%, far apart", 800, ORDERS / 10 * 8, vec![(2, 2)]),
        semi("semi of 2%, no dictionary", 100, ORDERS / 10, vec![(5, 3)]),
        semi("semi of 20%, no dictionary", 800, ORDERS / 10 * 8, vec![(5, 3)]),
        Case {
            name: "two keys",
            join: join(lines.clone(), supplies.clone(), JoinKind::Inner, vec![(3, 0), (4, 1)]),
            probe_rows: LINES,
            build_rows: 800_000,
        },
    ];
    let mut swapped = join(lines, below(&orders, 4, 100), JoinKind::Semi(Side::Right), vec![(0, 0)]);
    swapped.build = Side::Right;
    cases.push(Case { name: "semi of the build side", join: swapped, probe_rows: LINES, build_rows: ORDERS / 10 });
    cases
}

fn main() {
    let runs: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5);
    let scheduler =
        Scheduler::new(Arc::new(Topology::synthetic(1, 1, 2, 1)), Config { threads: Some(2), ..Config::default() });
    let name = std::env::args().nth(2).unwrap_or_default();
    for case in cases().into_iter().filter(|case| case.name.contains(&name)) {
        let sum = |column: usize| AggregateCall {
            function: AggregateFunction::Sum,
            arguments: vec![column],
            distinct: false,
            filter: None,
            order: Vec::new(),
            field: Arc::new(Field::new("sum", DataType::Int64, true)),
        };
        let last = Plan::join(case.join.clone()).expect("a join").schema().fields().len() - 1;
        let plan = Plan::join(case.join).and_then(|plan| plan.aggregate(vec![], vec![sum(last)])).expect("a plan");
        let mut took: Vec<f64> = (0..runs)
            .map(|_| {
                let statement = Statement::new(1, Budget::unlimited());
                let start = Instant::now();
                let execution = execute_on_workers(Arc::new(plan.clone()), Context::new(scheduler.clone(), statement));
                execution.collect_blocking().expect("it runs");
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        took.sort_by(f64::total_cmp);
        let median = took[took.len() / 2];
        println!(
            "{:26} {:>9} x {:>9}  {median:8.2} ms  {:6.2} ns per probe row and thread",
            case.name,
            case.probe_rows,
            case.build_rows,
            median * 2e6 / case.probe_rows as f64
        );
    }
}
