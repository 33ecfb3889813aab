//! Point queries by key, and where scanning becomes cheaper than looking up:
//! `cargo run --release -p nearside-exec --example point`.
//!
//! Arguments: millions of rows (50). For tables whose key is serial, permuted, and permuted text: the time to build the
//! index, of a look-up alone, of estimating, and of a query (a plan is given; its one row comes out) on the calling
//! thread. Then a permuted column of 24 bits at rising selectivity with and without the index.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{CompareOp, Context, Plan, Predicate, ScanOptions, SchedParallel, execute};
use numa::{Allocator, Budget, Topology};
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Stager, TableVersion, build_part};

const BATCH: usize = 1 << 16;

fn main() {
    let millions: usize = std::env::args().nth(1).map_or(50, |text| text.parse().expect("millions of rows"));
    let rows = millions * 1_000_000;
    let scheduler = Scheduler::new(Arc::new(Topology::discover().expect("this machine")), Config::default());
    for kind in ["serial", "permuted", "text"] {
        let rows = if kind == "text" { rows / 5 } else { rows };
        let table = Arc::new(table_of(kind, rows, &scheduler));
        points(kind, &table, rows, &scheduler);
        if kind == "permuted" {
            break_even(&table, &scheduler);
        }
    }
}

fn statement(scheduler: &Arc<Scheduler>) -> Arc<Statement> {
    let _ = scheduler;
    Statement::new(1, Budget::unlimited())
}

fn spread(row: usize, rows: usize) -> i64 {
    (row as u128 * 7_368_787 % rows as u128) as i64
}

fn table_of(kind: &str, rows: usize, scheduler: &Arc<Scheduler>) -> TableVersion {
    let text = kind == "text";
    let key = Field::new("k", if text { DataType::Utf8View } else { DataType::Int64 }, false);
    let schema = Arc::new(Schema::new(vec![
        key,
        Field::new("v", DataType::Int64, false),
        Field::new("w", DataType::Int64, false),
    ]));
    let mut staged = Vec::new();
    for producer in (0..rows).step_by(64 * BATCH) {
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        for from in (producer..rows.min(producer + 64 * BATCH)).step_by(BATCH) {
            let range = from..rows.min(from + BATCH);
            let numbers: Vec<i64> =
                range.clone().map(|row| if kind == "serial" { row as i64 } else { spread(row, rows) }).collect();
            let keys: ArrayRef = match text {
                true => {
                    Arc::new(StringViewArray::from_iter_values(numbers.iter().map(|n| format!("Customer#{n:012}"))))
                }
                false => Arc::new(Int64Array::from(numbers)),
            };
            let v: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone().map(|row| (row % 1000) as i64)));
            let w: ArrayRef = Arc::new(Int64Array::from_iter_values(range.map(|row| (row % 100_003) as i64)));
            stager.append(&RecordBatch::try_new(schema.clone(), vec![keys, v, w]).expect("a batch")).expect("staged");
        }
        staged.push(stager.finish().expect("staged"));
    }
    let lent = SchedParallel::new(scheduler.clone(), statement(scheduler));
    let part = build_part(&schema, staged, &vec![ColumnAllocator::unplaced(); 3], &lent).expect("built");
    let table = TableVersion::empty(&schema).with_appended(part);
    let start = Instant::now();
    let table = table.with_indexes(&[0], &|_, _| ColumnAllocator::unplaced(), &lent).expect("indexed");
    let index = table.segments().next().expect("a segment").segment.index(0).expect("an index").clone();
    let bytes: usize = table.segments().map(|s| s.segment.index(0).map_or(0, |i| i.bytes())).sum();
    println!(
        "{kind}: {} M rows, {:?} index of {} MB built in {:.2} s",
        rows / 1_000_000,
        index.kind(),
        bytes >> 20,
        start.elapsed().as_secs_f64()
    );
    let start = Instant::now();
    let duplicate = storage::duplicate_key(&table, &[0], &|_| true, storage::KeyLimits::NONE, &lent).expect("checked");
    println!("  unique ({}): {:.2} s", duplicate == storage::KeyCheck::Unique, start.elapsed().as_secs_f64());
    table
}

fn points(kind: &str, table: &Arc<TableVersion>, rows: usize, scheduler: &Arc<Scheduler>) {
    const COUNT: usize = 20_000;
    let keys: Vec<ArrayRef> = (0..COUNT)
        .map(|i| {
            let key = spread(i * 977 + 13, rows);
            match kind {
                "text" => Arc::new(StringViewArray::from_iter_values([format!("Customer#{key:012}")])) as ArrayRef,
                _ => Arc::new(Int64Array::from(vec![key])),
            }
        })
        .collect();
    let plan = |key: &ArrayRef| {
        let scan = Plan::scan("t", table.clone(), vec![0, 1, 2]).expect("a scan");
        scan.filter(Predicate::Compare { column: 0, op: CompareOp::Eq, value: key.clone().into() }).expect("a filter")
    };
    let each = |what: &str, one: &mut dyn FnMut(usize)| {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            (0..COUNT).for_each(&mut *one);
            best = best.min(start.elapsed().as_secs_f64() / COUNT as f64);
        }
        println!("  {what}: {:.0} ns", best * 1e9);
    };
    each("look-up", &mut |i| {
        let key = std::ops::Bound::Included(keys[i].as_ref() as &dyn Array);
        let found: usize = table
            .segments()
            .map(|s| {
                let index = s.segment.index(0).expect("indexed");
                index.rows_at(index.order_between(s.segment.column(0), key, key).expect("typed")).len()
            })
            .sum();
        assert_eq!(found, 1);
    });
    let plans: Vec<Arc<Plan>> = keys.iter().map(|key| Arc::new(plan(key))).collect();
    each("building a plan", &mut |i| drop(plan(&keys[i])));
    each("estimated_bytes", &mut |i| assert!(plans[i].estimated_bytes() < 10_000));
    each("validate", &mut |i| plans[i].validate().expect("valid"));
    let mut made = 0;
    each("statement", &mut |_| drop(statement(scheduler)));
    each("execute without poll", &mut |i| {
        let context = Context::new(scheduler.clone(), statement(scheduler));
        drop(execute(plans[i].clone(), context));
    });
    each("query", &mut |i| {
        let context = Context::new(scheduler.clone(), statement(scheduler));
        let execution = execute(plans[i].clone(), context);
        let batch = execution.next_blocking().expect("a row").expect("no error");
        made += batch.num_rows();
    });
    assert_eq!(made, 5 * COUNT);
}

/// Ranges of the permuted key: rows are scattered.
fn break_even(table: &Arc<TableVersion>, scheduler: &Arc<Scheduler>) {
    let rows = table.rows();
    for share in [100_000, 10_000, 4000, 2000, 1000, 500, 250, 125, 60] {
        let most = (rows / share) as i64;
        let scan = Plan::scan("t", table.clone(), vec![0, 1]).expect("a scan");
        let value: ArrayRef = Arc::new(Int64Array::from(vec![most]));
        let plan = Arc::new(
            scan.filter(Predicate::Compare { column: 0, op: CompareOp::Lt, value: value.into() }).expect("a filter"),
        );
        let mut times = [f64::MAX; 2];
        for round in 0..14 {
            let mut context = Context::new(scheduler.clone(), statement(scheduler));
            context.scan = ScanOptions { index_lookups: round % 2 == 0, ..ScanOptions::default() };
            let start = Instant::now();
            let found: usize =
                execute(plan.clone(), context).collect_blocking().expect("rows").iter().map(|b| b.num_rows()).sum();
            assert_eq!(found as i64, most);
            times[round % 2] = times[round % 2].min(start.elapsed().as_secs_f64());
        }
        println!("  1 row in {share}: index {:.2} ms, scan {:.2} ms", times[0] * 1e3, times[1] * 1e3);
    }
}
