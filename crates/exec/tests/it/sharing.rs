//! Scans that share passes: the rows are those of scans that do not, whoever stops in the middle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use exec::{
    AggregateCall, AggregateFunction, CompareOp, Context, ExecError, Execution, Join, JoinKind, Plan, Predicate,
    Profile, ScanOptions, ScanSharing, SharedScans, Side, TouchPhase, execute_on_workers, execute_profiled,
};
use numa::{Allocator, Budget, Topology};
use random::Random;
use sched::{Affinity, Config, Scheduler, Statement};
use storage::{RowsToDelete, TableVersion};

use crate::support::{Function, Kind, drain, int, scan, scheduler, soon, table};

const GRANULE: usize = 65_536;
/// Values of the first column, which follow no order.
const VALUES: usize = 50_000;

/// Two segments with their own dictionaries, the second of which ends within a granule; every seventh row of the first
/// is deleted.
fn numbers(deletes: bool) -> Arc<TableVersion> {
    let fields = ["a", "b", "n"].map(|name| Field::new(name, DataType::Int64, name == "n"));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let mut random = Random::new(11);
    let mut batch = |first: usize, rows: usize| {
        let mut of = |values: usize| (0..rows).map(|_| random.below(values) as i64).collect::<Int64Array>();
        let (a, b) = (of(VALUES), of(1000));
        let n = (first..first + rows).map(|row| (row % 3 != 0).then_some(row as i64)).collect::<Int64Array>();
        let columns: Vec<ArrayRef> = vec![Arc::new(a), Arc::new(b), Arc::new(n)];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let version = table(&schema, &[batch(0, 5 * GRANULE), batch(5 * GRANULE, 3 * GRANULE + 4711)]);
    if !deletes {
        return Arc::new(version);
    }
    let rows = (0..5 * GRANULE as u32).step_by(7).collect();
    let delete = RowsToDelete { part: 0, segment: 0, rows };
    Arc::new(version.with_deleted(&[delete], &Allocator::unplaced()).unwrap())
}

fn compare(column: usize, op: CompareOp, value: i64) -> Predicate {
    Predicate::Compare { column, op, value: int(value).into() }
}

fn between(column: usize, low: i64, high: i64) -> Predicate {
    Predicate::And(vec![compare(column, CompareOp::GtEq, low), compare(column, CompareOp::Lt, high)])
}

/// Conditions of all kinds; most leave few rows.
fn condition(random: &mut Random) -> Predicate {
    let low = random.below(VALUES) as i64;
    let narrow = between(0, low, low + 1 + random.below(60) as i64);
    let list: ArrayRef =
        Arc::new((0..1 + random.below(30)).map(|_| random.below(VALUES) as i64).collect::<Int64Array>());
    match random.below(9) {
        0 => compare(0, CompareOp::GtEq, low),
        1 => compare(0, CompareOp::NotEq, low),
        2 => Predicate::In { column: 0, values: list, negated: random.one_in(4) },
        3 => Predicate::And(vec![narrow, between(1, 100, 600)]),
        4 => Predicate::And(vec![narrow, Predicate::IsNull { column: 2, negated: true }]),
        5 => Predicate::And(vec![narrow, Predicate::Boolean(Function::new(Kind::Even, vec![1]))]),
        6 => Predicate::Or(vec![narrow, compare(1, CompareOp::Eq, 7)]),
        _ => narrow,
    }
}

fn plan_over(snapshot: &Arc<TableVersion>, random: &mut Random) -> Plan {
    let plan = scan(snapshot).filter(condition(random)).unwrap();
    let sum = |function, arguments, name| AggregateCall {
        function,
        arguments,
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: Arc::new(Field::new(name, DataType::Int64, true)),
    };
    match random.below(5) {
        0 => plan.limit(random.below(3), Some(random.below(400))),
        1 => {
            let calls =
                vec![sum(AggregateFunction::CountRows, vec![], "rows"), sum(AggregateFunction::Sum, vec![2], "sum")];
            plan.aggregate(Vec::new(), calls).unwrap()
        }
        2 => {
            let other = scan(snapshot).filter(between(0, 100, 140)).unwrap();
            let (kind, on, build) = (JoinKind::Inner, vec![(1, 1)], Side::Right);
            let join = Join {
                left: plan,
                right: other,
                kind,
                on,
                nulls_equal: false,
                null_aware: false,
                residual: None,
                build,
            };
            Plan::join(join).unwrap()
        }
        _ => plan,
    }
}

fn context_of(sharing: ScanSharing, shared: &Arc<SharedScans>, time: u64) -> Context {
    let scan = ScanOptions { sharing, ..ScanOptions::default() };
    let context = Context::new(scheduler(), Statement::new(time, Budget::unlimited()));
    Context { scan, shared: shared.clone(), ..context }
}

/// Statements of many threads, of which some stop in the middle, find what they find alone, in the same order.
#[test]
fn statements_of_many_threads_find_what_each_finds_alone() {
    for (seed, deletes) in [(1, false), (2, true)] {
        let (snapshot, shared) = (&numbers(deletes), &Arc::new(SharedScans::default()));
        let (all_begin, times) = (&Barrier::new(6), &AtomicU64::new(1));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || {
                    let mut random = Random::new(seed * 1000 + thread);
                    for _ in 0..8 {
                        let plan = plan_over(snapshot, &mut random);
                        let expected = drain(&run(&plan, context_of(ScanSharing::Off, shared, 0)));
                        let context = context_of(ScanSharing::On, shared, times.fetch_add(1, Relaxed));
                        all_begin.wait();
                        let stops = random.one_in(4).then(|| random.below(4));
                        let statement = context.statement.clone();
                        match (stops, run(&plan, context)) {
                            (None, execution) => assert_eq!(drain(&execution).unwrap(), expected.unwrap(), "{plan}"),
                            // Gone before anybody asks, after a batch, or cancelled from elsewhere.
                            (Some(0), execution) => drop(execution),
                            (Some(1), execution) => {
                                execution.next_blocking().transpose().unwrap();
                            }
                            (Some(_), execution) => {
                                scope.spawn(move || statement.cancel());
                                match drain(&execution) {
                                    Ok(batch) => assert_eq!(batch, expected.unwrap(), "{plan}"),
                                    Err(error) => assert!(matches!(error, ExecError::Cancelled), "{error}"),
                                }
                            }
                        }
                    }
                });
            }
        });
        soon("all scans detach", || shared.attached() == 0 && shared.kept_bytes() == 0);
    }
}

fn run(plan: &Plan, context: Context) -> Execution {
    execute_on_workers(Arc::new(plan.clone()), context)
}

/// One worker, which is busy until the receiver's sender goes.
fn busy_worker() -> (Arc<Scheduler>, mpsc::Sender<()>) {
    let topology = Arc::new(Topology::synthetic(1, 1, 1, 1));
    let one = Scheduler::new(topology, Config { threads: Some(1), ..Config::default() });
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    one.spawn(&Statement::new(0, Budget::unlimited()), Affinity::Anywhere, move || {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    has_begun.recv().unwrap();
    (one, go)
}

fn polled(execution: &Execution) {
    let first = execution.poll_next(&mut TaskContext::from_waker(Waker::noop()));
    assert!(matches!(first, Poll::Pending));
}

/// A statement that waits attaches before it is prepared, the first one too: its own scans read for each other.
#[test]
fn who_waits_attaches_early() {
    let (snapshot, shared) = (numbers(false), Arc::new(SharedScans::default()));
    let topology = Arc::new(Topology::synthetic(1, 1, 1, 1));
    let one = Scheduler::new(topology, Config { threads: Some(1), ..Config::default() });
    let plan = scan(&snapshot).filter(between(0, 50, 90)).unwrap();
    let context = |time| Context { scheduler: one.clone(), ..context_of(ScanSharing::On, &shared, time) };
    let of_first = context(1);
    // The only worker is busy for the statement itself.
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    one.spawn(&of_first.statement, Affinity::Anywhere, move || {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    has_begun.recv().unwrap();
    let first = run(&plan, of_first);
    polled(&first);
    assert_eq!(shared.attached(), 2);
    let second = run(&plan, context(2));
    polled(&second);
    assert_eq!(shared.attached(), 4, "each in two segments");
    drop(go);
    let expected = drain(&run(&plan, context_of(ScanSharing::Off, &shared, 0))).unwrap();
    assert_eq!(drain(&first).unwrap(), expected);
    assert_eq!(drain(&second).unwrap(), expected);
    drop((first, second));
    soon("all scans detach", || shared.attached() == 0 && shared.kept_bytes() == 0);
}

/// Statements that wait for older ones have their rows found meanwhile: one reads, and that is booked to it.
#[test]
fn the_oldest_reads_for_those_that_wait() {
    let (snapshot, shared) = (numbers(true), Arc::new(SharedScans::default()));
    let (one, go) = busy_worker();
    let statements: Vec<_> = (0..10)
        .map(|i| {
            let plan = scan(&snapshot).filter(between(0, 500 * i, 500 * i + 40)).unwrap();
            let context = Context { scheduler: one.clone(), ..context_of(ScanSharing::On, &shared, 1 + i as u64) };
            let (profile, traffic) = (Profile::new(&plan), context.traffic.clone());
            let execution = execute_profiled(Arc::new(plan.clone()), context, &profile);
            polled(&execution);
            (plan, profile, traffic, execution)
        })
        .collect();
    assert_eq!(shared.attached(), 10 * 2, "each reads two segments");
    drop(go);
    for (place, (plan, profile, traffic, execution)) in statements.iter().enumerate() {
        let expected = drain(&run(plan, context_of(ScanSharing::Off, &shared, 0))).unwrap();
        assert_eq!(drain(execution).unwrap(), expected);
        let operator = profile.operators().iter().flatten().copied().next().unwrap();
        let given_and_taken = (operator.granules_shared, operator.granules_taken);
        assert_eq!(given_and_taken, if place == 0 { (9, 0) } else { (0, 9) }, "{place}");
        let lines = traffic.lines();
        let found = lines.iter().filter(|line| line.phase == TouchPhase::Find).map(|line| line.touched.bytes);
        assert_eq!(found.sum::<u64>() > 0, place == 0, "{place}: {lines:?}");
    }
    drop(statements);
    soon("all scans detach", || shared.attached() == 0 && shared.kept_bytes() == 0);
}

/// A statement that nobody drains, one that fails and one that was dropped do not hold up another, which ends with all
/// its rows, and what was found for them goes.
#[test]
fn slow_failing_and_lost_statements_hold_up_nobody() {
    let (snapshot, shared) = (numbers(false), Arc::new(SharedScans::default()));
    let (one, go) = busy_worker();
    let context = |time| Context { scheduler: one.clone(), ..context_of(ScanSharing::On, &shared, time) };
    let narrow = |low| scan(&snapshot).filter(between(0, low, low + 30)).unwrap();
    let fails = scan(&snapshot).filter(between(0, 10, 20)).unwrap();
    let fails = fails.filter(Predicate::Boolean(Function::new(Kind::Panic, vec![1]))).unwrap();
    let (failing, stalled, lost, good) = (
        run(&fails, context(1)),
        run(&narrow(50), context(2)),
        run(&narrow(90), context(3)),
        run(&narrow(70), context(4)),
    );
    [&failing, &stalled, &lost, &good].into_iter().for_each(polled);
    drop(lost);
    soon("the lost one detaches", || shared.attached() == 3 * 2);
    drop(go);
    assert_eq!(drain(&good).unwrap(), drain(&run(&narrow(70), context_of(ScanSharing::Off, &shared, 0))).unwrap());
    assert!(matches!(drain(&failing).unwrap_err(), ExecError::Panicked(_)));
    assert_eq!(drain(&stalled).unwrap(), drain(&run(&narrow(50), context_of(ScanSharing::Off, &shared, 0))).unwrap());
    soon("all scans detach", || shared.attached() == 0 && shared.kept_bytes() == 0);
}

/// A statement of which more time has passed than is left does not spend the rest on others.
#[test]
fn a_statement_that_is_late_works_for_itself() {
    let (snapshot, shared) = (numbers(false), Arc::new(SharedScans::default()));
    for late in [true, false] {
        let (one, go) = busy_worker();
        let plan = scan(&snapshot).filter(between(0, 50, 90)).unwrap();
        let profile = Profile::new(&plan);
        let context = |time| Context { scheduler: one.clone(), ..context_of(ScanSharing::On, &shared, time) };
        let of_first = context(1);
        let statement = of_first.statement.clone();
        let first = execute_profiled(Arc::new(plan.clone()), of_first, &profile);
        let second = run(&plan, context(2));
        [&first, &second].into_iter().for_each(polled);
        let passed = Duration::from_millis(400);
        soon("time passes", || statement.began().elapsed() > passed);
        let left = if late { passed / 2 } else { Duration::from_secs(100) };
        statement.set_deadline(Instant::now() + left);
        drop(go);
        // It may well be too late altogether, which is its own affair.
        let ended = drain(&first).err();
        assert!(ended.as_ref().is_none_or(|error| late && matches!(error, ExecError::DeadlineExceeded)), "{ended:?}");
        let expected = drain(&run(&plan, context_of(ScanSharing::Off, &shared, 0))).unwrap();
        assert_eq!(drain(&second).unwrap(), expected);
        let given: u64 = profile.operators().iter().flatten().map(|operator| operator.granules_shared).sum();
        assert_eq!(given, if late { 0 } else { 9 });
    }
}

/// What is off reads as if nobody else was there, and does not take part in what others share.
#[test]
fn who_does_not_share_takes_nothing() {
    let (snapshot, shared) = (numbers(false), Arc::new(SharedScans::default()));
    let (one, go) = busy_worker();
    let plan = scan(&snapshot).filter(between(0, 50, 90)).unwrap();
    let profiles: Vec<_> = [ScanSharing::Off, ScanSharing::On, ScanSharing::Auto, ScanSharing::On]
        .into_iter()
        .zip(1..)
        .map(|(sharing, time)| {
            let context = Context { scheduler: one.clone(), ..context_of(sharing, &shared, time) };
            let profile = Profile::new(&plan);
            let execution = execute_profiled(Arc::new(plan.clone()), context, &profile);
            polled(&execution);
            (profile, execution)
        })
        .collect();
    drop(go);
    let counts = profiles.iter().map(|(profile, execution)| {
        let rows = drain(execution).unwrap().column(0).as_primitive::<Int64Type>().len();
        assert!(rows > 0);
        let operators = profile.operators();
        let sum = |of: fn(&exec::OperatorProfile) -> u64| operators.iter().flatten().map(of).sum::<u64>();
        (sum(|o| o.granules_shared), sum(|o| o.granules_taken))
    });
    // The column is too small for `auto`.
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 0), (9, 0), (0, 0), (0, 9)]);
}
