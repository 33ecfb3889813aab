//! Values of look-ups that a caller waits for, in memory that its sender has set aside for them before it sends.
//!
//! # Limits
//! As many keys at a time as there are places.

use std::sync::atomic::Ordering;

use numa::{Allocator, AtomicRegion, MemoryError};

use crate::read::{Callback, Part};

/// Keys of a look-up that are on their way together.
pub(super) const WINDOW_KEYS: usize = 8192;

/// Values of look-ups on their way, which units write and the sender reads afterwards.
#[derive(Debug)]
pub(super) struct Window(AtomicRegion);

impl Window {
    pub(super) fn new(allocator: &Allocator) -> Result<Window, MemoryError> {
        Ok(Window(allocator.region(2 * WINDOW_KEYS * size_of::<u64>())?.into()))
    }

    /// The value of the key at a place.
    pub(super) fn value(&self, place: usize) -> Option<u64> {
        let words = &self.0.words()[2 * place..2 * place + 2];
        (words[0].load(Ordering::Relaxed) != 0).then(|| words[1].load(Ordering::Relaxed))
    }

    /// Its memory, for the page map.
    #[cfg(test)]
    pub(super) fn region(&self) -> &AtomicRegion {
        &self.0
    }
}

impl Callback for Window {
    fn values(&self, tag: u64, _: &[u64], values: &[Option<u64>]) {
        let words = &self.0.words()[2 * tag as usize..2 * (tag as usize + values.len())];
        for (value, words) in values.iter().zip(words.chunks_exact(2)) {
            words[0].store(u64::from(value.is_some()), Ordering::Relaxed);
            words[1].store(value.unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {
        panic!("nothing is scanned into a window of values");
    }
}
