//! Prints what the scheduler itself costs:
//! `cargo run --release -p nearside-sched --example sched_bench [TASKS [SLOTS]]`.

use std::sync::Arc;

use numa::Topology;
use sched::{Config, Scheduler};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let tasks = arguments.next().unwrap_or(1_000_000);
    let topology = Arc::new(Topology::discover().expect("a machine to run on"));
    let scheduler = Scheduler::new(topology, Config { threads: arguments.next(), ..Config::default() });
    println!("{} slots in {} thread groups", scheduler.threads(), scheduler.layout().groups().len());
    for figure in sched::bench::run(&scheduler, tasks) {
        let target = figure.target_ns.map_or(String::new(), |target_ns| {
            format!(" (at most {target_ns:.0}: {})", if figure.value_ns <= target_ns { "met" } else { "missed" })
        });
        println!("{:>10.1} ns  {}{target}", figure.value_ns, figure.name);
    }
}
