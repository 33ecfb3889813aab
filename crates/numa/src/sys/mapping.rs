//! Private anonymous mappings: whole pages of this process's own.
//!
//! Invariant: a [`Mapping`] owns its pages, which are readable, writable and zeroed where nobody has written; they end
//! with it. Who refers to their bytes is for its owner to keep in order.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::migrate::set_policy;
use super::{Mode, page_bytes};
use crate::id_set::IdSet;

/// Every [`Memory`] starts at a multiple of this: a cache line, and the widest vector there is.
pub(crate) const ALIGN_BYTES: usize = 64;
/// What one huge page of x86-64 and of arm64 with 4 KiB pages covers.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

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

/// Whole pages of our own; see the module's invariant.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pages are owned by this value alone and are plain data, so it may move to any thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Whole pages for at least `len_bytes` bytes (not 0), none of them touched yet.
    pub(crate) fn new(len_bytes: usize, pages: Pages) -> io::Result<Mapping> {
        let (start, bytes) = map_pages(len_bytes, pages)?;
        Ok(Mapping { start, bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Sets where pages of these bytes that are not there yet will come from: all whose first byte lies within.
    pub(crate) fn bind(&self, bytes: Range<usize>, mode: Mode, nodes: &IdSet) -> io::Result<()> {
        let start = bytes.start.min(self.bytes).next_multiple_of(page_bytes());
        let end = bytes.end.min(self.bytes).next_multiple_of(page_bytes());
        if start >= end {
            return Ok(());
        }
        let address = self.start.as_ptr().addr();
        set_policy(address + start..address + end, Some((mode, nodes)))
    }

    /// Gives back the whole pages behind the first `len_bytes` bytes.
    ///
    /// # Safety
    /// Nothing refers or will refer to bytes behind those.
    pub(super) unsafe fn shrink(&mut self, len_bytes: usize) {
        let kept = round_up(len_bytes, page_bytes()).map_or(self.bytes, |kept| kept.min(self.bytes));
        // SAFETY: `kept <= bytes`, so this is inside the mapping or just past its end; the rest is the caller's
        // promise.
        unsafe { unmap(self.start.as_ptr().add(kept), self.bytes - kept) };
        self.bytes = kept;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which this value owned alone and which ends with it.
        unsafe { unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Maps whole pages for at least `len_bytes` bytes, none of them touched yet: where, and how many bytes.
fn map_pages(len_bytes: usize, pages: Pages) -> io::Result<(NonNull<u8>, usize)> {
    let huge = pages == Pages::Huge;
    let mapped = round_up(len_bytes, page_bytes())?;
    let slack = if huge { HUGE_PAGE_BYTES } else { 0 };
    let asked = mapped.checked_add(slack).ok_or_else(out_of_memory)?;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice replaces nothing.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            asked,
            libc::PROT_READ | libc::PROT_WRITE,
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

pub(super) fn round_up(len_bytes: usize, to: usize) -> io::Result<usize> {
    len_bytes.checked_next_multiple_of(to).ok_or_else(out_of_memory)
}

pub(super) fn out_of_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
