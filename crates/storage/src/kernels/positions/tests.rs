use super::*;
use crate::kernels::unpack::tests::numbers;

/// Masks of every density, with runs of empty words.
pub(crate) fn masks(words: usize) -> Vec<Vec<u64>> {
    let random: Vec<u64> =
        numbers(2 * words, 32, 9).chunks(2).map(|w| u64::from(w[0]) << 32 | u64::from(w[1])).collect();
    let thinned = |times: usize| -> Vec<u64> {
        let thin =
            |i: usize| (0..times).fold(random[i], |word, n| word & random[(i + 3 * n + 1) % words].rotate_left(7));
        (0..words).map(thin).collect()
    };
    let mut masks = vec![vec![0; words], vec![u64::MAX; words], random.clone()];
    masks.extend((1..9).map(thinned));
    masks.push(random.iter().map(|word| !(word & word.rotate_left(13))).collect());
    masks.push((0..words).map(|i| if i % 5 == 0 { random[i] } else { 0 }).collect());
    masks
}

#[test]
fn every_path_equals_the_scalar_one() {
    for mask in masks(67).into_iter().chain(masks(64)).chain(masks(211)).chain(masks(5)) {
        let mut expected = vec![3];
        scalar::positions(&mask, 1000, &mut expected);
        let marked = expected.len() - 1;
        assert_eq!((count(&mask), scalar::count(&mask)), (marked, marked));
        #[cfg(target_arch = "x86_64")]
        if crate::kernels::have_popcnt() {
            assert_eq!(popcnt::count(&mask), marked);
        }
        let mut chosen = vec![3];
        positions(&mask, 1000, &mut chosen);
        assert_eq!(chosen, expected);
        #[cfg(target_arch = "x86_64")]
        {
            type Path = fn(&[u64], u32, usize, &mut Vec<u32>);
            let mut paths: Vec<Path> = Vec::new();
            if crate::kernels::have_popcnt() {
                paths.push(popcnt::positions);
            }
            if crate::kernels::have_avx512() {
                paths.push(avx512::positions);
            }
            for path in paths {
                let mut found = vec![3];
                found.reserve(marked + STRIDE);
                path(&mask, 1000, marked, &mut found);
                assert_eq!(found, expected);
            }
        }
    }
}
