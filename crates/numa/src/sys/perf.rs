//! Counters of the kernel's performance events: opening them and reading them.
//!
//! Invariants: a group is read with one call and counts over the same stretch of time; descriptors are closed when it
//! is dropped, and are never handed to a program that is started.
//!
//! # Limits
//! Counting only: nothing is sampled, no ring buffer is mapped.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// What the kernel writes for a group: how many counters, the time enabled and the time counted, then the values.
const HEAD_WORDS: usize = 3;
/// The most counters of a group.
const GROUP_MAX: usize = 4;

const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_GROUP: u64 = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// An event as the kernel numbers it: the kind of source (`type`) and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) config: [u64; 3],
}

/// Whom a group of counters watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    /// What the calling thread does outside of the kernel.
    Thread,
    /// All that passes a cpu's share of a source, by whomever.
    Cpu(u32),
}

/// The first 72 bytes of `perf_event_attr`, which every kernel with performance events takes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72);

/// What a group has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// How long it was meant to count.
    pub(crate) enabled_ns: u64,
    /// How long it did: less where more counters are wanted than the cpu has.
    pub(crate) running_ns: u64,
    /// The counters in the order in which they joined.
    pub(crate) values: [u64; GROUP_MAX],
}

/// Counters that count together.
#[derive(Debug)]
pub(crate) struct Group {
    watched: WatchTarget,
    /// The first one stands for the group.
    counters: Vec<File>,
}

impl Group {
    /// A group of one counter, which begins to count.
    pub(crate) fn open(event: Event, watched: WatchTarget) -> io::Result<Group> {
        Ok(Group { watched, counters: vec![open(event, watched, -1)?] })
    }

    /// Adds a counter; at most [`GROUP_MAX`] may be there.
    pub(crate) fn join(&mut self, event: Event) -> io::Result<()> {
        assert!(self.counters.len() < GROUP_MAX, "a group of counters has {GROUP_MAX} places");
        self.counters.push(open(event, self.watched, self.counters[0].as_raw_fd())?);
        Ok(())
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> usize {
        self.counters.len()
    }

    pub(crate) fn read(&self) -> io::Result<Reading> {
        let mut bytes = [0; (HEAD_WORDS + GROUP_MAX) * size_of::<u64>()];
        let read = (&self.counters[0]).read(&mut bytes)?;
        let word = |at: usize| {
            let from = at * size_of::<u64>();
            bytes[..read].get(from..from + size_of::<u64>()).map(|word| {
                let mut own = [0; size_of::<u64>()];
                own.copy_from_slice(word);
                u64::from_ne_bytes(own)
            })
        };
        // A group of which a counter is in error reads as empty.
        if word(0) != Some(self.counters.len() as u64) || word(HEAD_WORDS + self.counters.len() - 1).is_none() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel gave less than all counters"));
        }
        let mut reading =
            Reading { enabled_ns: word(1).unwrap_or(0), running_ns: word(2).unwrap_or(0), ..Reading::default() };
        for (place, value) in reading.values.iter_mut().enumerate().take(self.counters.len()) {
            *value = word(HEAD_WORDS + place).unwrap_or(0);
        }
        Ok(reading)
    }
}

fn open(event: Event, watched: WatchTarget, leader: libc::c_int) -> io::Result<File> {
    let (thread, cpu, flags) = match watched {
        // What runs in the kernel is not for every user to see, and is no work of a query's either.
        WatchTarget::Thread => (0, -1, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR),
        // Sources outside of the cores cannot tell who causes what they count, and refuse to be asked.
        WatchTarget::Cpu(cpu) => (-1, cpu as libc::c_int, 0),
    };
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config[0],
        sample_period: 0,
        sample_type: 0,
        read_format: FORMAT_GROUP | FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
        flags,
        wakeup_events: 0,
        breakpoint_type: 0,
        config1: event.config[1],
        config2: event.config[2],
    };
    // SAFETY: the kernel reads the `size` bytes of `attributes`, which outlives the call; all else are numbers.
    let opened =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, leader, CLOSE_ON_EXEC) };
    let descriptor = libc::c_int::try_from(opened).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// How many files the process may have open at a time.
pub(crate) fn files_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` into `limit`.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if done == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 0 }
}
