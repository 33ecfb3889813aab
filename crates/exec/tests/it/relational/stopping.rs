//! Joins, sorts and aggregates that are stopped in the middle: budgets, cancellation, deadlines, lost interest and
//! panics, each with the error that it is to give and with all memory given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{
    AggregateCall, AggregateFunction, Context, ExecError, GroupingSet, GroupingSets, Join, JoinKind, Output, Plan,
    Predicate, Side, SortKey,
};
use numa::Budget;
use sched::Statement;
use storage::TableVersion;

use crate::support::{Function, Kind, context, drain, numbers, run, scan, scheduler, soon, started, table};

fn counting(rows: i64) -> Arc<TableVersion> {
    numbers(&[(0..rows).map(|i| Some(i * 7919 % rows)).collect()])
}

fn key(column: usize) -> SortKey {
    SortKey { column, descending: false, nulls_first: false }
}

fn sorted(rows: i64) -> Plan {
    scan(&counting(rows)).sort(vec![key(0)], None).unwrap()
}

fn joined(rows: i64) -> Plan {
    let table = counting(rows);
    Plan::join(join(scan(&table), scan(&table), vec![(0, 0)])).unwrap()
}

fn join(left: Plan, right: Plan, on: Vec<(usize, usize)>) -> Join {
    let kind = JoinKind::Inner;
    Join { left, right, kind, on, nulls_equal: false, null_aware: false, residual: None, build: Side::Right }
}

/// Counts the pairs of two tables: hours of work.
fn endless() -> Plan {
    let table = counting(1_000_000);
    let less = Predicate::Boolean(Function::new(Kind::Less, vec![0, 1]));
    let join = Join { residual: Some(less), ..join(scan(&table), scan(&table), Vec::new()) };
    counted(Plan::join(join).unwrap())
}

fn counted(plan: Plan) -> Plan {
    let field = Arc::new(Field::new("n", DataType::Int64, false));
    let function = AggregateFunction::CountRows;
    let call =
        AggregateCall { function, arguments: Vec::new(), distinct: false, filter: None, order: Vec::new(), field };
    plan.aggregate(Vec::new(), vec![call]).unwrap()
}

fn distinct(rows: i64) -> Plan {
    scan(&counting(rows)).aggregate(vec![0], Vec::new()).unwrap()
}

fn with_budget(bytes: u64) -> (Arc<Budget>, Context) {
    let budget = Budget::new("a test", bytes);
    let context = Context::new(scheduler(), Statement::new(1, budget.clone()));
    (budget, context)
}

/// Different texts, of which each table has a dictionary of its own.
fn texts(rows: i64, step: i64) -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let values = (0..rows).map(|i| Some(format!("a text that is number {}", i * step)));
    let array: ArrayRef = Arc::new(values.collect::<StringViewArray>());
    Arc::new(table(&schema, &[RecordBatch::try_new(schema.clone(), vec![array]).unwrap()]))
}

/// Plans with every kind of state, over `n` rows, and how many rows each gives.
fn stateful(rows: i64) -> Vec<(&'static str, Plan, usize)> {
    let all = rows as usize;
    let of_kind = |kind, left: Plan, right: Plan, build| {
        Plan::join(Join { kind, build, ..join(left, right, vec![(0, 0)]) }).unwrap()
    };
    let numbers_of = || scan(&counting(rows));
    let text = |step| scan(&texts(rows, step));
    let twice = || numbers(&[(0..rows).map(Some).collect(), (0..rows).map(Some).collect()]);
    let far = || numbers(&[(0..rows).map(|i| Some(i << 32)).collect()]);
    let field = Arc::new(Field::new("n", DataType::Int64, false));
    let function = AggregateFunction::Count;
    let distinct_count =
        AggregateCall { function, arguments: vec![0], distinct: true, filter: None, order: Vec::new(), field };
    let of_order = |function: AggregateFunction, output: DataType, order: Vec<SortKey>| {
        let field = Arc::new(Field::new("o", output, true));
        AggregateCall { function, arguments: vec![0], distinct: false, filter: None, order, field }
    };
    let median = || {
        let function = AggregateFunction::Quantile { share: 0.5, continuous: true };
        vec![of_order(function, DataType::Float64, vec![key(0)])]
    };
    let list = || {
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        vec![of_order(AggregateFunction::Collect { nulls: true }, list, vec![key(0)])]
    };
    let first = || vec![of_order(AggregateFunction::Nth { place: 1, nulls: true }, DataType::Int64, vec![key(0)])];
    let sets = |keys: &[&[usize]]| {
        let sets = keys.iter().map(|keys| GroupingSet { keys: keys.to_vec(), id: keys.len() as u64 }).collect();
        GroupingSets { sets, id: Arc::new(Field::new("set", DataType::UInt8, false)) }
    };
    let both = join(scan(&twice()), scan(&twice()), vec![(0, 0)]);
    vec![
        ("sort", sorted(rows), all),
        ("top-k", scan(&counting(rows)).sort(vec![key(0)], Some(65_000)).unwrap(), 65_000),
        ("join", joined(rows), all),
        ("join of far keys", of_kind(JoinKind::Inner, scan(&far()), scan(&far()), Side::Right), all),
        ("join of twice the keys", Plan::join(both).unwrap(), 4 * all),
        ("join of texts", of_kind(JoinKind::Inner, text(1), text(2), Side::Right), all / 2),
        ("left join", of_kind(JoinKind::Left, numbers_of(), numbers_of(), Side::Left), all),
        ("full join of texts", of_kind(JoinKind::Full, text(1), text(2), Side::Left), all + all / 2),
        ("semi join", of_kind(JoinKind::Semi(Side::Left), numbers_of(), numbers_of(), Side::Right), all),
        ("semi join, built", of_kind(JoinKind::Semi(Side::Left), text(1), text(2), Side::Left), all / 2),
        ("anti join", of_kind(JoinKind::Anti(Side::Left), text(1), text(2), Side::Right), all / 2),
        ("mark join", of_kind(JoinKind::Mark(Side::Left), text(1), text(2), Side::Right), all),
        ("distinct", distinct(rows), all),
        ("distinct texts", text(1).aggregate(vec![0], Vec::new()).unwrap(), all),
        ("distinct far keys", scan(&far()).aggregate(vec![0], Vec::new()).unwrap(), all),
        ("distinct count", numbers_of().aggregate(Vec::new(), vec![distinct_count]).unwrap(), 1),
        ("median", numbers_of().aggregate(Vec::new(), median()).unwrap(), 1),
        ("medians", numbers_of().aggregate(vec![0], median()).unwrap(), all),
        ("list", numbers_of().aggregate(Vec::new(), list()).unwrap(), 1),
        ("first rows", numbers_of().aggregate(vec![0], first()).unwrap(), all),
        ("grouping sets", scan(&twice()).aggregate_sets(vec![0], sets(&[&[0], &[]]), median()).unwrap(), all + 1),
    ]
}

#[test]
fn no_state_grows_past_the_budget() {
    for (name, plan, _) in stateful(300_000) {
        let (budget, context) = with_budget(1 << 20);
        let execution = started(&plan, context);
        let error = drain(&execution).expect_err("a mebibyte is not enough");
        assert!(matches!(error, ExecError::Memory(_)), "{name}: {error}");
        assert!(error.to_string().contains("a test"), "{name}: {error}");
        drop(execution);
        soon("giving the memory back", || budget.used_bytes() == 0);
        assert!(budget.peak_bytes() <= 1 << 20, "{name}");
    }
}

#[test]
fn what_fits_the_budget_runs_and_is_given_back() {
    for (name, plan, rows) in stateful(300_000) {
        let (budget, context) = with_budget(512 << 20);
        let execution = started(&plan, context);
        assert_eq!(drain(&execution).unwrap().num_rows(), rows, "{name}");
        assert!(budget.peak_bytes() > 300_000, "{name}: what it keeps is charged");
        drop(execution);
        soon("giving the memory back", || budget.used_bytes() == 0);
    }
}

#[test]
fn a_join_can_be_cancelled_in_the_middle() {
    let statement = Statement::new(1, Budget::unlimited());
    let execution = started(&endless(), Context::new(scheduler(), statement.clone()));
    let waiting = std::thread::spawn({
        let execution = execution.clone();
        move || drain(&execution)
    });
    std::thread::sleep(Duration::from_millis(100));
    statement.cancel();
    let cancelled = Instant::now();
    let error = waiting.join().unwrap().expect_err("it cannot be done yet");
    assert!(matches!(error, ExecError::Cancelled), "{error}");
    assert!(cancelled.elapsed() < Duration::from_secs(5), "{:?}", cancelled.elapsed());
}

#[test]
fn a_sort_can_be_cancelled_in_the_middle() {
    let plan = sorted(1_500_000);
    let statement = Statement::new(1, Budget::unlimited());
    let execution = started(&plan, Context::new(scheduler(), statement.clone()));
    let waiting = std::thread::spawn({
        let execution = execution.clone();
        move || drain(&execution)
    });
    std::thread::sleep(Duration::from_millis(20));
    statement.cancel();
    // A fast machine may have been done.
    if let Err(error) = waiting.join().unwrap() {
        assert!(matches!(error, ExecError::Cancelled), "{error}");
    }
}

/// Different long texts with one beginning: `n`, each so often, in an order of their own.
fn long_texts(texts: usize, times: usize) -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, false)]));
    let beginning = "what all of these texts begin with, which is rather long ".repeat(4);
    let text = |row: usize| format!("{beginning}{}", row % texts * 7919 % texts);
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..texts * times).map(text)));
    Arc::new(table(&schema, &[RecordBatch::try_new(schema.clone(), vec![array]).unwrap()]))
}

/// How long a statement takes; and how long it goes on after it was cancelled, the longest of several moments on its
/// way. A share of the former, and a little, is soon enough.
fn lateness(plan: &Plan, soon: impl Fn(Duration) -> Duration) -> (Duration, Duration) {
    let run = |after: Option<Duration>| {
        let statement = Statement::new(1, Budget::unlimited());
        let start = Instant::now();
        let execution = started(plan, Context::new(scheduler(), statement.clone()));
        let waiting = std::thread::spawn(move || (execution.collect_blocking().map(|_| ()), Instant::now()));
        if let Some(after) = after {
            std::thread::sleep(after.saturating_sub(start.elapsed()));
            statement.cancel();
        }
        let cancelled = Instant::now();
        let (result, end) = waiting.join().unwrap();
        assert!(matches!(result, Ok(()) | Err(ExecError::Cancelled)), "{result:?}");
        // What is done before it is cancelled is not late; what goes on to its end all the same is.
        (end - start, end.saturating_duration_since(cancelled))
    };
    let whole = (0..2).map(|_| run(None).0).min().unwrap();
    let late = (1..6).map(|sixth| {
        // The machine may have other things to do: one of a few tries has to be soon enough.
        let mut late = run(Some(whole * sixth / 6)).1;
        for _ in 0..3 {
            if late > soon(whole) {
                late = run(Some(whole * sixth / 6)).1;
            }
        }
        late
    });
    (whole, late.max().unwrap())
}

#[test]
fn what_works_on_long_texts_heeds_cancellation_at_any_moment() {
    let (plain, coded, other) = (long_texts(120_000, 1), long_texts(60_000, 3), long_texts(70_000, 3));
    let joined = |left: &Arc<TableVersion>, right: &Arc<TableVersion>| {
        counted(Plan::join(join(scan(left), scan(right), vec![(0, 0)])).unwrap())
    };
    for (name, plan) in [
        ("a join of plain texts", joined(&plain, &plain)),
        ("a join of two dictionaries", joined(&coded, &other)),
        ("a join of plain texts with a dictionary", joined(&plain, &coded)),
        ("a sort", counted(scan(&plain).sort(vec![key(0)], None).unwrap())),
        ("a top-k", counted(scan(&plain).sort(vec![key(0)], Some(10_000)).unwrap())),
    ] {
        let soon = |whole: Duration| whole / 4 + Duration::from_millis(20);
        let (whole, late) = lateness(&plan, soon);
        assert!(late <= soon(whole), "{name} takes {whole:?} and is late by {late:?}");
    }
}

#[test]
fn a_deadline_ends_a_join() {
    let statement = Statement::new(1, Budget::unlimited());
    statement.set_deadline(Instant::now() + Duration::from_millis(150));
    let execution = started(&endless(), Context::new(scheduler(), statement));
    let error = drain(&execution).expect_err("it takes hours");
    assert!(matches!(error, ExecError::DeadlineExceeded), "{error}");
}

#[test]
fn nobody_waits_for_a_dropped_execution() {
    let (budget, context) = with_budget(1 << 30);
    let statement = context.statement.clone();
    let execution = started(&endless(), context);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(execution.poll_next(&mut cx).is_pending());
    drop(execution);
    // What is dropped is stopped by whoever owns the statement, as a session does; then nothing is left of it.
    statement.cancel();
    soon("giving the memory back", || budget.used_bytes() == 0);
    // The workers are free for others.
    assert_eq!(run(&sorted(1000)).unwrap().num_rows(), 1000);
}

#[test]
fn a_panic_in_an_expression_ends_its_statement_alone() {
    let outputs = |function: Arc<Function>| {
        let field = Arc::new(Field::new("p", DataType::Boolean, true));
        vec![Output::Expression { expression: function, field }]
    };
    let table = counting(200_000);
    let panics = scan(&table).project(outputs(Function::new(Kind::Panic, vec![0]))).unwrap();
    let residual = Some(Predicate::Boolean(Function::new(Kind::Panic, vec![0, 1])));
    let plans = [
        ("below a sort", panics.clone().sort(vec![key(0)], None).unwrap()),
        ("below a top-k", panics.clone().sort(vec![key(0)], Some(3)).unwrap()),
        ("below an aggregate", panics.clone().aggregate(vec![0], Vec::new()).unwrap()),
        ("in a residual", Plan::join(Join { residual, ..join(scan(&table), scan(&table), vec![(0, 0)]) }).unwrap()),
        ("above a sort", sorted(200_000).project(outputs(Function::new(Kind::Panic, vec![0]))).unwrap()),
    ];
    for (name, plan) in plans {
        let error = drain(&started(&plan, context())).expect_err(name);
        assert!(matches!(&error, ExecError::Panicked(text) if text.contains("went off")), "{name}: {error}");
    }
    assert_eq!(run(&sorted(1000)).unwrap().num_rows(), 1000);
}
