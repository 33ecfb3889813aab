//! A range of addresses of which only committed parts are memory.
//!
//! Invariants: `committed` is sorted and disjoint, whole pages, neighbours joined; exactly these bytes may be read and
//! written, are initialised (zeroed or since written), and are handed out as slices by the rules of borrowing.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::memory::{Pages, Word, map_pages, unmap};
use super::migrate::set_policy;
use super::{Mode, page_bytes};
use crate::id_set::IdSet;

/// Owned addresses; see the module's invariants.
#[derive(Debug)]
pub(crate) struct Addresses {
    start: NonNull<u8>,
    mapped: usize,
    committed: Vec<Range<usize>>,
}

// SAFETY: the addresses are owned by this value alone and hold plain data, so it may move to and be shared with any
// thread.
unsafe impl Send for Addresses {}
// SAFETY: as above; `&Addresses` only gives shared slices.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// Whole pages of addresses for `len_bytes` bytes, not 0, nothing of them committed.
    pub(crate) fn reserve(len_bytes: usize, pages: Pages) -> io::Result<Addresses> {
        let (start, mapped) = map_pages(len_bytes, libc::PROT_NONE, pages)?;
        Ok(Addresses { start, mapped, committed: Vec::new() })
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// The whole pages that hold these bytes, or only those that lie within them.
    pub(crate) fn pages(&self, bytes: &Range<usize>, within: bool) -> Range<usize> {
        let page = page_bytes();
        let (down, up) = (|at: usize| at / page * page, |at: usize| at.checked_next_multiple_of(page).unwrap_or(at));
        match within {
            true => up(bytes.start).min(self.mapped)..down(bytes.end).min(self.mapped),
            false => down(bytes.start).min(self.mapped)..up(bytes.end).min(self.mapped),
        }
    }

    /// The parts of these pages that are not committed.
    pub(crate) fn gaps(&self, pages: Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = Vec::new();
        let mut at = pages.start;
        for part in self.committed.iter().filter(|part| part.end > pages.start && part.start < pages.end) {
            if at < part.start {
                gaps.push(at..part.start);
            }
            at = part.end;
        }
        if at < pages.end {
            gaps.push(at..pages.end);
        }
        gaps
    }

    pub(crate) fn committed_bytes(&self) -> usize {
        self.committed.iter().map(|part| part.end - part.start).sum()
    }

    /// Sets where new pages of these whole pages come from.
    pub(crate) fn bind(&self, pages: Range<usize>, mode: Mode, nodes: &IdSet) -> io::Result<()> {
        let pages = self.pages(&pages, false);
        if pages.is_empty() {
            return Ok(());
        }
        set_policy(self.address() + pages.start..self.address() + pages.end, Some((mode, nodes)))
    }

    /// Makes these pages memory, zeroed; they must not be committed yet.
    pub(crate) fn commit(&mut self, pages: Range<usize>) -> io::Result<()> {
        self.assert_ours(&pages);
        assert_eq!(self.gaps(pages.clone()), std::slice::from_ref(&pages), "committed twice");
        self.protect(&pages, libc::PROT_READ | libc::PROT_WRITE)?;
        let at = self.committed.partition_point(|part| part.start < pages.start);
        self.committed.insert(at, pages);
        self.committed.dedup_by(|next, last| {
            let touch = last.end == next.start;
            if touch {
                last.end = next.end;
            }
            touch
        });
        Ok(())
    }

    /// Gives the memory of these pages back; those that are not committed stay so.
    pub(crate) fn decommit(&mut self, pages: Range<usize>) -> io::Result<()> {
        self.assert_ours(&pages);
        if pages.is_empty() {
            return Ok(());
        }
        let start = self.at(pages.start);
        // SAFETY: the range is ours, and by `&mut self` nothing refers into it. What is read there later is zero.
        let done = unsafe { libc::madvise(start.cast(), pages.end - pages.start, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let cut = |part: Range<usize>| {
            let (before, after) = (part.start..part.end.min(pages.start), part.start.max(pages.end)..part.end);
            [before, after].into_iter().filter(|rest| !rest.is_empty())
        };
        self.committed = std::mem::take(&mut self.committed).into_iter().flat_map(cut).collect();
        // Where the kernel has no mapping left for this, the pages stay accessible, without memory: no fault.
        let _ = self.protect(&pages, libc::PROT_NONE);
        Ok(())
    }

    /// These bytes, when all of them are committed.
    pub(crate) fn words<T: Word>(&self, words: Range<usize>) -> Option<&[T]> {
        let bytes = self.committed_words::<T>(&words)?;
        // SAFETY: the bytes are committed: initialised, readable, shared with `&self`; the start is a multiple of the
        // word's size from a page's start, so aligned; every bit pattern is a value of a Word.
        Some(unsafe { std::slice::from_raw_parts(self.at(bytes.start).cast(), words.end - words.start) })
    }

    /// These bytes to write, when all of them are committed.
    pub(crate) fn words_mut<T: Word>(&mut self, words: Range<usize>) -> Option<&mut [T]> {
        let bytes = self.committed_words::<T>(&words)?;
        // SAFETY: as in `words`, exclusive with `&mut self`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at(bytes.start).cast(), words.end - words.start) })
    }

    /// The bytes of these words, if they are all committed.
    fn committed_words<T: Word>(&self, words: &Range<usize>) -> Option<Range<usize>> {
        let bytes = words.start.checked_mul(size_of::<T>())?..words.end.checked_mul(size_of::<T>())?;
        let at = self.committed.partition_point(|part| part.end <= bytes.start);
        let part = self.committed.get(at).filter(|part| part.start <= bytes.start && bytes.end <= part.end);
        (words.start <= words.end && part.is_some()).then_some(bytes)
    }

    /// Whole pages of these addresses: giving memory to others, or taking theirs away, would break what safe code
    /// relies on.
    fn assert_ours(&self, pages: &Range<usize>) {
        let whole = pages.start.is_multiple_of(page_bytes()) && pages.end.is_multiple_of(page_bytes());
        assert!(whole && pages.end <= self.mapped, "{pages:?} are no pages of the {} bytes reserved", self.mapped);
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.mapped);
        // SAFETY: within the mapping or just past its end.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Sets what may be done with whole pages.
    fn protect(&mut self, pages: &Range<usize>, protection: libc::c_int) -> io::Result<()> {
        // SAFETY: the callers made sure that the range is ours; by `&mut self` no slice of it exists.
        let done = unsafe { libc::mprotect(self.at(pages.start).cast(), pages.end - pages.start, protection) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which this value owned alone and which ends with it.
        unsafe { unmap(self.start.as_ptr(), self.mapped) };
    }
}
