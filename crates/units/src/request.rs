//! A statement's batch on its way through units: what is done to its keys, what each key had, and how many are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::tree::{Change, ChangeError};
use crate::versions::Write;
use crate::waiter::Waiter;

/// An object of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// What is done to every key of a batch; values come with the keys. Whatever it is, and whether it changes a key or
/// not, the key is the statement's until that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Sets the value, whether there is one or not.
    Upsert,
    /// Sets the value; a key that has one is an error, and nothing of the statement is done.
    Insert,
    /// Sets the values of keys that have none, and leaves the others.
    InsertMissing,
    /// Sets the values of keys that have one, and leaves the others.
    Update,
    /// Removes the keys that are there.
    Delete,
}

impl WriteKind {
    pub(crate) fn change(self, value: u64) -> Change {
        match self {
            WriteKind::Upsert => Change::Put(value),
            WriteKind::Insert | WriteKind::InsertMissing => Change::Insert(value),
            WriteKind::Update => Change::Replace(value),
            WriteKind::Delete => Change::Remove,
        }
    }

    /// Whether a key with this value before is changed.
    fn is_change(self, had: bool) -> bool {
        match self {
            WriteKind::Upsert => true,
            WriteKind::Insert | WriteKind::InsertMissing => !had,
            WriteKind::Update | WriteKind::Delete => had,
        }
    }
}

/// Why a batch failed; nothing of it was done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A key is being changed by another statement.
    Busy,
    /// A key to insert is there.
    Duplicate(u64),
    /// No memory.
    Memory(numa::MemoryError),
    /// A command panicked.
    Panicked(String),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Request {
    kind: WriteKind,
    /// Keys whose command was neither executed nor came back.
    unanswered: AtomicUsize,
    /// Who waits for them.
    waiter: Waiter,
    /// The routing table that its commands are sent by.
    table: AtomicU64,
    /// Pairs of commands that came to a unit which may not own them; to be sent again.
    moved: Mutex<Vec<(u64, u64)>>,
    changed: AtomicU64,
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// What writes; taken by who began it when nothing is left.
    write: Write,
    #[cfg(test)]
    pub(crate) id: u64,
}

/// A number of its own for each request that a test looks at.
#[cfg(test)]
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Request {
    pub(crate) fn new(kind: WriteKind, keys: usize, write: Write) -> Arc<Request> {
        Arc::new(Request {
            kind,
            unanswered: AtomicUsize::new(keys),
            waiter: Waiter::new(),
            table: AtomicU64::new(0),
            moved: Mutex::new(Vec::new()),
            changed: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            write,
            #[cfg(test)]
            id: next_id(),
        })
    }

    pub(crate) fn kind(&self) -> WriteKind {
        self.kind
    }

    pub(crate) fn write(&self) -> &Write {
        &self.write
    }

    /// Whether it has failed already, so that the rest need not be tried.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Says how a key was found: an insert of a key that is there fails the statement.
    pub(crate) fn found(&self, key: u64, had: bool, changed: &mut u64) {
        *changed += u64::from(self.kind.is_change(had));
        if had && self.kind == WriteKind::Insert {
            self.fail(Failure::Duplicate(key));
        }
    }

    /// The first failure is what is told, but a duplicate before a key that is busy: waiting does not mend it.
    pub(crate) fn fail(&self, failure: Failure) {
        let mut first = self.failure.lock();
        if matches!(*first, None | Some(Failure::Busy)) {
            *first = Some(failure);
        }
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, error: ChangeError) {
        self.fail(match error {
            ChangeError::Busy => Failure::Busy,
            ChangeError::Memory(error) => Failure::Memory(error),
        });
    }

    /// Says that the commands of so many keys have been executed.
    pub(crate) fn done(&self, keys: usize, changed: u64) {
        self.changed.fetch_add(changed, Ordering::Relaxed);
        self.answer(keys);
    }

    fn answer(&self, keys: usize) {
        if self.unanswered.fetch_sub(keys, Ordering::AcqRel) == keys {
            self.waiter.wake();
        }
    }

    /// The number of the table that its commands were sent by.
    pub(crate) fn table(&self) -> u64 {
        self.table.load(Ordering::Relaxed)
    }

    /// Says which table commands are sent by from here on; none of those sent before is on its way.
    pub(crate) fn set_table(&self, table: u64) {
        self.table.store(table, Ordering::Relaxed);
    }

    /// Says that a command was not executed. Commands of one unit and table that have keys in common are either all
    /// executed or all not, so the order of what is done to a key stays.
    pub(crate) fn moved(&self, keys: &[u64], values: &[u64]) {
        self.moved.lock().extend(keys.iter().copied().zip(values.iter().copied()));
        self.answer(keys.len());
    }

    /// Whether every command was executed or came back.
    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Waits for that; there has to be somebody who executes what was sent.
    pub(crate) fn wait(&self) {
        self.waiter.wait(|| self.is_answered());
    }

    /// Whether somebody waits and sleeps.
    #[cfg(test)]
    pub(crate) fn has_sleeper(&self) -> bool {
        self.waiter.sleepers() > 0
    }

    /// What came back, in the order of each unit's commands; from here on it is unanswered again.
    pub(crate) fn take_moved(&self) -> Vec<(u64, u64)> {
        let moved = std::mem::take(&mut *self.moved.lock());
        self.unanswered.store(moved.len(), Ordering::Relaxed);
        moved
    }

    /// What writes, to go on with, and how many keys were changed; or why the statement has to be undone.
    pub(crate) fn end(self: Arc<Self>) -> Result<(Write, u64), Failure> {
        let request = Arc::into_inner(self).expect("nobody else has a request of which nothing is left");
        match request.failure.into_inner() {
            None => Ok((request.write, request.changed.into_inner())),
            Some(failure) => Err(failure),
        }
    }
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a command panicked".to_owned())
}
