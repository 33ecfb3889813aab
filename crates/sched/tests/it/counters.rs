//! Hardware counters, with a source that counts what tasks say: the cpu's own are seldom there in tests, and never
//! exact.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use numa::Topology;
use numa::counters::{Counter, Counts};
use sched::{Affinity, Config, CounterSource, ReadCounters, Scheduler};

use crate::support::{settled, statement};

const LONG: Duration = Duration::from_secs(60);

thread_local! {
    static MISSES: Cell<u64> = const { Cell::new(0) };
}

fn miss(times: u64) {
    MISSES.set(MISSES.get() + times);
}

/// A source whose threads count what they call [`miss`] with; it adds up how many threads asked it.
fn source(asked: &Arc<AtomicUsize>) -> CounterSource {
    let asked = Arc::clone(asked);
    CounterSource::new(move || {
        asked.fetch_add(1, Ordering::Relaxed);
        let mut last = MISSES.get();
        let read: ReadCounters = Box::new(move || {
            let before = std::mem::replace(&mut last, MISSES.get());
            Counts::default().with(Counter::LlcMisses, MISSES.get() - before)
        });
        Some(read)
    })
}

fn scheduler(counters: CounterSource) -> Arc<Scheduler> {
    let topology = Arc::new(Topology::synthetic(2, 1, 2, 1));
    Scheduler::new(topology, Config { counters, ..Config::default() })
}

#[test]
fn each_statement_is_booked_what_its_tasks_cost() {
    let scheduler = scheduler(source(&Arc::default()));
    let statements: Vec<_> = (1..=4).map(statement).collect();
    for round in 0..200 {
        let of = &statements[round % statements.len()];
        let cost = of.time();
        scheduler.spawn(of, Affinity::Anywhere, move || miss(cost));
        for _ in 0..3 {
            scheduler.spawn(of, Affinity::Anywhere, move || miss(1000 * cost));
        }
    }
    for of in &statements {
        scheduler.parallel_for(of, 100, &|_| Affinity::Anywhere, &|_| miss(1_000_000)).unwrap();
    }
    settled(&scheduler);
    let mut all = 0;
    for of in &statements {
        let counts = of.wait_for_counts(LONG);
        assert_eq!(counts.get(Counter::LlcMisses), Some(50 * of.time() + 150_000 * of.time() + 100_000_000));
        assert_eq!(counts.get(Counter::Cycles), None, "nobody counts them");
        all += counts.get(Counter::LlcMisses).unwrap();
    }
    let stats = scheduler.stats();
    let by_node: u64 = stats.nodes.iter().filter_map(|node| node.counts.get(Counter::LlcMisses)).sum();
    let by_worker: u64 = stats.workers.iter().filter_map(|worker| worker.counts.get(Counter::LlcMisses)).sum();
    assert_eq!((by_node, by_worker), (all, all));
    let listed = scheduler.statements();
    assert_eq!(listed[3].counts, statements[3].counts());
}

#[test]
fn a_task_that_waits_and_helps_another_statement_pays_for_its_own_alone() {
    let scheduler = Scheduler::new(
        Arc::new(Topology::synthetic(1, 1, 1, 1)),
        Config { counters: source(&Arc::default()), ..Config::default() },
    );
    let (older, younger) = (statement(1), statement(2));
    let handle = Arc::downgrade(&scheduler);
    let (urgent, own) = (Arc::clone(&older), Arc::clone(&younger));
    let done = scheduler.submit(&younger, Affinity::Anywhere, move || {
        let scheduler = handle.upgrade().unwrap();
        miss(1);
        scheduler.parallel_for(&own, 4, &|_| Affinity::Anywhere, &|_| {
            scheduler.spawn(&urgent, Affinity::Anywhere, || miss(100));
            miss(10);
        })
    });
    done.wait().unwrap().unwrap();
    settled(&scheduler);
    assert_eq!(older.wait_for_counts(LONG).get(Counter::LlcMisses), Some(400));
    assert_eq!(younger.wait_for_counts(LONG).get(Counter::LlcMisses), Some(41));
}

#[test]
fn a_statement_that_is_not_counted_asks_for_nothing() {
    let asked = Arc::default();
    let scheduler = scheduler(source(&asked));
    let off = statement(1);
    off.set_counted(false);
    scheduler.parallel_for(&off, 100, &|_| Affinity::Anywhere, &|_| miss(1)).unwrap();
    settled(&scheduler);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert!(off.wait_for_counts(LONG).is_unknown());
    assert!(scheduler.stats().nodes.iter().all(|node| node.counts.is_unknown()));
    let on = statement(2);
    scheduler.submit(&on, Affinity::Anywhere, || miss(7)).wait().unwrap();
    scheduler.submit(&off, Affinity::Anywhere, || miss(9)).wait().unwrap();
    assert_eq!(on.wait_for_counts(LONG).get(Counter::LlcMisses), Some(7));
    assert!(asked.load(Ordering::Relaxed) > 0);
    assert!(off.wait_for_counts(LONG).is_unknown());
}

#[test]
fn a_thread_without_counters_is_asked_once_and_knows_nothing() {
    let asked = Arc::new(AtomicUsize::new(0));
    let of_source = Arc::clone(&asked);
    let refusing = CounterSource::new(move || {
        of_source.fetch_add(1, Ordering::Relaxed);
        None
    });
    let scheduler = scheduler(refusing);
    for time in 1..=50 {
        let one = statement(time);
        scheduler.parallel_for(&one, 10, &|_| Affinity::Anywhere, &|_| miss(1)).unwrap();
        assert!(one.wait_for_counts(LONG).is_unknown());
    }
    settled(&scheduler);
    assert!(asked.load(Ordering::Relaxed) <= scheduler.stats().workers.len());
}
