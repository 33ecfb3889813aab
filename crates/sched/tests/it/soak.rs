//! Everything at once, from many threads: nothing lost, nothing left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use numa::{NodeId, PackageId};
use random::Random;
use sched::{Affinity, Place, Priority, Scheduler, SlotId, Statement, Stealing, TaskError, blocking};

use crate::support::{eventually, machine};

const SUBMITTERS: u64 = 64;
/// Spawned tasks per submitter in an ordinary test run; a tenth of them loop over ten more each.
const TASKS: u64 = 800;
/// Spawned tasks per submitter and round of the whole soak: a million tasks in all.
const WHOLE_TASKS: u64 = 4_000;
const WHOLE_ROUNDS: usize = 4;
/// What memory may grow by from the first round to the last, for what an allocator keeps.
const GROWTH_BYTES_MAX: u64 = 64 << 20;
const LOOP: usize = 10;

/// An affinity of any kind, which may name places that are not there.
fn any_affinity(random: &mut Random) -> Affinity {
    let hard = random.below(2) == 0;
    match random.below(5) {
        0 => Affinity::Slot(SlotId(random.below(8) as u32)),
        1 => Affinity::Near { place: Place::Package(PackageId(random.below(2) as u32)), hard },
        2 | 3 => Affinity::Near { place: Place::Node(NodeId(random.below(4) as u32)), hard },
        _ => Affinity::Anywhere,
    }
}

#[derive(Default)]
struct Counts {
    ran: AtomicU64,
    /// Tasks whose closure is gone, run or not.
    gone: AtomicU64,
    calls: AtomicU64,
    /// Tasks that tasks submitted.
    extra: AtomicU64,
    loops_done: AtomicU64,
    loops_given_up: AtomicU64,
}

struct Gone(Arc<Counts>);
impl Drop for Gone {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// What one task does.
fn task(scheduler: &Scheduler, statement: &Arc<Statement>, counts: &Counts, kind: u64, affinity: Affinity) {
    counts.ran.fetch_add(1, Ordering::Relaxed);
    match kind {
        0 => std::panic::resume_unwind(Box::new("meant to happen")),
        1 => statement.cancel(),
        2..=11 => {
            let ran = scheduler.parallel_for(statement, LOOP, &|_| affinity, &|index| {
                counts.calls.fetch_add(1, Ordering::Relaxed);
                if kind == 2 && index == LOOP / 2 {
                    statement.cancel();
                }
            });
            match ran {
                Ok(()) => counts.loops_done.fetch_add(1, Ordering::Relaxed),
                Err(TaskError::Cancelled | TaskError::Panicked(_)) => {
                    counts.loops_given_up.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
        12..=14 => blocking(|| std::thread::sleep(Duration::from_micros(kind))),
        15 => {
            let inner = scheduler.submit(statement, affinity, || ());
            counts.extra.fetch_add(1, Ordering::Relaxed);
            // Ends when it has run, or was dropped with its statement.
            let _ = inner.wait();
        }
        _ => {}
    }
}

fn submit(scheduler: &Arc<Scheduler>, counts: &Arc<Counts>, submitter: u64, tasks: u64) {
    let mut random = Random::new(submitter);
    let mut statement = None;
    for number in 0..tasks {
        if number % 50 == 0 || statement.is_none() {
            let priority = Priority { user: random.below(3) as u8, statement_time: number };
            let fresh = Statement::with_priority(priority, numa::Budget::unlimited());
            if random.below(10) == 0 {
                fresh.set_deadline(Instant::now() + Duration::from_micros(random.below_u64(2000)));
            }
            statement = Some(fresh);
        }
        let Some(statement) = &statement else { continue };
        let (affinity, kind) = (any_affinity(&mut random), random.below_u64(120));
        let (inner, own, gone) = (Arc::clone(scheduler), Arc::clone(statement), Gone(Arc::clone(counts)));
        scheduler.spawn(statement, affinity, move || task(&inner, &own, &gone.0, kind, affinity));
    }
}

/// Submits and checks one round of tasks; the scheduler's own figures are added up from round to round.
fn round(scheduler: &Arc<Scheduler>, counts: &Arc<Counts>, tasks: u64, rounds: u64) {
    std::thread::scope(|scope| {
        for submitter in 0..SUBMITTERS {
            scope.spawn(move || submit(scheduler, counts, submitter + rounds * SUBMITTERS, tasks));
        }
    });
    let all = rounds * SUBMITTERS * tasks;
    eventually("every task was run or dropped", || counts.gone.load(Ordering::Relaxed) == all);
    // A worker counts after the task's closure has gone.
    let counted = || {
        let stats = scheduler.stats();
        stats.workers.iter().map(|worker| worker.tasks_run).sum::<u64>() + stats.dropped
    };
    let loops = || counts.loops_done.load(Ordering::Relaxed) + counts.loops_given_up.load(Ordering::Relaxed);
    let ran = counts.ran.load(Ordering::Relaxed);
    assert!(ran > all / 4 && ran < all, "{ran} of {all} ran: some are dropped, many are not");
    assert!(counts.loops_done.load(Ordering::Relaxed) > 0 && counts.loops_given_up.load(Ordering::Relaxed) > 0);
    assert!(counts.calls.load(Ordering::Relaxed) >= counts.loops_done.load(Ordering::Relaxed) * LOOP as u64);
    // A loop that is refused from the start counts no call at all; every other call is run or dropped.
    eventually("statistics agree", || {
        let submitted = all + counts.extra.load(Ordering::Relaxed);
        let most = submitted + loops() * LOOP as u64;
        let least = submitted + counts.calls.load(Ordering::Relaxed);
        (least..=most).contains(&counted())
    });
    let idle = || {
        let stats = scheduler.stats();
        stats.groups.iter().all(|g| g.queued_stealable + g.queued_hard + g.queued_private + g.lent == 0)
    };
    eventually("queues are empty and slots are held", idle);
}

/// Runs `n` rounds on a scheduler of its own, and ends it.
fn soak(stealing: Stealing, tasks: u64, rounds: usize, after_round: &mut dyn FnMut()) {
    let scheduler = machine(2, 2, 2, stealing);
    let counts = Arc::new(Counts::default());
    for rounds in 1..=rounds as u64 {
        round(&scheduler, &counts, tasks, rounds);
        after_round();
    }
    // The tasks' clones are gone, so this is the last handle; dropping it joins every worker.
    eventually("tasks gave their handles back", || Arc::strong_count(&scheduler) == 1);
    drop(scheduler);
    assert_eq!(Arc::strong_count(&counts), 1, "no thread or task is left that knows of them");
}

#[test]
fn a_hundred_thousand_mixed_tasks() {
    for stealing in [Stealing::Off, Stealing::Any] {
        soak(stealing, TASKS, 1, &mut || ());
    }
}

/// `NEARSIDE_SOAK=1 cargo test -p nearside-sched --release --test it the_whole_soak`
#[test]
fn the_whole_soak_of_a_million_tasks() {
    if std::env::var_os("NEARSIDE_SOAK").is_none() {
        eprintln!("skipped: the whole soak takes a minute and wants the machine for itself; set NEARSIDE_SOAK=1");
        return;
    }
    let mut resident = Vec::new();
    soak(Stealing::Neighbour, WHOLE_TASKS, WHOLE_ROUNDS, &mut || resident.push(numa::resident_bytes()));
    let (first, last) = (resident[0], resident[WHOLE_ROUNDS - 1]);
    eprintln!("resident bytes after each round: {resident:?}");
    assert!(last <= first + GROWTH_BYTES_MAX, "memory grew from {first} to {last}");
}
