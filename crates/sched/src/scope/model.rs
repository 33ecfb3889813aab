//! The counters of a `parallel_for` under loom: every index is called once, and no call outlives [`scoped`].
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-sched --lib model`, in a build folder of its own.

use loom::thread;
use numa::{Budget, Topology};

use super::*;
use crate::policy::{GroupId, QueueKind, Split};

const PREEMPTIONS: usize = 3;

/// Calls of the body: how many began, how many ended, and whether the borrow is still alive. All is in loom's atomics
/// on the heap, so that a call after the end is seen, not undefined.
struct Calls {
    began: AtomicUsize,
    ended: AtomicUsize,
    over: AtomicBool,
}

/// Runs a loop of `tasks` indices with one helping worker; `early` gives up without waiting.
fn one_loop(layout: &std::sync::Arc<Layout>, tasks: usize, early: bool) {
    let calls = loom::sync::Arc::new(Calls {
        began: AtomicUsize::new(0),
        ended: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let statement = Statement::new(1, Budget::unlimited());
    let routes = vec![QueueTarget::Group(GroupId(0), QueueKind::Stealable); tasks];
    let body = |_| {
        assert!(!calls.over.load(Ordering::SeqCst), "a call after the end");
        calls.began.fetch_add(1, Ordering::SeqCst);
        calls.ended.fetch_add(1, Ordering::SeqCst);
        assert!(!calls.over.load(Ordering::SeqCst), "a call past the end");
    };
    let waiter = Waiter::Thread(Mutex::new(()), Condvar::new());
    let helper = scoped(&body, &routes, &statement, waiter, |job| {
        let job = Arc::clone(job);
        let layout = Arc::clone(layout);
        let helper = {
            let job = Arc::clone(&job);
            thread::spawn(move || {
                job.participate(&layout, SlotId(0), Some(0), &mut RunCount::default(), || false);
                // Loom's objects must be dropped inside the model, whoever is last.
                drop(job);
            })
        };
        if !early {
            job.wait_as_thread();
            assert_eq!(calls.ended.load(Ordering::SeqCst), tasks);
        }
        helper
    });
    calls.over.store(true, Ordering::SeqCst);
    let began = calls.began.load(Ordering::SeqCst);
    let ended = calls.ended.load(Ordering::SeqCst);
    assert_eq!(began, ended, "no call is under way");
    helper.join().unwrap();
    assert_eq!(calls.began.load(Ordering::SeqCst), began, "no call came later");
    assert!(early || began == tasks);
}

fn check(tasks: usize, early: bool) {
    let layout = Arc::new(Layout::new(&Topology::synthetic(1, 1, 1, 1), None, Split::default()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || one_loop(&layout, tasks, early));
}

#[test]
fn the_caller_waits_for_every_call() {
    check(2, false);
}

#[test]
fn a_caller_that_gives_up_waits_for_calls_that_have_begun() {
    check(2, true);
}
