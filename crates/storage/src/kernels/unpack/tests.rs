use proptest::prelude::*;

use super::*;
use crate::kernels::pack::pack;
use crate::kernels::{low_bits, words_for};

/// Pseudo-random values that fit in `bits` bits.
pub(crate) fn numbers(count: usize, bits: u8, seed: u64) -> Vec<u32> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32 & low_bits(bits)
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn every_width_and_odd_sizes_come_back() {
    for bits in 0..=32u8 {
        for count in [1, 7, 255, 256, 257, 1000] {
            let values = numbers(count, bits, u64::from(bits) * 77 + count as u64);
            let mut words = vec![0; words_for(count, bits)];
            pack(&values, bits, &mut words);
            let mut out = vec![42];
            unpack(&words, bits, 0..count, &mut out);
            assert_eq!((out[0], &out[1..]), (42, &values[..]), "bits {bits} count {count}");
        }
    }
}

#[test]
fn the_paths_agree() {
    for bits in 1..=32u8 {
        let words = numbers(block_words(bits) * 2, 32, u64::from(bits) + 5);
        let mut slow = [MaybeUninit::new(1); 2 * BLOCK_ROWS];
        let mut chosen = [MaybeUninit::new(2); 2 * BLOCK_ROWS];
        scalar::unpack_blocks(&words, bits, &mut slow);
        unpack_blocks(&words, bits, &mut chosen);
        for (a, b) in slow.iter().zip(&chosen) {
            // SAFETY: both arrays were made of initialised elements.
            let (a, b) = unsafe { (a.assume_init(), b.assume_init()) };
            assert_eq!(a, b, "bits {bits}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_range(
        bits in 0u8..=32,
        count in 1usize..2000,
        a in any::<usize>(),
        b in any::<usize>(),
        seed in any::<u64>(),
    ) {
        let values = numbers(count, bits, seed);
        let mut words = vec![0; words_for(count, bits)];
        pack(&values, bits, &mut words);
        let a = a % (count + 1);
        let b = b % (count + 1);
        let rows = a.min(b)..a.max(b);
        let mut out = Vec::new();
        unpack(&words, bits, rows.clone(), &mut out);
        prop_assert_eq!(&out[..], &values[rows]);
    }
}
