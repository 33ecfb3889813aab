//! Moves pages to nodes and sets the policy of a part of a mapping. Contents and addresses stay as they are, and other
//! threads may read and write meanwhile, so nothing here can break what safe code relies on.
//!
//! # Limits
//! Pages of this process only, and no pages that other processes share.

use std::io;
use std::ops::Range;

use super::{Mode, mask_words, page_bytes};
use crate::id_set::IdSet;

/// `linux/mempolicy.h`: move the pages that only this process maps.
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// Asks the kernel to move each page that holds one of `addresses` to the node of the same index. Which pages went is
/// for the caller to look up: a page may be busy, and a node full. The target node is the only one that is taken from.
///
/// # Errors
/// What the kernel says of the call as a whole: `ENOSYS` or `EPERM` (refused), `ENODEV` (no such node), `EACCES` (a
/// node that this process may not use), `ENOMEM`. Pages before the one that it stumbled upon may have moved.
pub(crate) fn move_pages(addresses: &[usize], nodes: &[u32]) -> io::Result<()> {
    assert_eq!(addresses.len(), nodes.len(), "one node per page");
    let nodes: Vec<libc::c_int> = nodes.iter().map(|n| libc::c_int::try_from(*n).unwrap_or(libc::c_int::MAX)).collect();
    let mut status: Vec<libc::c_int> = vec![0; addresses.len()];
    // SAFETY: the three arrays have `addresses.len()` entries each and outlive the call; the kernel writes only
    // `status`. The addresses are not dereferenced by this process: pages keep their contents and address wherever they
    // lie.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    // Positive: `n` pages did not move. That is no refusal.
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets where pages of these bytes (whole pages of a mapping of ours) that are not there yet will come from; `None` is
/// the node of the cpu that touches them. Pages that are there stay.
pub(crate) fn set_policy(bytes: Range<usize>, policy: Option<(Mode, &IdSet)>) -> io::Result<()> {
    let (mode, mask) = match policy {
        None => (libc::MPOL_DEFAULT, Vec::new()),
        Some((mode, nodes)) => (mode.raw(), mask_words(nodes, u32::MAX)),
    };
    // The kernel counts one bit more than it reads.
    let bits = if mask.is_empty() { 0 } else { mask.len() * libc::c_ulong::BITS as usize + 1 };
    let mask = if mask.is_empty() { std::ptr::null() } else { mask.as_ptr() };
    // SAFETY: a policy changes no byte and no address of the range; the kernel reads `bits - 1` bits of `mask`.
    let done = unsafe { libc::syscall(libc::SYS_mbind, bytes.start, bytes.end - bytes.start, mode, mask, bits, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes base pages of the huge page that holds this address, so that they can lie on different nodes. The kernel may
/// decline; then it stays whole. There is no call for just that: marking a part of a huge page as cold splits it
/// (Linux 5.4), and costs no more than a place in the list of what is swapped out first.
pub(crate) fn split_huge_page(address: usize) {
    let page = page_bytes();
    let start = std::ptr::without_provenance_mut::<libc::c_void>(address / page * page);
    // SAFETY: advice that leaves contents and addresses as they are, for one page; a bad address is an error, ignored.
    unsafe { libc::madvise(start, page, libc::MADV_COLD) };
}

/// Asks for huge pages in these bytes (whole pages of a mapping of ours), or for none. It is only a wish.
pub(crate) fn advise_huge_pages(bytes: Range<usize>, wanted: bool) {
    let start = std::ptr::without_provenance_mut::<libc::c_void>(bytes.start);
    let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: advice that changes no byte and no address; a refusal (no huge pages in this kernel) is no fault.
    unsafe { libc::madvise(start, bytes.end - bytes.start, advice) };
}
