//! Scans that only filter and project, at rising selectivity: `cargo run --release -p nearside-exec --example scan`.
//!
//! Arguments: millions of rows (16), rounds (9). Of a table with a permuted key, a column of few values, a text of few
//! values and a plain float: the best time of each query with the whole result taken by one consumer; and the time of a
//! plan over a few rows, on the calling thread.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use exec::{CompareOp, Context, ExecError, Expression, Output, Plan, Predicate, ScanOptions, SchedParallel, execute};
use numa::{Allocator, Budget, Topology};
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Stager, TableVersion, build_part};

const BATCH: usize = 1 << 16;

fn main() {
    let number = |at: usize, or: usize| std::env::args().nth(at).map_or(or, |text| text.parse().expect("a number"));
    let (rows, rounds) = (number(1, 16) * 1_000_000, number(2, 9));
    let scheduler = Scheduler::new(Arc::new(Topology::discover().expect("this machine")), Config::default());
    let table = Arc::new(table_of(rows, &scheduler));
    let small = Arc::new(table_of(1000, &scheduler));
    let below = |plan: Plan, most: usize| {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![most as i64]));
        plan.filter(Predicate::Compare { column: 0, op: CompareOp::Lt, value: value.into() }).expect("a filter")
    };
    let scan = |table: &Arc<TableVersion>, columns: &[usize]| {
        Plan::scan("t", table.clone(), columns.to_vec()).expect("a scan")
    };
    for (what, share) in [("0.01%", 10_000), ("0.1%", 1000), ("1%", 100), ("10%", 10), ("50%", 2), ("100%", 1)] {
        let plan = below(scan(&table, &[0, 1, 2, 3]), rows / share);
        report(&format!("4 columns of {what}"), plan, rounds, &scheduler);
    }
    for (what, share) in [("1%", 100), ("100%", 1)] {
        report(&format!("key alone of {what}"), below(scan(&table, &[0]), rows / share), rounds, &scheduler);
        let plan = mapped(below(scan(&table, &[0, 1]), rows / share), 0);
        report(&format!("a sum of two of {what}"), plan, rounds, &scheduler);
        let plan = mapped(below(scan(&table, &[0, 2]), rows / share), 1);
        report(&format!("a length of few texts of {what}"), plan, rounds, &scheduler);
    }
    report("no filter, limit", scan(&table, &[0, 1, 2, 3]).limit(10, Some(100)), rounds, &scheduler);
    let tiny = Arc::new(below(scan(&small, &[0, 1, 2, 3]), 10));
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        (0..10_000).for_each(|_| assert_eq!(taken(&tiny, &scheduler), 10));
        best = best.min(start.elapsed().as_secs_f64() / 10_000.0);
    }
    println!("10 of 1000 rows on the caller: {:.0} ns", best * 1e9);
}

fn report(what: &str, plan: Plan, rounds: usize, scheduler: &Arc<Scheduler>) {
    let plan = Arc::new(plan);
    let (mut best, mut rows) = (f64::MAX, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        rows = taken(&plan, scheduler);
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{what}: {rows} rows, {:.3} ms", best * 1e3);
}

fn taken(plan: &Arc<Plan>, scheduler: &Arc<Scheduler>) -> usize {
    let mut context = Context::new(scheduler.clone(), Statement::new(1, Budget::unlimited()));
    context.scan = ScanOptions { index_lookups: false, ..ScanOptions::default() };
    let execution = execute(plan.clone(), context);
    std::iter::from_fn(|| execution.next_blocking()).map(|batch| batch.expect("no error").num_rows()).sum()
}

fn table_of(rows: usize, scheduler: &Arc<Scheduler>) -> TableVersion {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, false),
        Field::new("f", DataType::Float64, false),
    ]));
    let mut staged = Vec::new();
    for producer in (0..rows).step_by(64 * BATCH) {
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        for from in (producer..rows.min(producer + 64 * BATCH)).step_by(BATCH) {
            let range = from..rows.min(from + BATCH);
            let key = |row: usize| (row as u128 * 7_368_787 % rows as u128) as i64;
            let k: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone().map(key)));
            let v: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone().map(|row| (row % 1000) as i64)));
            let text = |row: usize| format!("{:>width$} of a few", row % 997, width = row % 20);
            let s: ArrayRef = Arc::new(StringViewArray::from_iter_values(range.clone().map(text)));
            let f: ArrayRef = Arc::new(Float64Array::from_iter_values(range.map(|row| (row as f64).sqrt())));
            stager.append(&RecordBatch::try_new(schema.clone(), vec![k, v, s, f]).expect("a batch")).expect("staged");
        }
        staged.push(stager.finish().expect("staged"));
    }
    let lent = SchedParallel::new(scheduler.clone(), Statement::new(1, Budget::unlimited()));
    let part = build_part(&schema, staged, &vec![ColumnAllocator::unplaced(); 4], &lent).expect("built");
    TableVersion::empty(&schema).with_appended(part)
}

/// The plan's rows with one computed column: the sum of both columns, or the length of the second.
fn mapped(plan: Plan, which: usize) -> Plan {
    let columns = if which == 0 { vec![0, 1] } else { vec![1] };
    let expression = Arc::new(Mapped { columns });
    let field = Arc::new(Field::new("y", DataType::Int64, true));
    plan.project(vec![Output::Expression { expression, field }]).expect("a projection")
}

#[derive(Debug)]
struct Mapped {
    columns: Vec<usize>,
}

impl Expression for Mapped {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        if self.columns.len() == 1 {
            let texts = batch.column(0).as_string_view();
            return Ok(Arc::new(texts.iter().map(|text| text.map(|text| text.len() as i64)).collect::<Int64Array>()));
        }
        let sum = arrow::compute::kernels::numeric::add_wrapping(batch.column(0), batch.column(1))?;
        Ok(Arc::new(sum.as_primitive::<Int64Type>().clone()))
    }

    fn data_type(&self) -> &DataType {
        &DataType::Int64
    }

    fn fallible(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("mapped {:?}", self.columns)
    }
}
