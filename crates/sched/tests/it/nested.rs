//! `parallel_for` inside `parallel_for`: on few threads, across nodes, never a deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use numa::NodeId;
use sched::{Affinity, Scheduler, Stealing};

use crate::support::{anywhere, eventually, machine, settled, statement, threads};

fn three_levels(scheduler: &Scheduler, time: u64, affinity: &(dyn Fn(usize) -> Affinity + Sync)) -> usize {
    let (statement, count) = (statement(time), AtomicUsize::new(0));
    let ran = scheduler.parallel_for(&statement, 5, affinity, &|_| {
        let ran = scheduler.parallel_for(&statement, 4, affinity, &|_| {
            let ran = scheduler.parallel_for(&statement, 3, affinity, &|_| {
                assert!(Scheduler::on_worker());
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(ran, Ok(()));
        });
        assert_eq!(ran, Ok(()));
    });
    assert_eq!((ran, Scheduler::on_worker()), (Ok(()), false));
    count.into_inner()
}

#[test]
fn one_thread_is_enough() {
    assert_eq!(three_levels(&threads(1), 1, &anywhere), 60);
}

#[test]
fn hard_tasks_on_other_nodes_do_not_deadlock() {
    let scheduler = machine(2, 2, 1, Stealing::Off);
    for round in 0..20 {
        assert_eq!(three_levels(&scheduler, round, &|index| Affinity::on(NodeId(index as u32 % 4))), 60);
    }
}

#[test]
fn statements_that_wait_for_each_others_nodes_all_end() {
    // Each statement begins on one node and nests hard tasks on the other: every worker waits for another's node.
    let scheduler = machine(2, 1, 1, Stealing::Off);
    std::thread::scope(|scope| {
        for client in 0..8u32 {
            let scheduler = &scheduler;
            scope.spawn(move || {
                for round in 0..50u64 {
                    let (statement, count) = (statement(round % 7), AtomicUsize::new(0));
                    let (here, there) = (NodeId(client % 2), NodeId((client + 1) % 2));
                    let ran = scheduler.parallel_for(&statement, 2, &|_| Affinity::on(here), &|_| {
                        let ran = scheduler.parallel_for(&statement, 2, &|_| Affinity::on(there), &|_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                        assert_eq!(ran, Ok(()));
                    });
                    assert_eq!((ran, count.into_inner()), (Ok(()), 4));
                }
            });
        }
    });
}

#[test]
fn a_waiting_worker_lets_another_thread_run_less_urgent_tasks() {
    // The worker of node 0 waits for node 1, which waits for a younger task of node 0: only another thread, with the
    // slot of the one that waits, gets past that.
    let scheduler = machine(2, 1, 1, Stealing::Off);
    let younger = Arc::new(std::sync::Mutex::new(None));
    let old = statement(1);
    let ran = scheduler.parallel_for(&old, 1, &|_| Affinity::on(NodeId(0)), &|_| {
        let (ran_by, waiting) = (Arc::clone(&younger), std::thread::current().id());
        scheduler.spawn(&statement(2), Affinity::on(NodeId(0)), move || {
            *ran_by.lock().unwrap() = Some(std::thread::current().id());
        });
        let ran = scheduler.parallel_for(&old, 1, &|_| Affinity::on(NodeId(1)), &|_| {
            eventually("the younger task ran", || younger.lock().unwrap().is_some());
        });
        assert_eq!(ran, Ok(()));
        assert_ne!(*younger.lock().unwrap(), Some(waiting), "not on top of the older statement's task");
        assert_eq!(std::thread::current().id(), waiting);
    });
    assert_eq!(ran, Ok(()));
}

#[test]
fn a_workers_own_loop_without_affinity_reaches_every_group() {
    // Four nodes of one slot each in two packages: by default stealing ends at the package.
    let scheduler = machine(2, 2, 1, Stealing::Neighbour);
    // A worker that is still starting counts as busy, and its node is dealt nothing.
    settled(&scheduler);
    let (outer, inside) = (statement(1), AtomicUsize::new(0));
    let ran = scheduler.parallel_for(&outer, 1, &|_| Affinity::on(NodeId(0)), &|_| {
        let ran = scheduler.parallel_for(&outer, 4, &anywhere, &|_| {
            inside.fetch_add(1, Ordering::SeqCst);
            eventually("all four nodes are in the loop at once", || inside.load(Ordering::SeqCst) == 4);
        });
        assert_eq!(ran, Ok(()));
    });
    assert_eq!(ran, Ok(()));
}
