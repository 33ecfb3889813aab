//! Times aggregations on all threads:
//! `cargo run --release -p nearside-exec --example aggregate [million rows] [threads] [text]`.
//!
//! Tables resemble TPC-H's lineitem: few groups with many sums (query 1), a clustered key (query 18), and random keys
//! of 10^2 to 10^6 values, near each other (an array by key does) and far apart (a table of keys). Medians of seven
//! runs; only what has the text in its name.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use exec::{AggregateCall, AggregateFunction, Context, Plan, execute_on_workers};
use numa::{Allocator, Budget, Topology};
use random::mixed;
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};

const RUNS: usize = 7;
const BATCH: usize = 1 << 16;

/// Columns: flag, status, order, quantity, price, then keys of 10^2, 10^4, 10^5, 10^6 values, near and far.
fn schema() -> Arc<Schema> {
    let mut fields = vec![
        Field::new("flag", DataType::Utf8View, false),
        Field::new("status", DataType::Utf8View, false),
        Field::new("order", DataType::Int64, false),
        Field::new("quantity", DataType::Decimal128(15, 2), false),
        Field::new("price", DataType::Decimal128(15, 2), false),
    ];
    for digits in [2, 4, 5, 6] {
        fields.push(Field::new(format!("near 10^{digits}"), DataType::Int64, false));
        fields.push(Field::new(format!("far 10^{digits}"), DataType::Int64, false));
    }
    Arc::new(Schema::new(fields))
}

fn batch(schema: &Arc<Schema>, start: usize, rows: usize) -> RecordBatch {
    let numbers = || (start..start + rows).map(|n| n as u64);
    let decimal = |salt: u64, below: u64, unit: i128| -> ArrayRef {
        let values = numbers().map(|n| Some(i128::from(mixed(n ^ salt) % below + 1) * unit));
        Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(15, 2).unwrap())
    };
    let flag = numbers().map(|n| ["A", "N", "R"][(mixed(n ^ 1) % 3) as usize]);
    let status = numbers().map(|n| ["F", "O"][(mixed(n ^ 2) % 2) as usize]);
    // Eight of 32 order keys are used, by four rows each.
    let order = numbers().map(|n| (n / 4 / 8 * 32 + n / 4 % 8) as i64);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(flag)),
        Arc::new(StringViewArray::from_iter_values(status)),
        Arc::new(order.collect::<Int64Array>()),
        decimal(3, 50, 100),
        decimal(4, 10_000_000, 1),
    ];
    for digits in [2u32, 4, 5, 6] {
        let key = |n: u64| (mixed(n ^ u64::from(digits)) % 10u64.pow(digits)) as i64;
        columns.push(Arc::new(numbers().map(key).collect::<Int64Array>()));
        columns.push(Arc::new(numbers().map(|n| key(n) * 1_000_003).collect::<Int64Array>()));
    }
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

fn table(rows: usize) -> TableVersion {
    let schema = schema();
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    for start in (0..rows).step_by(BATCH) {
        stager.append(&batch(&schema, start, BATCH.min(rows - start))).unwrap();
    }
    let allocators = vec![ColumnAllocator::unplaced(); schema.fields().len()];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    TableVersion::empty(&schema).with_appended(part)
}

fn call(function: AggregateFunction, column: Option<usize>, schema: &Schema) -> AggregateCall {
    use AggregateFunction as F;
    let input = column.map(|c| schema.field(c).data_type().clone());
    let data_type = match (&function, input) {
        (F::Sum, Some(DataType::Decimal128(p, s))) => DataType::Decimal128(p + 10, s),
        (F::Avg, Some(DataType::Decimal128(p, s))) => DataType::Decimal128(p + 4, s + 4),
        (F::Min | F::Max, Some(input)) => input,
        _ => DataType::Int64,
    };
    let field: FieldRef = Arc::new(Field::new(format!("{function:?}"), data_type, true));
    AggregateCall {
        function,
        arguments: column.into_iter().collect(),
        distinct: false,
        filter: None,
        order: Vec::new(),
        field,
    }
}

fn main() {
    let argument = |n: usize| std::env::args().nth(n).and_then(|a| a.parse::<usize>().ok());
    let rows = argument(1).unwrap_or(6) * 1_000_000;
    let threads = argument(2).unwrap_or(2);
    let topology = Arc::new(Topology::discover().unwrap());
    let scheduler = Scheduler::new(topology, Config { threads: Some(threads), ..Config::default() });
    let snapshot = Arc::new(table(rows));
    let schema = schema();
    let (quantity, price) = (3, 4);
    let name = |c: usize| schema.field(c).name().clone();

    let only = std::env::args().nth(3).unwrap_or_default();
    let time = |what: String, keys: &[usize], calls: &[(AggregateFunction, Option<usize>)]| {
        if !what.contains(&only) {
            return;
        }
        let mut columns: Vec<usize> = keys.iter().copied().chain(calls.iter().filter_map(|c| c.1)).collect();
        columns.sort_unstable();
        columns.dedup();
        let at = |c: usize| columns.binary_search(&c).unwrap();
        let scan = Plan::scan("t", snapshot.clone(), columns.clone()).unwrap();
        let below = scan.schema();
        let calls = calls.iter().map(|(f, c)| call(f.clone(), c.map(at), &below)).collect();
        let plan = Arc::new(scan.aggregate(keys.iter().map(|&k| at(k)).collect(), calls).unwrap());
        let (mut times, mut groups) = (Vec::new(), 0);
        for _ in 0..RUNS {
            let context = Context::new(scheduler.clone(), Statement::new(1, Budget::unlimited()));
            let began = Instant::now();
            let batches = execute_on_workers(plan.clone(), context).collect_blocking().unwrap();
            times.push(began.elapsed().as_secs_f64() * 1e3);
            groups = batches.iter().map(RecordBatch::num_rows).sum();
        }
        times.sort_by(f64::total_cmp);
        println!("{what:<34} {groups:>9} groups {:>8.2} ms (best {:.2})", times[RUNS / 2], times[0]);
    };

    use AggregateFunction::{Avg, Count, CountRows, Max, Min, Sum};
    println!("{rows} rows, {threads} threads");
    time("count(*)".into(), &[], &[(CountRows, None)]);
    time("sum(price)".into(), &[], &[(Sum, Some(price))]);
    time("Q1: by flag, status: count".into(), &[0, 1], &[(CountRows, None)]);
    let q1 = [
        (Sum, Some(quantity)),
        (Sum, Some(price)),
        (Avg, Some(quantity)),
        (Avg, Some(price)),
        (Min, Some(price)),
        (Max, Some(price)),
        (Count, Some(price)),
        (CountRows, None),
    ];
    time("Q1: by flag, status: eight".into(), &[0, 1], &q1);
    time("Q18: by order: sum(quantity)".into(), &[2], &[(Sum, Some(quantity))]);
    for key in 5..13 {
        time(format!("by {}: sum, count", name(key)), &[key], &[(Sum, Some(price)), (CountRows, None)]);
    }
    time("by far 10^6, far 10^5: count".into(), &[12, 10], &[(CountRows, None)]);
}
