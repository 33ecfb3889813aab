//! What the tests share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use numa::{Budget, Topology};
use sched::{Affinity, Config, Scheduler, Statement, Stealing};

/// A scheduler of an imaginary machine, one thread per cpu. Its cpus hardly exist here, so most workers stay unpinned.
pub fn machine(packages: u32, nodes_per_package: u32, cores_per_node: u32, stealing: Stealing) -> Arc<Scheduler> {
    let topology = Arc::new(Topology::synthetic(packages, nodes_per_package, cores_per_node, 1));
    Scheduler::new(topology, Config { stealing, ..Config::default() })
}

/// A scheduler of one node and `n` threads.
pub fn threads(threads: u32) -> Arc<Scheduler> {
    machine(1, 1, threads, Stealing::Off)
}

pub fn statement(time: u64) -> Arc<Statement> {
    Statement::new(time, Budget::unlimited())
}

pub fn anywhere(_: usize) -> Affinity {
    Affinity::Anywhere
}

/// Waits till `done`, or fails: what a test waits for takes milliseconds, and a lost wake-up for ever.
pub fn eventually(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "still waiting after a minute: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits till no worker is at work: a worker counts what it did in a loop when it leaves it, which may be after the
/// loop's end.
pub fn settled(scheduler: &Scheduler) {
    eventually("all workers rest", || scheduler.stats().groups.iter().all(|group| group.working == 0));
}
