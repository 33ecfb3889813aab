use super::*;
use crate::BLOCK_ROWS;
use crate::kernels::pack::pack;
use crate::kernels::positions::tests::masks;
use crate::kernels::unpack::tests::numbers;
use crate::kernels::words_for;

#[test]
fn every_width_and_path_equals_indexing() {
    let masks = masks(5 * MASK_WORDS);
    for bits in 0..=32u8 {
        let rows = 5 * BLOCK_ROWS;
        let values = numbers(rows, bits, u64::from(bits) * 5 + 1);
        let mut words = vec![0; words_for(rows, bits)];
        pack(&values, bits, &mut words);
        for mask in &masks {
            let marked = (0..rows).filter(|row| mask[row / 64] >> (row % 64) & 1 == 1);
            let expected: Vec<u32> = marked.map(|row| values[row]).collect();
            let mut out = vec![7];
            compress(&words, bits, mask, &mut out);
            assert_eq!((out[0], &out[1..]), (7, &expected[..]), "bits {bits}");
            if bits == 0 {
                continue;
            }
            let mut slow = Vec::new();
            scalar::compress(&words, bits, mask, &mut slow);
            assert_eq!(slow, expected, "bits {bits}");
            #[cfg(target_arch = "x86_64")]
            if crate::kernels::have_avx2() && crate::kernels::have_popcnt() {
                let mut found = Vec::with_capacity(expected.len() + STRIDE);
                avx2::compress(&words, bits, mask, expected.len(), &mut found);
                assert_eq!(found, expected, "bits {bits}");
            }
        }
    }
}
