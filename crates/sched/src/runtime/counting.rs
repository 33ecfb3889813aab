//! Which statement a worker's hardware counters count for.
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
use std::sync::Arc;

use super::Runtime;
use super::worker::Worker;
use crate::counting::ReadCounters;
use crate::statement::Statement;

/// The counters of a worker thread.
enum Reader {
    Unasked,
    Refused,
    Open(ReadCounters),
}

struct ThreadCount {
    reader: Reader,
    /// The statement that is being counted for.
    statement: Option<Arc<Statement>>,
}

thread_local! {
    static COUNTING: RefCell<ThreadCount> =
        const { RefCell::new(ThreadCount { reader: Reader::Unasked, statement: None }) };
}

impl Runtime {
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
                counting.reader = self.counters.open().map_or(Reader::Refused, Reader::Open);
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
