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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Allocator;
    use std::sync::atomic::Ordering;

    #[test]
    fn threads_change_words_of_one_region() {
        for bytes in [0, 7, 8 * 100 + 3, 3 << 20] {
            let region = AtomicRegion::from(Allocator::unplaced().region(bytes).expect("there is memory"));
            assert_eq!(region.words().len(), bytes / 8);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| region.words().iter().for_each(|word| _ = word.fetch_add(3, Ordering::Relaxed)));
                }
            });
            assert!(region.words().iter().all(|word| word.load(Ordering::Relaxed) == 6));
            // A hint that means nothing does nothing.
            region.prefetch(0);
            region.prefetch(usize::MAX);
            assert!(region.held_bytes() >= bytes);
        }
    }
}
