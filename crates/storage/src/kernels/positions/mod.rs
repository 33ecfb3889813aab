//! Masks as numbers: how many bits are set, and which.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(super) mod popcnt;
pub(super) mod scalar;

/// Positions that are written at a time; what lies past the set bits is written over.
pub(super) const STRIDE: usize = 16;

/// Bits that are set.
pub(crate) fn count(mask: &[u64]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if super::have_popcnt() {
        return popcnt::count(mask);
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
