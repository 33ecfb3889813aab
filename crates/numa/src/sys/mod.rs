//! Every OS call of Nearside, each wrapped so that the rest of the crate is safe code.
//!
//! With its modules this is the only place of the crate where `unsafe` stands. A call reports what the kernel said as
//! an `io::Error`; what that means (a refusal to live with, a full node) is decided by the callers.
//!
//! # Limits
//! Linux only. Node masks are built for the highest node asked for, so no constant bounds the number of nodes.

#[cfg(test)]
pub(crate) mod deny;
pub(crate) mod heap;
mod hinted;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod migrate;
pub(crate) mod perf;
pub(crate) mod probe;
pub(crate) mod scan;
pub(crate) mod slab;

use std::io;

use crate::id_set::IdSet;

/// Cpus beyond this make the affinity buffer grow no further: 64 Ki cpus, eight times what any kernel is built for.
const AFFINITY_BYTES_MAX: usize = 8 << 10;

/// What a policy call binds a mapping to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only these nodes; the kernel reclaims and, with nothing left to reclaim, kills. Checked against free memory
    /// first.
    Bind,
    /// This node, others when it is full.
    Preferred,
    /// Page by page over these nodes.
    Interleave,
}

impl Mode {
    fn raw(self) -> libc::c_int {
        match self {
            Mode::Bind => libc::MPOL_BIND,
            Mode::Preferred => libc::MPOL_PREFERRED,
            Mode::Interleave => libc::MPOL_INTERLEAVE,
        }
    }
}

/// Bytes per page of the base size.
pub(crate) fn page_bytes() -> usize {
    static PAGE_BYTES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *PAGE_BYTES.get_or_init(|| {
        // SAFETY: sysconf takes a constant and touches no memory of ours.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).ok().filter(|b| b.is_power_of_two()).unwrap_or(4096)
    })
}

/// The cpus the calling thread may run on.
pub(crate) fn affinity() -> io::Result<IdSet> {
    let mut mask = vec![0u8; 128];
    loop {
        // SAFETY: the kernel writes at most `mask.len()` bytes into `mask`; thread 0 is the caller.
        let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len(), mask.as_mut_ptr()) };
        if written >= 0 {
            mask.truncate(written as usize);
            break;
        }
        let error = io::Error::last_os_error();
        // EINVAL says that the kernel's own mask is longer than the buffer.
        if error.raw_os_error() != Some(libc::EINVAL) || mask.len() >= AFFINITY_BYTES_MAX {
            return Err(error);
        }
        mask = vec![0u8; mask.len() * 2];
    }
    Ok(mask_members(&mask).collect())
}

/// Lets the calling thread run on these cpus only.
pub(crate) fn set_affinity(cpus: &IdSet) -> io::Result<()> {
    let words = mask_words(cpus, (AFFINITY_BYTES_MAX * 8) as u32);
    // SAFETY: the kernel reads `size_of_val(words)` bytes of `words`, which outlives the call; thread 0 is the caller.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&words[..]), words.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cpu that the calling thread runs on at this moment.
pub(crate) fn current_cpu() -> io::Result<u32> {
    // SAFETY: takes nothing and returns a number.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).map_err(|_| io::Error::last_os_error())
}

/// The node of each page that holds one of `addresses`; `None` where no page of memory is there (never touched, not
/// mapped, or the shared page of zeros). Fails as a whole when the kernel refuses the call.
pub(crate) fn nodes_of_pages(addresses: &[usize], nodes: &mut Vec<Option<u32>>) -> io::Result<()> {
    let mut status: Vec<libc::c_int> = vec![-libc::ENOENT; addresses.len()];
    // SAFETY: with a null `nodes` argument move_pages moves nothing: it looks the addresses up (any value is allowed,
    // none is dereferenced here) and writes `addresses.len()` numbers into `status`, which is that long.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            std::ptr::null::<libc::c_int>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    hinted::answer(addresses, &mut status);
    nodes.extend(status.into_iter().map(|s| u32::try_from(s).ok()));
    Ok(())
}

/// A bit mask in the kernel's own words, at least one word long; members of `limit` and above are left out.
fn mask_words(ids: &IdSet, limit: u32) -> Vec<libc::c_ulong> {
    let bits = libc::c_ulong::BITS;
    let mut words: Vec<libc::c_ulong> = vec![0];
    for id in ids.iter().take_while(|id| *id < limit) {
        let word = (id / bits) as usize;
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (id % bits);
    }
    words
}

/// The members of a mask that the kernel wrote as native words.
fn mask_members(mask: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let word_bytes = size_of::<libc::c_ulong>();
    mask.chunks_exact(word_bytes).enumerate().flat_map(move |(w, bytes)| {
        let mut word = [0u8; size_of::<libc::c_ulong>()];
        word.copy_from_slice(bytes);
        let word = libc::c_ulong::from_ne_bytes(word);
        (0..libc::c_ulong::BITS).filter(move |b| word & (1 << b) != 0).map(move |b| w as u32 * libc::c_ulong::BITS + b)
    })
}
