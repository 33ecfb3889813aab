//! The loops that the probe times: reading with wide loads, and writing with non-temporal stores, which go to memory
//! without reading the line first and leave the caches alone.
//!
//! Invariants: each function means exactly what its portable loop in [`portable`] says; vectors are used only where the
//! cpu has them; non-temporal stores are fenced before a function returns, so other threads see them in order.
//!
//! # Limits
//! Vectors on x86-64 with AVX2. Elsewhere the portable loops run: the compiler makes vectors of them, but their stores
//! are ordinary ones, so every line written is read first and writing looks slower than the memory is
//! ([`has_streaming_stores`] tells).

/// Reading goes through this many places of a slice at a time: one place alone stalls at every page, where the
/// prefetchers stop.
pub(crate) const READ_STREAMS: usize = 4;

/// The scalar of STREAM's scale and triad.
const SCALAR: f64 = 3.0;

/// Whether writes below go past the caches.
pub(crate) fn has_streaming_stores() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Picks the vector version of a loop where the cpu has vectors.
macro_rules! dispatch {
    ($name:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if has_streaming_stores() {
            // SAFETY: the cpu has AVX2, which is all that the functions of `avx2` ask of their callers.
            return unsafe { avx2::$name($($argument),*) };
        }
        portable::$name($($argument),*)
    }};
}

/// The wrapping sum of all words, the slices read side by side.
pub(crate) fn sum(streams: [&[u64]; READ_STREAMS]) -> u64 {
    dispatch!(sum(streams))
}

/// Writes `value` to every word.
pub(crate) fn fill(to: &mut [u64], value: u64) {
    dispatch!(fill(to, value))
}

/// STREAM's copy: `to[i] = from[i]`, as far as both reach.
pub(crate) fn copy(to: &mut [f64], from: &[f64]) {
    dispatch!(copy(to, from))
}

/// STREAM's scale: `to[i] = 3 * from[i]`.
pub(crate) fn scale(to: &mut [f64], from: &[f64]) {
    dispatch!(scale(to, from))
}

/// STREAM's add: `to[i] = a[i] + b[i]`.
pub(crate) fn add(to: &mut [f64], a: &[f64], b: &[f64]) {
    dispatch!(add(to, a, b))
}

/// STREAM's triad: `to[i] = a[i] + 3 * b[i]`.
pub(crate) fn triad(to: &mut [f64], a: &[f64], b: &[f64]) {
    dispatch!(triad(to, a, b))
}

/// Follows `steps` links from `at`: each word at a link's place is the place of the next. Gives where it ends.
pub(crate) fn chase(links: &[u64], mut at: u64, steps: u64) -> u64 {
    // The check of the bounds is predicted and waits for nothing, so the chain of loads alone sets the pace.
    for _ in 0..steps {
        at = links[at as usize];
    }
    at
}

/// The plain loops: what the vector versions mean, and what runs where there are none.
pub(crate) mod portable {
    use super::{READ_STREAMS, SCALAR};

    pub(crate) fn sum(streams: [&[u64]; READ_STREAMS]) -> u64 {
        streams.iter().fold(0, |sum, words| words.iter().fold(sum, |sum: u64, word| sum.wrapping_add(*word)))
    }

    pub(crate) fn fill(to: &mut [u64], value: u64) {
        to.fill(value);
    }

    pub(crate) fn copy(to: &mut [f64], from: &[f64]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }

    pub(crate) fn scale(to: &mut [f64], from: &[f64]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = SCALAR * *from);
    }

    pub(crate) fn add(to: &mut [f64], a: &[f64], b: &[f64]) {
        to.iter_mut().zip(a).zip(b).for_each(|((to, a), b)| *to = *a + *b);
    }

    pub(crate) fn triad(to: &mut [f64], a: &[f64], b: &[f64]) {
        to.iter_mut().zip(a).zip(b).for_each(|((to, a), b)| *to = *a + SCALAR * *b);
    }
}

/// The same with 256-bit loads and non-temporal stores. What lies before the first aligned vector of a slice that is
/// written, and behind the last whole one, is written plainly.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256d, __m256i, _mm_sfence, _mm256_add_epi64, _mm256_add_pd, _mm256_loadu_pd, _mm256_loadu_si256,
        _mm256_mul_pd, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_stream_pd,
        _mm256_stream_si256,
    };

    use super::{READ_STREAMS, SCALAR, portable};

    /// Bytes of a vector, which a non-temporal store must be aligned to.
    const VECTOR_BYTES: usize = 32;
    /// `u64` or `f64` in a vector.
    const LANES: usize = 4;
    const _: () = assert!(LANES * size_of::<u64>() == VECTOR_BYTES && LANES * size_of::<f64>() == VECTOR_BYTES);

    /// Two vectors, a cache line, of each slice in turn. The compiler's own vectors of such a loop are gathered word by
    /// word and a fifth slower than memory.
    #[target_feature(enable = "avx2")]
    pub(super) fn sum(streams: [&[u64]; READ_STREAMS]) -> u64 {
        let shortest = streams.iter().map(|words| words.len()).min().unwrap_or(0) / (2 * LANES) * (2 * LANES);
        let mut sums = [_mm256_setzero_si256(); 2 * READ_STREAMS];
        for at in (0..shortest).step_by(2 * LANES) {
            for (pair, words) in sums.chunks_exact_mut(2).zip(streams) {
                // SAFETY: `at + 2 * LANES <= shortest`, which no slice is shorter than; the loads may be unaligned.
                let [first, second] = unsafe {
                    let place = words.as_ptr().add(at);
                    [_mm256_loadu_si256(place.cast()), _mm256_loadu_si256(place.add(LANES).cast())]
                };
                pair[0] = _mm256_add_epi64(pair[0], first);
                pair[1] = _mm256_add_epi64(pair[1], second);
            }
        }
        let mut lanes = [0u64; LANES];
        let total = sums.into_iter().fold(_mm256_setzero_si256(), |total, sum| _mm256_add_epi64(total, sum));
        // SAFETY: `lanes` is one vector long; the store may be unaligned.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), total) };
        let ends = portable::sum(streams.map(|words| &words[shortest..]));
        lanes.iter().fold(ends, |sum, lane| sum.wrapping_add(*lane))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn fill(to: &mut [u64], value: u64) {
        let (head, body) = to.split_at_mut(to.as_ptr().align_offset(VECTOR_BYTES).min(to.len()));
        portable::fill(head, value);
        let vector = _mm256_set1_epi64x(value as i64);
        let mut chunks = body.chunks_exact_mut(LANES);
        for chunk in &mut chunks {
            // SAFETY: the chunk is one whole vector of ours to write, aligned because `body` starts aligned.
            unsafe { _mm256_stream_si256(chunk.as_mut_ptr().cast::<__m256i>(), vector) };
        }
        portable::fill(chunks.into_remainder(), value);
        _mm_sfence();
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn copy(to: &mut [f64], from: &[f64]) {
        map(to, from, from, |from, _| from, |from, _| from);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn scale(to: &mut [f64], from: &[f64]) {
        let scalar = _mm256_set1_pd(SCALAR);
        map(to, from, from, |from, _| _mm256_mul_pd(scalar, from), |from, _| SCALAR * from);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn add(to: &mut [f64], a: &[f64], b: &[f64]) {
        map(to, a, b, |a, b| _mm256_add_pd(a, b), |a, b| a + b);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn triad(to: &mut [f64], a: &[f64], b: &[f64]) {
        let scalar = _mm256_set1_pd(SCALAR);
        map(to, a, b, |a, b| _mm256_add_pd(a, _mm256_mul_pd(scalar, b)), |a, b| a + SCALAR * b);
    }

    /// `to[i] = f(a[i], b[i])` as far as all three reach, by vectors and, at the ends, by single values.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn map(
        to: &mut [f64],
        a: &[f64],
        b: &[f64],
        vector: impl Fn(__m256d, __m256d) -> __m256d,
        single: impl Fn(f64, f64) -> f64,
    ) {
        let len = to.len().min(a.len()).min(b.len());
        let to = &mut to[..len];
        let a = &a[..len];
        let b = &b[..len];
        let start = to.as_ptr().align_offset(VECTOR_BYTES).min(len);
        let end = start + (len - start) / LANES * LANES;
        for i in (0..start).chain(end..len) {
            to[i] = single(a[i], b[i]);
        }
        for i in (start..end).step_by(LANES) {
            // SAFETY: `i + LANES <= end <= len`, the length of all three; `to` is aligned at `start`, and so at `i`.
            unsafe {
                let value = vector(_mm256_loadu_pd(a.as_ptr().add(i)), _mm256_loadu_pd(b.as_ptr().add(i)));
                _mm256_stream_pd(to.as_mut_ptr().add(i), value);
            }
        }
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(len: usize, seed: u64) -> Vec<u64> {
        (0..len as u64).map(|i| (i ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)).collect()
    }

    fn numbers(len: usize, seed: u64) -> Vec<f64> {
        words(len, seed).into_iter().map(|w| (w % 1000) as f64 - 500.0).collect()
    }

    proptest! {
        #[test]
        fn the_sum_of_the_streams_is_the_plain_sum(
            len in 0usize..900,
            cuts in prop::array::uniform3(0usize..900),
            seed: u64,
        ) {
            let all = words(len, seed);
            let mut cuts = cuts.map(|cut| cut.min(len));
            cuts.sort_unstable();
            let [a, b, c] = cuts;
            let expected = all.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
            let streams = [&all[..a], &all[a..b], &all[b..c], &all[c..]];
            prop_assert_eq!(sum(streams), expected);
            prop_assert_eq!(portable::sum(streams), expected);
            let quarter = len / 4;
            let equal = [0, 1, 2, 3].map(|i| &all[i * quarter..(i + 1) * quarter]);
            prop_assert_eq!(sum(equal), portable::sum(equal));
        }

        #[test]
        fn filling_writes_every_word_and_no_other(
            len in 0usize..100,
            from in 0usize..100,
            to in 0usize..100,
            value: u64,
        ) {
            let (from, to) = (from.min(to).min(len), from.max(to).min(len));
            let before = words(len, 1);
            let mut written = before.clone();
            fill(&mut written[from..to], value);
            for (i, (word, old)) in written.iter().zip(&before).enumerate() {
                prop_assert_eq!(*word, if (from..to).contains(&i) { value } else { *old });
            }
        }

        #[test]
        fn the_kernels_of_stream_are_their_plain_loops(
            len in 0usize..90,
            skip in 0usize..5,
            short in 0usize..5,
            seed: u64,
        ) {
            let a = numbers(len, seed);
            let b = numbers(len.saturating_sub(short), !seed);
            let skip = skip.min(len);
            let run = |f: &dyn Fn(&mut [f64])| {
                let mut to = vec![0.5; len];
                f(&mut to[skip..]);
                to
            };
            prop_assert_eq!(run(&|to| copy(to, &a)), run(&|to| portable::copy(to, &a)));
            prop_assert_eq!(run(&|to| scale(to, &a)), run(&|to| portable::scale(to, &a)));
            prop_assert_eq!(run(&|to| add(to, &a, &b)), run(&|to| portable::add(to, &a, &b)));
            prop_assert_eq!(run(&|to| triad(to, &a, &b)), run(&|to| portable::triad(to, &a, &b)));
        }
    }

    #[test]
    fn portable_loops_are_streams_definitions() {
        let a = [1.0, 2.0];
        let b = [10.0, 20.0];
        let mut to = [0.0; 2];
        portable::copy(&mut to, &a);
        assert_eq!(to, [1.0, 2.0]);
        portable::scale(&mut to, &a);
        assert_eq!(to, [3.0, 6.0]);
        portable::add(&mut to, &a, &b);
        assert_eq!(to, [11.0, 22.0]);
        portable::triad(&mut to, &a, &b);
        assert_eq!(to, [31.0, 62.0]);
    }

    #[test]
    fn a_chase_follows_the_links() {
        let links = [2, 0, 3, 1];
        assert_eq!((0..=5).map(|steps| chase(&links, 0, steps)).collect::<Vec<_>>(), [0, 2, 3, 1, 0, 2]);
    }
}
