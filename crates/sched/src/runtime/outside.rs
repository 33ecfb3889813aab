//! Busy threads that are no workers: those of the private runtime for left-overs.
//!
//! Invariant: while a guard lives, its thread group has at most as many workers at work as cpus are left, but for one,
//! since the busy thread may wait for it, and for what is queued for one slot alone.
//!
//! # Limits
//! Workers that are at work when a guard is made end their task first. A guard belongs to the thread group near which it
//! was made, wherever the operating system moves its thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use crate::policy::GroupId;

/// A busy thread that counts as working until this is dropped. See [`crate::Scheduler::outside`].
pub struct Outside {
    shared: Arc<Shared>,
    group: GroupId,
}

impl Outside {
    pub(crate) fn new(shared: &Arc<Shared>, group: GroupId) -> Outside {
        shared.groups[group.index()].outside.fetch_add(1, Ordering::SeqCst);
        Outside { shared: Arc::clone(shared), group }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.shared.groups[self.group.index()].outside.fetch_sub(1, Ordering::SeqCst);
        // A worker that announced its rest before this either sees the change or is seen here.
        if self.shared.sleep.task_queued() {
            for group in std::iter::once(self.group).chain(self.shared.layout.nearest(self.group).iter().copied()) {
                if self.shared.groups[group.index()].queued() > 0 && self.shared.wake_in(self.group) {
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("group", &self.group).finish_non_exhaustive()
    }
}
