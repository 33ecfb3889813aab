//! Task graphs and completions.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use numa::NodeId;
use proptest::prelude::*;
use sched::{Affinity, Stealing, Stopped, TaskError, TaskGraph, TaskId};

use crate::support::{eventually, machine, statement, threads};

/// Polls a future on this thread until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_completion_can_be_awaited() {
    let scheduler = threads(1);
    assert_eq!(block_on(scheduler.submit(&statement(1), Affinity::Anywhere, || 3 + 4)), Ok(7));
    let failed = statement(1);
    let bad = block_on(scheduler.submit(&failed, Affinity::Anywhere, || -> i32 { panic!("bad row") }));
    assert_eq!(bad, Err(TaskError::Panicked("bad row".into())));
    assert_eq!(failed.stopped(), Some(Stopped::Failed("bad row".into())));
    assert_eq!(block_on(scheduler.submit(&failed, Affinity::Anywhere, || 1)), Err(TaskError::Cancelled));
}

#[test]
fn a_graph_reduces_a_tree_of_values() {
    let scheduler = machine(2, 1, 2, Stealing::Any);
    let mut graph = TaskGraph::new();
    let mut level: Vec<_> =
        (0..64u64).map(|leaf| graph.compute(Affinity::near(NodeId(leaf as u32 % 2)), &[], move || leaf)).collect();
    while level.len() > 1 {
        let pairs: Vec<_> = level.chunks(2).map(<[_]>::to_vec).collect();
        let add = |pair: Vec<(TaskId, sched::Output<u64>)>| {
            let [(left, a), (right, b)] = <[_; 2]>::try_from(pair).expect("a power of two");
            graph.compute(Affinity::Anywhere, &[left, right], move || a.take() + b.take())
        };
        level = pairs.into_iter().map(add).collect();
    }
    assert_eq!(graph.len(), 127);
    assert_eq!(scheduler.run_graph(&statement(1), graph).wait(), Ok(()));
    assert_eq!(level[0].1.take(), 63 * 64 / 2);
}

#[test]
fn a_long_chain_needs_no_stack_and_an_empty_graph_no_task() {
    let scheduler = threads(1);
    let (mut graph, count) = (TaskGraph::new(), Arc::new(AtomicUsize::new(0)));
    let mut before: Option<TaskId> = None;
    for number in 0..50_000 {
        let count = Arc::clone(&count);
        let children: Vec<TaskId> = before.into_iter().collect();
        before = Some(graph.add(Affinity::Anywhere, &children, move || {
            assert_eq!(count.fetch_add(1, Ordering::Relaxed), number);
        }));
    }
    assert_eq!(scheduler.run_graph(&statement(1), graph).wait(), Ok(()));
    assert_eq!(scheduler.run_graph(&statement(1), TaskGraph::new()).wait(), Ok(()));
}

#[test]
fn a_stopped_chain_is_dropped_without_stack_too() {
    let scheduler = threads(1);
    let (mut graph, token) = (TaskGraph::new(), Arc::new(()));
    let stopped = statement(1);
    let own = Arc::clone(&stopped);
    let mut before = graph.add(Affinity::Anywhere, &[], move || own.cancel());
    for _ in 0..50_000 {
        let token = Arc::clone(&token);
        before = graph.add(Affinity::Anywhere, &[before], move || drop(token));
    }
    assert_eq!(scheduler.run_graph(&stopped, graph).wait(), Err(TaskError::Cancelled));
    eventually("all were dropped", || Arc::strong_count(&token) == 1);
}

#[test]
fn errors_and_panics_end_the_graph_and_fail_the_statement() {
    for panics in [false, true] {
        let scheduler = threads(2);
        let (mut graph, after) = (TaskGraph::new(), Arc::new(AtomicUsize::new(0)));
        let bad = graph.try_add(Affinity::Anywhere, &[], move || {
            assert!(!panics, "row 7 is odd");
            Err("row 7 is odd")
        });
        let late = Arc::clone(&after);
        graph.add(Affinity::Anywhere, &[bad], move || {
            late.fetch_add(1, Ordering::SeqCst);
        });
        let statement = statement(1);
        let ended = scheduler.run_graph(&statement, graph).wait();
        assert_eq!(ended, Err(TaskError::Panicked("row 7 is odd".into())));
        assert_eq!(statement.stopped(), Some(Stopped::Failed("row 7 is odd".into())));
        drop(scheduler);
        assert_eq!(after.load(Ordering::SeqCst), 0, "what waits for a failed task is not run");
    }
}

#[test]
fn a_task_that_expands_is_done_when_its_graph_is() {
    let scheduler = threads(1);
    let (mut graph, sum) = (TaskGraph::new(), Arc::new(AtomicUsize::new(0)));
    let own = Arc::clone(&sum);
    let wide = graph.expand(Affinity::Anywhere, &[], move || {
        let mut inner = TaskGraph::new();
        for number in 1..=10 {
            let own = Arc::clone(&own);
            inner.expand(Affinity::Anywhere, &[], move || {
                own.fetch_add(number, Ordering::SeqCst);
                TaskGraph::new()
            });
        }
        inner
    });
    let seen = Arc::clone(&sum);
    let (_, total) = graph.compute(Affinity::Anywhere, &[wide], move || seen.load(Ordering::SeqCst));
    assert_eq!(scheduler.run_graph(&statement(1), graph).wait(), Ok(()));
    assert_eq!(total.take(), 55);
    let mut failing = TaskGraph::new();
    failing.expand(Affinity::Anywhere, &[], || {
        let mut inner = TaskGraph::new();
        inner.add(Affinity::Anywhere, &[], || panic!("deep"));
        inner
    });
    let ended = scheduler.run_graph(&statement(1), failing).wait();
    assert_eq!(ended, Err(TaskError::Panicked("deep".into())));
}

#[test]
fn the_end_of_the_scheduler_ends_its_graphs() {
    let scheduler = threads(1);
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let mut graph = TaskGraph::new();
    let (begins, began) = std::sync::mpsc::channel::<()>();
    let first = graph.add(Affinity::Anywhere, &[], move || {
        begins.send(()).unwrap();
        held.recv().unwrap();
    });
    graph.add(Affinity::Anywhere, &[first], || ());
    let (statement, release) = (
        statement(1),
        thread::spawn(move || {
            thread::sleep(std::time::Duration::from_millis(20));
            hold.send(()).unwrap();
        }),
    );
    let ended = scheduler.run_graph(&statement, graph);
    began.recv().unwrap();
    drop(scheduler);
    assert_eq!(ended.wait(), Err(TaskError::Cancelled));
    assert_eq!(statement.stopped(), Some(Stopped::ShutDown));
    release.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every task runs once, after all its children.
    #[test]
    fn children_first(edges in proptest::collection::vec(proptest::collection::vec(any::<prop::sample::Index>(), 0..4), 1..40)) {
        let scheduler = machine(2, 1, 2, Stealing::Any);
        let (mut graph, order) = (TaskGraph::new(), Arc::new(Mutex::new(Vec::new())));
        let (mut ids, mut children_of) = (Vec::new(), Vec::new());
        for (number, wanted) in edges.iter().enumerate() {
            let children: Vec<usize> =
                if number == 0 { Vec::new() } else { wanted.iter().map(|index| index.index(number)).collect() };
            let of: Vec<TaskId> = children.iter().map(|child| ids[*child]).collect();
            let log = Arc::clone(&order);
            ids.push(graph.add(Affinity::Anywhere, &of, move || log.lock().unwrap().push(number)));
            children_of.push(children);
        }
        prop_assert_eq!(scheduler.run_graph(&statement(1), graph).wait(), Ok(()));
        let order = order.lock().unwrap().clone();
        let mut place = vec![usize::MAX; edges.len()];
        for (at, number) in order.iter().enumerate() {
            prop_assert_eq!(place[*number], usize::MAX, "run twice");
            place[*number] = at;
        }
        for (number, children) in children_of.iter().enumerate() {
            prop_assert!(place[number] != usize::MAX, "never run");
            prop_assert!(children.iter().all(|child| place[*child] < place[number]));
        }
    }
}

#[test]
fn graphs_may_nest_deeper_than_a_stack_is() {
    fn nested(depth: usize) -> TaskGraph {
        let mut graph = TaskGraph::new();
        if depth > 0 {
            graph.expand(Affinity::Anywhere, &[], move || nested(depth - 1));
        }
        graph
    }
    let scheduler = threads(1);
    assert_eq!(scheduler.run_graph(&statement(1), nested(100_000)).wait(), Ok(()));
    fn failing(depth: usize) -> TaskGraph {
        let mut graph = TaskGraph::new();
        graph.expand(
            Affinity::Anywhere,
            &[],
            move || if depth > 0 { failing(depth - 1) } else { panic!("at the end") },
        );
        graph
    }
    let failed = scheduler.run_graph(&statement(2), failing(100_000)).wait();
    assert_eq!(failed, Err(TaskError::Panicked("at the end".into())));
}
