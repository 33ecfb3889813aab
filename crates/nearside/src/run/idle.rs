//! Which tables nobody has written for a while: their deltas are merged then.
//!
//! A thread sleeps until the first of the tables that were written may be idle. It begins with the first table that is
//! written and ends when none is watched: a database that nobody writes has no such thread, and uses no cpu. It does
//! none of the work itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::catalog::TableMeta;

/// After how long without writes a table's delta is merged, unless somebody says otherwise: so long that a client
/// that thinks between its statements does not make segments of each, and short to a person who looks at it.
pub(crate) const IDLE_MS_DEFAULT: u64 = 1000;

/// Is told of a table that is idle, by its number.
pub(crate) type Tell = dyn Fn(u64) + Send;

/// See the module.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    began: Instant,
    /// 0 for never.
    after_ms: AtomicU64,
    watched: Mutex<Watched>,
    changed: Condvar,
}

/// How long the thread sleeps at most: a day.
const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Default)]
struct Watched {
    /// By table: and when it is looked at again at the earliest.
    tables: BTreeMap<u64, (Arc<TableMeta>, u64)>,
    has_thread: bool,
    is_ended: bool,
}

/// When a table is idle that was last written then, and is not to be merged before some time.
fn idle_at(last_write_ms: u64, after_ms: u64, not_before_ms: u64) -> u64 {
    last_write_ms.saturating_add(after_ms).max(not_before_ms)
}

impl Default for IdleWatch {
    fn default() -> IdleWatch {
        IdleWatch {
            began: Instant::now(),
            after_ms: AtomicU64::new(IDLE_MS_DEFAULT),
            watched: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl IdleWatch {
    /// After how many milliseconds without writes a delta is merged; 0 for never.
    pub(crate) fn after_ms(&self) -> u64 {
        self.after_ms.load(Ordering::Relaxed)
    }

    /// Says so anew.
    pub(crate) fn set_after_ms(&self, after_ms: u64) {
        self.after_ms.store(after_ms, Ordering::Relaxed);
        let _watched = self.watched.lock();
        self.changed.notify_all();
    }

    /// Nobody is told of idle tables any more.
    pub(super) fn end(&self) {
        self.watched.lock().is_ended = true;
        self.changed.notify_all();
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sleeps, and tells of tables that are idle, until none is watched.
    fn run(&self, tell: &Tell) {
        let mut watched = self.watched.lock();
        while !watched.is_ended && !watched.tables.is_empty() {
            let (now, after) = (self.now_ms(), self.after_ms());
            let mut next = u64::MAX;
            let mut idle = Vec::new();
            watched.tables.retain(|table, (meta, not_before)| {
                let at = idle_at(meta.merges.last_write_ms(), after, *not_before);
                let stays = after > 0 && at > now;
                if stays {
                    next = next.min(at);
                } else {
                    // Before it is merged: what is written from now on is watched anew.
                    meta.merges.unwatch();
                    idle.extend((after > 0).then_some(*table));
                }
                stays
            });
            if !idle.is_empty() {
                MutexGuard::unlocked(&mut watched, || idle.iter().for_each(|table| tell(*table)));
            } else if !watched.tables.is_empty() {
                self.changed.wait_for(&mut watched, Duration::from_millis((next - now).min(WAIT_MS_MAX)));
            }
        }
        watched.has_thread = false;
    }

    /// A table was written: somebody is told once it is idle, and no sooner than after some time. `tell` gives who, for
    /// where nobody watches yet.
    pub(crate) fn written(
        self: &Arc<Self>,
        table: u64,
        meta: &Arc<TableMeta>,
        rest: Duration,
        tell: impl FnOnce() -> Box<Tell>,
    ) {
        let now = self.now_ms();
        if self.after_ms() == 0 || meta.merges.wrote(now) {
            return;
        }
        let not_before = now.saturating_add(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let mut watched = self.watched.lock();
        watched.tables.insert(table, (Arc::clone(meta), not_before));
        if watched.has_thread {
            self.changed.notify_all();
            return;
        }
        let (own, tell) = (Arc::clone(self), tell());
        let thread = std::thread::Builder::new().name("nearside-idle".into());
        match thread.spawn(move || own.run(tell.as_ref())) {
            Ok(_) => watched.has_thread = true,
            Err(error) => {
                // Its next write tries again.
                tracing::debug!("no thread watches for idle tables: {error}");
                watched.tables.remove(&table);
                meta.merges.unwatch();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_idle_after_its_last_write_and_its_rest() {
        assert_eq!(idle_at(100, 1000, 0), 1100);
        assert_eq!(idle_at(100, 1000, 5100), 5100);
        assert_eq!(idle_at(100, u64::MAX, 0), u64::MAX);
    }
}
