//! Workers that block: their slots go on, and never more work than there are slots.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use numa::Topology;
use sched::{Affinity, Config, Scheduler, SlotId, Stealing, TaskError, WorkerState, blocking};

use crate::support::{anywhere, eventually, machine, statement, threads};

/// How many are in a stretch of code, and the most that ever were.
#[derive(Default)]
pub struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let result = f();
        self.now.fetch_sub(1, Ordering::SeqCst);
        result
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

fn work() {
    thread::sleep(Duration::from_micros(200));
}

#[test]
fn as_many_work_as_there_are_slots_however_many_block() {
    for slots in [1, 3] {
        let scheduler = threads(slots);
        let (gauge, blocked) = (Arc::new(Gauge::default()), Arc::new(Gauge::default()));
        let tasks: Vec<_> = (0..60)
            .map(|_| {
                let (gauge, blocked) = (Arc::clone(&gauge), Arc::clone(&blocked));
                scheduler.submit(&statement(1), Affinity::Anywhere, move || {
                    gauge.within(work);
                    blocking(|| blocked.within(|| thread::sleep(Duration::from_millis(3))));
                    gauge.within(work);
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.wait(), Ok(()));
        }
        assert!(gauge.most() <= slots as usize, "{} worked on {slots} slots", gauge.most());
        assert!(blocked.most() > slots as usize, "blocked tasks hold nobody up");
    }
}

#[test]
fn tasks_that_wait_for_each_other_all_run_at_once() {
    let scheduler = threads(1);
    let barrier = Arc::new(Barrier::new(40));
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            scheduler.submit(&statement(1), Affinity::Anywhere, move || blocking(|| barrier.wait().is_leader()))
        })
        .collect();
    assert_eq!(tasks.into_iter().filter_map(|task| task.wait().ok()).filter(|leader| *leader).count(), 1);
    assert!(scheduler.stats().workers.len() >= 40);
    // A worker counts after the task has told its result.
    let ran = || scheduler.stats().workers.iter().map(|worker| worker.tasks_run).sum::<u64>();
    eventually("all are counted", || ran() == 40);
}

#[test]
fn a_private_queue_goes_with_its_slot_and_its_tasks_stay_alone() {
    let scheduler = machine(1, 1, 2, Stealing::Any);
    let (send, receive) = mpsc::channel();
    let gauge = Arc::new(Gauge::default());
    let own = Affinity::Slot(SlotId(1));
    let gauge_here = Arc::clone(&gauge);
    let first = scheduler.submit(&statement(1), own, move || {
        let got = blocking(|| receive.recv().unwrap());
        gauge_here.within(work);
        got
    });
    // Others of the slot run meanwhile; the last of them lets the first go on.
    for number in 0..50 {
        let (gauge, send) = (Arc::clone(&gauge), send.clone());
        scheduler.spawn(&statement(2), own, move || {
            gauge.within(work);
            if number == 20 {
                send.send(number).unwrap();
            }
        });
    }
    assert_eq!(first.wait(), Ok(20));
    eventually("all ran", || scheduler.stats().workers.iter().map(|w| w.tasks_run).sum::<u64>() == 51);
    assert_eq!(gauge.most(), 1, "what belongs to a slot runs alone, also after blocking");
}

#[test]
fn a_section_that_panics_gives_the_slot_back() {
    let scheduler = threads(1);
    let bad = statement(1);
    let ended = scheduler.submit(&bad, Affinity::Anywhere, || blocking(|| panic!("in a section")));
    assert_eq!(ended.wait(), Err::<(), _>(TaskError::Panicked("in a section".into())));
    assert_eq!(scheduler.parallel_for(&statement(1), 10, &anywhere, &|_| ()), Ok(()));
    let stats = scheduler.stats();
    assert_eq!((stats.workers.len(), stats.groups[0].lent), (1, 0), "{stats:?}");
}

#[test]
fn a_section_without_other_work_costs_no_thread() {
    let scheduler = threads(2);
    for _ in 0..20 {
        let task = scheduler.submit(&statement(1), Affinity::Anywhere, || {
            blocking(|| blocking(|| thread::sleep(Duration::from_micros(100))));
            Scheduler::on_worker()
        });
        assert_eq!(task.wait(), Ok(true));
    }
    assert_eq!(scheduler.stats().workers.len(), 2);
    assert_eq!(blocking(|| 7), 7, "a thread that is no worker just runs it");
}

#[test]
fn loops_inside_sections_and_sections_inside_loops() {
    let scheduler = threads(2);
    let count = AtomicUsize::new(0);
    let ran = scheduler.parallel_for(&statement(1), 20, &anywhere, &|_| {
        blocking(|| {
            assert!(!Scheduler::on_worker(), "it has no slot");
            let inner = scheduler.parallel_for(&statement(1), 5, &anywhere, &|_| {
                blocking(|| thread::sleep(Duration::from_micros(50)));
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(inner, Ok(()));
        });
    });
    assert_eq!((ran, count.into_inner()), (Ok(()), 100));
}

#[test]
fn a_caller_whose_slot_changed_hears_of_the_end_of_its_loop() {
    // Calls block, so the caller of the inner loop comes back to any slot of its group, and then waits for the others.
    let scheduler = machine(1, 2, 2, Stealing::Off);
    for round in 0..200 {
        let ran = scheduler.parallel_for(&statement(round), 3, &anywhere, &|_| {
            let inner = scheduler.parallel_for(&statement(round), 6, &anywhere, &|index| {
                blocking(|| thread::sleep(Duration::from_micros(20 * index as u64)));
            });
            assert_eq!(inner, Ok(()));
        });
        assert_eq!(ran, Ok(()));
    }
}

#[test]
fn where_no_more_threads_are_allowed_a_blocking_worker_keeps_its_slot() {
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let scheduler = Scheduler::new(topology, Config { workers_max: Some(2), ..Config::default() });
    let blocked = Arc::new(Gauge::default());
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let blocked = Arc::clone(&blocked);
            let work = move || blocking(|| blocked.within(|| thread::sleep(Duration::from_millis(1))));
            scheduler.submit(&statement(1), Affinity::Anywhere, work)
        })
        .collect();
    assert!(tasks.into_iter().all(|task| task.wait() == Ok(())));
    assert!(blocked.most() <= 2);
    // Nested loops with nobody to hand over to: workers help instead.
    let count = AtomicUsize::new(0);
    let ran = scheduler.parallel_for(&statement(1), 8, &anywhere, &|_| {
        let ran = scheduler.parallel_for(&statement(2), 8, &anywhere, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran, Ok(()));
    });
    assert_eq!((ran, count.into_inner(), scheduler.stats().workers.len()), (Ok(()), 64, 2));
}

#[test]
fn a_worker_may_wait_for_a_completion() {
    let scheduler = threads(1);
    let inner = Arc::clone(&scheduler);
    let outer = scheduler.submit(&statement(1), Affinity::Anywhere, move || {
        let tasks: Vec<_> = (0..5).map(|i| inner.submit(&statement(2), Affinity::Anywhere, move || i * i)).collect();
        tasks.into_iter().map(|task| task.wait().unwrap()).sum::<i32>()
    });
    assert_eq!(outer.wait(), Ok(30));
}

#[test]
fn the_end_waits_for_a_worker_that_blocks() {
    let scheduler = threads(1);
    let (hold, held) = mpsc::channel::<()>();
    let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || {
        blocking(|| {
            begins.store(true, Ordering::SeqCst);
            held.recv().unwrap();
        });
        ends.store(true, Ordering::SeqCst);
    });
    eventually("it blocks", || began.load(Ordering::SeqCst));
    // Another thread has the slot by then, so that the one that blocks comes back to none.
    assert_eq!(scheduler.submit(&statement(1), Affinity::Anywhere, || 1).wait(), Ok(1));
    let release = thread::spawn(move || {
        thread::sleep(Duration::from_millis(30));
        hold.send(()).unwrap();
    });
    drop(scheduler);
    assert!(ended.load(Ordering::SeqCst), "the task went on to its end");
    release.join().unwrap();
}

#[test]
fn states_tell_who_blocks() {
    let scheduler = threads(1);
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || blocking(|| held.recv().unwrap()));
    let state = |of: WorkerState| scheduler.stats().workers.iter().any(|worker| worker.state == of);
    eventually("it is inactive", || state(WorkerState::Inactive));
    let group = &scheduler.stats().groups[0];
    assert_eq!((group.working, group.lent), (0, 1), "its slot is lent");
    hold.send(()).unwrap();
    eventually("it is not any more", || !state(WorkerState::Inactive) && scheduler.stats().groups[0].lent == 0);
    let inactive = scheduler.stats().workers[0].in_state[WorkerState::Inactive as usize];
    assert!(inactive > Duration::ZERO);
}
