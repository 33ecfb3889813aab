//! What tests see of a store: which unit executed what, and which ranges moved in between; and the checker of both.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::routing::table::RangeTable;

/// What happened, in an order that is right for each unit: who records holds its token.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A statement was begun with these pairs.
    Began { request: u64, pairs: Vec<(u64, u64)> },
    /// A unit executed a command.
    Executed { unit: usize, request: u64, pairs: Vec<(u64, u64)> },
    /// A unit scanned a part of a range.
    Scanned { unit: usize, first: u64, last: u64 },
    /// Keys went to a unit.
    Moved { first: u64, last: u64, to: usize },
    /// A statement was committed.
    Committed { request: u64 },
}

/// See the module. One per store; off unless a test turns it on.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: Mutex<Vec<Event>>,
    is_on: AtomicBool,
    /// A planted fault: units execute whatever comes.
    pub(crate) executes_what_moved: AtomicBool,
}

impl Journal {
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn record(&self, event: impl FnOnce() -> Event) {
        if self.is_on.load(Ordering::Relaxed) {
            self.events.lock().push(event());
        }
    }

    /// Whether every command was executed by the owner of its keys at that moment, and those of committed statements
    /// once each and in the order of their batches; else what was not.
    pub(crate) fn check(&self, mut table: RangeTable) -> Result<usize, String> {
        let mut begun = BTreeMap::new();
        let mut executed: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let mut commits = 0;
        for event in self.events.lock().iter() {
            match event {
                Event::Began { request, pairs } => {
                    begun.insert(*request, pairs.clone());
                }
                Event::Moved { first, last, to } => table = table.moved(*first, *last, *to),
                Event::Executed { unit, request, pairs } => {
                    if let Some((key, _)) = pairs.iter().find(|pair| table.owner_of(pair.0) != *unit) {
                        return Err(format!("unit {unit} executed key {key} of unit {}", table.owner_of(*key)));
                    }
                    executed.entry(*request).or_default().extend(pairs);
                }
                Event::Scanned { unit, first, last } => {
                    let ranges = table.range_of(*first)..=table.range_of(*last);
                    if let Some(range) = ranges.into_iter().find(|range| table.owners()[*range] != *unit) {
                        let other = table.owners()[range];
                        return Err(format!("unit {unit} scanned {first} to {last}, where keys are unit {other}'s"));
                    }
                }
                Event::Committed { request } => {
                    commits += 1;
                    let mut sent = begun.remove(request).unwrap_or_default();
                    let mut done = executed.remove(request).unwrap_or_default();
                    sent.sort_by_key(|pair| pair.0);
                    done.sort_by_key(|pair| pair.0);
                    if sent != done {
                        return Err(format!("of {sent:?} there was executed {done:?}"));
                    }
                }
            }
        }
        Ok(commits)
    }
}
