//! Pages that automatic NUMA balancing has marked, to see who touches them next. Linux 6.1 to 6.5 say of such a page
//! that nothing is there, neither telling its node nor moving it. Whether it is there is read from the page table, and
//! one question that makes the kernel touch it takes the mark off.
//!
//! # Limits
//! Costs a microsecond for each marked page. Where balancing is off, or with a later kernel, nothing is asked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::page_bytes;

/// `linux/mempolicy.h`: the answer is a node, of the page at an address.
const MPOL_F_NODE: libc::c_ulong = 1;
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;
/// The bit of an entry of `/proc/self/pagemap` that says that a page is there.
const PRESENT: u64 = 1 << 63;
/// Entries read at a time.
const ENTRIES: usize = 512;

/// Replaces `-ENOENT` in `status` where a page is there after all. `addresses` are page-aligned.
pub(super) fn answer(addresses: &[usize], status: &mut [libc::c_int]) {
    let missing: Vec<usize> = (0..status.len()).filter(|i| status[*i] == -libc::ENOENT).collect();
    if missing.is_empty() || !is_balanced() {
        return;
    }
    let Ok(table) = File::open("/proc/self/pagemap") else { return };
    let page = page_bytes();
    let mut entries = [0u8; ENTRIES * 8];
    // Runs of neighbouring pages share one reading of the table.
    for run in missing.chunk_by(|a, b| addresses[*b] == addresses[*a].wrapping_add(page)) {
        for part in run.chunks(ENTRIES) {
            let wanted = &mut entries[..part.len() * 8];
            let offset = (addresses[part[0]] / page) as u64 * 8;
            if table.read_exact_at(wanted, offset).is_err() {
                continue;
            }
            for (i, entry) in part.iter().zip(wanted.chunks_exact(8)) {
                let entry = entry.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
                if entry & PRESENT != 0
                    && let Ok(node) = touched_node(addresses[*i])
                {
                    status[*i] = node;
                }
            }
        }
    }
}

/// Whether the kernel marks pages, as of the first question.
fn is_balanced() -> bool {
    static BALANCED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *BALANCED.get_or_init(|| {
        let setting = std::fs::read_to_string("/proc/sys/kernel/numa_balancing").unwrap_or_default();
        !matches!(setting.trim(), "" | "0")
    })
}

/// The node of the page at an address, which the kernel touches to tell.
fn touched_node(address: usize) -> io::Result<libc::c_int> {
    let mut node: libc::c_int = -1;
    // SAFETY: the kernel writes one int to `node`, which outlives the call, and no mask; the address is not
    // dereferenced by this process, and a page that is there keeps its contents.
    let done = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<libc::c_ulong>(),
            0,
            address,
            MPOL_F_NODE | MPOL_F_ADDR,
        )
    };
    if done == 0 { Ok(node) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allocator, Policy, Topology};

    #[test]
    fn pages_that_are_there_are_told_and_others_are_not() {
        let node = Topology::discover().expect("tests run on Linux").usable_memory_nodes()[0];
        let allocator = Allocator::unplaced().with_policy(Policy::Node(node));
        let mut region = allocator.region(64 * page_bytes()).expect("fits");
        let address = region.address();
        region.bytes_mut()[..8 * page_bytes()].fill(1);
        // What a kernel that does not tell would answer; pages of this region that are not there stay so.
        let pages: Vec<usize> = (0..8).chain(40..48).map(|page| address + page * page_bytes()).collect();
        let mut status = vec![-libc::ENOENT; pages.len()];
        answer(&pages, &mut status);
        if is_balanced() {
            assert!(status[..8].iter().all(|s| *s == node.0 as libc::c_int), "{status:?}");
        } else {
            eprintln!("skipped: this kernel does not balance, so nothing is marked");
            assert!(status.iter().all(|s| *s == -libc::ENOENT));
        }
        assert!(
            region.held_bytes() >= crate::sys::mapping::HUGE_PAGE_BYTES
                || status[8..].iter().all(|s| *s == -libc::ENOENT)
        );
    }
}
