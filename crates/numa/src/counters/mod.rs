//! Hardware counters: what a thread costs the cpu (cycles, instructions, misses of the last cache), and what passes the
//! memory controllers.
//!
//! Invariants: where the kernel refuses (no counters in a virtual machine, `perf_event_paranoid`, a container's filter)
//! everything is unknown rather than 0, and that is told once; asking again costs nothing. Counters never take more
//! than a quarter of the files that the process may open.
//!
//! # Limits
//! User mode only. What counts as a miss of the last cache differs by cpu, see [`Counter::LlcMisses`]. Where a cpu has
//! fewer counters than are wanted (virtual machines, the kernel's own watchdog), values are scaled up from the time in
//! which they counted.

mod events;
mod memory;

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys::perf::{self, Event, Group, Reading, WatchTarget};
use crate::topology::files::Tree;

pub use memory::{MemoryCounters, MemoryTraffic};

/// The share of the files that a process may open which counters leave alone.
const FILES_SHARE: usize = 4;

/// What a thread's counters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Cycles of the cpu while it ran the thread.
    Cycles,
    /// Instructions that were carried out.
    Instructions,
    /// Reads that the last cache did not hold, as the kernel's own name for it means on this cpu; on AMD's since family
    /// 19h lines that the first cache got from memory of any node, prefetched ones included.
    LlcMisses,
}

impl Counter {
    /// All of them.
    pub const ALL: [Counter; 3] = [Counter::Cycles, Counter::Instructions, Counter::LlcMisses];
}

/// Counted events; what is not counted is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([Option<u64>; Counter::ALL.len()]);

impl Counts {
    /// How often something happened.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        self.0[counter as usize]
    }

    /// These counts with another one put in.
    pub fn with(mut self, counter: Counter, count: u64) -> Counts {
        self.0[counter as usize] = Some(count);
        self
    }

    /// Adds what another has; what only one of them knows is known then.
    pub fn add(&mut self, more: &Counts) {
        for (own, more) in self.0.iter_mut().zip(more.0) {
            if let Some(more) = more {
                *own = Some(own.unwrap_or(0).saturating_add(more));
            }
        }
    }

    /// Whether nothing at all is known.
    pub fn is_unknown(&self) -> bool {
        *self == Counts::default()
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub struct ThreadCounters {
    group: Group,
    /// What the counters of the group count, in their order.
    counters: Vec<Counter>,
    last: Reading,
    _files: Files,
}

impl ThreadCounters {
    /// The calling thread's, counting from here on. `None` where the kernel refuses, as in most virtual machines:
    /// nothing is said then, for whoever asks for the counts sees that there are none.
    pub fn of_this_thread() -> Option<ThreadCounters> {
        static REFUSED: AtomicBool = AtomicBool::new(false);
        if REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        match ThreadCounters::open(&wanted()) {
            Ok(counters) => Some(counters),
            Err(_) => {
                REFUSED.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Counters of the first of each list that the kernel has; those that it has none of are left out, but one must be.
    fn open(wanted: &[(Counter, Vec<Event>)]) -> io::Result<ThreadCounters> {
        let files = Files::take(wanted.len())?;
        let mut group: Option<Group> = None;
        let mut counters = Vec::new();
        let mut refusal = io::Error::from_raw_os_error(libc::ENOENT);
        for (counter, events) in wanted {
            for event in events {
                let opened = match &mut group {
                    Some(group) => group.join(*event),
                    None => Group::open(*event, WatchTarget::Thread).map(|opened| group = Some(opened)),
                };
                match opened {
                    Ok(()) => {
                        counters.push(*counter);
                        break;
                    }
                    Err(error) => refusal = error,
                }
            }
        }
        let group = group.ok_or(refusal)?;
        let last = group.read()?;
        Ok(ThreadCounters { group, counters, last, _files: files })
    }

    /// What was counted since this was last called, or since the counters were opened. To be called by the thread that
    /// they belong to; takes less than a microsecond.
    pub fn since_last(&mut self) -> Counts {
        let Ok(reading) = self.group.read() else { return Counts::default() };
        let before = std::mem::replace(&mut self.last, reading);
        debug_assert_eq!(self.group.len(), self.counters.len());
        let counted = self.counters.iter().enumerate();
        counted.fold(Counts::default(), |counts, (place, counter)| match scaled(place, &before, &reading) {
            Some(count) => counts.with(*counter, count),
            None => counts,
        })
    }
}

/// What a counter would have counted between two readings if it had always had a place on the cpu; `None` where it had
/// none at all although it was to count.
fn scaled(place: usize, before: &Reading, after: &Reading) -> Option<u64> {
    let count = after.values[place].saturating_sub(before.values[place]);
    let enabled_ns = after.enabled_ns.saturating_sub(before.enabled_ns);
    let running_ns = after.running_ns.saturating_sub(before.running_ns);
    if running_ns >= enabled_ns {
        return Some(count);
    }
    let scaled = u128::from(count) * u128::from(enabled_ns);
    scaled.checked_div(u128::from(running_ns)).map(|count| u64::try_from(count).unwrap_or(u64::MAX))
}

/// What is counted for threads on this machine.
fn wanted() -> Vec<(Counter, Vec<Event>)> {
    static MISSES: OnceLock<Vec<Event>> = OnceLock::new();
    let misses = MISSES.get_or_init(|| {
        let text = Tree::new(Path::new("/")).head("proc/cpuinfo", 4096).unwrap_or_default();
        events::llc_misses(&text)
    });
    vec![
        (Counter::Cycles, vec![events::CYCLES]),
        (Counter::Instructions, vec![events::INSTRUCTIONS]),
        (Counter::LlcMisses, misses.clone()),
    ]
}

/// A claim to open some files.
#[derive(Debug)]
struct Files(usize);

impl Files {
    fn take(files: usize) -> io::Result<Files> {
        Files::take_of(files, perf::files_max())
    }

    fn take_of(files: usize, files_max: usize) -> io::Result<Files> {
        let fits = |open: usize| Some(open + files).filter(|all| *all <= files_max / FILES_SHARE);
        match OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Files(files)),
            Err(_) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }
}

/// How many files counters have open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Drop for Files {
    fn drop(&mut self) {
        OPEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
