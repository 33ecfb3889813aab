//! A region as words that several threads read and change at the same time.
//!
//! Invariant: the region is owned, and nothing but its atomic words is ever handed out, so no plain reference to its
//! bytes exists while they change.

use std::sync::atomic::AtomicU64;

use super::Region;

/// A region that is seen as atomic words; it keeps the region's placement and share of the budget.
#[derive(Debug)]
pub struct AtomicRegion(Region);

impl AtomicRegion {
    /// Its bytes as whole words; bytes behind the last whole word are left out.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        let memory = &self.0.memory;
        let len = memory.len_bytes() / size_of::<AtomicU64>();
        // SAFETY: the memory has `len` initialised words at its start, which is aligned for them (64 bytes) and is its
        // own pointer, not one of a plain reference. The region is owned by this value, which gives no other reference
        // to its bytes.
        unsafe { std::slice::from_raw_parts(memory.start().cast::<AtomicU64>().as_ptr(), len) }
    }

    /// Asks for the cache line of a word without waiting for it; a word that it does not have asks for nothing.
    #[inline]
    pub fn prefetch(&self, word: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(word) = self.words().get(word) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing and faults nowhere; the address is that of a word.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast::<i8>()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = word;
    }

    /// The address of its first byte, for the page map.
    pub fn address(&self) -> usize {
        self.0.address()
    }

    /// Bytes that it takes from the system.
    pub fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }
}

impl From<Region> for AtomicRegion {
    fn from(region: Region) -> AtomicRegion {
        AtomicRegion(region)
    }
}
