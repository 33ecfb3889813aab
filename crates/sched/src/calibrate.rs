//! From how many bytes per microsecond of cpu time a task is memory-intensive on this machine: measured, not guessed.
//!
//! All workers of a node read memory at once. What one of them then gets is its share of the node's memory; a task that
//! wants half of that or more of what it is given would, if its like filled the node, be bound by memory, and pay for
//! every byte that it read from another node. Such tasks stay where their data is.
//!
//! # Limits
//! It measures the node that has most slots, for some milliseconds, while other work may be about; where that, or a
//! lack of memory, keeps a worker from reading in time, the answer is that nobody knows. `nearside probe`
//! measures more and longer; [`Calibration::from_rates`] takes its figures.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 6.1.2 (stealing memory-intensive tasks hurts, stealing cpu-intensive
//! ones helps).

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use numa::{Allocator, Policy};

use crate::affinity::Affinity;
use crate::runtime::parallel::TaskError;
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::statement::Statement;

/// What each worker reads: more than fits the caches of most machines when all of them do it.
const BYTES_PER_WORKER: usize = 16 << 20;
/// How long they read.
const READ_FOR: Duration = Duration::from_millis(20);
/// How long it all may take: getting the memory, waiting for each other, reading.
const ALL_FOR: Duration = READ_FOR.saturating_mul(4);
/// A task is memory-intensive if it wants this share of what a worker gets.
const SHARE_DIVISOR: u64 = 2;

/// What memory gives to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Bytes per microsecond that one worker reads while all of its node do.
    pub shared_bytes_per_us: u64,
    /// For [`crate::Settings::memory_intensive_bytes_per_us`].
    pub memory_intensive_bytes_per_us: u32,
}

impl Calibration {
    /// From the bytes per second that a node's memory gives to all `cpus` of it together.
    pub fn from_rates(node_bytes_per_second: f64, cpus: usize) -> Calibration {
        let shared = (node_bytes_per_second / 1e6 / cpus.max(1) as f64).max(1.0) as u64;
        let threshold = (shared / SHARE_DIVISOR).clamp(1, (1 << 31) - 1);
        Calibration { shared_bytes_per_us: shared, memory_intensive_bytes_per_us: threshold as u32 }
    }

    /// Measures it with the workers of `scheduler`, on behalf of `statement`, whose memory it takes but whose settings
    /// it does not follow: about 50 ms, and about 80 at most. `None`: not all workers of the node could read in that
    /// time.
    ///
    /// # Errors
    /// [`TaskError`] when the statement was stopped.
    pub fn measure(scheduler: &Scheduler, statement: &Arc<Statement>) -> Result<Option<Calibration>, TaskError> {
        let layout = scheduler.layout();
        let slots_of = |node: numa::NodeId| -> usize {
            layout.groups().iter().filter(|group| group.node == node).map(|group| group.slots.len()).sum()
        };
        let nodes = layout.groups().iter().map(|group| group.node);
        let Some(node) = nodes.max_by_key(|node| slots_of(*node)) else { return Ok(None) };
        let workers = slots_of(node);
        let allocator = Allocator::new(Policy::Local, Arc::clone(statement.budget()));
        let mut read = AtomicU64::new(0);
        let spent_ns = AtomicU64::new(0);
        let arrived = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        // Its own settings: with those of the database it might run on other nodes, or one after the other.
        let own = Statement::new(statement.time(), Arc::clone(statement.budget()));
        own.set_settings(Some(Settings::default()));
        own.set_deadline(Instant::now() + ALL_FOR);
        let stops = || own.is_cancelled() || statement.is_cancelled();
        let ran = scheduler.parallel_for(&own, workers, &|_| Affinity::on(node), &|_| {
            let sizes = [BYTES_PER_WORKER, BYTES_PER_WORKER / 16];
            let Some(mut region) = sizes.iter().find_map(|bytes| allocator.region(*bytes).ok()) else { return };
            region.words_mut::<u64>().fill(1);
            // All read at once, but nobody waits for a worker that never comes.
            arrived.fetch_add(1, Ordering::SeqCst);
            let begun = Instant::now();
            while arrived.load(Ordering::SeqCst) < workers && begun.elapsed() < READ_FOR {
                std::hint::spin_loop();
            }
            let begun = Instant::now();
            let mut bytes = 0;
            while begun.elapsed() < READ_FOR && !stops() {
                black_box(region.words::<u64>().iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
                bytes += region.len() as u64;
            }
            read.fetch_add(bytes, Ordering::Relaxed);
            spent_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            done.fetch_add(1, Ordering::SeqCst);
        });
        statement.check().map_err(|_| TaskError::Cancelled)?;
        if let Err(TaskError::Panicked(text)) = ran {
            return Err(TaskError::Panicked(text));
        }
        // What was read in less than the full time counts too, but only beside all the others.
        if done.into_inner() < workers || *read.get_mut() == 0 {
            return Ok(None);
        }
        let seconds = spent_ns.into_inner().max(1) as f64 / 1e9;
        // Bytes and seconds are both summed over the workers: the quotient is what one of them gets.
        Ok(Some(Calibration::from_rates(read.into_inner() as f64 / seconds, 1)))
    }
}
