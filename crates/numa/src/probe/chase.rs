//! The cycle that latency is measured on: every line of a buffer once, in an order that no prefetcher guesses.
//!
//! The order is a bijection of the line numbers (multiplications by odd numbers and shifts on as many bits as there
//! are), so laying the cycle needs no second table, and its stores do not wait for each other as Sattolo's shuffle
//! does.
//!
//! Invariants: following the links from any line visits every line once before it comes back; each link is the first
//! word of its line and is the place of a word, as [`crate::sys::probe::chase`] expects.
//!
//! # Limits
//! The number of lines is a power of two.

/// Bytes from link to link: the cache line.
pub(super) const LINE_BYTES: usize = if cfg!(target_arch = "s390x") {
    256
} else if cfg!(any(target_arch = "powerpc64", target_arch = "loongarch64")) {
    128
} else {
    64
};
/// Words from link to link.
const LINE_WORDS: u64 = (LINE_BYTES / size_of::<u64>()) as u64;

/// A bijection of the numbers below a power of two that looks random.
#[derive(Clone, Copy, Debug)]
struct Shuffle {
    bits: u32,
    seed: u64,
}

impl Shuffle {
    fn place_of(self, number: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let shift = (self.bits / 2).max(1);
        let mut x = number & mask;
        for round in 0..3u32 {
            // Each step can be undone on `bits` bits: adding, multiplying by an odd number, xor of a shifted copy.
            x = x.wrapping_add(self.seed.rotate_left(round * 21)) & mask;
            x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
            x ^= x >> shift;
            x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93) & mask;
            x ^= x >> shift;
        }
        x
    }
}

/// How many words of a buffer a cycle can use: as many lines as the largest power of two that fits.
pub(super) fn usable_words(words: usize) -> usize {
    let lines = words / LINE_WORDS as usize;
    if lines == 0 { 0 } else { (1 << lines.ilog2()) * LINE_WORDS as usize }
}

/// Lays one cycle over the lines of `links`, of which [`usable_words`] are used. A buffer of less than a line is left.
pub(super) fn lay(links: &mut [u64], seed: u64) {
    let lines = (usable_words(links.len()) as u64) / LINE_WORDS;
    if lines == 0 {
        return;
    }
    let shuffle = Shuffle { bits: lines.ilog2(), seed };
    let first = shuffle.place_of(0);
    let mut at = first;
    for number in 1..=lines {
        let next = if number == lines { first } else { shuffle.place_of(number) };
        links[(at * LINE_WORDS) as usize] = next * LINE_WORDS;
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::sys::probe::chase;

    proptest! {
        #[test]
        fn the_chase_visits_every_line_exactly_once(words in 0usize..5000, seed: u64) {
            let mut links = vec![u64::MAX; words];
            lay(&mut links, seed);
            let lines = usable_words(words) as u64 / LINE_WORDS;
            let mut seen = vec![false; lines as usize];
            let mut at = 0;
            for _ in 0..lines {
                prop_assert_eq!(at % LINE_WORDS, 0);
                prop_assert!(!std::mem::replace(&mut seen[(at / LINE_WORDS) as usize], true), "line {} twice", at);
                at = chase(&links, at, 1);
            }
            prop_assert_eq!(at, 0);
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn no_stride_repeats_often() {
        let mut links = vec![0; 1 << 17];
        lay(&mut links, 42);
        let lines = links.len() as u64 / LINE_WORDS;
        let mut strides = BTreeMap::new();
        let mut at = 0u64;
        let mut distance = 0u64;
        for _ in 0..lines {
            let next = links[at as usize];
            *strides.entry(next.wrapping_sub(at)).or_insert(0u32) += 1;
            distance += next.abs_diff(at) / LINE_WORDS;
            at = next;
        }
        let most = strides.values().max().copied().unwrap_or(0);
        assert!(u64::from(most) * 100 < lines, "one stride makes up {most} of {lines} steps");
        // Two random places of n lines are n / 3 apart on average.
        let mean = distance as f64 / lines as f64 / lines as f64;
        assert!((0.31..0.36).contains(&mean), "mean distance {mean} of the buffer");
    }

    #[test]
    fn a_cycle_uses_the_largest_power_of_two_of_lines() {
        let line = LINE_WORDS as usize;
        assert_eq!(
            [0, line - 1, line, 2 * line, 3 * line, 5 * line].map(usable_words),
            [0, 0, line, 2 * line, 2 * line, 4 * line]
        );
    }
}
