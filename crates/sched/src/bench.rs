//! How long the scheduler itself takes: the figures of `nearside bench sched`.
//!
//! Invariant: what is measured is empty tasks, so that all the time is the scheduler's; each figure is the median of
//! several runs, after one that warms up.
//!
//! # Limits
//! On a machine with few cpus the submitting thread and the workers share them, as they would in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use numa::Budget;
use parking_lot::Mutex;

use crate::affinity::Affinity;
use crate::scheduler::Scheduler;
use crate::statement::Statement;
use crate::stats::WorkerState;

/// Runs per figure, apart from the first.
const RUNS: usize = 5;
/// Tasks that may be on their way before the submitter waits: pipelined, not piled up.
const WINDOW: usize = 16 * 1024;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub name: &'static str,
    /// In nanoseconds.
    pub value_ns: f64,
    /// What it should be at most; `None` for what only says what the machine takes.
    pub target_ns: Option<f64>,
    /// How many tasks a run had.
    pub tasks: usize,
}

/// Measures submission and round trips with the workers of `scheduler`; `tasks` per run of the first.
pub fn run(scheduler: &Arc<Scheduler>, tasks: usize) -> Vec<Figure> {
    let per_task = |ns: f64| ns / tasks.max(1) as f64;
    let trips = (tasks / 1000).clamp(10, 1000);
    let statement = Statement::new(1, Budget::unlimited());
    vec![
        Figure {
            name: "submit, run and complete an empty task, pipelined",
            value_ns: per_task(median(|| pipelined(scheduler, tasks))),
            target_ns: Some(400.0),
            tasks,
        },
        Figure {
            name: "round trip to a parked worker",
            value_ns: median_of_trips(trips, || round_trip(scheduler, &statement)),
            target_ns: Some(20_000.0),
            tasks: trips,
        },
        Figure {
            name: "for comparison: to a plain thread that is parked",
            value_ns: threads_round_trips(trips),
            target_ns: None,
            tasks: trips,
        },
    ]
}

/// The median of some runs, in nanoseconds.
fn median(mut run: impl FnMut() -> Duration) -> f64 {
    run();
    let mut times: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
    times.sort_unstable();
    times[RUNS / 2].as_nanos() as f64
}

/// Counts ended tasks, of all runs, on a cache line of its own. Static, so that an empty task captures nothing.
#[repr(align(128))]
struct Done(AtomicUsize);

static DONE: Done = Done(AtomicUsize::new(0));
/// One run at a time: they count together.
static RUN: Mutex<()> = Mutex::new(());

impl Done {
    fn wait_for(&self, tasks: usize) {
        while self.0.load(Ordering::Acquire) < tasks {
            std::thread::yield_now();
        }
    }
}

/// An empty task: all that it does is say that it has run.
fn empty() {
    DONE.0.fetch_add(1, Ordering::Release);
}

fn pipelined(scheduler: &Arc<Scheduler>, tasks: usize) -> Duration {
    let _alone = RUN.lock();
    let statement = Statement::new(1, Budget::unlimited());
    let before = DONE.0.load(Ordering::Acquire);
    let begun = Instant::now();
    for task in 0..tasks {
        scheduler.spawn(&statement, Affinity::Anywhere, empty);
        if task % 1024 == 1023 {
            DONE.wait_for(before + task.saturating_sub(WINDOW));
        }
    }
    DONE.wait_for(before + tasks);
    begun.elapsed()
}

fn median_of_trips(trips: usize, mut trip: impl FnMut() -> Duration) -> f64 {
    let mut times: Vec<Duration> = (0..trips).map(|_| trip()).collect();
    times.sort_unstable();
    times[trips / 2].as_nanos() as f64
}

/// What waking a thread and being woken by it takes on this machine, without a scheduler.
fn threads_round_trips(trips: usize) -> f64 {
    const ASKED: usize = 1;
    const ANSWERED: usize = 2;
    const OVER: usize = 3;
    let turn = AtomicUsize::new(0);
    let asker = std::thread::current();
    let wait_for = |wanted: usize| {
        loop {
            let now = turn.load(Ordering::Acquire);
            if now == wanted || now == OVER {
                return now;
            }
            std::thread::park();
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            while wait_for(ASKED) != OVER {
                turn.store(ANSWERED, Ordering::Release);
                asker.unpark();
            }
        });
        let median = median_of_trips(trips, || {
            std::thread::sleep(Duration::from_micros(150));
            let begun = Instant::now();
            turn.store(ASKED, Ordering::Release);
            other.thread().unpark();
            wait_for(ANSWERED);
            begun.elapsed()
        });
        turn.store(OVER, Ordering::Release);
        other.thread().unpark();
        median
    })
}

/// The time from submission to the return of a task's result, every worker parked before.
fn round_trip(scheduler: &Arc<Scheduler>, statement: &Arc<Statement>) -> Duration {
    let asleep = || {
        let resting = |state| matches!(state, WorkerState::Free | WorkerState::Parked);
        let stats = scheduler.stats();
        stats.groups.iter().all(|group| group.working == 0) && stats.workers.iter().all(|w| resting(w.state))
    };
    while !asleep() {
        std::thread::sleep(Duration::from_micros(50));
    }
    // What says that it sleeps may be on its way into the kernel still.
    std::thread::sleep(Duration::from_micros(100));
    let begun = Instant::now();
    let completion = scheduler.submit(statement, Affinity::Anywhere, || ());
    let _ = completion.wait();
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use numa::Topology;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_small_run_gives_every_figure() {
        let scheduler = Scheduler::new(Arc::new(Topology::synthetic(1, 1, 2, 1)), Config::default());
        let figures = run(&scheduler, 2000);
        assert_eq!(figures.iter().filter(|figure| figure.target_ns.is_some()).count(), 2);
        assert!(figures.iter().all(|figure| figure.value_ns > 0.0));
    }
}
