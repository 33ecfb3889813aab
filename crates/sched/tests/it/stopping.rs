//! Panics, cancellation and deadlines: the statement stops, and nothing else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use numa::NodeId;
use sched::{Affinity, Cancellation, Stealing, StopReason, TaskError};

use crate::support::{anywhere, eventually, machine, statement, threads};

#[test]
fn a_panicking_task_fails_its_statement_alone() {
    let scheduler = threads(1);
    let (bad, good) = (statement(1), statement(1));
    scheduler.spawn(&bad, Affinity::Anywhere, || panic!("row {} is odd", 7));
    eventually("the panic is recorded", || bad.is_cancelled());
    assert_eq!(bad.stopped(), Some(StopReason::Failed("row 7 is odd".into())));
    assert_eq!(bad.check(), Err(Cancellation));
    assert_eq!(scheduler.parallel_for(&good, 10, &anywhere, &|_| ()), Ok(()), "the worker lives on");
    assert_eq!(good.stopped(), None);
}

#[test]
fn a_panicking_call_ends_its_loop() {
    for scheduler in [threads(1), machine(2, 1, 2, Stealing::Any)] {
        let (statement, calls) = (statement(1), AtomicUsize::new(0));
        let ran = scheduler.parallel_for(&statement, 100_000, &anywhere, &|index| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert!(index != 10, "call ten");
            thread::sleep(Duration::from_micros(10));
        });
        assert_eq!(ran, Err(TaskError::Panicked("call ten".into())));
        assert_eq!(statement.stopped(), Some(StopReason::Failed("call ten".into())));
        let calls = calls.into_inner() as u64;
        assert!(calls < 100_000, "the rest is not run");
        assert_eq!(scheduler.stats().dropped, 100_000 - calls);
        assert_eq!(scheduler.parallel_for(&statement, 3, &anywhere, &|_| ()), Err(TaskError::Cancelled));
    }
}

#[test]
fn a_nested_panic_comes_back_through_every_level() {
    let scheduler = threads(2);
    let (statement, inner) = (statement(1), std::sync::Mutex::new(Vec::new()));
    let ran = scheduler.parallel_for(&statement, 1, &anywhere, &|_| {
        let ran = scheduler.parallel_for(&statement, 2, &anywhere, &|index| assert!(index != 1, "inner"));
        inner.lock().unwrap().push(ran);
    });
    assert_eq!(inner.into_inner().unwrap(), [Err(TaskError::Panicked("inner".into()))]);
    assert_eq!(ran, Err(TaskError::Cancelled), "its own calls did not panic, but the statement has failed");
}

/// Counts drops.
struct Dropped(Arc<AtomicUsize>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn queued_tasks_of_a_cancelled_statement_are_dropped_before_others_run() {
    let scheduler = threads(1);
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(0), Affinity::Anywhere, move || held.recv().unwrap());
    let (young, dropped, ran) = (statement(9), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..1000 {
        let (guard, ran) = (Dropped(Arc::clone(&dropped)), Arc::clone(&ran));
        scheduler.spawn(&young, Affinity::Anywhere, move || {
            let _guard = guard;
            ran.fetch_add(1, Ordering::SeqCst);
        });
    }
    // An older statement's task sees them all gone: they are dropped at once, not when their turn comes.
    let (seen, dropped_then) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::clone(&dropped));
    let note = Arc::clone(&seen);
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || {
        note.store(dropped_then.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    young.cancel();
    hold.send(()).unwrap();
    eventually("the older task ran", || seen.load(Ordering::SeqCst) != usize::MAX);
    assert_eq!((seen.load(Ordering::SeqCst), ran.load(Ordering::SeqCst)), (1000, 0));
    assert_eq!(scheduler.stats().dropped, 1000);
    let late = Dropped(Arc::clone(&dropped));
    scheduler.spawn(&young, Affinity::Anywhere, move || drop(late));
    assert_eq!(dropped.load(Ordering::SeqCst), 1001, "a stopped statement takes no more tasks");
}

#[test]
fn queued_tasks_of_a_statement_past_its_deadline_are_dropped_before_others_run() {
    let scheduler = threads(1);
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(0), Affinity::Anywhere, move || held.recv().unwrap());
    let (young, dropped) = (statement(9), Arc::new(AtomicUsize::new(0)));
    for _ in 0..100 {
        let guard = Dropped(Arc::clone(&dropped));
        scheduler.spawn(&young, Affinity::Anywhere, move || drop(guard));
    }
    let (seen, dropped_then) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::clone(&dropped));
    let note = Arc::clone(&seen);
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || {
        note.store(dropped_then.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    young.set_deadline(Instant::now());
    // Noticed by somebody first, as it is in use, and then given up by who issued it.
    assert!(young.is_cancelled());
    young.cancel();
    hold.send(()).unwrap();
    eventually("the older task ran", || seen.load(Ordering::SeqCst) != usize::MAX);
    assert_eq!((seen.load(Ordering::SeqCst), young.stopped()), (100, Some(StopReason::Deadline)));
}

#[test]
fn cancelling_wakes_a_caller_whose_tasks_nobody_has_begun() {
    // The only worker is held by another statement; the caller must come back all the same.
    let scheduler = threads(1);
    let (hold, held) = mpsc::channel::<()>();
    let began = Arc::new(AtomicBool::new(false));
    let started = Arc::clone(&began);
    scheduler.spawn(&statement(0), Affinity::Anywhere, move || {
        started.store(true, Ordering::SeqCst);
        held.recv().unwrap();
    });
    eventually("the worker is held", || began.load(Ordering::SeqCst));
    let waiting = statement(1);
    thread::scope(|scope| {
        let canceller = Arc::clone(&waiting);
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(20));
            canceller.cancel();
        });
        let ran = scheduler.parallel_for(&waiting, 10, &anywhere, &|_| unreachable!("nobody is free"));
        assert_eq!(ran, Err(TaskError::Cancelled));
    });
    let timed = statement(2);
    timed.set_deadline(Instant::now() + Duration::from_millis(20));
    let ran = scheduler.parallel_for(&timed, 10, &anywhere, &|_| unreachable!("nobody is free"));
    assert_eq!((ran, timed.stopped()), (Err(TaskError::Cancelled), Some(StopReason::Deadline)));
    hold.send(()).unwrap();
}

#[test]
fn a_deadline_set_while_the_caller_waits_is_kept() {
    let scheduler = machine(2, 1, 1, Stealing::Off);
    for on_worker in [false, true] {
        let (late, done) = (statement(1), AtomicBool::new(false));
        let loops = || {
            scheduler.parallel_for(&late, 1, &|_| Affinity::on(NodeId(1)), &|_| {
                while late.check().is_ok() {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                late.set_deadline(Instant::now() + Duration::from_millis(20));
            });
            if on_worker {
                let ran = scheduler.parallel_for(&statement(1), 1, &|_| Affinity::on(NodeId(0)), &|_| {
                    assert_eq!(loops(), Err(TaskError::Cancelled));
                    done.store(true, Ordering::SeqCst);
                });
                assert_eq!(ran, Ok(()));
            } else {
                assert_eq!(loops(), Err(TaskError::Cancelled));
                done.store(true, Ordering::SeqCst);
            }
        });
        assert_eq!((late.stopped(), done.into_inner()), (Some(StopReason::Deadline), true));
    }
}

#[test]
fn running_calls_are_waited_for_after_a_cancel() {
    let scheduler = threads(2);
    let (statement, running) = (statement(1), AtomicUsize::new(0));
    let ran = scheduler.parallel_for(&statement, 1000, &anywhere, &|_| {
        running.fetch_add(1, Ordering::SeqCst);
        statement.cancel();
        thread::sleep(Duration::from_millis(5));
        running.fetch_sub(1, Ordering::SeqCst);
    });
    assert_eq!((ran, running.into_inner()), (Err(TaskError::Cancelled), 0), "no call outlives the loop");
}

#[test]
fn a_task_that_panics_when_dropped_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let scheduler = threads(1);
    let stopped = statement(1);
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(0), Affinity::Anywhere, move || held.recv().unwrap());
    let bomb = Bomb;
    scheduler.spawn(&stopped, Affinity::Anywhere, move || std::mem::forget(bomb));
    stopped.cancel();
    hold.send(()).unwrap();
    eventually("the bomb was dropped", || scheduler.stats().dropped == 1);
    assert_eq!(scheduler.parallel_for(&statement(2), 4, &anywhere, &|_| ()), Ok(()));
}
