use super::*;
use crate::BLOCK_ROWS;
use crate::kernels::pack::pack;
use crate::kernels::unpack::tests::numbers;
use crate::kernels::words_for;

#[test]
fn every_width_equals_a_plain_loop_on_both_paths() {
    for bits in 1..=32u8 {
        let values = numbers(2 * BLOCK_ROWS, bits, u64::from(bits) * 13 + 3);
        let mut words = vec![0; words_for(values.len(), bits)];
        pack(&values, bits, &mut words);
        // Shorter than the codes on purpose, and none at all.
        for set_words in [0, 1, 2, 8, 9, 64, 2048] {
            let set = numbers(set_words, 32, set_words as u64 + 9);
            let before = [u64::MAX, 0x5555_5555_5555_5555, 0, u64::MAX, 0, 0, 0, 0];
            let mut slow = before;
            let mut chosen = before;
            scalar::select_set(&words, bits, &set, &mut slow);
            select_set(&words, bits, &set, &mut chosen);
            for (i, &value) in values.iter().enumerate() {
                let inside = set.get(value as usize / 32).is_some_and(|w| w >> (value % 32) & 1 == 1);
                let expected = before[i / 64] >> (i % 64) & 1 == 1 && inside;
                assert_eq!(slow[i / 64] >> (i % 64) & 1 == 1, expected, "bits {bits} set {set_words} row {i}");
            }
            assert_eq!(slow, chosen, "bits {bits} set {set_words}");
        }
    }
}
