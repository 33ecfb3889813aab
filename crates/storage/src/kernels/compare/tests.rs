use super::*;
use crate::BLOCK_ROWS;
use crate::kernels::pack::pack;
use crate::kernels::unpack::tests::numbers;
use crate::kernels::{low_bits, words_for};

#[test]
fn every_width_equals_a_plain_loop_on_every_path() {
    for bits in 1..=32u8 {
        let top = low_bits(bits);
        let values = numbers(3 * BLOCK_ROWS, bits, u64::from(bits) * 31 + 1);
        let mut words = vec![0; words_for(values.len(), bits)];
        pack(&values, bits, &mut words);
        let mut ranges = vec![(0, 0), (0, top), (top, top), (top / 2, top), (0, top / 3), (values[5], values[5])];
        ranges.push((values[0].min(values[1]), values[0].max(values[1])));
        ranges.extend([(0, u32::MAX), (top / 2, u32::MAX), (u32::MAX, u32::MAX), (top, top.saturating_add(1))]);
        for (lo, hi) in ranges {
            for negated in [false, true] {
                let test = RangeTest { lo, hi, negated };
                // A mask with holes, and a block that is already empty.
                let mut before: Vec<u64> = (0..12).map(|i| 0xdead_beef_0bad_cafe_u64.rotate_left(i * 5)).collect();
                before[4..8].fill(0);
                let mut slow = before.clone();
                let mut chosen = before.clone();
                scalar::select_range(&words, bits, test, &mut slow);
                select_range(&words, bits, test, &mut chosen);
                for (i, &value) in values.iter().enumerate() {
                    let expected = before[i / 64] >> (i % 64) & 1 == 1 && ((lo..=hi).contains(&value) != negated);
                    assert_eq!(slow[i / 64] >> (i % 64) & 1 == 1, expected, "bits {bits} {test:?} row {i}");
                }
                assert_eq!(slow, chosen, "bits {bits} {test:?}");
                #[cfg(target_arch = "x86_64")]
                if crate::kernels::have_avx2() {
                    let mut fast = before.clone();
                    avx2::select_range(&words, bits, test, &mut fast);
                    assert_eq!(slow, fast, "bits {bits} {test:?}");
                }
            }
        }
    }
}
