//! Raw memory for regions: private anonymous mappings and, for small sizes, 64-byte aligned blocks of the heap or of a
//! slab.
//!
//! Invariants: [`Memory`] owns `len_bytes` readable and writable, initialised (zeroed or since written) bytes at an
//! address that is a multiple of 64, and nobody else refers to them; so shared slices follow `&self` and exclusive ones
//! follow `&mut self`.

use std::alloc::{self, Layout};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::migrate::set_policy;
use super::slab::Block;
use super::{Mode, page_bytes};
use crate::id_set::IdSet;
use crate::pool::{self, Pool};

/// Every [`Memory`] starts at a multiple of this: a cache line, and the widest vector there is.
pub(crate) const ALIGN_BYTES: usize = 64;
/// What one huge page of x86-64 and of arm64 with 4 KiB pages covers.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

mod sealed {
    pub trait Sealed {}
}

/// A plain number that any bit pattern is a value of, so that zeroed or raw bytes may be seen as it. Sealed.
pub trait Word: sealed::Sealed + Copy + Send + Sync + 'static {}

macro_rules! words {
    ($($t:ty)*) => { $(
        impl sealed::Sealed for $t {}
        impl Word for $t {}
        const _: () = assert!(align_of::<$t>() <= ALIGN_BYTES);
    )* };
}
words!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

/// Where the bytes come from, which says how they go back.
#[derive(Debug)]
enum MemorySource {
    /// Nothing was allocated (length 0).
    Nothing,
    /// The heap, with this capacity and [`ALIGN_BYTES`].
    Heap { capacity: usize },
    /// A mapping of this many bytes, whole pages.
    Mapping { mapped: usize },
    /// A block of a slab, owned alone.
    Block(Block),
}

/// What size of pages a mapping asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// As the system is set.
    Default,
    /// Huge ones where a whole one fits; the mapping is aligned to them.
    Huge,
    /// Never huge ones.
    Small,
}

/// Owned bytes; see the module's invariants.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len_bytes: usize,
    source: MemorySource,
}

// SAFETY: the bytes are owned by this value alone and are plain data, so it may move to and be shared with any thread.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` only gives shared slices.
unsafe impl Sync for Memory {}

impl Memory {
    /// No bytes.
    pub(crate) fn empty() -> Memory {
        // The address is a multiple of ALIGN_BYTES, is not null and is never read.
        let start = NonNull::without_provenance(const { std::num::NonZero::new(ALIGN_BYTES).unwrap() });
        Memory { start, len_bytes: 0, source: MemorySource::Nothing }
    }

    /// `len_bytes` zeroed bytes of the heap.
    pub(crate) fn heap(len_bytes: usize) -> io::Result<Memory> {
        if len_bytes == 0 {
            return Ok(Memory::empty());
        }
        let layout = heap_layout(len_bytes)?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(out_of_memory)?;
        Ok(Memory { start, len_bytes, source: MemorySource::Heap { capacity: layout.size() } })
    }

    /// `len_bytes` zeroed bytes mapped for themselves, in whole pages, none of them touched yet.
    pub(crate) fn map(len_bytes: usize, pages: Pages) -> io::Result<Memory> {
        if len_bytes == 0 {
            return Ok(Memory::empty());
        }
        let (start, mapped) = map_pages(len_bytes, libc::PROT_READ | libc::PROT_WRITE, pages)?;
        Ok(Memory { start, len_bytes, source: MemorySource::Mapping { mapped } })
    }

    /// Sets where pages of these bytes that are not there yet will come from: all whose first byte lies within, of the
    /// mapping's pages. Heap blocks stay as they are.
    pub(crate) fn bind(&self, bytes: Range<usize>, mode: Mode, nodes: &IdSet) -> io::Result<()> {
        let MemorySource::Mapping { mapped } = &self.source else { return Ok(()) };
        let mapped = *mapped;
        let start = bytes.start.min(mapped).next_multiple_of(page_bytes());
        let end = bytes.end.min(mapped).next_multiple_of(page_bytes());
        if start >= end {
            return Ok(());
        }
        set_policy(self.address() + start..self.address() + end, Some((mode, nodes)))
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Bytes taken from the system for it: whole pages of a mapping.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.source {
            MemorySource::Nothing => 0,
            MemorySource::Heap { capacity } => *capacity,
            MemorySource::Mapping { mapped } => *mapped,
            MemorySource::Block(block) => block.bytes(),
        }
    }

    /// Whether it has whole pages of its own, which may be placed and moved.
    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self.source, MemorySource::Mapping { .. })
    }

    /// Whether it is a block of a slab.
    pub(crate) fn is_block(&self) -> bool {
        matches!(self.source, MemorySource::Block(_))
    }

    /// The pool that it is a block of, if it is one and its pool is still there.
    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        match &self.source {
            MemorySource::Block(block) => block.slab().home().pool(),
            _ => None,
        }
    }

    /// The same memory with another length, at most the bytes it holds: all of those are initialised.
    pub(crate) fn with_len(mut self, len_bytes: usize) -> Memory {
        assert!(len_bytes <= self.held_bytes(), "{len_bytes} of {} bytes", self.held_bytes());
        self.len_bytes = len_bytes;
        self
    }

    /// The first bytes of a block. All of a block's bytes are initialised, since its slab's mapping is.
    pub(super) fn from_block(block: Block, len_bytes: usize) -> Memory {
        assert!(len_bytes <= block.bytes(), "{len_bytes} of {} bytes", block.bytes());
        Memory { start: block.start(), len_bytes, source: MemorySource::Block(block) }
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the module's invariant: `len_bytes` initialised bytes at `start`, shared with `&self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the module's invariant, exclusive with `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }

    pub(crate) fn words<T: Word>(&self) -> &[T] {
        // SAFETY: `start` is aligned for every Word, `len / size` words lie within the initialised bytes, and every bit
        // pattern is a value of a Word.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len_bytes / size_of::<T>()) }
    }

    pub(crate) fn words_mut<T: Word>(&mut self) -> &mut [T] {
        // SAFETY: as in `words`, exclusive with `&mut self`; every value of a Word is a bit pattern that bytes may
        // have.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len_bytes / size_of::<T>()) }
    }

    /// Cuts it to its first `len_bytes` bytes (no more than it has) and gives back what is no longer needed: whole
    /// pages of a mapping, the rest of a heap block when that is worth a copy. A heap block may move.
    pub(crate) fn shrink(&mut self, len_bytes: usize) {
        if len_bytes >= self.len_bytes {
            return;
        }
        if len_bytes == 0 {
            *self = Memory::empty();
            return;
        }
        match &self.source {
            MemorySource::Nothing | MemorySource::Block(_) => {}
            MemorySource::Heap { capacity } if len_bytes <= *capacity / 2 => {
                // On failure the block simply stays as large as it is.
                if let Ok(mut smaller) = Memory::heap(len_bytes) {
                    smaller.bytes_mut().copy_from_slice(&self.bytes()[..len_bytes]);
                    *self = smaller;
                }
            }
            MemorySource::Heap { .. } => {}
            MemorySource::Mapping { mapped } => {
                let mapped = *mapped;
                let kept = round_up(len_bytes, page_bytes()).map_or(mapped, |kept| kept.min(mapped));
                // SAFETY: `kept <= mapped`, so this is inside the mapping or just past its end. By `&mut self` nothing
                // refers to those pages, and the length set below keeps it so.
                unsafe { unmap(self.start.as_ptr().add(kept), mapped - kept) };
                self.source = MemorySource::Mapping { mapped: kept };
            }
        }
        self.len_bytes = len_bytes;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.source, MemorySource::Nothing) {
            MemorySource::Nothing => {}
            MemorySource::Block(block) => pool::give_back(block),
            MemorySource::Heap { capacity } => {
                if let Ok(layout) = heap_layout(capacity) {
                    // SAFETY: allocated with this very layout; `capacity` is already a multiple of the alignment.
                    unsafe { alloc::dealloc(self.start.as_ptr(), layout) };
                }
            }
            // SAFETY: the whole mapping, which this value owned alone and which ends with it.
            MemorySource::Mapping { mapped } => unsafe { unmap(self.start.as_ptr(), mapped) },
        }
    }
}

/// Maps whole pages for at least `len_bytes` bytes, none of them touched yet: where, and how many bytes.
fn map_pages(len_bytes: usize, protection: libc::c_int, pages: Pages) -> io::Result<(NonNull<u8>, usize)> {
    let huge = pages == Pages::Huge;
    let mapped = round_up(len_bytes, page_bytes())?;
    let slack = if huge { HUGE_PAGE_BYTES } else { 0 };
    let asked = mapped.checked_add(slack).ok_or_else(out_of_memory)?;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice replaces nothing.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            asked,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = base.cast::<u8>();
    let lead = if huge { base.align_offset(HUGE_PAGE_BYTES).min(slack) } else { 0 };
    // SAFETY: `lead + mapped <= asked`, so the result stays inside the mapping.
    let start = unsafe { base.add(lead) };
    // SAFETY: whole pages of the mapping made above, before those that are handed out; nothing refers to them.
    unsafe { unmap(base, lead) };
    // SAFETY: `lead + mapped <= asked`, so these are the pages of the mapping after those that are handed out.
    unsafe { unmap(start.add(mapped), slack - lead) };
    let advice = match pages {
        Pages::Default => None,
        Pages::Huge => Some(libc::MADV_HUGEPAGE),
        Pages::Small => Some(libc::MADV_NOHUGEPAGE),
    };
    if let Some(advice) = advice {
        // SAFETY: the range is our mapping, not yet referred to. A refusal (no huge pages in this kernel) is no fault.
        unsafe { libc::madvise(start.cast(), mapped, advice) };
    }
    let start = NonNull::new(start).ok_or_else(out_of_memory)?;
    Ok((start, mapped))
}

/// Gives whole pages of one of our own mappings back; nothing happens for no bytes.
///
/// # Safety
/// The range is page-aligned and belongs to a mapping that the caller owns, and nothing refers or will refer into it.
unsafe fn unmap(start: *mut u8, len_bytes: usize) {
    if len_bytes > 0 {
        // SAFETY: the caller's promise.
        // A failure (too many mappings to split one) leaves memory mapped, which is waste and no fault.
        unsafe { libc::munmap(start.cast(), len_bytes) };
    }
}

fn heap_layout(len_bytes: usize) -> io::Result<Layout> {
    let capacity = round_up(len_bytes, ALIGN_BYTES)?;
    Layout::from_size_align(capacity, ALIGN_BYTES).map_err(|_| out_of_memory())
}

fn round_up(len_bytes: usize, to: usize) -> io::Result<usize> {
    len_bytes.checked_next_multiple_of(to).ok_or_else(out_of_memory)
}

fn out_of_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
