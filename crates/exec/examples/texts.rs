//! Times what queries 9, 10 and 13 of TPC-H do with text, on two threads:
//! `cargo run --release -p nearside-exec --example texts [RUNS [NAME]]`.
//!
//! Each is run as its plan was written and as `exec::optimize` makes it; patterns both by Arrow's LIKE and as stored
//! texts are searched. Medians.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{like, nlike};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{
    AggregateCall, AggregateFunction, Context, ExecError, Expression, Join, JoinKind, Plan, Predicate, Side, SortKey,
    TextTest, execute_on_workers,
};
use numa::{Allocator, Budget, Topology};
use random::mixed;
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};

const WORDS: [&str; 24] = [
    "packages",
    "requests",
    "accounts",
    "deposits",
    "foxes",
    "ideas",
    "special",
    "pending",
    "furiously",
    "carefully",
    "the",
    "sleep",
    "haggle",
    "express",
    "blithely",
    "regular",
    "final",
    "among",
    "above",
    "even",
    "quickly",
    "ironic",
    "bold",
    "slyly",
];

/// About fifty bytes, nearly always another text.
fn comment(row: u64) -> String {
    let word = |i: u64| WORDS[(mixed(row * 8 + i) % WORDS.len() as u64) as usize];
    (0..6 + mixed(row) % 3).map(word).collect::<Vec<_>>().join(" ")
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Arc<TableVersion> {
    let fields: Vec<Field> = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    (0..batch.num_rows()).step_by(1 << 16).for_each(|start| {
        stager.append(&batch.slice(start, (1 << 16).min(batch.num_rows() - start))).unwrap();
    });
    let allocators = vec![ColumnAllocator::unplaced(); schema.fields().len()];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    Arc::new(TableVersion::empty(&schema).with_appended(part))
}

/// LIKE over one column; `searched` as stored texts.
#[derive(Debug)]
struct Like {
    columns: [usize; 1],
    pattern: &'static str,
    negated: bool,
    test: Option<TextTest>,
}

impl Like {
    fn of(column: usize, pattern: &'static str, negated: bool, searched: bool) -> Predicate {
        let test = searched.then(|| TextTest::like(pattern, negated));
        Predicate::Boolean(Arc::new(Like { columns: [column], pattern, negated, test }))
    }
}

impl Expression for Like {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let pattern = StringViewArray::new_scalar(self.pattern);
        let by = if self.negated { nlike } else { like };
        Ok(Arc::new(by(batch.column(0), &pattern)?))
    }

    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn describe(&self) -> String {
        format!("LIKE {}", self.pattern)
    }

    fn fallible(&self) -> bool {
        false
    }

    fn text_test(&self) -> Option<&TextTest> {
        self.test.as_ref()
    }
}

fn call(function: AggregateFunction, arguments: Vec<usize>) -> AggregateCall {
    let field = Arc::new(Field::new(format!("{function:?}"), DataType::Int64, true));
    AggregateCall { function, arguments, distinct: false, filter: None, order: Vec::new(), field }
}

fn joined(left: Plan, right: Plan, on: (usize, usize), kind: JoinKind) -> Plan {
    let (on, build) = (vec![on], Side::Left);
    Plan::join(Join { left, right, kind, on, nulls_equal: false, null_aware: false, residual: None, build }).unwrap()
}

fn plans(customers: u64) -> Vec<(String, Plan)> {
    let orders = customers * 10;
    let numbers =
        |rows: u64, of: &dyn Fn(u64) -> i64| -> ArrayRef { Arc::new((0..rows).map(of).collect::<Int64Array>()) };
    let texts = |rows: u64, of: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..rows).map(of)))
    };
    // Key, customer (two of three have orders), comment, price.
    let order_table = table(vec![
        ("key", numbers(orders, &|n| (n / 8 * 32 + n % 8) as i64)),
        ("customer", numbers(orders, &|n| (mixed(n) % (customers / 3 * 2)) as i64 / 2 * 3)),
        ("comment", texts(orders, &comment)),
        ("price", numbers(orders, &|n| (mixed(n ^ 5) % 50_000_000) as i64)),
    ]);
    // Key, name, address, comment.
    let customer_table = table(vec![
        ("key", numbers(customers, &|n| n as i64)),
        ("name", texts(customers, &|n| format!("Customer#{n:09}"))),
        ("address", texts(customers, &|n| format!("{:x} {:x}", mixed(n), mixed(n + 7)))),
        ("comment", texts(customers, &|n| comment(n) + &comment(n + 1))),
    ]);
    let part_table = table(vec![("name", texts(customers * 4 / 3, &|n| comment(n / 2)))]);
    let mut all = Vec::new();
    let count = || call(AggregateFunction::CountRows, vec![]);
    let mut patterns =
        |what: &str, snapshot: &Arc<TableVersion>, column: usize, pattern: &'static str, negated: bool| {
            for searched in [false, true] {
                let scan = Plan::scan("t", snapshot.clone(), vec![column]).unwrap();
                let plan = scan.filter(Like::of(0, pattern, negated, searched)).unwrap();
                let how = if searched { "searched" } else { "by Arrow" };
                all.push((format!("{what} {pattern}, {how}"), plan.aggregate(vec![], vec![count()]).unwrap()));
            }
        };
    patterns("Q13: orders NOT LIKE", &order_table, 2, "%special%requests%", true);
    patterns("orders LIKE", &order_table, 2, "%final%", false);
    patterns("orders LIKE", &order_table, 2, "%zebra%", false);
    patterns("orders LIKE", &order_table, 2, "slyly%bold", false);
    patterns("orders LIKE", &order_table, 2, "%e_e%", false);
    patterns("Q9: parts LIKE", &part_table, 0, "%slyly%", false);
    patterns("parts LIKE", &part_table, 0, "slyly%", false);

    let orders = |columns: &[usize]| Plan::scan("orders", order_table.clone(), columns.to_vec()).unwrap();
    let customers = |columns: &[usize]| Plan::scan("customers", customer_table.clone(), columns.to_vec()).unwrap();
    let few = orders(&[0, 1, 2]).filter(Like::of(2, "%special%requests%", true, true)).unwrap();
    let q13 = joined(customers(&[0]), few, (0, 2 - 1), JoinKind::Left);
    let q13 = q13.aggregate(vec![0], vec![call(AggregateFunction::Count, vec![1])]).unwrap();
    all.push(("Q13: orders per customer".into(), q13.aggregate(vec![1], vec![count()]).unwrap()));
    let some: ArrayRef = Arc::new(Int64Array::from(vec![4_000_000]));
    let some = Predicate::Compare { column: 2, op: exec::CompareOp::Lt, value: some.into() };
    let q10 = joined(customers(&[0, 1, 2, 3]), orders(&[0, 1, 3]).filter(some).unwrap(), (0, 1), JoinKind::Inner);
    let q10 = q10.aggregate(vec![0, 1, 2, 3], vec![call(AggregateFunction::Sum, vec![6])]).unwrap();
    let best = SortKey { column: 4, descending: true, nulls_first: false };
    all.push(("Q10: best customers".into(), q10.sort(vec![best], Some(20)).unwrap()));
    all
}

fn main() {
    let runs: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(9);
    let name = std::env::args().nth(2).unwrap_or_default();
    let config = Config { threads: Some(2), ..Config::default() };
    let scheduler = Scheduler::new(Arc::new(Topology::synthetic(1, 1, 2, 1)), config);
    for (what, plan) in plans(150_000).into_iter().filter(|(what, _)| what.contains(&name)) {
        let time = |plan: &Arc<Plan>| {
            let context = Context::new(scheduler.clone(), Statement::new(1, Budget::unlimited()));
            let start = Instant::now();
            let batches = execute_on_workers(plan.clone(), context).collect_blocking().unwrap();
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            (start.elapsed().as_secs_f64() * 1e3, rows)
        };
        let began = Instant::now();
        let better = Arc::new(exec::optimize(plan.clone()));
        let optimizing = began.elapsed().as_secs_f64() * 1e3;
        let plan = Arc::new(plan);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            let (written, optimized) = (time(&plan), time(&better));
            assert_eq!(written.1, optimized.1);
            times[0].push(written.0);
            times[1].push(optimized.0);
        }
        let [written, optimized] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[runs / 2]
        });
        println!("{what:44} as written {written:8.2} ms, optimised {optimized:8.2} ms (in {optimizing:.2} ms)");
    }
}
