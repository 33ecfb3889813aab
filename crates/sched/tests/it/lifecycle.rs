//! Starting and ending.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use numa::Topology;
use sched::{Affinity, Binding, Config, Scheduler, SlotId, StopReason};

use crate::support::{anywhere, eventually, statement, threads};

#[test]
fn as_many_threads_as_asked_for() {
    let topology = Arc::new(Topology::synthetic(2, 1, 2, 1));
    for (asked, given) in [(None, 4), (Some(0), 1), (Some(1), 1), (Some(3), 3), (Some(9), 9)] {
        for binding in [Binding::None, Binding::Always] {
            let scheduler =
                Scheduler::new(Arc::clone(&topology), Config { threads: asked, binding, ..Config::default() });
            assert_eq!((scheduler.threads(), scheduler.stats().workers.len()), (given, given));
            let ran = AtomicUsize::new(0);
            let count = |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            scheduler.parallel_for(&statement(1), 50, &|index| Affinity::Slot(SlotId(index as u32)), &count).unwrap();
            assert_eq!(ran.into_inner(), 50);
            let unpinned = scheduler.stats().workers.iter().all(|worker| !worker.pinned);
            assert!(unpinned || binding == Binding::Always);
        }
    }
}

#[test]
fn this_machine_works_and_its_workers_stay_on_their_node() {
    let topology = Arc::new(Topology::discover().unwrap());
    let scheduler = Scheduler::new(Arc::clone(&topology), Config::default());
    assert_eq!(scheduler.threads(), topology.usable_cpus().len());
    let pinned: Vec<bool> = (0..scheduler.threads())
        .map(|slot| {
            let (send, receive) = mpsc::channel();
            scheduler.spawn(&statement(1), Affinity::Slot(SlotId(slot as u32)), move || {
                send.send(numa::current_cpu()).unwrap();
            });
            let cpu = receive.recv().unwrap();
            let worker = &scheduler.stats().workers[slot];
            if worker.pinned {
                assert_eq!(cpu.and_then(|cpu| topology.node_of_cpu(cpu)), Some(worker.node));
            }
            worker.pinned
        })
        .collect();
    if pinned.contains(&false) {
        eprintln!("skipped: pinning is refused here, so the node of a worker cannot be checked");
    }
}

#[test]
fn the_last_handle_joins_the_threads_and_fails_what_is_queued() {
    let scheduler = threads(2);
    let (began, statement) = (Arc::new(AtomicUsize::new(0)), statement(1));
    let token = Arc::new(());
    for _ in 0..50 {
        let (began, token) = (Arc::clone(&began), Arc::clone(&token));
        scheduler.spawn(&statement, Affinity::Anywhere, move || {
            let _token = token;
            began.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
        });
    }
    eventually("both workers began", || began.load(Ordering::SeqCst) >= 2);
    drop(scheduler);
    let ran = began.load(Ordering::SeqCst);
    assert!(ran < 50, "queued tasks do not hold up the end");
    assert_eq!(Arc::strong_count(&token), 1, "every task was run to its end or dropped");
    assert_eq!(statement.stopped(), Some(StopReason::ShutDown));
}

#[test]
fn a_finished_statement_is_not_touched_by_the_end() {
    let scheduler = threads(2);
    let statement = statement(1);
    scheduler.parallel_for(&statement, 100, &anywhere, &|_| ()).unwrap();
    drop(scheduler);
    assert_eq!(statement.stopped(), None);
}

#[test]
fn a_task_may_drop_the_last_handle() {
    let scheduler = threads(2);
    let (statement, token) = (statement(1), Arc::new(()));
    let (hold, held) = mpsc::channel::<()>();
    let (last, own) = (Arc::clone(&scheduler), Arc::clone(&token));
    scheduler.spawn(&statement, Affinity::Anywhere, move || {
        held.recv().unwrap();
        drop(last);
        drop(own);
    });
    drop(scheduler);
    hold.send(()).unwrap();
    eventually("the task ended", || Arc::strong_count(&token) == 1);
}

#[test]
fn starting_and_ending_at_once_is_clean() {
    for round in 0..200u64 {
        let scheduler = threads(1 + round as u32 % 4);
        if round % 2 == 0 {
            let ran = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&ran);
            let statement = statement(round);
            scheduler.spawn(&statement, Affinity::Anywhere, move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            drop(scheduler);
            let stopped = statement.stopped() == Some(StopReason::ShutDown);
            assert_eq!(ran.load(Ordering::SeqCst) == 0, stopped, "either it ran, or its statement says why not");
        }
    }
}

#[test]
fn ending_lets_a_task_go_that_waits_for_a_queued_one() {
    let scheduler = threads(1);
    let (go, may_go) = mpsc::channel::<sched::Completion<()>>();
    let (tell, told) = mpsc::channel();
    let began = Arc::new(AtomicUsize::new(0));
    let note = Arc::clone(&began);
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || {
        note.store(1, Ordering::SeqCst);
        let waits_for = may_go.recv().unwrap();
        tell.send(waits_for.wait()).unwrap();
    });
    eventually("the first task runs", || began.load(Ordering::SeqCst) == 1);
    let late = statement(2);
    let queued = scheduler.submit(&late, Affinity::Anywhere, || ());
    let (end, ended) = mpsc::channel();
    let ending = thread::spawn(move || {
        drop(scheduler);
        end.send(()).unwrap();
    });
    // Long enough for the drop to have begun; the worker is at its task, so nobody takes the queued one before that.
    thread::sleep(Duration::from_millis(200));
    go.send(queued).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(Err(sched::TaskError::Cancelled)));
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(()));
    ending.join().unwrap();
    assert_eq!(late.stopped(), Some(StopReason::ShutDown));
}
