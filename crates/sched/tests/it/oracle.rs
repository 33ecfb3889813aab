//! The scheduler beside its slow twin: the same programs, the same outcome.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use numa::NodeId;
use proptest::prelude::*;
use sched::parallel::Workers;
use sched::{Affinity, Inline, Scheduler, Statement, Stealing};

use crate::support::{eventually, machine, statement, threads};

/// What the two have in common.
trait Runs: Workers + 'static {
    fn spawn(&self, statement: &Arc<Statement>, affinity: Affinity, task: Box<dyn FnOnce() + Send>);
}

impl Runs for Scheduler {
    fn spawn(&self, statement: &Arc<Statement>, affinity: Affinity, task: Box<dyn FnOnce() + Send>) {
        Scheduler::spawn(self, statement, affinity, task);
    }
}

impl Runs for Inline {
    fn spawn(&self, statement: &Arc<Statement>, affinity: Affinity, task: Box<dyn FnOnce() + Send>) {
        Inline::spawn(self, statement, affinity, task);
    }
}

/// A tree of work: a statement's tasks, each a loop whose calls may loop or spawn again, and may panic.
#[derive(Clone, Debug)]
enum Node {
    Add(u64),
    Panic,
    Loop { places: Vec<(u32, bool)>, body: Vec<Node> },
    Spawn(Vec<Node>),
    Block(Vec<Node>),
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let leaf = prop_oneof![20 => (1u64..1000).prop_map(Node::Add), 1 => Just(Node::Panic)];
    let node = leaf.prop_recursive(3, 24, 4, |inner| {
        let body = proptest::collection::vec(inner, 1..4);
        let places = proptest::collection::vec((0u32..6, any::<bool>()), 1..12);
        prop_oneof![
            (places, body.clone()).prop_map(|(places, body)| Node::Loop { places, body }),
            body.clone().prop_map(Node::Spawn),
            body.prop_map(Node::Block),
        ]
    });
    proptest::collection::vec(node, 0..6)
}

/// What a program has done: the sum of its numbers, and how many of its spawned tasks have ended, run or not.
#[derive(Default)]
struct Tally {
    sum: AtomicU64,
    spawned: AtomicU64,
    ended: AtomicU64,
}

/// Counts a task as ended however it ends.
struct Ended(Arc<Tally>);
impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

fn run<R: Runs>(on: &Arc<R>, statement: &Arc<Statement>, tally: &Arc<Tally>, program: &[Node]) {
    for node in program {
        match node {
            Node::Add(number) => {
                tally.sum.fetch_add(*number, Ordering::Relaxed);
            }
            Node::Panic => panic!("meant to happen"),
            Node::Block(body) => sched::blocking(|| run(on, statement, tally, body)),
            Node::Loop { places, body } => {
                let affinity = |index: usize| {
                    let (node, hard) = places[index];
                    if node == 5 {
                        Affinity::Anywhere
                    } else if hard {
                        Affinity::on(NodeId(node))
                    } else {
                        Affinity::near(NodeId(node))
                    }
                };
                let _ = on.run(statement, places.len(), &affinity, &|_| run(on, statement, tally, body));
            }
            Node::Spawn(body) => {
                let (again, own, body) = (Arc::clone(on), Arc::clone(statement), body.clone());
                let ended = Ended(Arc::clone(tally));
                tally.spawned.fetch_add(1, Ordering::SeqCst);
                on.spawn(statement, Affinity::Anywhere, Box::new(move || run(&again, &own, &ended.0, &body)));
            }
        }
    }
}

/// Runs a program as one statement; gives its sum, unless it failed.
fn outcome<R: Runs>(on: Arc<R>, program: &[Node]) -> Option<u64> {
    let (statement, tally) = (statement(1), Arc::new(Tally::default()));
    // The tree is a task itself, so that a panic in it is the statement's.
    let whole = [Node::Spawn(program.to_vec())];
    run(&on, &statement, &tally, &whole);
    eventually("all tasks ended", || tally.ended.load(Ordering::SeqCst) == tally.spawned.load(Ordering::SeqCst));
    // A worker records a panic after the task's closure has gone. Dropping the last handle waits for that.
    eventually("tasks gave their handles back", || Arc::strong_count(&on) == 1);
    drop(on);
    (!statement.is_cancelled()).then(|| tally.sum.load(Ordering::Relaxed))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn same_outcome_as_inline(program in nodes(), stealing in 0usize..3) {
        let stealing = [Stealing::Off, Stealing::Neighbour, Stealing::Any][stealing];
        let expected = outcome(Arc::new(Inline::new()), &program);
        prop_assert_eq!(outcome(threads(1), &program), expected);
        prop_assert_eq!(outcome(machine(2, 2, 1, stealing), &program), expected);
        prop_assert_eq!(outcome(machine(1, 2, 2, stealing), &program), expected);
    }
}

/// Spawns, from inside a task, tasks of several priorities; gives the order in which they ran.
fn order<R: Runs>(on: &Arc<R>) -> Vec<(u64, u32)> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (inner, log) = (Arc::clone(on), Arc::clone(&order));
    on.spawn(
        &statement(0),
        Affinity::Anywhere,
        Box::new(move || {
            for (number, time) in [3u64, 1, 2, 1, 3, 2].into_iter().enumerate() {
                let log = Arc::clone(&log);
                inner.spawn(
                    &statement(time),
                    Affinity::Anywhere,
                    Box::new(move || log.lock().unwrap().push((time, number as u32))),
                );
            }
        }),
    );
    eventually("six tasks ran", || order.lock().unwrap().len() == 6);
    order.lock().unwrap().clone()
}

#[test]
fn older_statements_first_then_submission_order() {
    let expected = vec![(1, 1), (1, 3), (2, 2), (2, 5), (3, 0), (3, 4)];
    assert_eq!(order(&Arc::new(Inline::new())), expected);
    assert_eq!(order(&threads(1)), expected);
}
