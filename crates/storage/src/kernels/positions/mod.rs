//! Masks as numbers: how many bits are set, and which.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(super) mod popcnt;
pub(super) mod scalar;

/// Positions that are written at a time; what lies past the set bits is written over.
pub(super) const STRIDE: usize = 16;

/// A vector path: writes the places of the set bits, and up to [`STRIDE`] more; gives how many there were.
#[cfg(target_arch = "x86_64")]
type Writer = unsafe fn(&[u64], u32, *mut u32) -> usize;

/// Appends what a vector path finds; `marked` bits are set in `mask`, and `out` has room for [`STRIDE`] more.
///
/// # Safety
/// The processor has what the path is made of.
#[cfg(target_arch = "x86_64")]
unsafe fn run(path: Writer, mask: &[u64], first: u32, marked: usize, out: &mut Vec<u32>) {
    // The path writes as many as bits are set, whatever the caller believes.
    assert!(out.capacity() - out.len() >= marked + STRIDE && count(mask) == marked);
    // SAFETY: the caller vouches for the processor; there is room for the positions and a stride.
    let written = unsafe { path(mask, first, out.spare_capacity_mut().as_mut_ptr().cast()) };
    assert_eq!(written, marked);
    // SAFETY: `n` positions were written after the old length.
    unsafe { out.set_len(out.len() + marked) };
}

/// Bits that are set.
pub(crate) fn count(mask: &[u64]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if super::have_avx512_popcnt() {
            return avx512::count(mask);
        }
        if super::have_popcnt() {
            return popcnt::count(mask);
        }
    }
    scalar::count(mask)
}

/// Appends the places of the set bits, each plus `first`, ascending.
pub(crate) fn positions(mask: &[u64], first: u32, out: &mut Vec<u32>) {
    let marked = count(mask);
    if marked == 0 {
        return;
    }
    out.reserve(marked + STRIDE);
    #[cfg(target_arch = "x86_64")]
    {
        if super::have_avx512() {
            return avx512::positions(mask, first, marked, out);
        }
        if super::have_popcnt() {
            return popcnt::positions(mask, first, marked, out);
        }
    }
    scalar::positions(mask, first, out);
}

#[cfg(test)]
pub(crate) mod tests;
