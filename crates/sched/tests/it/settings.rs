//! Settings: at the start, while it runs, per statement; and what the lists and figures say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use numa::{CpuId, NodeId, Topology};
use sched::policy::QueueKind;
use sched::policy::concurrency::Pieces;
use sched::{
    Affinities, Affinity, Binding, Calibration, Config, Hint, Preset, Scheduler, Settings, SlotId, Split, StealAmount,
    Stealing, Watchdog, report_bytes,
};

use crate::blocking::Gauge;
use crate::support::{anywhere, eventually, machine, settled, statement, threads};

/// The cpus that the calling thread may run on, as the kernel writes them.
pub fn mask() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux has /proc/thread-self");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux tells the mask");
    line.trim().to_owned()
}

fn is_hard(kind: QueueKind) -> bool {
    matches!(kind, QueueKind::PackageHard | QueueKind::NodeHard)
}

/// This machine with a thread group per cpu, and whether that makes more than one.
fn split_machine(binding: Binding) -> Option<Arc<Scheduler>> {
    let topology = Arc::new(Topology::discover().unwrap());
    let split = Split { cpus_min: 1, cpus_max: 1 };
    let scheduler = Scheduler::new(topology, Config { binding, split, ..Config::default() });
    if scheduler.layout().groups().len() < 2 {
        eprintln!("skipped: binding cannot be seen with one core");
        return None;
    }
    let pinned = scheduler.submit(&statement(1), Affinity::Slot(SlotId(0)), || {
        let cpus = vec![numa::current_cpu().unwrap_or(CpuId(0))];
        numa::pin_current_thread(&cpus)
    });
    if pinned.wait() != Ok(true) {
        eprintln!("skipped: pinning is refused here");
        return None;
    }
    Some(Scheduler::new(Arc::clone(scheduler.topology()), Config { binding, split, ..Config::default() }))
}

/// The masks of a task with an affinity, of its child without one, and of a task without any relation.
fn masks(scheduler: &Arc<Scheduler>) -> [String; 3] {
    let (send, receive) = mpsc::channel();
    let inner = Arc::clone(scheduler);
    scheduler.spawn(&statement(1), Affinity::Slot(SlotId(0)), move || {
        let own = mask();
        // The only slot of its group is ours: whoever runs the child comes after us.
        inner.spawn(&statement(1), Affinity::Anywhere, move || send.send([own, mask()]).unwrap());
    });
    let [near, child] = receive.recv().unwrap();
    let node = scheduler.layout().group(scheduler.layout().slot(SlotId(0)).group).node;
    assert!(scheduler.topology().node(node).is_some());
    let other = scheduler.submit(&statement(1), Affinity::Anywhere, mask).wait().unwrap();
    [near, child, other]
}

#[test]
fn each_binding_is_seen_in_the_masks() {
    let all = mask();
    for (binding, bound) in [
        (Binding::None, [false, false, false]),
        (Binding::Preferred, [true, false, false]),
        (Binding::Opportunistic, [true, true, false]),
        (Binding::Always, [true, true, true]),
    ] {
        let Some(scheduler) = split_machine(binding) else { return };
        for _ in 0..10 {
            let masks = masks(&scheduler);
            assert_eq!(masks.each_ref().map(|mask| *mask != all), bound, "{binding}: {masks:?} of {all}");
        }
    }
}

#[test]
fn settings_change_while_it_runs_and_per_statement() {
    let scheduler = machine(2, 1, 1, Stealing::Any);
    assert_eq!(scheduler.settings().stealing, Stealing::Any);
    let stolen = || {
        settled(&scheduler);
        scheduler.stats().workers.iter().map(|worker| worker.stolen).sum::<u64>()
    };
    let settings = Settings { stealing: Stealing::Off, ..scheduler.settings() };
    let run = |statement: &Arc<sched::Statement>| {
        let near = |_| Affinity::near(NodeId(0));
        scheduler.parallel_for(statement, 300, &near, &|_| thread::sleep(Duration::from_micros(50))).unwrap();
    };
    let alone = statement(1);
    alone.set_settings(Some(settings));
    run(&alone);
    assert_eq!(stolen(), 0, "the statement's own setting holds");
    eventually("node 1 steals", || {
        run(&statement(1));
        stolen() > 0
    });
    scheduler.set_settings(settings);
    let before = stolen();
    run(&statement(1));
    assert_eq!(stolen(), before, "switched off for all");
    assert_eq!(scheduler.settings(), settings);
}

#[test]
fn presets_set_everything() {
    let topology = Arc::new(Topology::synthetic(2, 1, 1, 1));
    for preset in Preset::ALL {
        let scheduler = Scheduler::new(Arc::clone(&topology), Config::preset(*preset));
        assert_eq!(scheduler.settings().strategy(), Some(*preset));
        let ran = scheduler.parallel_for(&statement(1), 20, &|i| Affinity::near(NodeId(i as u32 % 2)), &|_| ());
        assert_eq!(ran, Ok(()));
    }
}

#[test]
fn parallelism_can_be_switched_off() {
    let scheduler = machine(2, 1, 2, Stealing::Any);
    let (serial, gauge, count) = (statement(1), Gauge::default(), AtomicUsize::new(0));
    serial.set_settings(Some(Settings { parallelism: 1, ..scheduler.settings() }));
    let body = |_| {
        gauge.within(|| thread::sleep(Duration::from_micros(20)));
        count.fetch_add(1, Ordering::Relaxed);
    };
    scheduler.parallel_for(&serial, 200, &|i| Affinity::on(NodeId(i as u32 % 2)), &body).unwrap();
    let on_worker = scheduler.parallel_for(&serial, 1, &anywhere, &|_| {
        scheduler.parallel_for(&serial, 100, &|i| Affinity::on(NodeId(i as u32 % 2)), &body).unwrap();
    });
    assert_eq!((on_worker, count.load(Ordering::Relaxed), gauge.most()), (Ok(()), 300, 1));
    assert_eq!(scheduler.concurrency_hint(&serial, &[], Pieces::Whole), 1);
}

#[test]
fn parallelism_can_be_limited() {
    let scheduler = machine(2, 1, 3, Stealing::Neighbour);
    for limit in [2, 3, 5] {
        let (few, gauge, count) = (statement(1), Gauge::default(), AtomicUsize::new(0));
        few.set_settings(Some(Settings { parallelism: limit, ..scheduler.settings() }));
        let body = |_| {
            gauge.within(|| thread::sleep(Duration::from_micros(50)));
            count.fetch_add(1, Ordering::Relaxed);
        };
        // Hard tasks of either node and of one slot: tickets have to be passed on to where something is left.
        let places = [Affinity::on(NodeId(0)), Affinity::on(NodeId(1)), Affinity::Slot(SlotId(4)), Affinity::Anywhere];
        scheduler.parallel_for(&few, 300, &|i| places[i % 4], &body).unwrap();
        scheduler.parallel_for(&few, 40, &|_| places[2], &body).unwrap();
        // From a worker, which counts as one of them.
        let inner = scheduler.parallel_for(&few, 1, &|_| Affinity::on(NodeId(0)), &|_| {
            scheduler.parallel_for(&few, 100, &|_| places[1], &body).unwrap();
            scheduler.parallel_for(&few, 100, &|i| places[i % 4], &body).unwrap();
        });
        assert_eq!((inner, count.load(Ordering::Relaxed)), (Ok(()), 540));
        assert!((2..=usize::from(limit)).contains(&gauge.most()), "{} at a time, {limit} allowed", gauge.most());
    }
}

#[test]
fn a_limited_loop_that_panics_or_is_cancelled_ends() {
    let scheduler = machine(2, 1, 2, Stealing::Off);
    for _ in 0..20 {
        let few = statement(1);
        few.set_settings(Some(Settings { parallelism: 2, ..scheduler.settings() }));
        let ran = AtomicUsize::new(0);
        let cancelled = scheduler.parallel_for(&few, 10_000, &|i| Affinity::on(NodeId(i as u32 % 2)), &|_| {
            if ran.fetch_add(1, Ordering::Relaxed) == 100 {
                few.cancel();
            }
        });
        assert!(cancelled.is_err() && ran.load(Ordering::Relaxed) < 10_000);
        let fails = statement(2);
        fails.set_settings(few.settings());
        let failed = scheduler.parallel_for(&fails, 1000, &anywhere, &|i| assert!(i != 500, "stop"));
        assert!(failed.is_err());
    }
}

#[test]
fn hints_make_soft_tasks_hard() {
    let scheduler = machine(2, 1, 1, Stealing::Any);
    scheduler.set_settings(Settings { memory_intensive_bytes_per_us: 100, ..scheduler.settings() });
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(0), Affinity::on(NodeId(0)), move || held.recv().unwrap());
    let (hold_1, held_1) = mpsc::channel::<()>();
    scheduler.spawn(&statement(0), Affinity::on(NodeId(1)), move || held_1.recv().unwrap());
    let heavy = Hint { bytes: 1 << 20, cpu_ns: 1000 };
    let waiting = statement(1);
    waiting.set_label("SELECT 1");
    eventually("both nodes are held", || scheduler.tasks(10).is_empty());
    scheduler.spawn_with(&waiting, Affinity::near(NodeId(0)), heavy, || ());
    scheduler.spawn_with(&waiting, Affinity::near(NodeId(0)), Hint { bytes: 1, cpu_ns: 1000 }, || ());
    let tasks = scheduler.tasks(10);
    let hard: Vec<bool> = tasks.iter().map(|task| task.queue.is_some_and(is_hard)).collect();
    assert_eq!((tasks.len(), hard.iter().filter(|hard| **hard).count()), (2, 1));
    let heavy_one = tasks.iter().find(|task| task.hint == heavy).expect("it is queued");
    assert_eq!((heavy_one.label.as_str(), heavy_one.node, heavy_one.tasks), ("SELECT 1", NodeId(0), Some(1)));
    let listed = scheduler.statements();
    let own = listed.iter().find(|statement| statement.label == "SELECT 1").expect("it is alive");
    assert_eq!((own.queued, own.tasks_run, own.stopped.clone()), (2, 0, None));
    hold.send(()).unwrap();
    hold_1.send(()).unwrap();
    eventually("its tasks are counted", || {
        scheduler.statements().iter().any(|statement| statement.label == "SELECT 1" && statement.tasks_run == 2)
    });
    drop(waiting);
    eventually("it is gone", || scheduler.statements().iter().all(|statement| statement.label.is_empty()));
}

#[test]
fn loops_follow_hints_too() {
    for (bytes, hard) in [(1 << 20, true), (1, false)] {
        let scheduler = machine(2, 1, 1, Stealing::Any);
        scheduler.set_settings(Settings { memory_intensive_bytes_per_us: 100, ..scheduler.settings() });
        let holds: Vec<_> = [0, 1]
            .map(|node| {
                let (hold, held) = mpsc::channel::<()>();
                scheduler.spawn(&statement(0), Affinity::on(NodeId(node)), move || held.recv().unwrap());
                hold
            })
            .into();
        eventually("both nodes are held", || scheduler.tasks(10).is_empty());
        let waiting = statement(1);
        waiting.set_label("SELECT 1");
        let wish = |_| (Affinity::near(NodeId(0)), Hint { bytes, cpu_ns: 1000 });
        std::thread::scope(|scope| {
            scope.spawn(|| scheduler.parallel_for_with(&waiting, 2, &wish, &|_| ()).unwrap());
            eventually("the loop is queued", || !scheduler.tasks(10).is_empty());
            let tasks = scheduler.tasks(10);
            assert!(tasks.iter().all(|task| task.queue.is_some_and(is_hard) == hard), "{tasks:?}");
            holds.iter().for_each(|hold| hold.send(()).unwrap());
        });
    }
}

#[test]
fn bulk_stealing_takes_many_and_loses_none() {
    let topology = Arc::new(Topology::synthetic(2, 1, 1, 1));
    let settings = Settings { steal: StealAmount::Bulk, affinities: Affinities::Soft, ..Settings::default() };
    let config = Config { stealing: Stealing::Any, settings, ..Config::default() };
    let scheduler = Scheduler::new(topology, config);
    let ran = Arc::new(AtomicUsize::new(0));
    eventually("tasks are moved in bulk", || {
        let before = ran.load(Ordering::SeqCst);
        let task = || {
            let ran = Arc::clone(&ran);
            move || {
                thread::sleep(Duration::from_micros(20));
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        let many = statement(1);
        (0..500).for_each(|_| scheduler.spawn(&many, Affinity::near(NodeId(0)), task()));
        eventually("all ran", || ran.load(Ordering::SeqCst) == before + 500);
        scheduler.stats().workers.iter().any(|worker| worker.moved > 0)
    });
    let stats = scheduler.stats();
    assert_eq!(stats.workers.iter().map(|w| w.tasks_run).sum::<u64>(), ran.load(Ordering::SeqCst) as u64);
    assert!(stats.groups[0].stolen_by_others > 0 && stats.nodes[1].stolen > 0);
}

#[test]
fn how_much_is_stolen_is_the_statements_own_setting() {
    for (scheduler_steals, statement_steals) in
        [(StealAmount::One, StealAmount::Bulk), (StealAmount::Bulk, StealAmount::One)]
    {
        let settings = Settings { steal: scheduler_steals, affinities: Affinities::Soft, ..Settings::default() };
        let config = Config { stealing: Stealing::Any, settings, ..Config::default() };
        let scheduler = Scheduler::new(Arc::new(Topology::synthetic(2, 1, 1, 1)), config);
        let own = Settings { steal: statement_steals, ..scheduler.settings() };
        let figures = || {
            let stats = scheduler.stats();
            [stats.workers.iter().map(|w| w.moved).sum::<u64>(), stats.nodes[1].stolen]
        };
        eventually("tasks are stolen as the statement says", || {
            let (many, ran) = (statement(1), Arc::new(AtomicUsize::new(0)));
            many.set_settings(Some(own));
            for _ in 0..500 {
                let ran = Arc::clone(&ran);
                scheduler.spawn(&many, Affinity::near(NodeId(0)), move || {
                    thread::sleep(Duration::from_micros(20));
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            }
            eventually("all ran", || ran.load(Ordering::SeqCst) == 500);
            settled(&scheduler);
            let [moved, stolen] = figures();
            assert!(statement_steals == StealAmount::Bulk || moved == 0, "{moved} were moved, none may be");
            stolen > 0 && (moved > 0) == (statement_steals == StealAmount::Bulk)
        });
    }
}

#[test]
fn bytes_are_local_or_remote() {
    let scheduler = machine(2, 1, 1, Stealing::Off);
    let statement = statement(1);
    let read = |_| {
        report_bytes(&statement, NodeId(0), 1000);
        report_bytes(&statement, NodeId(1), 10);
    };
    scheduler.parallel_for(&statement, 5, &|_| Affinity::on(NodeId(0)), &read).unwrap();
    report_bytes(&statement, NodeId(0), 1 << 30);
    let stats = scheduler.stats();
    let of_node = |node: usize| (stats.nodes[node].bytes_local, stats.nodes[node].bytes_remote);
    assert_eq!((of_node(0), of_node(1)), ((5000, 50), (0, 0)));
    let listed = scheduler.statements();
    assert_eq!((listed[0].bytes_local, listed[0].bytes_remote), (5000, 50));
}

#[test]
fn a_stuck_worker_is_reported_and_samples_are_taken() {
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let watchdog = Watchdog { period: Duration::from_millis(2), stuck_after: Duration::from_millis(30) };
    let scheduler = Scheduler::new(topology, Config { watchdog, ..Config::default() });
    let (hold, held) = mpsc::channel::<()>();
    scheduler.spawn(&statement(1), Affinity::Anywhere, move || held.recv().unwrap());
    eventually("it is reported", || scheduler.stats().stuck == 1);
    thread::sleep(Duration::from_millis(80));
    assert_eq!(scheduler.stats().stuck, 1, "once");
    hold.send(()).unwrap();
    let group = &scheduler.stats().groups[0];
    assert!(group.samples > 0 && group.mean_working > 0.0);
}

#[test]
fn hints_follow_the_statements_that_are_active() {
    let scheduler = machine(2, 1, 4, Stealing::Any);
    let all = [NodeId(0), NodeId(1)];
    let first = statement(1);
    assert_eq!(scheduler.concurrency_hint(&first, &all, Pieces::Whole), 8);
    let others: Vec<_> = (2..5).map(statement).collect();
    for other in &others {
        scheduler.parallel_for(other, 1, &anywhere, &|_| ()).unwrap();
    }
    assert_eq!(scheduler.concurrency_hint(&first, &all, Pieces::Whole), 2, "four statements share eight cpus");
    assert_eq!(scheduler.other_statements(&first), 3);
    assert_eq!(scheduler.other_statements(&statement(9)), 4, "it has submitted nothing");
    assert_eq!(scheduler.concurrency_hint(&first, &all, Pieces::Partitions(3)), 3);
    drop(others);
    eventually("they are gone", || scheduler.concurrency_hint(&first, &all, Pieces::Whole) == 8);
    let starts: Vec<usize> = (0..4).filter_map(|_| scheduler.rotation(3).next()).collect();
    assert_eq!(starts, [0, 1, 2, 0]);
}

#[test]
fn the_threshold_can_be_measured() {
    let scheduler = threads(2);
    // The settings of neither the scheduler nor the statement matter.
    let asks = statement(1);
    asks.set_settings(Some(Settings { parallelism: 1, ..Settings::preset(sched::Preset::Os) }));
    // A busy machine may keep the workers from reading beside each other in time.
    let tries = std::iter::repeat_with(|| Calibration::measure(&scheduler, &asks).unwrap());
    let calibration = tries.take(100).flatten().next().expect("measured within a hundred tries");
    assert!(calibration.shared_bytes_per_us > 10, "memory gives more than 10 MB/s: {calibration:?}");
    assert!(u64::from(calibration.memory_intensive_bytes_per_us) * 2 <= calibration.shared_bytes_per_us + 1);
    let held = Arc::new(std::sync::Barrier::new(2));
    let holds = Arc::clone(&held);
    let one = threads(1);
    one.spawn(&statement(0), Affinity::Anywhere, move || {
        holds.wait();
        holds.wait();
    });
    held.wait();
    let begun = std::time::Instant::now();
    assert_eq!(Calibration::measure(&one, &statement(1)), Ok(None), "the only worker is busy");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    held.wait();
    asks.cancel();
    assert_eq!(Calibration::measure(&scheduler, &asks), Err(sched::TaskError::Cancelled));
    let given = Calibration::from_rates(100e9, 10);
    assert_eq!((given.shared_bytes_per_us, given.memory_intensive_bytes_per_us), (10_000, 5_000));
}
