//! How results come: shared, bounded, in order, and ended by limits, errors, cancellation and loss of interest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use exec::{
    CompareOp, Context, ExecError, Join, JoinKind, Output, Plan, Predicate, SchedParallel, Side, SortKey, Union,
    execute,
};
use numa::{Budget, Topology};
use sched::{Affinity, Config, Scheduler, Statement};
use storage::{Interruption, Parallel, TableVersion};

use crate::support::{
    Function, Kind, column_of_numbers, context, int, numbers, run, run_default, scan, scheduler, soon, started,
};

/// One of the ways a plan can be run.
type Way = fn(&Plan) -> Result<RecordBatch, ExecError>;

const GRANULE: i64 = 65_536;

/// 0, 1, 2, ... in one segment.
fn counting(rows: i64) -> Arc<TableVersion> {
    numbers(&[(0..rows).map(Some).collect()])
}

fn is_one_of(values: Vec<i64>) -> Predicate {
    Predicate::In { column: 0, values: Arc::new(arrow::array::Int64Array::from(values)), negated: false }
}

fn with_function(plan: Plan, function: &Arc<Function>) -> Plan {
    use exec::Expression;
    let field = Arc::new(Field::new("y", function.data_type().clone(), true));
    plan.project(vec![Output::Expression { expression: function.clone(), field }]).unwrap()
}

#[test]
fn rows_keep_their_order_and_batches_their_size() {
    let rows = 5 * GRANULE + 1000;
    let plan = scan(&counting(rows));
    let execution = started(&plan, context());
    let batches = execution.collect_blocking().unwrap();
    assert!(batches.iter().all(|b| b.num_rows() <= 8192));
    let all: Vec<_> = batches.iter().flat_map(column_of_numbers).collect();
    assert!(all.into_iter().eq((0..rows).map(Some)));
    let small = Context { batch_rows: 100, ..context() };
    let batches = started(&plan.limit(70_000, Some(1050)), small).collect_blocking().unwrap();
    assert!(batches.iter().all(|b| b.num_rows() <= 100));
    assert!(batches.iter().flat_map(column_of_numbers).eq((70_000..71_050).map(Some)));
}

#[test]
fn a_few_rows_of_each_granule_come_together() {
    let wanted: Vec<i64> = (0..40).map(|g| g * GRANULE + 17 * g).collect();
    let plan = scan(&counting(40 * GRANULE)).filter(is_one_of(wanted.clone())).unwrap();
    let batches = started(&plan, context()).collect_blocking().unwrap();
    assert_eq!(batches.len(), 1);
    assert!(column_of_numbers(&batches[0]).into_iter().eq(wanted.into_iter().map(Some)));
}

/// Enough granules for tasks of several, and shares of rows on both sides of where blocks are unpacked whole.
#[test]
fn every_share_of_many_granules_comes_in_order() {
    let rows = 70 * GRANULE + 77;
    let one =
        Scheduler::new(Arc::new(Topology::synthetic(1, 1, 1, 1)), Config { threads: Some(1), ..Config::default() });
    let alone = || Context::new(one.clone(), Statement::new(1, Budget::unlimited()));
    let value = |row: i64| row.wrapping_mul(7919).rem_euclid(1009);
    let table = numbers(&[(0..rows).map(|row| Some(value(row))).collect()]);
    for below in [1, 9, 40, 300, 1008, 1009] {
        let predicate = Predicate::Compare { column: 0, op: CompareOp::Lt, value: int(below).into() };
        let plan = scan(&table).filter(predicate).unwrap();
        for context in [alone(), Context { batch_rows: 1000, ..context() }, Context { batch_rows: 90, ..context() }] {
            let most = context.batch_rows;
            let batches = started(&plan, context).collect_blocking().unwrap();
            assert!(batches.iter().all(|batch| (1..=most).contains(&batch.num_rows())));
            let expected = (0..rows).map(value).filter(|value| *value < below).map(Some);
            assert!(batches.iter().flat_map(column_of_numbers).eq(expected), "below {below}, batches of {most}");
        }
        // Of a granule as many as there are, one less and one more: limits end within it or at its end.
        let in_first = (0..GRANULE).map(value).filter(|value| *value < below).count();
        for fetch in [in_first - 1, in_first, in_first + 1] {
            let some = run_default(&plan.clone().limit(0, Some(fetch)));
            let expected = (0..rows).map(value).filter(|value| *value < below).take(fetch).map(Some);
            assert!(some.iter().flat_map(column_of_numbers).eq(expected), "{fetch} below {below}");
        }
        let limit = plan.limit(5000, Some(20_000));
        let some = run_default(&limit).iter().flat_map(column_of_numbers).collect::<Vec<_>>();
        let expected = (0..rows).map(value).filter(|value| *value < below).map(Some);
        assert!(some.into_iter().eq(expected.skip(5000).take(20_000)), "below {below}");
    }
}

#[test]
fn consumers_share_the_rows() {
    let rows = 12 * GRANULE;
    let execution = started(&scan(&counting(rows)), context());
    let consumers: Vec<_> = (0..5)
        .map(|_| {
            let execution = execution.clone();
            std::thread::spawn(move || {
                let mut own = Vec::new();
                while let Some(batch) = execution.next_blocking() {
                    own.extend(column_of_numbers(&batch.unwrap()).into_iter().flatten());
                }
                own
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    for consumer in consumers {
        let own = consumer.join().unwrap();
        assert!(own.is_sorted(), "each consumer sees rows in order");
        own.into_iter().for_each(|v| assert!(all.insert(v), "{v} came twice"));
    }
    assert_eq!(all.len(), rows as usize);
}

#[test]
fn consumers_of_a_tiny_statement_share_it_too() {
    let execution = execute(Arc::new(scan(&counting(3000))), Context { batch_rows: 7, ..context() });
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let execution = execution.clone();
            std::thread::spawn(move || {
                std::iter::from_fn(|| execution.next_blocking()).map(|b| b.unwrap().num_rows()).sum::<usize>()
            })
        })
        .collect();
    assert_eq!(consumers.into_iter().map(|c| c.join().unwrap()).sum::<usize>(), 3000);
}

/// Counts how often it is woken.
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn nothing_starts_before_a_poll_and_polls_do_not_wait() {
    let function = Function::new(Kind::Add(1), vec![0]);
    let plan = with_function(scan(&counting(3 * GRANULE)), &function);
    let execution = started(&plan, context());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(function.rows(), 0);
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(counter.clone());
    let mut cx = TaskContext::from_waker(&waker);
    let mut rows = 0;
    loop {
        let woken = counter.0.load(Ordering::SeqCst);
        match execution.poll_next(&mut cx) {
            Poll::Ready(None) => break,
            Poll::Ready(Some(batch)) => rows += batch.unwrap().num_rows(),
            Poll::Pending => soon("a wake-up", || counter.0.load(Ordering::SeqCst) > woken),
        }
    }
    assert_eq!(rows, 3 * GRANULE as usize);
}

#[test]
fn an_unconsumed_result_stays_within_the_window() {
    let budget = Budget::new("test", 1 << 30);
    let context = Context::new(scheduler(), Statement::new(1, budget.clone()));
    let execution = started(&scan(&counting(60 * GRANULE)), context);
    let first = execution.next_blocking().unwrap().unwrap();
    assert_eq!(column_of_numbers(&first)[0], Some(0));
    std::thread::sleep(Duration::from_millis(100));
    // Three threads: six steps in slots, as many rows in ready batches (48 of 8192), the one just taken; of 8 bytes
    // times a granule.
    let window = 13 * 8 * GRANULE as u64;
    assert!(budget.peak_bytes() <= window, "{} bytes", budget.peak_bytes());
    drop(execution);
    soon("giving the memory back", || budget.used_bytes() == 0);
}

#[test]
fn a_small_budget_slows_down_and_a_tiny_one_fails() {
    let rows = 40 * GRANULE;
    let plan = scan(&counting(rows));
    let run_within = |bytes: u64| {
        let budget = Budget::new("the statement", bytes);
        let execution = started(&plan, Context::new(scheduler(), Statement::new(1, budget.clone())));
        let mut taken = 0;
        let result = loop {
            match execution.next_blocking() {
                None => break Ok(taken),
                Some(Ok(batch)) => taken += batch.num_rows(),
                Some(Err(error)) => break Err(error),
            }
        };
        assert!(execution.next_blocking().is_none(), "an error is told once");
        drop(execution);
        soon("giving the memory back", || budget.used_bytes() == 0);
        result
    };
    assert_eq!(run_within(4 << 20).unwrap(), rows as usize);
    let error = run_within(10_000).unwrap_err();
    assert!(matches!(error, ExecError::Memory(_)), "{error}");
    assert!(error.to_string().contains("the statement"), "{error}");
}

/// Gives its argument; the first batch takes a while, and the second one of the first granule waits for a word.
#[derive(Debug)]
struct Gate {
    delay: Duration,
    open: Arc<AtomicUsize>,
}

impl exec::Expression for Gate {
    fn columns(&self) -> &[usize] {
        &[0]
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let values = batch.column(0);
        match values.as_primitive::<Int64Type>().values().first() {
            Some(0) => std::thread::sleep(self.delay),
            Some(8192) => soon("the word", || self.open.load(Ordering::SeqCst) == 1),
            _ => {}
        }
        Ok(values.clone())
    }

    fn data_type(&self) -> &DataType {
        &DataType::Int64
    }

    fn volatile(&self) -> bool {
        true
    }

    fn fallible(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "gate".to_string()
    }
}

/// A consumer is not woken for every batch, but it gets the first one while the step that made it goes on, however long
/// it had waited.
#[test]
fn what_is_ready_comes_while_its_step_goes_on() {
    let table = counting(4 * GRANULE);
    for (micros, consumers) in [(0, 1), (100, 2), (350, 1), (450, 2), (2000, 1), (5000, 3)] {
        let open = Arc::new(AtomicUsize::new(0));
        let gate = Gate { delay: Duration::from_micros(micros), open: open.clone() };
        let field = Arc::new(Field::new("y", DataType::Int64, true));
        let outputs = vec![Output::Expression { expression: Arc::new(gate), field }];
        let execution = started(&scan(&table).project(outputs).unwrap(), context());
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (0..consumers)
            .map(|_| {
                let (execution, sender) = (execution.clone(), sender.clone());
                std::thread::spawn(move || {
                    while let Some(batch) = execution.next_blocking() {
                        sender.send(batch.unwrap().num_rows()).unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let first = receiver.recv_timeout(Duration::from_secs(5)).expect("the first batch, before the second is made");
        open.store(1, Ordering::SeqCst);
        assert_eq!(first + receiver.iter().sum::<usize>(), 4 * GRANULE as usize);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_limit_stops_the_scan() {
    let function = Function::new(Kind::Less, vec![0, 1]);
    let snapshot = counting(40 * GRANULE);
    let twice = Plan::scan("t", snapshot, vec![0, 0]).unwrap();
    let plan = with_function(twice, &function).limit(5, Some(10));
    assert_eq!(run(&plan).unwrap().num_rows(), 10);
    assert_eq!(function.rows(), 15, "rows past the limit are not computed");
    let none = scan(&counting(10 * GRANULE)).limit(3, Some(0));
    assert_eq!(run(&none).unwrap().num_rows(), 0);
    let past = scan(&counting(2 * GRANULE)).limit(2 * GRANULE as usize, None);
    assert_eq!(run(&past).unwrap().num_rows(), 0);
}

/// What a limit stands below, or above, of a plan.
type Around = Box<dyn Fn(Plan) -> Plan>;

#[test]
fn a_limit_stops_its_input_wherever_it_stands() {
    let granules = 60;
    let snapshot = counting(granules * GRANULE);
    let few = numbers(&[(0..30).map(Some).collect()]);
    let inner = |left: Plan, right: Plan| {
        Plan::join(Join {
            left,
            right,
            kind: JoinKind::Inner,
            on: vec![(0, 0)],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build: Side::Right,
        })
        .unwrap()
    };
    let field = |plan: &Plan| plan.schema().fields()[0].clone();
    let key = SortKey { column: 0, descending: true, nulls_first: true };
    let dividing = Function::new(Kind::Divide, vec![0]);
    let (one, two) = (few.clone(), few.clone());
    let places: Vec<(&str, usize, Around)> = vec![
        ("on top", 10, Box::new(|plan| plan.limit(1, Some(10)))),
        (
            "below a column",
            10,
            Box::new(move |plan| {
                let field = field(&plan);
                plan.limit(1, Some(10)).project(vec![Output::Column { column: 0, field }]).unwrap()
            }),
        ),
        ("below what may fail", 10, Box::new(move |plan| with_function(plan.limit(1, Some(10)), &dividing))),
        ("below a filter", 1, Box::new(|plan| plan.limit(1, Some(10)).filter(is_one_of(vec![5])).unwrap())),
        ("below another", 4, Box::new(|plan| plan.limit(1, Some(10)).limit(6, Some(50)))),
        ("below an aggregate", 10, Box::new(|plan| plan.limit(1, Some(10)).aggregate(vec![0], vec![]).unwrap())),
        ("below a sort", 10, Box::new(move |plan| plan.limit(1, Some(10)).sort(vec![key], None).unwrap())),
        (
            "below a union",
            20,
            Box::new(|plan| {
                let schema = plan.schema();
                let plan = plan.limit(1, Some(10));
                Plan::Union(Union { inputs: vec![plan.clone(), plan], schema })
            }),
        ),
        (
            "above a union",
            10,
            Box::new(|plan| {
                let schema = plan.schema();
                Plan::Union(Union { inputs: vec![plan.clone(), plan], schema }).limit(1, Some(10))
            }),
        ),
        (
            "shared",
            20,
            Box::new(|plan| {
                let schema = plan.schema();
                let plan = plan.limit(1, Some(10)).shared(3);
                Plan::Union(Union { inputs: vec![plan.clone(), plan], schema })
            }),
        ),
        ("on the left of a join", 10, Box::new(move |plan| inner(plan.limit(1, Some(10)), scan(&one)))),
        ("on the right of a join", 10, Box::new(move |plan| inner(scan(&two), plan.limit(1, Some(10))))),
        ("above a join", 10, Box::new(move |plan| inner(plan.clone(), plan.limit(0, Some(40))).limit(1, Some(10)))),
    ];
    for (place, rows, around) in places {
        let passing = Function::new(Kind::Truth(Some(true)), vec![]);
        let input = scan(&snapshot).filter(Predicate::Boolean(passing.clone())).unwrap();
        let plan = around(input);
        let ways = [("on workers", run as Way), ("as it comes", run_default)];
        for (how, way) in ways {
            assert_eq!(way(&plan).unwrap().num_rows(), rows, "{place}, {how}");
            let read = passing.rows.swap(0, Ordering::Relaxed);
            // On a busy machine a worker can be paused while others read on, so that the bound is a whole input.
            assert!(read > 0 && read < granules as usize * GRANULE as usize, "{place}, {how}: {read} rows were read");
        }
    }
}

#[test]
fn nothing_is_read_for_no_row() {
    let function = Function::new(Kind::Truth(Some(true)), vec![]);
    let input = scan(&counting(3 * GRANULE)).filter(Predicate::Boolean(function.clone())).unwrap();
    for plan in [input.clone().limit(5, Some(0)), input.limit(0, Some(0)).aggregate(vec![0], vec![]).unwrap()] {
        assert_eq!(run(&plan).unwrap().num_rows(), 0);
        assert_eq!(function.rows(), 0);
    }
}

#[test]
fn operators_above_a_limit_see_only_its_rows() {
    let limited = scan(&counting(10 * GRANULE)).limit(100, Some(200_000));
    let plan = limited.filter(is_one_of(vec![5, 99, 100, 200_099, 200_100])).unwrap();
    for result in [run(&plan), run_default(&plan)] {
        assert_eq!(column_of_numbers(&result.unwrap()), [Some(100), Some(200_099)]);
    }
    let even = Predicate::Boolean(Function::new(Kind::Even, vec![0]));
    let deep = scan(&counting(3 * GRANULE)).limit(1, None).filter(even.clone()).unwrap().limit(1, Some(70_000));
    let deep = deep.filter(even).unwrap().limit(69_990, Some(5));
    assert_eq!(
        column_of_numbers(&run(&deep).unwrap()),
        (0..5).map(|i| Some(2 * (69_990 + 1 + 1 + i))).collect::<Vec<_>>()
    );
}

/// Pipelines over pipelines wake each other from several threads at once; a wake-up lost anywhere would hang.
#[test]
fn no_wake_up_is_lost_between_pipelines() {
    let limited = scan(&counting(6 * GRANULE)).limit(1, None);
    let plan = limited.filter(is_one_of(vec![7, 5 * GRANULE])).unwrap().limit(0, Some(9));
    let plan = plan.filter(is_one_of(vec![5 * GRANULE])).unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..100 {
            let batches = started(&plan, context()).collect_blocking().unwrap();
            if send.send(batches.iter().flat_map(column_of_numbers).collect::<Vec<_>>()).is_err() {
                return;
            }
        }
    });
    for _ in 0..100 {
        let rows = receive.recv_timeout(Duration::from_secs(60)).expect("an execution hangs");
        assert_eq!(rows, [Some(5 * GRANULE)]);
    }
}

#[test]
fn a_panic_ends_its_statement_only() {
    let bomb = Function::new(Kind::Panic, vec![0]);
    let plan = with_function(scan(&numbers(&[(0..200_000).map(|i| Some(i * i)).collect()])), &bomb);
    for execution in [started(&plan, context()), execute(Arc::new(plan.clone()), context())] {
        match execution.next_blocking() {
            Some(Err(ExecError::Panicked(text))) => assert_eq!(text, "the expression went off"),
            other => panic!("expected the panic, got {other:?}"),
        }
        assert!(execution.next_blocking().is_none());
    }
    assert_eq!(run(&scan(&counting(GRANULE))).unwrap().num_rows(), GRANULE as usize);
}

#[test]
fn an_error_comes_once_whoever_waits() {
    let divide = Function::new(Kind::Divide, vec![0]);
    let plan = with_function(scan(&counting(10 * GRANULE)), &divide);
    let execution = started(&plan, context());
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let execution = execution.clone();
            std::thread::spawn(move || std::iter::from_fn(|| execution.next_blocking()).filter(|b| b.is_err()).count())
        })
        .collect();
    assert_eq!(consumers.into_iter().map(|c| c.join().unwrap()).sum::<usize>(), 1);
}

#[test]
fn cancelling_and_deadlines_end_the_stream() {
    let plan = scan(&counting(60 * GRANULE));
    let own = context();
    let execution = started(&plan, own.clone());
    assert!(execution.next_blocking().unwrap().is_ok());
    own.statement.cancel();
    assert!(matches!(execution.next_blocking(), Some(Err(ExecError::Cancelled))));
    assert!(execution.next_blocking().is_none());

    let own = context();
    own.statement.set_deadline(Instant::now());
    for execution in [started(&plan, own.clone()), execute(Arc::new(plan.clone().limit(0, Some(3))), own)] {
        assert!(matches!(execution.next_blocking(), Some(Err(ExecError::DeadlineExceeded))));
        assert!(execution.next_blocking().is_none());
    }
}

#[test]
fn cancelling_wakes_who_waits() {
    // The only worker is kept busy, so the consumer waits for a queued step.
    let scheduler =
        Scheduler::new(Arc::new(Topology::synthetic(1, 1, 1, 1)), Config { threads: Some(1), ..Config::default() });
    let other = Statement::new(0, Budget::unlimited());
    let (release, held) = mpsc::channel::<()>();
    scheduler.spawn(&other, Affinity::Anywhere, move || {
        let _ = held.recv();
    });
    let statement = Statement::new(1, Budget::unlimited());
    let execution = started(&scan(&counting(GRANULE)), Context::new(scheduler, statement.clone()));
    let consumer = std::thread::spawn(move || execution.next_blocking());
    std::thread::sleep(Duration::from_millis(30));
    statement.cancel();
    drop(release);
    assert!(matches!(consumer.join().unwrap(), Some(Err(ExecError::Cancelled))));
}

#[test]
fn a_deadline_ends_the_wait_for_a_busy_machine() {
    let scheduler =
        Scheduler::new(Arc::new(Topology::synthetic(1, 1, 1, 1)), Config { threads: Some(1), ..Config::default() });
    let other = Statement::new(0, Budget::unlimited());
    let (release, held) = mpsc::channel::<()>();
    scheduler.spawn(&other, Affinity::Anywhere, move || {
        let _ = held.recv();
    });
    let statement = Statement::new(1, Budget::unlimited());
    statement.set_deadline(Instant::now() + Duration::from_millis(40));
    let execution = started(&scan(&counting(GRANULE)), Context::new(scheduler, statement));
    assert!(matches!(execution.next_blocking(), Some(Err(ExecError::DeadlineExceeded))));
    drop(release);
}

#[test]
fn a_worker_may_wait_for_its_own_scheduler() {
    let scheduler =
        Scheduler::new(Arc::new(Topology::synthetic(1, 1, 1, 1)), Config { threads: Some(1), ..Config::default() });
    let statement = Statement::new(1, Budget::unlimited());
    let plan = scan(&counting(6 * GRANULE)).limit(10, Some(300_000)).filter(is_one_of(vec![5, 250_000])).unwrap();
    let (send, receive) = mpsc::channel();
    let own = Context::new(scheduler.clone(), statement.clone());
    scheduler.spawn(&statement, Affinity::Anywhere, move || {
        let _ = send.send(started(&plan, own).collect_blocking());
    });
    let batches = receive.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!(batches.iter().flat_map(column_of_numbers).collect::<Vec<_>>(), [Some(250_000)]);
}

#[test]
fn dropping_stops_the_work() {
    let function = Function::new(Kind::Less, vec![0, 1]);
    let plan = with_function(Plan::scan("t", counting(200 * GRANULE), vec![0, 0]).unwrap(), &function);
    let own = context();
    let budget = own.statement.budget().clone();
    let execution = started(&plan, own);
    assert!(execution.next_blocking().unwrap().is_ok());
    drop(execution);
    soon("the end of running steps", || budget.used_bytes() == 0);
    std::thread::sleep(Duration::from_millis(50));
    assert!(function.rows() < 60 * GRANULE as usize, "{} rows", function.rows());
}

#[test]
fn a_plan_that_does_not_fit_is_an_error_of_the_stream() {
    let snapshot = counting(10);
    let bad =
        Plan::Filter { input: Box::new(scan(&snapshot)), predicate: Predicate::IsNull { column: 3, negated: false } };
    let execution = execute(Arc::new(bad), context());
    assert!(matches!(execution.next_blocking(), Some(Err(ExecError::Plan(_)))));
    assert!(execution.next_blocking().is_none());
}

#[test]
fn storage_borrows_the_workers() {
    let statement = Statement::new(1, Budget::unlimited());
    let parallel = SchedParallel::new(scheduler(), statement.clone());
    let sum = AtomicUsize::new(0);
    let nodes = scheduler().topology().nodes().to_vec();
    let node_of = |i: usize| (!i.is_multiple_of(3)).then(|| nodes[i % nodes.len()].id);
    parallel
        .for_each(1000, &node_of, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(sum.into_inner(), 499_500);
    let failed = parallel.for_each(10, &|_| None, &|i| assert!(i != 3, "not the third"));
    assert!(matches!(failed, Err(Interruption::Panicked(text)) if text.contains("not the third")));
    let cancelled = SchedParallel::new(scheduler(), Statement::new(1, Budget::unlimited()));
    cancelled.statement.cancel();
    assert_eq!(cancelled.for_each(10, &|_| None, &|_| ()), Err(Interruption::Cancelled));
}

#[test]
fn a_filter_on_one_row_reads_little() {
    let plan = scan(&counting(3 * GRANULE));
    let one = plan.filter(Predicate::Compare { column: 0, op: CompareOp::Eq, value: int(GRANULE + 5).into() }).unwrap();
    assert_eq!(column_of_numbers(&run(&one).unwrap()), [Some(GRANULE + 5)]);
    assert_eq!(one.schema().field(0).data_type(), &DataType::Int64);
}
