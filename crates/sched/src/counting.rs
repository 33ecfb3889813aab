//! Hardware counters of workers, and which statement they count for.
//!
//! A worker reads its counters when it turns from one statement to another or finds nothing more to do, and books what
//! they counted since for the statement that it worked for; not per task.
//!
//! Invariants: what is counted between two statements (looking for tasks, sleeping) is booked for none; statements that
//! are not to be counted cost no call; a worker without counters keeps no statement.
//!
//! # Limits
//! Threads that are no workers are not counted. What a statement's last tasks cost is booked some microseconds after
//! they have ended: [`Statement::wait_for_counts`].

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use numa::counters::{Counter, Counts, ThreadCounters};

use crate::runtime::Shared;
use crate::runtime::staff::Worker;
use crate::statement::Statement;

/// Tells what the calling thread's counters counted since it was last called.
pub type ReadCounters = Box<dyn FnMut() -> Counts>;

/// Where workers get their counters from.
#[derive(Clone)]
pub struct CounterSource(Arc<dyn Fn() -> Option<ReadCounters> + Send + Sync>);

impl CounterSource {
    /// A source that is asked once on each worker thread; `None` where that thread has no counters.
    pub fn new(open: impl Fn() -> Option<ReadCounters> + Send + Sync + 'static) -> CounterSource {
        CounterSource(Arc::new(open))
    }
}

impl Default for CounterSource {
    /// The cpu's, as far as the kernel lets them be read.
    fn default() -> CounterSource {
        CounterSource::new(|| {
            let mut counters = ThreadCounters::of_this_thread()?;
            let read: ReadCounters = Box::new(move || counters.since_last());
            Some(read)
        })
    }
}

impl fmt::Debug for CounterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterSource")
    }
}

/// Sums of counts that many threads may add to.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// A bit per counter of which anything is known.
    known: AtomicU8,
    sums: [AtomicU64; Counter::ALL.len()],
}

impl Events {
    pub(crate) fn add(&self, counts: &Counts) {
        for counter in Counter::ALL {
            if let Some(count) = counts.get(counter) {
                self.sums[counter as usize].fetch_add(count, Ordering::Relaxed);
                self.known.fetch_or(1 << counter as u8, Ordering::Release);
            }
        }
    }

    pub(crate) fn read(&self) -> Counts {
        let known = self.known.load(Ordering::Acquire);
        let known = Counter::ALL.into_iter().filter(|counter| known & (1 << *counter as u8) != 0);
        known.fold(Counts::default(), |counts, counter| {
            counts.with(counter, self.sums[counter as usize].load(Ordering::Relaxed))
        })
    }
}

/// The counters of a worker thread.
enum Reader {
    Unasked,
    Refused,
    Open(ReadCounters),
}

struct Counting {
    reader: Reader,
    /// The statement that is being counted for.
    statement: Option<Arc<Statement>>,
}

thread_local! {
    static COUNTING: RefCell<Counting> = const { RefCell::new(Counting { reader: Reader::Unasked, statement: None }) };
}

impl Shared {
    /// Says that the calling worker works for a statement from here on, or for none.
    pub(crate) fn turn_to(&self, worker: &Worker, statement: Option<&Arc<Statement>>) {
        let statement = statement.filter(|statement| statement.is_counted());
        // Dropped outside: it may be the last to hold the statement.
        let _told = COUNTING.with_borrow_mut(|counting| {
            if matches!(counting.reader, Reader::Refused)
                || counting.statement.as_ref().map(Arc::as_ptr) == statement.map(Arc::as_ptr)
            {
                return None;
            }
            if matches!(counting.reader, Reader::Unasked) {
                counting.reader = (self.counters.0)().map_or(Reader::Refused, Reader::Open);
            }
            let Reader::Open(read) = &mut counting.reader else { return None };
            let counts = read();
            let before = counting.statement.take();
            if let Some(before) = &before {
                worker.meter.count_events(&counts);
                before.tally().counted(&counts);
            }
            if let Some(statement) = statement {
                statement.tally().begin_to_count();
                counting.statement = Some(Arc::clone(statement));
            }
            before
        });
    }
}
