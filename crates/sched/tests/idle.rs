//! An idle process uses no cpu: workers, spare workers and the watchdog all sleep. A program of its own, since it looks
//! at every thread of the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use numa::{Budget, Topology};
use sched::{Affinity, Config, Scheduler, Statement, blocking};

/// How often the kernel has put each other thread of this process to sleep.
fn sleeps() -> BTreeMap<String, u64> {
    let own = std::fs::read_link("/proc/thread-self").expect("Linux has /proc/thread-self");
    let own = own.file_name().expect("it ends with the thread's number").to_owned();
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux has /proc/self/task");
    let one = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok().filter(|entry| entry.file_name() != own)?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let name = status.lines().find_map(|line| line.strip_prefix("Name:"))?.trim().to_owned();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((format!("{name} {}", entry.file_name().display()), count.trim().parse().ok()?))
    };
    threads.filter_map(one).filter(|(name, _)| name.starts_with("worker-") || name.starts_with("watchdog")).collect()
}

#[test]
fn an_idle_process_sleeps() {
    let scheduler = Scheduler::new(Arc::new(Topology::synthetic(1, 1, 4, 1)), Config::default());
    let statement = Statement::new(1, Budget::unlimited());
    let task = || blocking(|| thread::sleep(Duration::from_millis(1)));
    let tasks: Vec<_> = (0..50).map(|_| scheduler.submit(&statement, Affinity::Anywhere, task)).collect();
    assert!(tasks.into_iter().all(|task| task.wait() == Ok(())));
    assert!(sleeps().len() > 5, "workers, spare ones and the watchdog");
    // On a busy machine it takes a while until all have gone to sleep, and spare workers end: any quiet second will do.
    // A thread that woke up now and then would never leave one.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let before = sleeps();
        thread::sleep(Duration::from_secs(1));
        let after = sleeps();
        if before == after && after.len() == 5 {
            return;
        }
        assert!(Instant::now() < end, "some thread keeps waking up: {before:?} {after:?}");
    }
}
