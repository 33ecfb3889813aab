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

use super::Mode;
use super::mapping::{ALIGN_BYTES, Mapping, Pages, out_of_memory, round_up};
use super::slab::Block;
use crate::id_set::IdSet;

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
    /// A mapping, owned alone.
    Mapping(Mapping),
    /// A block of a slab, owned alone.
    Block(Block),
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
        let mapping = Mapping::new(len_bytes, pages)?;
        Ok(Memory { start: mapping.start(), len_bytes, source: MemorySource::Mapping(mapping) })
    }

    /// Sets where pages of these bytes that are not there yet will come from: all whose first byte lies within, of the
    /// mapping's pages. Heap blocks stay as they are.
    pub(crate) fn bind(&self, bytes: Range<usize>, mode: Mode, nodes: &IdSet) -> io::Result<()> {
        match &self.source {
            MemorySource::Mapping(mapping) => mapping.bind(bytes, mode, nodes),
            _ => Ok(()),
        }
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
            MemorySource::Mapping(mapping) => mapping.bytes(),
            MemorySource::Block(block) => block.bytes(),
        }
    }

    /// Whether it has whole pages of its own, which may be placed and moved.
    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self.source, MemorySource::Mapping(_))
    }

    /// Whether it is a block of a slab.
    pub(crate) fn is_block(&self) -> bool {
        matches!(self.source, MemorySource::Block(_))
    }

    /// The block of a slab that it is, if it is one.
    pub(crate) fn block(&self) -> Option<&Block> {
        match &self.source {
            MemorySource::Block(block) => Some(block),
            _ => None,
        }
    }

    /// The same memory with another length, at most the bytes it holds: all of those are initialised.
    pub(crate) fn with_len(mut self, len_bytes: usize) -> Memory {
        assert!(len_bytes <= self.held_bytes(), "{len_bytes} of {} bytes", self.held_bytes());
        self.len_bytes = len_bytes;
        self
    }

    /// The first `len_bytes` bytes of a block, zeroed like the rest of it.
    pub(crate) fn of_block(block: Block, len_bytes: usize) -> io::Result<Memory> {
        if len_bytes > block.bytes() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: the block is within its slab's mapping, which is readable and writable; by the invariant of slabs
        // nobody else refers to it.
        unsafe { block.start().write_bytes(0, block.bytes()) };
        Ok(Memory { start: block.start(), len_bytes, source: MemorySource::Block(block) })
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
        match &mut self.source {
            MemorySource::Nothing | MemorySource::Block(_) => {}
            MemorySource::Heap { capacity } if len_bytes <= *capacity / 2 => {
                // On failure the block simply stays as large as it is.
                if let Ok(mut smaller) = Memory::heap(len_bytes) {
                    smaller.bytes_mut().copy_from_slice(&self.bytes()[..len_bytes]);
                    *self = smaller;
                }
            }
            MemorySource::Heap { .. } => {}
            MemorySource::Mapping(mapping) => {
                // SAFETY: by `&mut self` nothing refers to the bytes behind the first `len_bytes`, and the length set
                // below keeps it so.
                unsafe { mapping.shrink(len_bytes) };
            }
        }
        self.len_bytes = len_bytes;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.source, MemorySource::Nothing) {
            // A mapping goes back by itself.
            MemorySource::Nothing | MemorySource::Mapping(_) => {}
            MemorySource::Block(block) => {
                let slab = Arc::clone(block.slab());
                slab.home().give_back(block);
            }
            MemorySource::Heap { capacity } => {
                if let Ok(layout) = heap_layout(capacity) {
                    // SAFETY: allocated with this very layout; `capacity` is already a multiple of the alignment.
                    unsafe { alloc::dealloc(self.start.as_ptr(), layout) };
                }
            }
        }
    }
}

fn heap_layout(len_bytes: usize) -> io::Result<Layout> {
    let capacity = round_up(len_bytes, ALIGN_BYTES)?;
    Layout::from_size_align(capacity, ALIGN_BYTES).map_err(|_| out_of_memory())
}
