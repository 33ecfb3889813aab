//! Threads of the private runtime count as working in the scheduler while they are busy.
//!
//! A thread that runs the runtime's tasks is busy from the moment it wakes up until it parks. Meanwhile as many `sched` workers of the thread group rest, so that
//! no more threads compute than there are cpus.
//!
//! Invariants: a thread holds one guard at most; a thread that waits (for a native operator's batch, for its consumer) is
//! parked and holds none, and one worker of a group may always work: so a busy thread never keeps what it waits for from running.
//!
//! # Limits
//! A thread that has just been started and never parked is counted once it polls a statement or a native operator, not for
//! what else it may run before. Where the operating system moves a busy thread to another node, it stays counted where it woke up.
//!
//! Source: `DESIGN.md`, "The bridge to DataFusion"; Psaroudakis et al., VLDB 2015, section 5.1 (the number of working threads).

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use sched::{Outside, Scheduler};
use tokio::runtime::Builder;

/// What a thread of a private runtime knows.
struct Here {
    scheduler: Weak<Scheduler>,
    counted: Option<Outside>,
}

thread_local! {
    /// `None` on every thread that is none of a private runtime's.
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Has the threads of the runtime to be built count as working in `scheduler` while they are busy.
pub(crate) fn count_threads<'a>(builder: &'a mut Builder, scheduler: &Arc<Scheduler>) -> &'a mut Builder {
    // Threads may outlive the database; they must not keep its workers.
    let scheduler = Arc::downgrade(scheduler);
    builder
        .on_thread_start(move || HERE.set(Some(Here { scheduler: Weak::clone(&scheduler), counted: None })))
        .on_thread_unpark(begin)
        .on_thread_park(end)
        .on_thread_stop(|| drop(HERE.take()))
}

/// The calling thread, if it is one of a private runtime, is busy until it parks.
pub(crate) fn begin() {
    let scheduler = HERE.with_borrow(|here| match here {
        Some(here) if here.counted.is_none() => here.scheduler.upgrade(),
        _ => None,
    });
    // No borrow is held across a call that may wake workers or end a scheduler.
    if let Some(scheduler) = scheduler {
        let counted = scheduler.outside();
        HERE.with_borrow_mut(|here| {
            if let Some(here) = here {
                here.counted = Some(counted);
            }
        });
    }
}

/// The calling thread is not busy any more.
fn end() {
    drop(HERE.with_borrow_mut(|here| here.as_mut().and_then(|here| here.counted.take())));
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use numa::Topology;
    use sched::Config;

    use super::*;

    fn outside(scheduler: &Scheduler) -> usize {
        scheduler.stats().groups.iter().map(|group| group.outside).sum()
    }

    /// Waits until so many threads are counted.
    fn settles_at(scheduler: &Scheduler, counted: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while outside(scheduler) != counted {
            assert!(Instant::now() < end, "{} threads are counted, not {counted}", outside(scheduler));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn busy_threads_are_counted_and_parked_ones_are_not() {
        let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
        let mut builder = Builder::new_multi_thread();
        let runtime = count_threads(builder.worker_threads(2), &scheduler).build().expect("threads can be started");
        settles_at(&scheduler, 0);
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let busy = runtime.spawn(async move {
            begin();
            // Stands for work: a task of the runtime that does not give way.
            held.recv().is_err()
        });
        settles_at(&scheduler, 1);
        // While it is busy, there is still a worker for what it may wait for.
        let statement = sched::Statement::new(1, numa::Budget::unlimited());
        assert_eq!(scheduler.submit(&statement, sched::Affinity::Anywhere, || 7).wait(), Ok(7));
        assert_eq!(outside(&scheduler), 1);
        drop(hold);
        assert!(runtime.block_on(busy).expect("the task ends"));
        settles_at(&scheduler, 0);
        drop(runtime);
        assert_eq!(outside(&scheduler), 0);
    }

    #[test]
    fn other_threads_are_never_counted() {
        let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
        begin();
        assert_eq!(outside(&scheduler), 0);
    }
}
