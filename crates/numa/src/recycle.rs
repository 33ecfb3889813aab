//! Recycled memory: mappings of freed scratch regions, kept per node for the next scratch region of about that size.
//!
//! A query's result vectors live for milliseconds. To map, fault in and unmap them each time costs more than to fill
//! them, and every one of these steps takes a lock that all threads of the process share.
//!
//! Invariants: what is kept on a node is at most a share of what is free there, is counted in no budget, and is given
//! back when the node or the machine runs short, before anybody is refused memory.
//!
//! # Limits
//! Age is looked at when memory is given back, by no thread of its own: an idle process keeps what it has. The contents
//! are those of the last user in this process.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2 (virtual memory of output vectors is reused).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::mapping::HUGE_PAGE_BYTES;
use crate::sys::memory::Memory;
use crate::sys::page_bytes;

/// How long a mapping is kept without being used.
const AGE_MAX: Duration = Duration::from_secs(10);
/// How many mappings are kept per node.
const KEPT_MAX: usize = 64;
/// What is kept may be this part of the memory that is free.
pub(crate) const SHARE_OF_FREE: u64 = 16;
/// And this part of a control group's limit.
pub(crate) const SHARE_OF_LIMIT: u64 = 32;
/// Smaller ones are not worth keeping: the heap does that.
pub(crate) const RECYCLED_BYTES_MIN: usize = 64 << 10;

/// What is kept of one node.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    memory: Memory,
    kind: MappingKind,
    since: Instant,
}

/// What makes two mappings of one node and size differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappingKind {
    /// Whether its policy names the node.
    pub(crate) placed: bool,
    /// Whether it may have huge pages.
    pub(crate) huge: bool,
}

/// The size that a scratch request of this many bytes is rounded up to, so that similar ones fit the same mapping:
/// eight sizes per doubling, whole pages, whole huge pages from eight of them on. `None` where there is no such number.
pub(crate) fn scratch_bytes(len_bytes: usize) -> Option<usize> {
    let step = (len_bytes.max(1).checked_next_power_of_two()? / 16).max(page_bytes());
    let step = if len_bytes >= 8 * HUGE_PAGE_BYTES { step.max(HUGE_PAGE_BYTES) } else { step };
    len_bytes.checked_next_multiple_of(step)
}

impl Recycler {
    /// The smallest kept mapping of this kind with at least `bytes` and at most a quarter more.
    pub(crate) fn take(&self, bytes: usize, kind: MappingKind) -> Option<Memory> {
        let mut kept = self.lock();
        let fits = |k: &Kept| k.kind == kind && (bytes..=bytes + bytes / 4).contains(&k.memory.held_bytes());
        let candidates = kept.iter().enumerate().filter(|(_, k)| fits(k));
        // Of equals the last one, which is the warmest.
        let (best, _) = candidates.min_by_key(|(i, k)| (k.memory.held_bytes(), std::cmp::Reverse(*i)))?;
        Some(kept.remove(best).memory)
    }

    /// Keeps a mapping while all that is kept stays within `limit_bytes`; older ones make room.
    pub(crate) fn keep(&self, memory: Memory, kind: MappingKind, limit_bytes: u64, now: Instant) {
        let bytes = memory.held_bytes() as u64;
        // What was shrunk to little, or to nothing, is not worth keeping.
        if bytes > limit_bytes || bytes < RECYCLED_BYTES_MIN as u64 {
            return;
        }
        let mut kept = self.lock();
        kept.push(Kept { memory, kind, since: now });
        let mut total: u64 = kept.iter().map(|k| k.memory.held_bytes() as u64).sum();
        let mut surplus = 0;
        for (i, old) in kept.iter().enumerate() {
            let stays = total <= limit_bytes
                && kept.len() - i <= KEPT_MAX
                && now.saturating_duration_since(old.since) < AGE_MAX;
            if stays {
                break;
            }
            total -= old.memory.held_bytes() as u64;
            surplus = i + 1;
        }
        let surplus: Vec<Kept> = kept.drain(..surplus).collect();
        // Unmapping takes long; others need not wait for it.
        drop(kept);
        drop(surplus);
    }

    /// Gives everything back to the system: how many bytes.
    pub(crate) fn release(&self) -> u64 {
        let kept = std::mem::take(&mut *self.lock());
        kept.iter().map(|k| k.memory.held_bytes() as u64).sum()
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().iter().map(|k| k.memory.held_bytes() as u64).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        // The list is valid after every statement, so a panic elsewhere while it was held does not matter.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
