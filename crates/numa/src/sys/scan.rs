//! Walks the page table of this process (`PAGEMAP_SCAN` of `/proc/self/pagemap`, Linux 6.7): which pages are there, and
//! which of them are huge. Needs no privilege.
//!
//! # Limits
//! Older kernels and file systems without `/proc` do not tell; then nothing is known and nothing is refused.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::mapping::HUGE_PAGE_BYTES;
use super::page_bytes;

/// Answers that one call may give.
const REGIONS_PER_CALL: usize = 1024;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = (3 << 30) | ((size_of::<ScanArguments>() as u32) << 16) | ((b'f' as u32) << 8) | 16;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}
const _: () = assert!(size_of::<ScanArguments>() == 96);

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Bytes whose pages are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Which bytes.
    pub(crate) bytes: Range<usize>,
    /// Whether each aligned huge page of them is one page, on one node. If not, that is not known.
    pub(crate) huge: bool,
}

/// The page table of this process.
pub(crate) struct PageTable {
    pagemap: File,
}

impl PageTable {
    /// Opens it; `None` where it cannot be read in stretches.
    pub(crate) fn open() -> Option<PageTable> {
        let table = PageTable { pagemap: File::open("/proc/self/pagemap").ok()? };
        let page = page_bytes();
        let here = (&raw const table).addr() / page * page;
        table.scan(here..here + page, &mut [PageRegion::default(); 1])?;
        Some(table)
    }

    /// The parts of `bytes` that are there, ascending. Pages that were only read and never written are not: they are
    /// the kernel's page of zeros. All of it, with no huge page, where the kernel does not tell.
    pub(crate) fn present(&self, bytes: &Range<usize>) -> Vec<Stretch> {
        let page = page_bytes();
        let mut from = bytes.start / page * page;
        let Some(end) = bytes.end.checked_next_multiple_of(page) else {
            return vec![Stretch { bytes: bytes.clone(), huge: false }];
        };
        let mut found: Vec<Stretch> = Vec::new();
        let mut regions = vec![PageRegion::default(); REGIONS_PER_CALL];
        while from < end {
            let Some((count, walked)) = self.scan(from..end, &mut regions) else {
                found.push(Stretch { bytes: from.max(bytes.start)..bytes.end, huge: false });
                break;
            };
            for region in &regions[..count] {
                let start = (region.start as usize).max(bytes.start);
                let end = (region.end as usize).min(bytes.end);
                // Where base pages are larger than usual, so are huge ones, and their size is not known here.
                let huge = region.categories & PAGE_IS_HUGE != 0 && page < HUGE_PAGE_BYTES / 256;
                match found.last_mut() {
                    Some(last) if last.bytes.end == start && last.huge == huge => last.bytes.end = end,
                    _ if start < end => found.push(Stretch { bytes: start..end, huge }),
                    _ => {}
                }
            }
            // A walk that does not get ahead would never end.
            if walked <= from {
                found.push(Stretch { bytes: from.max(bytes.start)..bytes.end, huge: false });
                break;
            }
            from = walked;
        }
        found
    }

    /// One call: how many regions were written, and up to which address the table was walked.
    fn scan(&self, bytes: Range<usize>, regions: &mut [PageRegion]) -> Option<(usize, usize)> {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: bytes.start as u64,
            end: bytes.end as u64,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: regions.len() as u64,
            category_inverted: PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
            return_mask: PAGE_IS_HUGE,
            ..ScanArguments::default()
        };
        // SAFETY: the kernel reads and writes `arguments`, which is the structure that this request takes, and writes
        // at most `vec_len` entries of `regions`, whose address was exposed and comes from a unique reference that
        // outlives the call. The bytes asked about are only looked up in the page table.
        let count = unsafe {
            libc::ioctl(self.pagemap.as_raw_fd(), libc::c_ulong::from(PAGEMAP_SCAN) as _, &raw mut arguments)
        };
        let count = usize::try_from(count).ok()?;
        Some((count.min(regions.len()), arguments.walk_end as usize))
    }
}
