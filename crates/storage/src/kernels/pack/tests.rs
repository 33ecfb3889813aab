use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_paths_agree(seed in proptest::collection::vec(any::<u32>(), BLOCK_ROWS * 3), bits in 1u8..=32) {
        let values: Vec<u32> = seed.iter().map(|v| v & low_bits(bits)).collect();
        let mut slow = vec![u32::MAX; words_for(values.len(), bits)];
        scalar::pack_blocks(&values, bits, &mut slow);
        let mut chosen = vec![u32::MAX; slow.len()];
        pack(&values, bits, &mut chosen);
        prop_assert_eq!(slow, chosen);
    }
}

#[test]
fn every_value_lies_where_the_layout_says() {
    for bits in 1..=32u8 {
        for place in [0, 1, 7, 8, 100, 255] {
            let mut values = [0; BLOCK_ROWS];
            values[place] = low_bits(bits);
            let mut words = vec![0; words_for(BLOCK_ROWS, bits)];
            pack(&values, bits, &mut words);
            let first = place / 8 * bits as usize;
            for bit in 0..32 * bits as usize {
                for lane in 0..8 {
                    let set = words[8 * (bit / 32) + lane] >> (bit % 32) & 1 == 1;
                    let expected = lane == place % 8 && (first..first + bits as usize).contains(&bit);
                    assert_eq!(set, expected, "bits {bits} place {place} bit {bit} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn the_tail_is_padded_with_zeros() {
    let mut words = vec![u32::MAX; words_for(257, 5)];
    pack(&[31; 257], 5, &mut words);
    assert_eq!(words[40], 31);
    assert!(words[41..].iter().all(|&w| w == 0));
}
