use super::*;
use crate::kernels::pack::pack;
use crate::kernels::unpack::tests::numbers;

#[test]
fn every_width_equals_indexing_on_both_paths() {
    for bits in 0..=32u8 {
        let rows = 3000;
        let values = numbers(rows, bits, u64::from(bits) * 3 + 1);
        let mut words = vec![0; words_for(rows, bits)];
        pack(&values, bits, &mut words);
        for count in [0, 1, 7, 8, 9, 500] {
            let mut positions: Vec<u32> =
                numbers(count, 32, count as u64 + 2).iter().map(|p| p % rows as u32).collect();
            if count > 8 {
                positions[3] = rows as u32 - 1;
            }
            let expected: Vec<u32> = positions.iter().map(|&p| values[p as usize]).collect();
            let mut out = vec![7];
            gather(&words, bits, rows, &positions, &mut out);
            assert_eq!((out[0], &out[1..]), (7, &expected[..]), "bits {bits} count {count}");
            if bits > 0 {
                let mut slow = Vec::new();
                scalar::gather(&words, bits, &positions, &mut slow);
                assert_eq!(slow, expected, "bits {bits} count {count}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "position 300 of 300 rows")]
fn a_position_beyond_the_rows_is_a_bug() {
    gather(&[0; 16], 1, 300, &[299, 300], &mut Vec::new());
}
