//! Reads by commands: what is told of them, and how a sender knows that all were answered.
//!
//! What a command finds is told to its sender's [`Callback`] where the command is executed, so it is never kept by a
//! unit. A look-up tells one value per key that was sent; a scan tells at most as many pairs as its sender said, and
//! where to go on. So a consumer that stops asking holds up nobody and nothing piles up.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::text_of;
use crate::versions::Pin;
use crate::waiter::Waiter;

/// A part of a range that one unit has scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first key.
    pub first: u64,
    /// Its last key.
    pub last: u64,
    /// The key to go on from, where there may be more pairs than were asked for.
    pub rest: Option<u64>,
}

/// What is told of commands that read, by whoever executes them, several threads at a time. Must not wait for a
/// command, nor write keyed objects: it runs while its thread has a unit. (Look-ups from it are direct.) A panic fails
/// the sender's reads, and nothing else.
pub trait Callback: Send + Sync {
    /// The values of keys of one look-up, side by side in it; `tag` is the look-up's, plus the place of the first key.
    fn values(&self, tag: u64, keys: &[u64], values: &[Option<u64>]);

    /// The first pairs of a part of the scan with this tag.
    fn pairs(&self, tag: u64, part: Part, pairs: &[(u64, u64)]);
}

thread_local!(static IN_CALLBACK: Cell<bool> = const { Cell::new(false) });

/// Whether this thread has a unit and calls back.
#[inline]
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}

/// What the commands of one sender share.
pub(crate) struct ReadRequest {
    /// What they see.
    pin: Pin,
    callback: std::sync::Arc<dyn Callback>,
    /// Commands that were executed or came back, ever.
    answered: AtomicU64,
    /// Words of commands that came to a unit that may not own their keys. As much as lies in incoming buffers at most:
    /// a sender takes them back before it sends more.
    moved: Mutex<Vec<u64>>,
    has_moved: AtomicBool,
    failure: Mutex<Option<String>>,
    has_failed: AtomicBool,
    waiter: Waiter,
    #[cfg(test)]
    pub(crate) id: u64,
}

impl std::fmt::Debug for ReadRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reads of which {} were answered", self.answered.load(Ordering::Relaxed))
    }
}

impl ReadRequest {
    pub(crate) fn new(pin: Pin, callback: std::sync::Arc<dyn Callback>) -> ReadRequest {
        ReadRequest {
            pin,
            callback,
            answered: AtomicU64::new(0),
            moved: Mutex::default(),
            has_moved: AtomicBool::new(false),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            waiter: Waiter::new(),
            #[cfg(test)]
            id: crate::request::next_id(),
        }
    }

    pub(crate) fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Calls back, for the holder of a token.
    pub(crate) fn tell(&self, call: impl FnOnce(&dyn Callback)) {
        let before = IN_CALLBACK.replace(true);
        let told = catch_unwind(AssertUnwindSafe(|| call(&*self.callback)));
        IN_CALLBACK.set(before);
        if let Err(panic) = told {
            self.fail(text_of(&*panic));
        }
    }

    /// The first failure is what is told.
    pub(crate) fn fail(&self, text: String) {
        self.failure.lock().get_or_insert(text);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether the rest need not be executed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Why, for the sender; its other commands are answered all the same.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.has_failed() { self.failure.lock().clone() } else { None }
    }

    /// A command goes back; it is counted as answered by who says so, afterwards.
    pub(crate) fn moved(&self, words: impl Iterator<Item = u64>) {
        self.moved.lock().extend(words);
        self.has_moved.store(true, Ordering::Release);
    }

    /// Puts what went back into `moved`; whether there was something.
    pub(crate) fn take_moved(&self, moved: &mut Vec<u64>) -> bool {
        if !self.has_moved.load(Ordering::Acquire) {
            return false;
        }
        let mut own = self.moved.lock();
        self.has_moved.store(false, Ordering::Relaxed);
        moved.clear();
        moved.append(&mut own);
        true
    }

    /// So many commands more are answered.
    pub(crate) fn answer(&self, commands: u64) {
        self.answered.fetch_add(commands, Ordering::AcqRel);
        self.waiter.wake();
    }

    /// Commands that are answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Waits until so many are; somebody has to be about to execute them.
    pub(crate) fn wait(&self, commands: u64) {
        self.waiter.wait(|| self.answered() == commands);
    }

    /// As [`wait`](Self::wait), not for longer than `limit`.
    pub(crate) fn wait_for(&self, limit: Duration, commands: u64) -> bool {
        self.waiter.wait_for(limit, || self.answered() == commands)
    }
}
