//! Few numbers from many: best, median, spread.

/// The middle value; the mean of the two middle ones of an even number; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, half) if n % 2 == 1 => sorted[half],
        (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The largest value; 0 of none.
pub(super) fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// How far the median stays below the best, as a share of the best: how much repetitions differ.
pub(super) fn spread(values: &[f64]) -> f64 {
    let best = best(values);
    if best > 0.0 { 1.0 - median(values) / best } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_bests() {
        assert_eq!((median(&[]), best(&[]), spread(&[])), (0.0, 0.0, 0.0));
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 3.0, 2.0])), (2.0, 2.5));
        assert_eq!((best(&[1.0, 4.0, 2.0]), spread(&[1.0, 4.0, 2.0])), (4.0, 0.5));
    }
}
