//! Where tasks run, and who takes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use numa::{NodeId, PackageId};
use sched::{Affinity, Place, Scheduler, SlotId, Stealing, WorkerState};

use crate::support::{anywhere, eventually, machine, statement, threads};

/// The node in a worker's name, `worker-NODE-SLOT`.
fn node_here() -> u32 {
    let name = thread::current().name().expect("workers have names").to_owned();
    name.split('-').nth(1).and_then(|node| node.parse().ok()).expect("worker-NODE-SLOT")
}

/// Runs `tasks` hard or soft tasks per node; gives the nodes they ran on.
fn nodes_used(scheduler: &Scheduler, affinity: impl Fn(usize) -> Affinity + Sync, tasks: usize) -> Vec<u32> {
    let nodes = Mutex::new(vec![u32::MAX; tasks]);
    scheduler
        .parallel_for(&statement(1), tasks, &affinity, &|index| {
            thread::sleep(std::time::Duration::from_micros(50));
            nodes.lock().unwrap()[index] = node_here();
        })
        .unwrap();
    nodes.into_inner().unwrap()
}

fn all_parked(scheduler: &Scheduler) -> bool {
    scheduler.stats().workers.iter().all(|worker| worker.state == WorkerState::Parked)
}

#[test]
fn hard_tasks_never_leave_their_node() {
    for stealing in [Stealing::Off, Stealing::Neighbour, Stealing::Any] {
        let scheduler = machine(2, 2, 1, stealing);
        let ran_on = nodes_used(&scheduler, |index| Affinity::on(NodeId(index as u32 % 4)), 200);
        assert!(ran_on.iter().enumerate().all(|(index, node)| *node == index as u32 % 4), "{ran_on:?}");
        assert!(scheduler.stats().workers.iter().all(|worker| worker.stolen == 0));
    }
}

#[test]
fn package_tasks_stay_in_their_package() {
    let scheduler = machine(2, 2, 1, Stealing::Any);
    let place = Place::Package(PackageId(1));
    let ran_on = nodes_used(&scheduler, |_| Affinity::Near { place, hard: true }, 200);
    assert!(ran_on.iter().all(|node| [2, 3].contains(node)), "{ran_on:?}");
}

#[test]
fn stealing_reaches_as_far_as_its_mode() {
    for (stealing, reached) in
        [(Stealing::Off, vec![0]), (Stealing::Neighbour, vec![0, 1]), (Stealing::Any, vec![0, 1, 2, 3])]
    {
        let scheduler = machine(2, 2, 1, stealing);
        let ran_on = nodes_used(&scheduler, |_| Affinity::near(NodeId(0)), 200);
        assert!(ran_on.iter().all(|node| reached.contains(node)), "{stealing:?}: {ran_on:?}");
        // One task that waits for another worker to take the next: only stealing gets past it.
        let began = AtomicUsize::new(0);
        scheduler
            .parallel_for(&statement(1), reached.len(), &|_| Affinity::near(NodeId(0)), &|_| {
                began.fetch_add(1, Ordering::SeqCst);
                eventually("all in reach come to help", || began.load(Ordering::SeqCst) == reached.len());
            })
            .unwrap();
        let stolen: u64 = scheduler.stats().workers.iter().map(|worker| worker.stolen).sum();
        assert_eq!(stolen > 0, stealing != Stealing::Off, "{stealing:?}");
    }
}

#[test]
fn a_slot_runs_what_is_its_own() {
    let scheduler = machine(1, 2, 2, Stealing::Any);
    let seen: Arc<Mutex<BTreeMap<u32, Vec<ThreadId>>>> = Arc::default();
    for task in 0..80u32 {
        let seen = Arc::clone(&seen);
        scheduler.spawn(&statement(1), Affinity::Slot(SlotId(task % 4)), move || {
            seen.lock().unwrap().entry(task % 4).or_default().push(thread::current().id());
        });
    }
    eventually("80 tasks ran", || seen.lock().unwrap().values().map(Vec::len).sum::<usize>() == 80);
    let mut all = Vec::new();
    for threads in seen.lock().unwrap().values() {
        assert!(threads.iter().all(|thread| thread == &threads[0]), "a slot's task ran elsewhere");
        all.push(threads[0]);
    }
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[test]
fn tasks_without_affinity_spread_over_idle_groups() {
    // No stealing: each group must be given its share. Each task waits for one on every other node.
    let scheduler = machine(4, 1, 1, Stealing::Off);
    // A worker that is still starting counts as busy.
    eventually("all workers parked", || all_parked(&scheduler));
    let began = AtomicUsize::new(0);
    scheduler
        .parallel_for(&statement(1), 4, &anywhere, &|_| {
            began.fetch_add(1, Ordering::SeqCst);
            eventually("a task on every node", || began.load(Ordering::SeqCst) == 4);
        })
        .unwrap();
}

#[test]
fn more_urgent_statements_go_before_the_rest_of_a_loop() {
    let scheduler = threads(1);
    let (inner, order) = (Arc::clone(&scheduler), Mutex::new(Vec::new()));
    let urgent_ran = Arc::new(AtomicBool::new(false));
    scheduler
        .parallel_for(&statement(5), 3, &anywhere, &|index| {
            order.lock().unwrap().push((index, urgent_ran.load(Ordering::SeqCst)));
            if index == 0 {
                let ran = Arc::clone(&urgent_ran);
                inner.spawn(&statement(1), Affinity::Anywhere, move || ran.store(true, Ordering::SeqCst));
            }
        })
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), [(0, false), (1, true), (2, true)]);
}

#[test]
fn statistics_tell_what_happened() {
    let scheduler = threads(2);
    scheduler
        .parallel_for(&statement(1), 100, &anywhere, &|_| thread::sleep(std::time::Duration::from_micros(100)))
        .unwrap();
    eventually("all workers parked", || all_parked(&scheduler));
    let stats = scheduler.stats();
    assert_eq!(stats.workers.iter().map(|worker| worker.tasks_run).sum::<u64>(), 100);
    let busy: u128 = stats.workers.iter().map(|worker| worker.busy.as_millis()).sum();
    assert!(busy >= 10, "100 tasks of 100 us are 10 ms, not {busy}");
    let group = &stats.groups[0];
    assert_eq!((group.queued_stealable, group.queued_hard, group.queued_private, stats.dropped), (0, 0, 0, 0));
    assert_eq!(stats.workers.iter().filter_map(|worker| worker.slot).collect::<Vec<_>>(), group.slots);
}

/// How often the kernel has put the threads of these `/proc` folders to sleep, all together.
fn sleeps(threads: &[String]) -> u64 {
    let one = |thread: &String| {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).expect("a live thread has a status");
        let line =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("Linux counts these");
        line.trim().parse::<u64>().expect("a number")
    };
    threads.iter().map(one).sum()
}

#[test]
fn an_idle_scheduler_uses_no_cpu() {
    let scheduler = threads(8);
    let folders = Arc::new(Mutex::new(Vec::new()));
    for slot in 0..8 {
        let folders = Arc::clone(&folders);
        scheduler.spawn(&statement(1), Affinity::Slot(SlotId(slot)), move || {
            let folder = std::fs::read_link("/proc/thread-self").expect("Linux has /proc/thread-self");
            folders.lock().unwrap().push(folder.display().to_string());
        });
    }
    eventually("all workers have run and parked", || folders.lock().unwrap().len() == 8 && all_parked(&scheduler));
    let folders = folders.lock().unwrap().clone();
    // A worker says that it parks a moment before the kernel takes it off its cpu: on a busy machine that takes a
    // while, so any quiet stretch will do. One that woke up now and then would never have one.
    eventually("all workers sleep through 300 ms", || {
        let before = sleeps(&folders);
        thread::sleep(std::time::Duration::from_millis(300));
        sleeps(&folders) == before
    });
}
